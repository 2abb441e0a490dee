// The memory of a Lua state, with a limit: strings and tables that the machine has no room for are an error of the
// script and not the end of the process.
#pragma once

#include <cstddef>

namespace causeway::lua {

// Made with new; goes away by itself with the last block, so lua_close is all that a state needs.
class Heap {
public:
    // A lua_Alloc whose `heap` is a Heap: refuses what would not fit into the memory that is available now.
    static void* allocate(void* heap, void* block, std::size_t old_size, std::size_t new_size);

private:
    ~Heap() = default;
    bool grow(std::size_t bytes);

    std::size_t used_ = 0;
    std::size_t allowed_ = 0;  // up to here the system need not be asked again
};

}  // namespace causeway::lua
