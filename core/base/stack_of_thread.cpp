#include "core/base/stack_of_thread.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <cstddef>

namespace causeway {

bool no_room_for_stacks() noexcept {
    pthread_attr_t usual;
    if (pthread_attr_init(&usual) != 0) return true;
    std::size_t bytes = 0;
    pthread_attr_getstacksize(&usual, &bytes);
    pthread_attr_destroy(&usual);
    // Other threads may have ended since, and left room for a few.
    bytes *= 16;
    void* const stacks =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return true;
    munmap(stacks, bytes);
    return false;
}

}  // namespace causeway
