#include "tests/paths.hpp"

#ifndef CAUSEWAY_PROGRAM
#define CAUSEWAY_PROGRAM ""
#endif

#ifndef CAUSEWAY_WITH_LIBEDIT
#define CAUSEWAY_WITH_LIBEDIT ""
#endif
#ifndef CAUSEWAY_WITH_NONE
#define CAUSEWAY_WITH_NONE ""
#endif
#ifndef CAUSEWAY_EMULATOR
#define CAUSEWAY_EMULATOR ""
#endif

namespace tests {

std::string source_dir() { return CAUSEWAY_SOURCE_DIR; }
std::string program_path() { return CAUSEWAY_PROGRAM; }
std::string program_with_libedit() { return CAUSEWAY_WITH_LIBEDIT; }
std::string program_without_editor() { return CAUSEWAY_WITH_NONE; }
std::string emulator() { return CAUSEWAY_EMULATOR; }

}  // namespace tests
