// What this program is and what it runs on, in words.
#pragma once

#include <string>

namespace causeway::lua {

// What --version prints: version, compiler, SIMD level, threads, GPU, a line each.
std::string version_text();

// What the shell says first, in lines of at most `columns`; the name of the program is bold where there are colours.
std::string banner_text(int columns, bool colour);

// An instruction set that the program was built for and this processor lacks ("AVX-512F"), or null.
const char* missing_instructions();

}  // namespace causeway::lua
