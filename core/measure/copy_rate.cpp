#include "core/measure/copy_rate.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/parallel.hpp"

namespace causeway {
namespace {

constexpr int fewest = 5;  // copies, or passes, of one kind
constexpr Index piece = 1 << 18;

// Seconds of the fastest copy, or pass.
template <class Copy>
double fastest(double budget, Copy copy) {
    copy();
    double best = std::numeric_limits<double>::infinity();
    const auto start = steady_seconds();
    for (int k = 0; k < fewest || steady_seconds() - start < budget; ++k) {
        const auto begin = steady_seconds();
        copy();
        best = std::min(best, steady_seconds() - begin);
    }
    return std::max(best, 1e-9);
}

// Σ of the bytes at p as numbers of 64 bits, in eight sums: as fast as memory gives them.
std::uint64_t sum_of(const unsigned char* p, Index bytes) {
    std::uint64_t sums[8] = {}, words[8];
    Index i = 0;
    for (; i + 64 <= bytes; i += 64) {
        __builtin_prefetch(p + i + 2048);
        std::memcpy(words, p + i, sizeof words);
        for (int k = 0; k < 8; ++k) sums[k] += words[k];
    }
    for (; i < bytes; ++i) sums[0] += p[i];
    return std::accumulate(sums, sums + 8, std::uint64_t(0));
}

}  // namespace

double read_rate(Index bytes, double seconds) {
    if (bytes < 1) fail("bytes: ", bytes, ", expected 1 or more");
    Buffer<unsigned char> from(bytes);
    std::memset(from.data(), 1, static_cast<std::size_t>(bytes));
    std::atomic<std::uint64_t> sum{0};  // is used, so that the compiler reads
    // In windows that are short enough for some to be undisturbed by other programs, one behind the other.
    const Index window = std::min<Index>(bytes, Index{1} << 24), windows = bytes / window;
    Index round = 0;
    const double best = fastest(seconds, [&] {
        const unsigned char* const start = from.data() + round++ % windows * window;
        constexpr Index part = 1 << 16;
        parallel_for((window + part - 1) / part,
                     [&](Index i) { sum += sum_of(start + i * part, std::min(part, window - i * part)); });
    });
    return static_cast<double>(window) / best;
}

double copy_rate(Index bytes, double seconds) {
    if (bytes < 1) fail("bytes: ", bytes, ", expected 1 or more");
    Buffer<unsigned char> from(bytes), into(bytes);
    std::memset(from.data(), 1, static_cast<std::size_t>(bytes));
    const auto copy = [&](Index start, Index end) {
        std::memcpy(into.data() + start, from.data() + start, static_cast<std::size_t>(end - start));
    };
    const double alone = fastest(seconds / 2, [&] { copy(0, bytes); });
    const double together = fastest(seconds / 2, [&] {
        parallel_for((bytes + piece - 1) / piece, [&](Index i) { copy(i * piece, std::min(bytes, (i + 1) * piece)); });
    });
    return 2 * static_cast<double>(bytes) / std::min(alone, together);
}

}  // namespace causeway
