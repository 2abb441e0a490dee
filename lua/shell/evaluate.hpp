// What an entry at the prompt means: expressions whose value is shown, statements, and the prefixes ? and ;, macros
// such as @time. Knows of no terminal beyond the Display; -e and a notebook evaluate with it as well.
#pragma once

#include <string>
#include <string_view>

#include "lua/shell/script.hpp"

namespace causeway::lua {

// True when `entry` is the beginning of something longer, so that the next line belongs to it.
bool incomplete(lua_State* L, const std::string& entry);

// Evaluates an entry of one or more lines and shows its values; `ans` becomes the last of them.
// Several lines are taken as if they were typed one after the other, except that they share their locals.
// `name` is what error messages call the entry: `input[3]`. Throws nothing.
Failure evaluate(lua_State* L, const std::string& entry, const std::string& name);

}  // namespace causeway::lua
