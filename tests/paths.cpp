#include "tests/paths.hpp"

#ifndef CAUSEWAY_PROGRAM
#define CAUSEWAY_PROGRAM ""
#endif

namespace tests {

std::string source_dir() { return CAUSEWAY_SOURCE_DIR; }
std::string program_path() { return CAUSEWAY_PROGRAM; }

}  // namespace tests
