// What this program is and what it runs on, in words.
#pragma once

#include <string>

namespace causeway::lua {

std::string threads_text();  // "8 threads"

// What --version prints: version, compiler, SIMD level, threads, GPU, a line each.
std::string version_text();

// An instruction set that the program was built for and this processor lacks ("AVX-512F"), or null.
const char* missing_instructions();

}  // namespace causeway::lua
