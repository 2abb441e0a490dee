// Where in the entries of a session an error is. A prompt shows no numbers of its entries, so a position in one is told
// by the line that stands there.
#pragma once

#include <string>

#include "lua/shell/script.hpp"

struct lua_State;

namespace causeway::lua {

// Keeps the text of the entry that messages call `name`, which runs from here on.
void remember_entry(lua_State* L, const std::string& name, const std::string& text);

// What is said of an error of the entry `name`. A position in an entry of one line goes from the front of the message;
// of frames those in this entry go, where it is one line, which the user has just typed. Below each other line of an
// entry in the traceback stands its text, and where the message comes from is among them.
Failure told_by_lines(lua_State* L, Failure failure, const std::string& name);

void open_positions(lua_State* L);

}  // namespace causeway::lua
