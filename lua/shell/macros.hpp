// @time, @btime and @show in an entry: written as calls, which Lua understands.
#pragma once

#include <string>

struct lua_State;

namespace causeway::lua {

struct Expansion {
    std::string code;           // the text with calls in place of the macros, line for line
    std::string fault;          // what is wrong with a macro, or ""
    bool ends_in_show = false;  // the last thing in it is @show, which has then shown the value
};

// A macro stands at the start of a line, or behind `;`, `=` or `return`, and takes what follows up to a `;` or the end
// of the line. Compiles parts of the text to find where that is, and runs nothing.
Expansion expand_macros(lua_State* L, const std::string& text);

// Adds the functions that the calls name.
void open_macros(lua_State* L);

}  // namespace causeway::lua
