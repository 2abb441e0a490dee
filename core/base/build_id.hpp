// The identity of the running program: changes whenever its code does.
#pragma once

#include <string>

namespace causeway {

// The linker's build id in hexadecimal; where the program has none, the version.
const std::string& build_id();

}  // namespace causeway
