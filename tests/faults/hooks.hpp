// Calls of the system that fail on purpose: this program's malloc and pthread_create are its own (hooks.cpp), so that
// every allocation of every library in it, and every start of a thread, can be the one that is refused.
#pragma once

namespace causeway::faults {

enum class Call { allocation, thread };

// How many calls of the kind were made since arm(), and how many of them were refused.
struct Counts {
    long made = 0, refused = 0;
};

// From now on the `first`-th call of the kind is refused (counted from 1; 0: none), and where `lasting` every later one
// too, in all threads, until disarm().
void arm(Call kind, long first, bool lasting) noexcept;
Counts disarm() noexcept;

// Blocks of memory that are held now.
long live_blocks() noexcept;

}  // namespace causeway::faults
