#pragma once

namespace causeway::lua {

// The sets of instructions that this program was built with, the last one null.
extern const char* const needed_instructions[];

}  // namespace causeway::lua
