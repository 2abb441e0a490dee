// Calls of the system that fail on purpose: this program's malloc and pthread_create are its own (hooks.cpp), so that
// every allocation of every library in it, and every start of a thread, can be the one that is refused. Its functions
// of mutexes only count.
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

// From now on, until disarm(), `look` hears the number of each call of the kind before it is made, on the thread that
// makes it. It may call all that it likes, which is neither counted nor refused. By refuse_from(number, lasting) that
// call is refused, and nothing is looked at any more.
using Look = void (*)(long number) noexcept;
void arm(Call kind, Look look) noexcept;
void refuse_from(long first, bool lasting) noexcept;

// Mutexes that this thread has locked, those of the C library not among them.
int mutexes_held() noexcept;

// Blocks of memory that are held now.
long live_blocks() noexcept;

// From now on a block that is freed is counted as such and stays as it is: for a process that is about to end, and need
// not have pages of its own for what it would write into them.
void only_count_frees() noexcept;

}  // namespace causeway::faults
