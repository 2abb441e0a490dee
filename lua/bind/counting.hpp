// What opcount (lua/bind/attention.cpp) tells the functions that can count.
#pragma once

#include <exception>

#include "core/base/error.hpp"
#include "core/measure/counting.hpp"

namespace causeway::lua {

// While opcount runs: where the counts go; otherwise null.
inline OperationCount* counting = nullptr;
inline int counted_calls = 0;  // since opcount began

// A call that may be counted, for as long as it runs. What it added is taken back where it ends by an error: it is made
// once more where garbage held memory (guarded), and f may go on behind a pcall.
class CountedCall {
public:
    CountedCall() {
        if (counting) before_ = *counting;
    }
    ~CountedCall() {
        if (!counting || std::uncaught_exceptions() == errors_) return;
        *counting = before_;
        counted_calls = calls_before_;
    }
    CountedCall(const CountedCall&) = delete;
    CountedCall& operator=(const CountedCall&) = delete;

    // Where the call adds its operations; not without `counting`.
    OperationCount& operations() {
        ++counted_calls;
        return *counting;
    }

private:
    OperationCount before_;
    int calls_before_ = counted_calls, errors_ = std::uncaught_exceptions();
};

// Throws Error inside opcount, for a function that cannot count; `instead` is what can.
inline void refuse_counting(const char* function, const char* instead) {
    if (counting) fail("opcount: ", function, " is not counted, expected ", instead);
}

}  // namespace causeway::lua
