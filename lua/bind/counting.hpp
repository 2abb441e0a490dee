// What opcount (lua/bind/attention.cpp) tells the functions that can count.
#pragma once

#include "core/base/error.hpp"
#include "core/measure/counting.hpp"

namespace causeway::lua {

// While opcount runs: where the counts go; otherwise null.
inline OperationCount* counting = nullptr;
inline int counted_calls = 0;  // since opcount began

// Where a call that is counted adds its operations; not without `counting`.
inline OperationCount& count_of_call() {
    ++counted_calls;
    return *counting;
}

// Throws Error inside opcount, for a function that cannot count; `instead` is what can.
inline void refuse_counting(const char* function, const char* instead) {
    if (counting) fail("opcount: ", function, " is not counted, expected ", instead);
}

}  // namespace causeway::lua
