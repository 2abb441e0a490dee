// Prints how fast weights are multiplied, beside how fast this machine reads memory and Eigen multiplies. Hidden, for
// it checks nothing: run it by its tag, [weight-rates]. CAUSEWAY_THREADS=1 gives times that other programs disturb
// little.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include <time.h>

#include "core/base/clock.hpp"
#include "core/base/parallel.hpp"
#include "core/model/weight.hpp"
#include "core/tensor/product.hpp"
#include "tests/catch.hpp"

using namespace causeway;
using namespace causeway::model;

namespace {

constexpr Index room = Index{256} << 20;  // bytes: weights come from memory, as a model's do, not from a cache
constexpr double window = 3e-3;           // seconds: short enough that some are not disturbed by other programs

// The time, of one thread that of the processor, which other programs do not take part in.
double now() {
    if (threads() > 1) return steady_seconds();
    timespec t{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Seconds a call: the fastest of many windows of calls run(0), run(1) ...
template <class F>
double fastest(F&& run) {
    double best = 1e9;
    Index i = 0;
    const double start = now();
    while (now() - start < 0.5) {
        const Index first = i;
        const double begin = now();
        double seconds = 0;
        while (seconds < window) run(i++), seconds = now() - begin;
        best = std::min(best, seconds / static_cast<double>(i - first));
    }
    return best;
}

// Bytes a second that all threads read together.
double read_rate(const Buffer<unsigned char>& memory) {
    constexpr Index piece = 1 << 16, pieces = 256;
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(pieces));
    return static_cast<double>(piece * pieces) / fastest([&](Index round) {
               parallel_for(pieces, [&](Index i) {
                   const auto* p = reinterpret_cast<const std::uint64_t*>(memory.data() + (round * pieces + i) %
                                                                                              (room / piece) * piece);
                   std::uint64_t sum = 0;
                   for (Index k = 0; k < piece / 8; ++k) sum += p[k];
                   sums[static_cast<std::size_t>(i)] = sum;
               });
           });
}

// Floating-point operations a second of Eigen's product, every thread busy with its own.
double multiply_rate() {
    constexpr Index n = 384;
    std::vector<Buffer<float>> room_of;
    for (int i = 0; i < threads(); ++i) {
        room_of.emplace_back(3 * n * n);
        std::fill_n(room_of.back().data(), 3 * n * n, 0.5f);
    }
    return 2.0 * n * n * n * threads() / fastest([&](Index) {
               parallel_for(threads(), [&](Index i) {
                   float* p = room_of[static_cast<std::size_t>(i)].data();
                   matrix_product<float>(p, n, p + n * n, n, p + 2 * n * n, n, n, n, n, false);
               });
           });
}

// Seconds of one product of n rows, the weights being those of as many matrices as memory holds, one after the other.
double seconds_of(const Buffer<unsigned char>& memory, Weight w, Index n) {
    const auto bytes = static_cast<Index>(w.bytes() + 31) / 32 * 32;
    const Index matrices = std::max<Index>(1, room / bytes);
    Buffer<float> x(n * w.columns), y(n * w.rows);
    std::fill_n(x.data(), x.size(), 0.5f);
    return fastest([&](Index i) {
        w.data = memory.data() + i % matrices * bytes;
        multiply(w, x.data(), n, w.columns, y.data(), w.rows);
    });
}

}  // namespace

TEST_CASE("rates of products with weights", "[.][weight-rates]") {
    Buffer<unsigned char> memory(room);
    std::memset(memory.data(), 0x11, static_cast<std::size_t>(room));
    const Index shapes[][2] = {{576, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
    std::printf("%-5s %-12s %22s %26s %14s\n", "type", "shape", "1 row, GB/s (of read)",
                "512 rows, GFLOP/s (of product)", "4 rows, GB/s");
    for (const WeightType type : all_weight_types) {
        for (const auto& [rows, columns] : shapes) {
            if (columns % weights_in_block(type) != 0) continue;
            const Weight w{type, rows, columns, nullptr};
            const double reading = read_rate(memory), one = seconds_of(memory, w, 1);
            const double product = multiply_rate(), many = seconds_of(memory, w, 512), few = seconds_of(memory, w, 4);
            const auto bytes = static_cast<double>(w.bytes());
            const double flops = 2.0 * 512 * static_cast<double>(rows * columns);
            std::printf("%-5s %5td×%-6td %11.1f (%3.0f %%) %18.1f (%3.0f %%) %17.1f\n", name(type), rows, columns,
                        bytes / one / 1e9, 100 * bytes / one / reading, flops / many / 1e9,
                        100 * flops / many / product, bytes / few / 1e9);
        }
    }
}
