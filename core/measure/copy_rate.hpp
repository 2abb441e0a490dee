// The yardsticks of whatever has to move memory: how fast this machine copies, and reads.
#pragma once

#include "core/base/memory.hpp"

namespace causeway {

// Bytes read and written (2·bytes in all) a second by a copy of `bytes` bytes to another place: the fastest of many
// copies after a warm-up, by one thread and by threads() threads, whichever does it faster. Takes `seconds`, or ten
// copies where those last longer, and 2·bytes of memory. Throws Error unless bytes >= 1, and OutOfMemory.
double copy_rate(Index bytes, double seconds = 0.3);

// Bytes a second that all threads() together read of `bytes` bytes, the fastest of many windows of up to 16 MiB, one
// behind the other: several times as many bytes as the last cache holds give the rate of memory. Takes `seconds`, or
// five windows where those last longer, and that memory. Throws as copy_rate.
double read_rate(Index bytes, double seconds = 0.3);

}  // namespace causeway
