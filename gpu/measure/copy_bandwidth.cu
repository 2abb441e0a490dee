#include "gpu/measure/copy_bandwidth.hpp"

#include <algorithm>
#include <vector>

#include "gpu/base/buffer.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/tensor/random.hpp"

namespace causeway::gpu {

namespace {

template <int each>
__global__ __launch_bounds__(512) void copy_kernel(const uint4* __restrict__ from, uint4* __restrict__ to,
                                                   std::size_t n) {
    const std::size_t base = std::size_t{blockIdx.x} * each * 512 + threadIdx.x;
    uint4 x[each];
#pragma unroll
    for (int i = 0; i < each; ++i) {
        if (base + i * 512 < n) x[i] = __ldcs(from + base + i * 512);
    }
#pragma unroll
    for (int i = 0; i < each; ++i) {
        if (base + i * 512 < n) __stcs(to + base + i * 512, x[i]);
    }
}

template <class F>
double median_ms(const F& f, cudaStream_t stream) {
    constexpr int warm = 3, runs = 15;
    Event start, stop;
    std::vector<double> ms;
    for (int i = 0; i < warm + runs; ++i) {
        start.record(stream);
        f();
        stop.record(stream);
        const double t = stop.since(start);
        if (i >= warm) ms.push_back(t);
    }
    std::sort(ms.begin(), ms.end());
    return ms[ms.size() / 2];
}

}  // namespace

double copy_bandwidth(std::size_t bytes, cudaStream_t stream) {
    const Buffer from(bytes), to(bytes);
    fill_normal(from.data(), Type::Float32, bytes / 4, 1, 1.0, stream);
    const std::size_t n = bytes / 16;
    const auto blocks = [&](int each) { return static_cast<unsigned>((n + 512 * each - 1) / (512 * each)); };
    const double best = std::min({
        median_ms(
            [&] { check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream), "copying"); },
            stream),
        median_ms([&] { copy_kernel<2><<<blocks(2), 512, 0, stream>>>(from.as<uint4>(), to.as<uint4>(), n); }, stream),
        median_ms([&] { copy_kernel<4><<<blocks(4), 512, 0, stream>>>(from.as<uint4>(), to.as<uint4>(), n); }, stream),
    });
    check_launch("copying");
    return 2.0 * static_cast<double>(bytes) / (best * 1e-3);
}

}  // namespace causeway::gpu
