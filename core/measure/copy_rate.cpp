#include "core/measure/copy_rate.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/parallel.hpp"

namespace causeway {
namespace {

constexpr int fewest = 5;  // copies of one kind
constexpr Index piece = 1 << 18;

// Seconds of the fastest copy.
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

}  // namespace

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
