#include "core/model/random_checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/parallel.hpp"
#include "core/base/text.hpp"
#include "core/model/folder.hpp"
#include "core/tensor/random.hpp"

namespace causeway::model {
namespace {

constexpr Index piece = 1 << 14;  // numbers of one stream

template <class T>
void fill(const RandomTensor& tensor, const Weight& w, unsigned char* out, std::uint64_t seed, std::uint64_t stream) {
    const Index n = w.rows * w.columns;
    const double deviation = tensor.deviation != 0 ? tensor.deviation : 1 / std::sqrt(static_cast<double>(w.columns));
    const double width = deviation * std::sqrt(12.0), least = tensor.mean - width / 2;
    parallel_for((n + piece - 1) / piece, [&](Index i) {
        const Index first = i * piece, count = std::min(piece, n - first);
        double numbers[piece];
        random::uniforms(seed, stream + static_cast<std::uint64_t>(i), numbers, count);
        for (Index k = 0; k < count; ++k) {
            const T value(static_cast<float>(least + width * numbers[k]));
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
                                                    std::uint64_t seed) {
    if (type != WeightType::f32 && type != WeightType::f16 && type != WeightType::bf16)
        fail("type: ", model::name(type), ", expected F32, F16 or BF16 for random weights");
    Contents contents;
    contents.metadata = read_json_entries(config, name);
    std::uint64_t stream = 0;
    for (const RandomTensor& tensor : tensors) {
        const Index elements = elements_of(tensor);
        Buffer<unsigned char> memory(elements * bytes_of_block(type));
        StoredTensor stored = stored_tensor(tensor.shape, type, memory.data(), name);
        switch (type) {
            case WeightType::f16: fill<Eigen::half>(tensor, stored.weight, memory.data(), seed, stream); break;
            case WeightType::bf16: fill<Eigen::bfloat16>(tensor, stored.weight, memory.data(), seed, stream); break;
            default: fill<float>(tensor, stored.weight, memory.data(), seed, stream);
        }
        stream += static_cast<std::uint64_t>((elements + piece - 1) / piece);
        if (!contents.tensors.emplace(tensor.name, std::move(stored)).second)
            fail("tensor ", in_quotes(tensor.name), ": the name is given twice");
        contents.memory.push_back(std::move(memory));
    }
    return std::make_shared<const Checkpoint>(name, false, std::move(contents));
}

}  // namespace causeway::model
