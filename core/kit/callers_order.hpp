// The sizes that errors tell. The functions of core take [batch, heads, tokens, width]; a caller that was given tokens
// before heads, and has swapped them, holds a CallersOrder during the call, and errors tell the sizes that came.
#pragma once

#include <string>

#include "core/tensor/tensor.hpp"

namespace causeway::kit {

// While it lives, callers_sizes swaps dimension `heads`, counted from 0, and the next one. Of this thread, on which a
// call checks its arguments.
class CallersOrder {
public:
    explicit CallersOrder(int heads) noexcept;
    ~CallersOrder();
    CallersOrder(const CallersOrder&) = delete;
    CallersOrder& operator=(const CallersOrder&) = delete;

private:
    int before_;
};

// "1×2×100" of a tensor that has heads and tokens, in the order of the caller. One that has not both is as it is.
std::string callers_sizes(const Shape& shape);

}  // namespace causeway::kit
