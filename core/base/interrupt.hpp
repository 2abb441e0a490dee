// Stopping a running computation: Ctrl-C and time limits reach it here.
// Long loops call check() between pieces of work; parallel_for does so between tasks.
#pragma once

namespace causeway::interrupt {

// Asks the running computation to stop. Safe to call from a signal handler.
void request() noexcept;

// Forgets an earlier request, before a new computation starts.
void clear() noexcept;

bool requested() noexcept;  // since the last clear()

// Computations started from now on stop with Timeout after `seconds`; a value <= 0 (or NaN) removes the limit,
// infinity sets one that is never reached. Returns the seconds that were left of the limit in force before (0: none).
double set_deadline(double seconds) noexcept;

// Throws Interrupted after request(), Timeout past the deadline.
void check();

}  // namespace causeway::interrupt
