#include "core/measure/product_rate.hpp"

#include <algorithm>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/parallel.hpp"
#include "core/measure/statistics.hpp"
#include "core/tensor/product.hpp"

namespace causeway {
namespace {

constexpr double shortest = 5e-3;  // seconds: a repetition lasts at least this long, so starting threads is not timed
constexpr int min_repeats = 5, max_repeats = 50;

template <class T>
double measure(Index n, double seconds) {
    const Index workers = threads();
    std::vector<Buffer<T>> room;
    for (Index i = 0; i < workers; ++i) {
        room.emplace_back(3 * n * n + 3 * 64);
        Buffer<T>& numbers = room.back();
        for (Index j = 0; j < numbers.size(); ++j) numbers[j] = static_cast<T>(1 + j % 7) / 8;
    }
    const Index stride = (n * n * static_cast<Index>(sizeof(T)) + 63) / 64 * 64 / static_cast<Index>(sizeof(T));
    const auto repeat = [&](Index products) {
        const auto start = steady_seconds();
        parallel_for(workers, [&](Index i) {
            T* numbers = room[static_cast<std::size_t>(i)].data();
            for (Index k = 0; k < products; ++k)
                matrix_product<T>(numbers + 2 * stride, n, numbers, n, numbers + stride, n, n, n, n, false);
        });
        return steady_seconds() - start;
    };
    repeat(1);  // warm-up: wakes the threads, touches the memory
    const Index products = std::max<Index>(1, static_cast<Index>(shortest / std::max(repeat(1), 1e-7)) + 1);
    std::vector<double> times;
    const auto start = steady_seconds();
    for (int k = 0; k < max_repeats && (k < min_repeats || steady_seconds() - start < seconds); ++k)
        times.push_back(repeat(products));
    const double cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    return 2 * cube * static_cast<double>(workers * products) / summarize(times).median;
}

}  // namespace

double product_rate(Index n, DType type, double seconds) {
    if (n < 1 || n > 4096) fail("n: ", n, ", expected a number from 1 to 4096");
    if (is_storage_only(type)) fail("dtype: ", name(type), " only stores, expected Float32 or Float64");
    return type == DType::f64 ? measure<double>(n, seconds) : measure<float>(n, seconds);
}

}  // namespace causeway
