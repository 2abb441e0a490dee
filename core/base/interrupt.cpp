#include "core/base/interrupt.hpp"

#include <atomic>
#include <chrono>
#include <limits>

#include "core/base/error.hpp"

namespace causeway::interrupt {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> stop{false};
std::atomic<Clock::rep> deadline{0};  // ticks of Clock; 0: none
static_assert(std::atomic<bool>::is_always_lock_free);

Clock::rep now() { return Clock::now().time_since_epoch().count(); }
double to_seconds(Clock::rep ticks) { return std::chrono::duration<double>(Clock::duration(ticks)).count(); }

}  // namespace

void request() noexcept { stop.store(true); }
void clear() noexcept { stop.store(false); }
bool requested() noexcept { return stop.load(); }

double set_deadline(double seconds) noexcept {
    constexpr auto last = std::numeric_limits<Clock::rep>::max();
    const auto start = now();
    const double ticks = seconds * static_cast<double>(Clock::period::den) / static_cast<double>(Clock::period::num);
    // Half of what is left of the clock is a limit that is never reached, and every number below it fits.
    const bool far = ticks >= static_cast<double>((last - start) / 2);
    const auto before = deadline.exchange(!(seconds > 0) ? 0 : far ? last : start + static_cast<Clock::rep>(ticks));
    if (before == last) return std::numeric_limits<double>::infinity();
    return before == 0 ? 0 : to_seconds(before - now());
}

void check() {
    if (stop.load(std::memory_order_relaxed)) throw Interrupted("interrupted");
    const auto limit = deadline.load(std::memory_order_relaxed);
    if (limit != 0 && now() > limit) throw Timeout("the time limit was reached");
}

}  // namespace causeway::interrupt
