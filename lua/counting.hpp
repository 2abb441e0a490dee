// What opcount (lua/attention.cpp) tells the functions that can count.
#pragma once

#include "core/measure/counting.hpp"

namespace causeway::lua {

// While opcount runs: where the counts go; otherwise null.
inline OperationCount* counting = nullptr;

}  // namespace causeway::lua
