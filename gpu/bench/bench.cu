#include "gpu/bench/bench.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace causeway::gpu::bench {

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
        const float a = (static_cast<float>(u >> 40) + 0.5f) * 0x1p-24f, b = static_cast<float>(u & 0xFFFFFF) * 0x1p-24f;
        data[i] = static_cast<T>(scale * sqrtf(-2.0f * logf(a)) * cospif(2.0f * b));
    }
}

template <int each>
__global__ __launch_bounds__(512) void copy_kernel(const uint4* __restrict__ from, uint4* __restrict__ to, std::size_t n) {
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

}  // namespace

void fill_normal(void* data, Type type, std::size_t n, std::uint64_t seed, double scale, cudaStream_t stream) {
    const float s = static_cast<float>(scale);
    if (type == Type::Float32) normal_kernel<<<2048, 256, 0, stream>>>(static_cast<float*>(data), n, seed, s);
    if (type == Type::BFloat16) normal_kernel<<<2048, 256, 0, stream>>>(static_cast<__nv_bfloat16*>(data), n, seed, s);
    if (type == Type::Float16) normal_kernel<<<2048, 256, 0, stream>>>(static_cast<__half*>(data), n, seed, s);
    check_launch("filling with random numbers");
}

double copy_bandwidth(std::size_t bytes, cudaStream_t stream) {
    const Buffer from(bytes), to(bytes);
    fill_normal(from.data(), Type::Float32, bytes / 4, 1, 1.0, stream);
    const std::size_t n = bytes / 16;
    const auto blocks = [&](int each) { return static_cast<unsigned>((n + 512 * each - 1) / (512 * each)); };
    const double ms[] = {
        time([&](int) { check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream), "copying"); }, 1, 15, stream).median,
        time([&](int) { copy_kernel<2><<<blocks(2), 512, 0, stream>>>(from.as<uint4>(), to.as<uint4>(), n); }, 1, 15, stream).median,
        time([&](int) { copy_kernel<4><<<blocks(4), 512, 0, stream>>>(from.as<uint4>(), to.as<uint4>(), n); }, 1, 15, stream).median,
    };
    check_launch("copying");
    std::printf("copy of %.2f GB: cudaMemcpy %.3f ms, 2 loads in flight %.3f ms, 4 loads %.3f ms\n", bytes * 1e-9, ms[0], ms[1], ms[2]);
    return 2.0 * static_cast<double>(bytes) / (*std::min_element(std::begin(ms), std::end(ms)) * 1e-3);
}

Times time(const std::function<void(int)>& call, int sets, int repeats, cudaStream_t stream) {
    const auto median = [](std::vector<double>& ms) {
        std::sort(ms.begin(), ms.end());
        return ms[ms.size() / 2];
    };
    Event start, stop;
    std::vector<double> ms;
    for (int n = -3; n < repeats; ++n) {
        start.record(stream);
        call((n + 3) % sets);
        stop.record(stream);
        const double t = stop.since(start);
        if (n >= 0) ms.push_back(t);
    }
    Times times;
    times.call = median(ms);
    cudaGraph_t graph;
    cudaGraphExec_t run;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph");
    for (int i = 0; i < sets; ++i) call(i);
    check(cudaStreamEndCapture(stream, &graph), "capturing a graph");
    check(cudaGraphInstantiate(&run, graph, 0), "instantiating a graph");
    ms.clear();
    for (int n = -2; n < repeats; ++n) {
        start.record(stream);
        check(cudaGraphLaunch(run, stream), "launching a graph");
        stop.record(stream);
        const double t = stop.since(start);
        if (n >= 0) ms.push_back(t / sets);
    }
    cudaGraphExecDestroy(run);
    cudaGraphDestroy(graph);
    times.median = median(ms);
    times.best = ms.front();
    return times;
}

}  // namespace causeway::gpu::bench
