// The memory of a Lua state, with a limit: strings and tables that the machine has no room for are an error of the
// script and not the end of the process.
#pragma once

#include <cstddef>
#include <vector>

namespace causeway::lua {

// Blocks for what Lua needs to call a function, a record of the call and at times a longer stack, when there is no
// memory left: without them the collector could not call the finalizers of tensors, which it tries once, and their
// memory would never be given back. No object of the user's gets one.
class Spares {
public:
    static constexpr std::size_t size = std::size_t{16} << 10;  // of each: a stack of a thousand values

    Spares();
    void* take() noexcept;  // null where all are in use
    bool owns(const void* block) const noexcept;
    void give_back(void* block) noexcept { free_.push_back(block); }

private:
    static constexpr std::size_t count = 12;
    alignas(std::max_align_t) unsigned char blocks_[count][size];
    std::vector<void*> free_;  // has room for all
};

// Made with new; goes away by itself with the last block, so lua_close is all that a state needs.
class Heap {
public:
    // A lua_Alloc whose `heap` is a Heap: refuses what would not fit into the memory that is available now.
    static void* allocate(void* heap, void* block, std::size_t old_size, std::size_t new_size);

private:
    ~Heap() = default;
    bool grow(std::size_t bytes);
    void* resized(void* block, std::size_t old_size, std::size_t new_size);

    std::size_t used_ = 0;
    std::size_t allowed_ = 0;  // up to here the system need not be asked again
    Spares spares_;
};

}  // namespace causeway::lua
