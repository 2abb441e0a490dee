// What the process does as a whole and this library must live with: it forks, exits while threads compute, and unloads
// the shared library that this code may be a part of.
#pragma once

namespace causeway::process {

// `restore` is called in every child that the process forks from now on, before fork() returns there. For what the
// child cannot use as it was copied: threads, of which only the one that called fork() lives there, and mutexes that
// another thread held. Throws OutOfMemory.
void after_fork(void (*restore)());

// The same with calls before the fork and after it in the parent, for a mutex whose sections are short: it is held
// across the fork, so that the child finds what it guards whole. In the child `in_child` is called, or `after`.
void around_fork(void (*before)(), void (*after)(), void (*in_child)() = nullptr);

// From now on dlclose() leaves the shared library that this code is in where it is: threads run in it.
void keep_code_loaded() noexcept;

}  // namespace causeway::process
