// Memory that is counted. Tensors and the scratch of every method come from here, so the extra memory
// of a call is measured, never estimated.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace causeway {

using Index = std::ptrdiff_t;

namespace memory {

// `bytes` of 64-byte aligned memory. Throws OutOfMemory when the machine does not have it: the limit is what the
// system says is available now, so that a too large request fails here and not in the kernel's out-of-memory killer.
void* allocate(std::size_t bytes);
void release(void* block) noexcept;

// Blocks of allocate() that hold one of these bytes are never used again: someone who was not to be stopped may still
// read or write there.
void keep_for_ever(const void* data, std::size_t bytes) noexcept;

// Bytes of the machine, or as many as the control group allows; and those that can still be had, which the kernel calls
// available and the control group leaves. Asking takes none.
std::size_t total();
std::size_t available();

std::size_t current() noexcept;  // bytes held now
std::size_t peak() noexcept;     // most bytes held since reset_peak()
void reset_peak() noexcept;

// Fill every new block with 0xFF bytes, NaN in every floating-point type: what is read before it was written, or
// never written, shows itself. For tests.
void set_poison(bool on) noexcept;
bool poison() noexcept;

}  // namespace memory

// Owning, uninitialised, 64-byte aligned array of a trivial type, counted by memory::current().
template <class T>
class Buffer {
    static_assert(std::is_trivially_destructible_v<T>);

public:
    Buffer() = default;
    explicit Buffer(Index n)
        : data_(static_cast<T*>(memory::allocate(static_cast<std::size_t>(n) * sizeof(T)))), size_(n) {}
    Buffer(Buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { memory::release(data_); }

    T* data() { return data_; }
    const T* data() const { return data_; }
    Index size() const { return size_; }
    T& operator[](Index i) { return data_[i]; }
    const T& operator[](Index i) const { return data_[i]; }

private:
    T* data_ = nullptr;
    Index size_ = 0;
};

}  // namespace causeway
