// An allocator for Lua that asks core/base/memory how much there is, and not at every call.
#include "lua/shell/heap.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/base/memory.hpp"

namespace causeway::lua {
namespace {

constexpr std::size_t stride = 64u << 20;    // growth between two questions to the system
constexpr std::size_t reserve = 128u << 20;  // left for everything else

}  // namespace

bool Heap::grow(std::size_t bytes) {
    if (used_ + bytes <= allowed_) return true;
    const std::size_t available = memory::available();
    if (available < reserve || bytes > available - reserve) return false;
    allowed_ = used_ + bytes + std::min(stride, available - reserve - bytes);
    return true;
}

void* Heap::allocate(void* heap, void* block, std::size_t old_size, std::size_t new_size) {
    auto& self = *static_cast<Heap*>(heap);
    const std::size_t held = block ? old_size : 0;  // for a new block Lua passes its kind as the old size
    if (new_size == 0) {
        std::free(block);
        self.used_ -= held;
        if (held > 0 && self.used_ == 0) delete &self;
        return nullptr;
    }
    if (new_size > held && !self.grow(new_size - held)) return nullptr;
    void* moved = std::realloc(block, new_size);
    if (!moved) return nullptr;
    self.used_ += new_size - held;
    return moved;
}

}  // namespace causeway::lua
