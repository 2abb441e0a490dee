// An allocator for Lua that asks core/base/memory how much there is, and not at every call.
#include "lua/shell/heap.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "core/base/memory.hpp"

namespace causeway::lua {
namespace {

constexpr std::size_t stride = 64u << 20;    // growth between two questions to the system
constexpr std::size_t reserve = 128u << 20;  // left for everything else

}  // namespace

Spares::Spares() {
    free_.reserve(count);
    for (auto& block : blocks_) free_.push_back(block);
}

void* Spares::take() noexcept {
    if (free_.empty()) return nullptr;
    void* block = free_.back();
    free_.pop_back();
    return block;
}

bool Spares::owns(const void* block) const noexcept {
    const std::less<const void*> before;
    return !before(block, blocks_) && before(block, blocks_ + count);
}

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
        if (self.spares_.owns(block)) self.spares_.give_back(block);
        else std::free(block);
        self.used_ -= held;
        if (held > 0 && self.used_ == 0) delete &self;
        return nullptr;
    }
    void* moved = new_size <= held || self.grow(new_size - held) ? self.resized(block, held, new_size) : nullptr;
    // The kind is 0 for what is no object: calls, stacks, parts of tables.
    if (!moved && !block && old_size == 0 && new_size <= Spares::size) moved = self.spares_.take();
    if (moved) self.used_ += new_size - held;
    return moved;
}

void* Heap::resized(void* block, std::size_t old_size, std::size_t new_size) {
    if (!spares_.owns(block)) return std::realloc(block, new_size);
    void* moved = std::malloc(new_size);
    if (!moved) return new_size <= Spares::size ? block : nullptr;
    std::memcpy(moved, block, std::min(old_size, new_size));
    spares_.give_back(block);
    return moved;
}

}  // namespace causeway::lua
