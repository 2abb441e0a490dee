// Where the sources and the built program are: known to one file, so that no other is compiled again for another place.
#pragma once

#include <string>

namespace tests {

std::string source_dir();
std::string program_path();  // empty in the tests of the CUDA library alone

}  // namespace tests

using tests::program_path;
using tests::source_dir;
