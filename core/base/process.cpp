#include "core/base/process.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include "core/base/error.hpp"

namespace causeway::process {

void after_fork(void (*restore)()) {
    if (pthread_atfork(nullptr, nullptr, restore) != 0) throw OutOfMemory("out of memory");
}

void around_fork(void (*before)(), void (*after)(), void (*in_child)()) {
    if (pthread_atfork(before, after, in_child ? in_child : after) != 0) throw OutOfMemory("out of memory");
}

void keep_code_loaded() noexcept {
    Dl_info here;
    if (dladdr(reinterpret_cast<const void*>(&keep_code_loaded), &here) == 0 || !here.dli_fname) return;
    // Without effect where the code is the program itself. The handle is never closed.
    (void)dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace causeway::process
