#include <algorithm>

#include "gpu/base/element.cuh"
#include "gpu/base/error.hpp"
#include "gpu/tensor/convert.hpp"

namespace causeway::gpu {

namespace {

template <class A, class B>
__global__ __launch_bounds__(256) void convert_kernel(const A* __restrict__ from, B* __restrict__ to, std::int64_t n) {
    const std::int64_t step = std::int64_t{gridDim.x} * 256;
    for (std::int64_t i = blockIdx.x * std::int64_t{256} + threadIdx.x; i < n; i += step) to[i] = static_cast<B>(static_cast<float>(from[i]));
}

}  // namespace

void convert(const void* from, Type from_type, void* to, Type to_type, std::int64_t n, cudaStream_t stream) {
    if (n == 0) return;
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((n + 255) / 256, 1 << 14));
    visit(from_type, [&](auto a) {
        visit(to_type, [&](auto b) {
            convert_kernel<<<blocks, 256, 0, stream>>>(static_cast<const decltype(a)*>(from), static_cast<decltype(b)*>(to), n);
        });
    });
    check_launch("converting elements");
}

}  // namespace causeway::gpu
