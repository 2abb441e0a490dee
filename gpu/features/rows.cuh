// Rows of q, k, B and C in kernels.
#pragma once

#include <type_traits>

#include "gpu/features/call.hpp"
#include "gpu/kit/element.cuh"

namespace causeway::gpu::features {

template <class E>
__device__ __forceinline__ const E* row_of_x(const Call& c, int side, int32_t bh, int32_t token) {
    const int64_t(&s)[3] = c.x_stride[side];
    return static_cast<const E*>(c.x[side]) + bh / c.heads * s[0] + bh % c.heads * s[1] + token * s[2];
}
template <class F>
__device__ __forceinline__ F* row_of_phi(const Call& c, int side, int32_t bh, int32_t token) {
    const int64_t(&s)[3] = c.phi_stride[side];
    return static_cast<F*>(c.phi[side]) + bh / c.heads * s[0] + bh % c.heads * s[1] + token * s[2];
}

// n elements side by side, one access where `pieces`, the alignment of the row, and the column allow it. Outside [0,
// width): zeros, and not written.
template <int n, class E>
__device__ __forceinline__ void load_side_by_side(float (&x)[n], const E* row, int column, int width, int pieces) {
    constexpr int bytes = n * int(sizeof(E)), step = bytes < 16 ? bytes : 16, each = step / int(sizeof(E));
    using Piece = std::conditional_t<step == 16, uint4, std::conditional_t<step == 8, uint2, uint32_t>>;
    static_assert(step >= 4);
    if (pieces >= step && column + n <= width) {
#pragma unroll
        for (int i = 0; i < n; i += each) {
            const Piece bits = *reinterpret_cast<const Piece*>(row + column + i);
            const E* element = reinterpret_cast<const E*>(&bits);
#pragma unroll
            for (int e = 0; e < each; ++e) x[i + e] = static_cast<float>(element[e]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < n; ++i) x[i] = column + i < width ? static_cast<float>(row[column + i]) : 0.0f;
    }
}
template <int n, class F>
__device__ __forceinline__ void store_side_by_side(F* row, int column, int width, int pieces, const float (&x)[n]) {
    constexpr int bytes = n * int(sizeof(F));
    using Piece = std::conditional_t<bytes == 16, uint4, std::conditional_t<bytes == 8, uint2, uint32_t>>;
    static_assert(bytes == sizeof(Piece));
    if (pieces >= bytes && column + n <= width) {
        Piece bits;
        F* element = reinterpret_cast<F*>(&bits);
#pragma unroll
        for (int i = 0; i < n; ++i) element[i] = static_cast<F>(x[i]);
        *reinterpret_cast<Piece*>(row + column) = bits;
    } else {
#pragma unroll
        for (int i = 0; i < n; ++i) {
            if (column + i < width) row[column + i] = static_cast<F>(x[i]);
        }
    }
}

// Calls f(zero of the type of q and k, zero of the type of B and C).
template <class F>
void visit_types(const FeatureArgs& a, F&& f) {
    visit(a.type, [&](auto x) { visit(a.feature_type, [&](auto phi) { f(x, phi); }); });
}

}  // namespace causeway::gpu::features
