// Where the sources and the built program are: known to one file, so that no other is compiled again for another place.
#pragma once

#include <string>

namespace tests {

std::string source_dir();
std::string program_path();  // empty in the tests of the CUDA library alone
// The same with another line editor, empty where libedit was not found, and with none.
std::string program_with_libedit();
std::string program_without_editor();
// What a program that was built with the tests is run by: empty, or an emulator where it is for another processor.
std::string emulator();

}  // namespace tests

using tests::emulator;
using tests::program_path;
using tests::program_with_libedit;
using tests::program_without_editor;
using tests::source_dir;
