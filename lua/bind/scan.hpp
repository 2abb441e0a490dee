// Values inside the step of a scan: what the functions of tensors record while the step is called.
#pragma once

#include "core/scan/scan.hpp"
#include "lua/bind/bind.hpp"

namespace causeway::lua {

// While alive, operations on values are recorded into the program. Throws Error inside another one.
class Recording {
public:
    explicit Recording(scan::Program& program);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
};

// A value as userdata.
void push_scan_value(lua_State* L, scan::Id id);

// The value at `index`: one of the recording, a number, or a Tensor from outside of at most two dimensions, which is
// the same for all tokens and heads. Throws Error naming the argument.
scan::Id check_scan_value(lua_State* L, int index, const char* argument);

// Lets the functions, methods and operators of tensors take values too.
void open_scan_values(lua_State* L);

}  // namespace causeway::lua
