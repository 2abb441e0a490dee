// Notes beside what was asked for, which a session, or an entry of it, gets once.
#pragma once

#include <lua.hpp>

#include <string>

namespace causeway::lua {

// Whether the session has got the note of this key.
bool noted(lua_State* L, const char* key);

// Forgets that, so that it may be given again.
void forget_note(lua_State* L, const char* key);

// Gives it a note (lua/lib/text.lua shows it).
void note(lua_State* L, const std::string& text);

// The same, unless it has got that of the key.
void note_once(lua_State* L, const char* key, const std::string& text);

}  // namespace causeway::lua
