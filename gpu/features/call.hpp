// What the kernels of the feature maps are told.
#pragma once

#include <cstdint>

#include "gpu/base/error.hpp"
#include "gpu/features/features.hpp"

namespace causeway::gpu::features {

constexpr int max_width = 256;

struct Call {
    const void* x[2];  // q, k
    void* phi[2];
    std::int64_t x_stride[2][3], phi_stride[2][3];  // batch, head, token
    std::int32_t sides;                             // 2, or 1 without k
    std::int32_t heads, batch_heads, N, d, r;
    float root;                               // of the scale
    std::int32_t x_pieces[2], phi_pieces[2];  // rows start at multiples of so many bytes: 16, 8, 4 or less
};

// The largest of 16, 8, 4, 2 bytes that every row starts at a multiple of.
inline std::int32_t pieces_of(const void* data, Type type, Strides s) {
    const auto all = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data)) |
                     (s.batch | s.head | s.token) * bytes_of(type) | 16;
    return static_cast<std::int32_t>(all & -all);
}

// The same for all maps: sizes, and r as the map has it.
inline Call call_of(const char* name, const FeatureArgs& a, std::int64_t expected_r) {
    constexpr std::int64_t max_tokens = (std::int64_t{1} << 31) - 1024;
    if (a.batch < 0 || a.heads < 0 || a.N < 0)
        fail(name, ": batch, heads, N are ", a.batch, ", ", a.heads, ", ", a.N, ", expected none below 0");
    if (a.d < 1 || a.d > max_width) fail(name, ": d is ", a.d, ", expected 1 to ", max_width);
    if (a.r < 1 && expected_r == 0) fail(name, ": r is ", a.r, ", expected 1 or more");
    if (expected_r > 0 && a.r != expected_r) fail(name, ": r is ", a.r, ", expected ", expected_r);
    if (a.N > max_tokens || (a.heads > 0 && a.batch > max_tokens / a.heads))
        fail(name, ": ", a.N, " tokens and ", a.batch, "·", a.heads, " heads, expected below 2^31");
    if (!(a.scale > 0)) fail(name, ": a scale of ", a.scale, ", expected a number above 0");
    if (!a.k != !a.c) fail(name, ": one of k and c is given, expected both or none");
    Call c{};
    const auto set = [](std::int64_t(&to)[3], Strides s) { to[0] = s.batch, to[1] = s.head, to[2] = s.token; };
    c.x[0] = a.q, c.x[1] = a.k, c.phi[0] = a.b, c.phi[1] = a.c;
    set(c.x_stride[0], a.q_stride), set(c.x_stride[1], a.k_stride), set(c.phi_stride[0], a.b_stride),
        set(c.phi_stride[1], a.c_stride);
    c.sides = a.k ? 2 : 1;
    c.x_pieces[0] = pieces_of(a.q, a.type, a.q_stride), c.x_pieces[1] = pieces_of(a.k, a.type, a.k_stride);
    c.phi_pieces[0] = pieces_of(a.b, a.feature_type, a.b_stride),
    c.phi_pieces[1] = pieces_of(a.c, a.feature_type, a.c_stride);
    const auto n = [](std::int64_t x) { return static_cast<std::int32_t>(x); };
    c.heads = n(a.heads), c.batch_heads = n(a.batch * a.heads), c.N = n(a.N), c.d = a.d, c.r = a.r;
    c.root = __builtin_sqrtf(a.scale);
    return c;
}

inline bool empty(const Call& c) { return c.batch_heads == 0 || c.N == 0; }

// Blocks of a launch as one number; each kernel takes it apart.
inline unsigned blocks(const char* name, std::int64_t n) {
    if (n >= std::int64_t{1} << 31) fail(name, ": ", n, " blocks, expected below 2^31");
    return static_cast<unsigned>(n);
}

}  // namespace causeway::gpu::features
