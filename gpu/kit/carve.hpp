// Cutting a workspace into arrays.
#pragma once

#include <cstddef>
#include <cstdint>

namespace causeway::gpu {

// Hands out arrays of a workspace one after the other, at multiples of 256 bytes. From null it finds out how many bytes
// are needed: end() + slack, since the workspace itself need not begin at such a multiple.
class Carve {
public:
    static constexpr std::size_t slack = 256;

    explicit Carve(void* data) : at_(reinterpret_cast<std::uintptr_t>(data)) {}
    float* floats(std::int64_t n) { return static_cast<float*>(bytes(static_cast<std::size_t>(n) * sizeof(float))); }
    void* bytes(std::size_t n) {
        at_ = (at_ + 255) / 256 * 256;
        void* const p = reinterpret_cast<void*>(at_);
        at_ += n;
        return p;
    }
    std::size_t end() const { return at_; }

private:
    std::uintptr_t at_;
};

}  // namespace causeway::gpu
