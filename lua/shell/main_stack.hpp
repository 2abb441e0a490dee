// The stack of the main thread, which grows as it is used.
#pragma once

namespace causeway::lua {

// Takes the first 1 MiB of it. Where memory is limited (RLIMIT_AS) and has run out, a page more of this stack is a
// SIGSEGV, not an allocation that fails; products of matrices keep up to 128 KiB of temporaries there. Nothing where
// the stack is limited to less than four times that. Called first in main.
void take_main_stack();

}  // namespace causeway::lua
