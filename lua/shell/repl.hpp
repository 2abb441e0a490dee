// The interactive shell: banner, prompt, entries of several lines, until Ctrl-D.
#pragma once

struct lua_State;

namespace causeway::lua {

// Returns the exit status of the program: 0, or 1 when standard input is no terminal and an entry failed.
int run_shell(lua_State* L);

}  // namespace causeway::lua
