// Products of keys with keys or queries by the auxiliary warpgroup, their decay, and P, the decayed scores.
//
// An accumulator of 64×64 lies in the four warps as wgmma has it: warp w has the rows 16 w ... 16 w + 15, a lane of it
// the rows 16 w + lane / 4 and 8 further down, and in block n of eight columns the columns 2 (lane % 4) and the next.
#pragma once

#include <type_traits>

#include "gpu/gated/delta/layout.cuh"
#include "gpu/kit/pack.cuh"

namespace causeway::gpu::gated_delta {

// Queues acc = rows · keysᵀ over R columns.
template <class E, int R>
__device__ __forceinline__ void times_keys(float (&acc)[32], uint32_t rows, uint32_t keys) {
    const ptx::TileDescriptor a(rows), b(keys);
    ptx::wgmma_fence();
#pragma unroll
    for (int ks = 0; ks < R / 16; ++ks) {
        const uint32_t off = ks / 4 * tile_bytes + ks % 4 * 32;
        ptx::wgmma_ss<E, 0, 0>(acc, a + off, b + off, ks > 0);
    }
    ptx::wgmma_commit();
}

// One block left of the diagonal, columns 16 m ... 16 m + 15: Γ_ij = 2^(G_i - G_l) · 2^(G_l - G_j), l its last column,
// two factors that are never above 1. w0, w1: the first of them for the lane's two rows.
__device__ __forceinline__ void decay_left(float (&acc)[32], int m, uint32_t gates, int col, float w0, float w1) {
#pragma unroll
    for (int n = 2 * m; n < 2 * m + 2; ++n) {
        const float2 near = ptx::ld_shared_f32x2(gates + to_sixteenth_at(8 * n + col));
        acc[4 * n] *= w0 * near.x, acc[4 * n + 1] *= w0 * near.y, acc[4 * n + 2] *= w1 * near.x,
            acc[4 * n + 3] *= w1 * near.y;
    }
}

// Makes acc diag(by) (acc ⊙ Γ), in blocks of 16 columns up to this warp's diagonal block, in which it becomes zero
// above the diagonal and, unless wanted, on it; then calls f(block, whether it is the diagonal one). by0, by1: for the
// lane's two rows. lengths: the gates are DeltaGates, and columns are multiplied by the factors of their keys too,
// which to_sixteenth has in it already. Without `gated` Γ is 1.
template <bool lengths, bool gated, class F>
__device__ __forceinline__ void each_decayed(float (&acc)[32], uint32_t gates, int warp, float by0, float by1,
                                             bool with_diagonal, const F& f) {
    const int lane = ptx::laneid(), row = 16 * warp + lane / 4, col = 2 * (lane % 4), below_diagonal = lane / 4 - col;
    float G0 = 0, G1 = 0;
    if constexpr (gated) G0 = ptx::ld_shared_f32(gates + G_at(row)), G1 = ptx::ld_shared_f32(gates + G_at(row + 8));
#pragma unroll
    for (int m = 0; m < 4; ++m) {
        if (m < warp) {
            if constexpr (gated) {
                const float G_last = ptx::ld_shared_f32(gates + G_at(16 * m + 15));
                decay_left(acc, m, gates, col, by0 * ptx::ex2_approx(G0 - G_last), by1 * ptx::ex2_approx(G1 - G_last));
            } else {
#pragma unroll
                for (int i = 8 * m; i < 8 * m + 8; ++i) acc[i] *= i % 4 < 2 ? by0 : by1;
            }
            f(m, std::false_type{});
        } else if (m == warp) {
#pragma unroll
            for (int n = 2 * m; n < 2 * m + 2; ++n) {
                float2 G_col{}, by_col{1, 1};
                if constexpr (gated) G_col = ptx::ld_shared_f32x2(gates + G_at(8 * n + col));
                if constexpr (lengths) by_col = ptx::ld_shared_f32x2(gates + k_factor_at(8 * n + col));
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float G_difference = (i < 2 ? G0 : G1) - (i % 2 ? G_col.y : G_col.x);
                    const float by = (i < 2 ? by0 : by1) * (i % 2 ? by_col.y : by_col.x);
                    acc[4 * n + i] *= gated ? by * ptx::ex2_approx(fminf(G_difference, 0.0f)) : by;
                    if (below_diagonal + 8 * (i / 2) - 8 * (n % 2) - i % 2 < (with_diagonal ? 0 : 1))
                        acc[4 * n + i] = 0.0f;
                }
            }
            f(m, std::true_type{});
        }
    }
}

// P = scale · (Q Kᵀ ⊙ Γ) into its tile, from q·k; what is above the diagonal's blocks there is zero and stays so.
// lengths, gated: as for each_decayed(), with the factors of the queries.
template <class E, bool lengths = false, bool gated = true>
__device__ __forceinline__ void write_scores(float (&qk)[32], uint32_t tile, uint32_t gates, float scale, int warp,
                                             int lane) {
    const uint32_t row = tile + (16 * warp + lane % 16) * 128;
    float scale0 = scale, scale1 = scale;
    if constexpr (lengths) {
        scale0 *= ptx::ld_shared_f32(gates + q_factor_at(16 * warp + lane / 4));
        scale1 *= ptx::ld_shared_f32(gates + q_factor_at(16 * warp + lane / 4 + 8));
    }
    each_decayed<lengths, gated>(qk, gates, warp, scale0, scale1, true, [&](int m, auto) {
        const float* x = qk + 8 * m;
        ptx::stmatrix_x4(row + (((2 * m + lane / 16) ^ (lane % 8)) * 16), pack(E{}, x[0], x[1]), pack(E{}, x[2], x[3]),
                         pack(E{}, x[4], x[5]), pack(E{}, x[6], x[7]));
    });
}

}  // namespace causeway::gpu::gated_delta
