// What this program is and what it runs on, in words.
#pragma once

#include <string>

namespace causeway::lua {

// What --version prints: version, compiler, SIMD level, threads, GPU, a line each.
std::string version_text();

// What the shell says first, in lines of at most `columns`; the name of the program is bold where there are colours.
std::string banner_text(int columns, bool colour);

}  // namespace causeway::lua
