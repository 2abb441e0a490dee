// The clock that only goes on, in seconds.
#pragma once

#include <chrono>

namespace causeway {

inline double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace causeway
