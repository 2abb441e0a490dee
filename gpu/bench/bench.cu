#include "gpu/bench/bench.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <string>

#include "gpu/base/graph.hpp"

namespace causeway::gpu::bench {

bool on_gpu() {
    std::string why;
    const bool available = device_available(&why);
    if (available) std::printf("%s, %d multiprocessors\n", device().name.c_str(), device().multiprocessors);
    else std::printf("no GPU: %s\n", why.c_str());
    return available;
}

float value_at(const std::vector<unsigned char>& raw, Type type, std::size_t i) {
    if (type == Type::Float32) {
        float x;
        std::memcpy(&x, raw.data() + 4 * i, 4);
        return x;
    }
    uint16_t bits;
    std::memcpy(&bits, raw.data() + 2 * i, 2);
    if (type == Type::Float16) return __half2float(__half(__half_raw{bits}));
    return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{bits}));
}

std::vector<double> rows(const void* data, Type type, Strides s, std::int64_t b, std::int64_t h, std::int64_t N,
                         int width) {
    const std::int64_t bytes = bytes_of(type);
    std::vector<unsigned char> raw(static_cast<std::size_t>(N * width * bytes));
    check(cudaMemcpy2D(raw.data(), width * bytes, static_cast<const char*>(data) + (b * s.batch + h * s.head) * bytes,
                       s.token * bytes, width * bytes, N, cudaMemcpyDeviceToHost),
          "copying from the GPU");
    std::vector<double> x(static_cast<std::size_t>(N * width));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = value_at(raw, type, i);
    return x;
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
    const Graph graph(stream, [&] {
        for (int i = 0; i < sets; ++i) call(i);
    });
    ms.clear();
    for (int n = -2; n < repeats; ++n) {
        start.record(stream);
        graph.launch(stream);
        stop.record(stream);
        const double t = stop.since(start);
        if (n >= 0) ms.push_back(t / sets);
    }
    times.median = median(ms);
    times.best = ms.front();
    return times;
}

}  // namespace causeway::gpu::bench
