// The processors that this process may run on.
#pragma once

#include <string_view>

namespace causeway {

// How many: all of the machine, or those that taskset, a batch system or a container's cpuset left it, and no more than
// the time of so many that a container's quota gives (cpu.max of its control group, rounded up). At least 1.
int processors() noexcept;

// How many processors' time a cpu.max such as "150000 100000" (microseconds in a period) gives, rounded up: 2. 0 where
// it has no limit ("max 100000") or is no such text.
int processors_of_quota(std::string_view text) noexcept;

}  // namespace causeway
