#include "gpu/tensor/random.hpp"

#include "gpu/base/error.hpp"
#include "gpu/kit/element.cuh"

namespace causeway::gpu {

namespace {

__device__ uint64_t mix(uint64_t x) {  // SplitMix64's finaliser (Steele, Lea, Flood 2014)
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

template <class T>
__global__ void normal_kernel(T* data, std::size_t n, uint64_t seed, float scale) {
    const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += step) {
        const uint64_t u = mix(mix(seed + 0x9e3779b97f4a7c15) + i);
        const float a = (static_cast<float>(u >> 40) + 0.5f) * 0x1p-24f,
                    b = static_cast<float>(u & 0xFFFFFF) * 0x1p-24f;
        data[i] = static_cast<T>(scale * sqrtf(-2.0f * logf(a)) * cospif(2.0f * b));
    }
}

}  // namespace

void fill_normal(void* data, Type type, std::size_t n, std::uint64_t seed, double scale, cudaStream_t stream) {
    if (n == 0) return;
    visit(type, [&](auto e) {
        normal_kernel<<<2048, 256, 0, stream>>>(static_cast<decltype(e)*>(data), n, seed, static_cast<float>(scale));
    });
    check_launch("filling with random numbers");
}

}  // namespace causeway::gpu
