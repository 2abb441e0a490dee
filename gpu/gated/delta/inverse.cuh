// T = (I + A)⁻¹ diag(β), A = strict(diag(β) (K Kᵀ ⊙ Γ)), by the auxiliary warpgroup, in 16×16 blocks.
//
// Blocks of A go through shared memory in Float16 (the two quarters that are inverted by substitution in Float32). Warp
// w inverts I + the block (w, w) on the diagonal, and makes the blocks (i, w), i >= w, of the whole inverse from the
// diagonal down. All sums are Float32.
#pragma once

#include "gpu/gated/delta/scores.cuh"
#include "gpu/kit/mma.cuh"

namespace causeway::gpu::gated_delta {

// Addresses of A's blocks and of the inverses of those on its diagonal. n: of the chunk, which has one of two buffers.
template <int R, int D>
struct Triangle {
    using S = Shared<R, D>;
    uint32_t base;

    __device__ __forceinline__ uint32_t diagonal(int warp) const {
        return base + static_cast<uint32_t>(offsetof(S, diagonal)) +
               warp * static_cast<uint32_t>(sizeof(DiagonalBlock));
    }
    // Block (i, m), i > m, is the (i (i - 1) / 2 + m)-th.
    __device__ __forceinline__ uint32_t below(uint32_t n) const {
        return base + static_cast<uint32_t>(offsetof(S, below)) + n % 2 * static_cast<uint32_t>(sizeof(S::below[0]));
    }
    __device__ __forceinline__ uint32_t inverse(uint32_t n) const {
        return base + static_cast<uint32_t>(offsetof(S, inverse)) +
               n % 2 * static_cast<uint32_t>(sizeof(S::inverse[0]));
    }
};

// The byte in a HalfBlock where this lane's row for ldmatrix_x4 begins. Plain, it gives the block as operand A; by
// _trans, as operand B.
__device__ __forceinline__ uint32_t rows_of_block(int lane) {
    return (lane % 8 + 8 * (lane / 8 % 2)) * half_row + lane / 16 * 16;
}
// The same in the order in which plain ldmatrix_x4 gives the transposed block as operand B.
__device__ __forceinline__ uint32_t columns_of_block(int lane) {
    return (lane % 8 + 8 * (lane / 16)) * half_row + lane / 8 % 2 * 16;
}

// This warp's rows of A from the products of keys with keys, into shared memory. beta0, beta1: of the lane's two rows,
// with `lengths` times the factors of their keys.
template <bool lengths = false, bool gated = true>
__device__ __forceinline__ void write_triangle(float (&kk)[32], uint32_t gates, uint32_t diagonal, uint32_t below,
                                               int warp, int lane, float beta0, float beta1) {
    const int col = 2 * (lane % 4);
    each_decayed<lengths, gated>(kk, gates, warp, beta0, beta1, false, [&](int m, auto on_diagonal) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float* x = kk + 8 * m + 4 * i;
            if constexpr (decltype(on_diagonal)::value) {
                const uint32_t at = diagonal + i * lower_right_at + col * column_bytes + lane / 4 * 4;
                ptx::st_shared(at, x[2 * i]), ptx::st_shared(at + column_bytes, x[2 * i + 1]);
                if (i == 0) ptx::st_shared(diagonal + lower_left_at + 4 * lane, pack(__half{}, x[2], x[3]));
            } else {
                const uint32_t at = below + (warp * (warp - 1) / 2 + m) * static_cast<uint32_t>(sizeof(HalfBlock)) +
                                    lane / 4 * half_row + (8 * i + col) * 2;
                ptx::st_shared(at, pack(__half{}, x[0], x[1]));
                ptx::st_shared(at + 8 * half_row, pack(__half{}, x[2], x[3]));
            }
        }
    });
}

// x = column lane % 8 of the inverse of I + a quarter on the diagonal of A, the upper left one in lanes 0 ... 7, the
// lower right one in lanes 8 ... 15 (the others repeat these), by substitution.
__device__ __forceinline__ void invert_quarter(float (&x)[8], uint32_t quarter, int lane) {
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = i == lane % 8 ? 1.0f : 0.0f;
#pragma unroll
    for (int m = 0; m < 7; ++m) {
#pragma unroll
        for (int i = (m + 1) / 4; i < 2; ++i) {
            const float4 y = ptx::ld_shared_f32x4(quarter + m * column_bytes + 16 * i);
            const float a[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                if (4 * i + n > m) x[4 * i + n] -= a[n] * x[m];
            }
        }
    }
}

// Writes Xᵀ, X the inverse of I + this warp's diagonal block of A, to the rows of the HalfBlock `to`. The two quarters
// on the diagonal are inverted by substitution; the quarter below is X_10 = -X_11 A_10 X_00.
__device__ __forceinline__ void invert_diagonal(uint32_t to, uint32_t diagonal, int lane) {
    __syncwarp();
    const uint32_t quarter = lane / 8 % 2;
    float x[8];
    invert_quarter(x, diagonal + quarter * lower_right_at, lane);
    if (lane < 16) {
        const uint32_t half[4] = {pack(__half{}, x[0], x[1]), pack(__half{}, x[2], x[3]), pack(__half{}, x[4], x[5]),
                                  pack(__half{}, x[6], x[7])};
        ptx::st_shared(to + lane * half_row + 16 * quarter, half);
    }
    __syncwarp();
    float y[4] = {}, z[4] = {};
    const uint32_t x11 = ptx::ldmatrix_x1_trans(to + (8 + lane % 8) * half_row + 16);
    ptx::mma_m16n8k8_upper(y, ptx::ldmatrix_x1(to + lane % 8 * half_row),
                           ptx::ldmatrix_x1(diagonal + lower_left_at + lane % 8 * 16));
    ptx::mma_m16n8k8_upper(z, pack(__half{}, -y[0], -y[1]), x11);
    ptx::st_shared(to + lane / 4 * half_row + 16 + lane % 4 * 4, pack(__half{}, z[0], z[1]));
}

// Blocks (warp, warp) ... (warp + levels, warp) of T, i.e. down to the last row, into its tile. This column of blocks
// of the inverse of I + A, from the diagonal down, is Y_w = X_w (w: this warp) and Y_i = -X_i Σ_{w<=m<i} A_im Y_m, X_i
// the inverse of I + block i on the diagonal. Only what goes to the tile is scaled: scaled(i, n, two elements) of block
// (i, w). All blocks are held transposed: these are of column lane / 4, 8 further right where n is odd, and of the rows
// 2 (lane % 4) and the next, 8 further down where n >= 2. `put`: the tile, at this warp's columns.
template <class E, int levels, class F>
__device__ __forceinline__ void write_columns(uint32_t put, uint32_t below, uint32_t inverse, int warp, int lane,
                                              const F& scaled) {
    constexpr uint32_t block = sizeof(HalfBlock);
    const uint32_t rows = rows_of_block(lane), columns = columns_of_block(lane);
    const auto below_of = [&](uint32_t(&to)[4], int i, int m) {
        ptx::ldmatrix_x4(to, below + (i * (i - 1) / 2 + m) * block + columns);
    };
    uint32_t done[4], a[3][4], x[4];
    float y[3][8] = {};
    ptx::ldmatrix_x4(done, inverse + warp * block + rows);
#pragma unroll
    for (int i = 0; i < levels; ++i) below_of(a[i], warp + 1 + i, warp);
    if constexpr (levels > 0) ptx::ldmatrix_x4_trans(x, inverse + (warp + 1) * block + rows);
    uint32_t out[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 e = scaled(warp, i, unpack(__half{}, done[i]));
        out[i] = pack(E{}, e.x, e.y);
    }
    ptx::stmatrix_x4_trans(put + warp * 16 * 128, out[0], out[1], out[2], out[3]);
#pragma unroll
    for (int s = 0; s < levels; ++s) {
        uint32_t minus[4];
        float z[8] = {};
#pragma unroll
        for (int i = s; i < levels; ++i) ptx::mma_m16n16k16(y[i], done, a[i]);
#pragma unroll
        for (int i = s + 1; i < levels; ++i) below_of(a[i], warp + 1 + i, warp + 1 + s);
#pragma unroll
        for (int i = 0; i < 4; ++i) minus[i] = pack(__half{}, -y[s][2 * i], -y[s][2 * i + 1]);
        ptx::mma_m16n16k16(z, minus, x);
        if (s + 1 < levels) ptx::ldmatrix_x4_trans(x, inverse + (warp + 2 + s) * block + rows);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 e = scaled(warp + 1 + s, i, float2{z[2 * i], z[2 * i + 1]});
            done[i] = pack(__half{}, z[2 * i], z[2 * i + 1]);
            out[i] = pack(E{}, e.x, e.y);
        }
        ptx::stmatrix_x4_trans(put + (warp + 1 + s) * 16 * 128, out[0], out[1], out[2], out[3]);
    }
}

// The inverse of I + A, scaled, from A and the inverses of its diagonal blocks.
template <class E, class F>
__device__ __forceinline__ void write_inverse(uint32_t tile, uint32_t below, uint32_t inverse, int warp, int lane,
                                              const F& scaled) {
    const uint32_t put = tile + transposed_rows(warp, lane);
    const auto columns = [&](auto levels) {
        write_columns<E, decltype(levels)::value>(put, below, inverse, warp, lane, scaled);
    };
    if (warp == 0) columns(std::integral_constant<int, 3>{});
    else if (warp == 1) columns(std::integral_constant<int, 2>{});
    else if (warp == 2) columns(std::integral_constant<int, 1>{});
    else columns(std::integral_constant<int, 0>{});
}
// T: by β of the column.
template <class E>
__device__ __forceinline__ void write_inverse(uint32_t tile, uint32_t gates, uint32_t below, uint32_t inverse, int warp,
                                              int lane) {
    const int row = 16 * warp + lane / 4;
    const float beta0 = ptx::ld_shared_f32(gates + beta_at(row)), beta1 = ptx::ld_shared_f32(gates + beta_at(row + 8));
    write_inverse<E>(tile, below, inverse, warp, lane, [=](int, int n, float2 x) {
        const float by = n % 2 ? beta1 : beta0;
        return float2{x.x * by, x.y * by};
    });
}

}  // namespace causeway::gpu::gated_delta
