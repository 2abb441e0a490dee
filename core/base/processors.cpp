#include "core/base/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <thread>

#include "core/base/system_file.hpp"

namespace causeway {
namespace {

int processors_allowed() noexcept {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
    return static_cast<int>(std::thread::hardware_concurrency());
}

int processors_paid_for() noexcept { return processors_of_quota(SystemFile("/sys/fs/cgroup/cpu.max").text()); }

}  // namespace

int processors_of_quota(std::string_view text) noexcept {
    long long quota = 0, period = 0;
    const char* const end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, quota);
    if (first.ec != std::errc{} || first.ptr == end || *first.ptr != ' ') return 0;
    const auto second = std::from_chars(first.ptr + 1, end, period);
    if (second.ec != std::errc{} || quota <= 0 || period <= 0) return 0;
    const long long whole = quota / period + (quota % period != 0);
    return static_cast<int>(std::min<long long>(whole, std::numeric_limits<int>::max()));
}

int processors() noexcept {
    const int allowed = std::max(processors_allowed(), 1), paid_for = processors_paid_for();
    return paid_for > 0 ? std::min(allowed, paid_for) : allowed;
}

}  // namespace causeway
