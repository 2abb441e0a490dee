#include "core/model/random_checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/parallel.hpp"
#include "core/model/folder.hpp"
#include "core/model/known_sizes.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::model {
namespace {

// Standard normal numbers that all weights are made of; their count is prime, so that rows of no width repeat.
constexpr Index sequence_length = 1'000'003;

// Writes n weights of the type, the numbers of the sequence times `scale`, from its place `start` on.
template <class T>
void fill(T* to, Index n, const std::vector<double>& sequence, double scale, Index start) {
    std::vector<T> scaled(sequence.size());
    for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = static_cast<T>(static_cast<float>(sequence[i] * scale));
    constexpr Index piece = Index{1} << 20;
    parallel_for((n + piece - 1) / piece, [&](Index p) {
        for (Index at = p * piece, end = std::min(n, at + piece); at < end;) {
            const Index from = (start + at) % sequence_length, count = std::min(end - at, sequence_length - from);
            std::copy_n(scaled.data() + from, count, to + at);
            at += count;
        }
    });
}

template <class T>
void fill_tensor(unsigned char* to, const NamedShape& tensor, const std::vector<double>& sequence, Index start) {
    const Index n = std::accumulate(tensor.shape.begin(), tensor.shape.end(), Index{1}, std::multiplies<>());
    T* weights = reinterpret_cast<T*>(to);
    if (tensor.shape.size() == 1) std::fill_n(weights, n, static_cast<T>(1.0f));
    else fill(weights, n, sequence, 1 / std::sqrt(static_cast<double>(tensor.shape.back())), start);
}

}  // namespace

std::shared_ptr<const Checkpoint> random_checkpoint(const std::string& architecture, const std::string& size,
                                                    WeightType type, std::uint64_t seed) {
    const auto [config, tensors] = known_size(architecture, size);
    if (type != WeightType::f32 && type != WeightType::bf16)
        fail("type: ", name(type), ", expected F32 or BF16: random weights are in no other");
    const std::string path = sentence("random ", architecture, " ", size);
    const std::size_t element = type == WeightType::f32 ? 4 : 2;

    std::vector<std::size_t> begins{0};
    for (const NamedShape& tensor : tensors) {
        std::size_t n = 1;
        for (const Index extent : tensor.shape) n *= static_cast<std::size_t>(extent);
        begins.push_back((begins.back() + n * element + 63) / 64 * 64);
    }
    auto memory = std::make_shared<Buffer<unsigned char>>(static_cast<Index>(begins.back()));
    std::vector<double> sequence(sequence_length);
    random::normals(seed, 0, sequence.data(), sequence_length);

    Contents contents;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        unsigned char* at = memory->data() + begins[i];
        const Index start = static_cast<Index>(begins[i] % static_cast<std::size_t>(sequence_length));
        (type == WeightType::f32 ? fill_tensor<float> : fill_tensor<bfloat16>)(at, tensors[i], sequence, start);
        contents.tensors[tensors[i].name] = stored_tensor(tensors[i].shape, type, at, path + ": " + tensors[i].name);
    }
    contents.metadata = read_json_entries(config, path);
    contents.owned = std::move(memory);
    return std::make_shared<const Checkpoint>(path, false, std::move(contents));
}

}  // namespace causeway::model
