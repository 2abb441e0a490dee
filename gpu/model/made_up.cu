#include "gpu/model/made_up.hpp"

#include <Random123/philox.h>

#include <algorithm>

#include "gpu/base/error.hpp"
#include "gpu/kit/element.cuh"

namespace causeway::gpu::models {
namespace {

struct Numbers {
    uint64_t seed, stream;
    double least, range;
};

constexpr int64_t piece = causeway::model::MadeUp::piece;

// A thread has the two numbers of a block of Philox at a time; core/tensor/random.cpp has the words of a stream.
template <class T, class Between>
__global__ void make_up_kernel(T* data, int64_t n, Numbers numbers) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; 2 * i < n; i += step) {
        const int64_t first = 2 * i;
        const uint64_t stream = (numbers.stream + static_cast<uint64_t>(first / piece)) | uint64_t{1} << 63;
        const auto block = static_cast<uint32_t>(first % piece / 2);
        const r123::Philox4x32::ctr_type counter{
            {block, 0u, static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}};
        const r123::Philox4x32::key_type key{
            {static_cast<uint32_t>(numbers.seed), static_cast<uint32_t>(numbers.seed >> 32)}};
        const auto w = r123::Philox4x32()(counter, key);
        const uint64_t words[2] = {w[0] | uint64_t{w[1]} << 32, w[2] | uint64_t{w[3]} << 32};
        for (int e = 0; e < 2 && first + e < n; ++e) {
            const double u = static_cast<double>(words[e] >> 11) * 0x1p-53;
            const auto x = static_cast<Between>(static_cast<float>(numbers.least + numbers.range * u));
            data[first + e] = static_cast<T>(static_cast<float>(x));
        }
    }
}

}  // namespace

void make_up(void* data, Type type, std::int64_t n, const causeway::model::MadeUp& m, Type by_way_of,
             cudaStream_t stream) {
    if (n == 0) return;
    const Numbers numbers{m.seed, m.stream, m.least(), m.range()};
    const auto blocks = static_cast<unsigned>(std::min<int64_t>((n / 2 + 256) / 256, 1 << 14));
    visit(type, [&](auto to) {
        visit(by_way_of, [&](auto between) {
            make_up_kernel<decltype(to), decltype(between)>
                <<<blocks, 256, 0, stream>>>(static_cast<decltype(to)*>(data), n, numbers);
        });
    });
    check_launch("making up weights");
}

}  // namespace causeway::gpu::models
