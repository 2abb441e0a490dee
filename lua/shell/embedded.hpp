// The Lua files that travel inside the program, as embed.cmake packs them.
#pragma once

namespace causeway::lua {

struct EmbeddedFile {
    const char* path;  // "lua/lib/plot.lua"; null ends the list
    const char* text;
};

extern const EmbeddedFile embedded_files[];

}  // namespace causeway::lua
