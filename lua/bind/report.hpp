// The report of a call on several workers as a value of the shell.
#pragma once

#include "core/distributed/report.hpp"
#include "lua/bind/bind.hpp"

namespace causeway::lua {

// A table that lua/lib/distributed.lua shows.
void push_report(lua_State* L, const ShardReport& r);

}  // namespace causeway::lua
