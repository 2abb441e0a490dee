#include "core/model/random_checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/base/eigen.hpp"  // half, bfloat16
#include "core/base/error.hpp"
#include "core/base/parallel.hpp"
#include "core/base/text.hpp"
#include "core/model/folder.hpp"
#include "core/tensor/random.hpp"

namespace causeway::model {
namespace {

constexpr Index piece = MadeUp::piece;

template <class T>
void fill(const MadeUp& m, Index n, unsigned char* out) {
    const double range = m.range(), least = m.least();
    parallel_for((n + piece - 1) / piece, [&](Index i) {
        const Index first = i * piece, count = std::min(piece, n - first);
        double numbers[piece];
        random::uniforms(m.seed, m.stream + static_cast<std::uint64_t>(i), numbers, count);
        for (Index k = 0; k < count; ++k) {
            const T value(static_cast<float>(least + range * numbers[k]));
            std::memcpy(out + static_cast<std::size_t>(first + k) * sizeof value, &value, sizeof value);
        }
    });
}

// Throws where the product of the dimensions has no place in memory, so that nothing below overflows.
Index elements_of(const RandomTensor& tensor) {
    Index out = 1;
    for (const Index n : tensor.shape) {
        if (n < 1) fail("tensor ", in_quotes(tensor.name), ": has a dimension of ", n, ", expected 1 or more");
        if (__builtin_mul_overflow(out, n, &out) || out > (Index{1} << 60))
            fail_as<OutOfMemory>("tensor ", in_quotes(tensor.name), ": has more elements than any memory");
    }
    return out;
}

}  // namespace

std::shared_ptr<const Checkpoint> random_checkpoint(const std::string& name, std::string_view config,
                                                    const std::vector<RandomTensor>& tensors, WeightType type,
                                                    std::uint64_t seed, bool matrices) {
    if (type != WeightType::f32 && type != WeightType::f16 && type != WeightType::bf16)
        fail("type: ", model::name(type), ", expected F32, F16 or BF16 for random weights");
    Contents contents;
    contents.metadata = read_json_entries(config, name);
    std::uint64_t stream = 0;
    for (const RandomTensor& tensor : tensors) {
        const Index elements = elements_of(tensor);
        const bool here = matrices || tensor.shape.size() != 2;
        Buffer<unsigned char> memory(here ? elements * bytes_of_block(type) : 0);
        StoredTensor stored = stored_tensor(tensor.shape, type, here ? memory.data() : nullptr, name);
        const double usual = 1 / std::sqrt(static_cast<double>(stored.weight.columns));
        const MadeUp numbers{seed, stream, tensor.mean, tensor.deviation != 0 ? tensor.deviation : usual};
        if (!here) {
            contents.made_up.push_back(std::make_unique<const MadeUp>(numbers));
            stored.weight.made_up = contents.made_up.back().get();
        } else if (type == WeightType::f16) {
            fill<Eigen::half>(numbers, elements, memory.data());
        } else if (type == WeightType::bf16) {
            fill<Eigen::bfloat16>(numbers, elements, memory.data());
        } else {
            fill<float>(numbers, elements, memory.data());
        }
        stream += static_cast<std::uint64_t>((elements + piece - 1) / piece);
        if (!contents.tensors.emplace(tensor.name, std::move(stored)).second)
            fail("tensor ", in_quotes(tensor.name), ": the name is given twice");
        contents.memory.push_back(std::move(memory));
    }
    return std::make_shared<const Checkpoint>(name, false, std::move(contents));
}

}  // namespace causeway::model
