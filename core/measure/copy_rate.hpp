// The yardstick of whatever has to move memory: how fast this machine copies.
#pragma once

#include "core/base/memory.hpp"

namespace causeway {

// Bytes read and written (2·bytes in all) a second by a copy of `bytes` bytes to another place: the fastest of many
// copies after a warm-up, by one thread and by threads() threads, whichever does it faster. Takes `seconds`, or ten
// copies where those last longer, and 2·bytes of memory. Throws Error unless bytes >= 1, and OutOfMemory.
double copy_rate(Index bytes, double seconds = 0.3);

}  // namespace causeway
