// A matrix of Float32 times columns of a state, by a thread block on tensor cores: what the scans over S ↦ A S + B are
// made of.
//
// Operands are sums of two BFloat16 (gpu/kit/hi_lo.cuh), and of the four products of such sums the three largest are
// taken: a step adds an error of 2^-16 of what it sums, where each chunk of a walk rounds the state to 2^-9 or 2^-12
// for its own products. Sums are Float32.
#pragma once

#include "gpu/gated/delta/work.cuh"
#include "gpu/kit/async_copy.cuh"
#include "gpu/kit/hi_lo.cuh"
#include "gpu/kit/mma.cuh"

namespace causeway::gpu::gated_delta {

constexpr int scan_threads = 256;

// Two matrices, one of which is on its way, and so many columns of a state, hi and lo. R: columns of A, 64 or 128. Rows
// of A, and columns of S, are eight elements further apart than they are long, so that what the lanes of a warp read at
// once lies in different banks (of Aᵀ, two words in each).
template <int R, int columns>
struct AffineShared {
    float A[2][R][R + 8];
    __nv_bfloat16 S[2][columns][R + 8];
};

// Which elements of a block's columns of a state a thread has: element j of tile n is at row + j / 2 · 8,
// column + 8 n + j % 2. A warp has 16 rows of its tiles.
template <int R, int columns>
struct ScanColumns {
    static constexpr int row_tiles = R / 16, tiles = columns / 8 / (scan_threads / 32 / row_tiles);
    static_assert(tiles > 0);
    using Values = float[tiles][4];

    int row, column;

    __device__ __forceinline__ ScanColumns() {
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        row = warp % row_tiles * 16 + lane / 4, column = warp / row_tiles * (8 * tiles) + 2 * (lane % 4);
    }

    // f(element, row, column) for each.
    template <class F>
    __device__ __forceinline__ void each(Values& x, F&& f) const {
#pragma unroll
        for (int n = 0; n < tiles; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) f(x[n][j], row + j / 2 * 8, column + 8 * n + j % 2);
    }
    static __device__ __forceinline__ void add(Values& x, const Values& y) {
#pragma unroll
        for (int n = 0; n < tiles; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) x[n][j] += y[n][j];
    }
};

// Asks for the first `rows` rows of a matrix, and zeros in the place of the others.
template <int R, int columns>
__device__ __forceinline__ void load_matrix(AffineShared<R, columns>& s, uint32_t stage, const float* A, int rows) {
    for (int i = threadIdx.x; i < R * R / 4; i += scan_threads) {
        const int r = i / (R / 4), c = i % (R / 4) * 4;
        const bool inside = r < rows;
        cp_async<16>(&s.A[stage][r][c], inside ? A + r * R + c : A, inside);
    }
    cp_async_commit();
}

// The block's columns of a state to where all see them.
template <int R, int columns>
__device__ __forceinline__ void put_columns(AffineShared<R, columns>& s, const ScanColumns<R, columns>& own,
                                            typename ScanColumns<R, columns>::Values& x) {
    own.each(x, [&](float e, int row, int column) {
        const __nv_bfloat16 hi = __float2bfloat16_rn(e);
        s.S[0][column][row] = hi, s.S[1][column][row] = __float2bfloat16_rn(e - __bfloat162float(hi));
    });
}

// x = A S, or Aᵀ S.
template <bool transposed, int R, int columns>
__device__ __forceinline__ void multiply_columns(const AffineShared<R, columns>& s, uint32_t stage,
                                                 const ScanColumns<R, columns>& own,
                                                 typename ScanColumns<R, columns>::Values& x) {
    using E = __nv_bfloat16;
    constexpr int tiles = ScanColumns<R, columns>::tiles, products = 3;
    const int lane = static_cast<int>(threadIdx.x) % 32, pair = 2 * (lane % 4), column = own.column - pair + lane / 4;
    const auto& A = s.A[stage];
    float sum[products][tiles][4] = {};  // of their own, so that no product waits for the one before it
#pragma unroll
    for (int k = 0; k < R; k += 16) {
        uint32_t hi[4], lo[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int m = own.row + i % 2 * 8, at = k + pair + i / 2 * 8;
            const float2 a = transposed ? float2{A[at][m], A[at + 1][m]} : *reinterpret_cast<const float2*>(&A[m][at]);
            to_hi_lo(a.x, a.y, hi[i], lo[i]);
        }
#pragma unroll
        for (int n = 0; n < tiles; ++n) {
            const auto pair_of = [&](int half, int i) {
                return *reinterpret_cast<const uint32_t*>(&s.S[half][column + 8 * n][k + pair + 8 * i]);
            };
            const uint32_t S[2] = {pair_of(0, 0), pair_of(0, 1)};
            ptx::mma_m16n8k16<E>(sum[0][n], hi, S[0], S[1]);
            ptx::mma_m16n8k16<E>(sum[1][n], hi, pair_of(1, 0), pair_of(1, 1));
            ptx::mma_m16n8k16<E>(sum[2][n], lo, S[0], S[1]);
        }
    }
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) x[n][i] = sum[0][n][i] + (sum[1][n][i] + sum[2][n][i]);
}

// x = A_n x, or A_nᵀ x: the matrix n of `count` is on its way, and load(n + 1) asks for the next one.
template <bool transposed = false, int R, int columns, class Number, class Load>
__device__ __forceinline__ void apply_matrix(typename ScanColumns<R, columns>::Values& x, AffineShared<R, columns>& s,
                                             const ScanColumns<R, columns>& own, Number n, Number count, Load&& load) {
    put_columns(s, own, x);
    if (n + 1 < count) {
        load(n + 1);
        cp_async_wait<1>();
    } else {
        cp_async_wait<0>();
    }
    __syncthreads();
    multiply_columns<transposed>(s, n % 2, own, x);
    __syncthreads();
}

// f<columns>() with as many columns of a state to a thread block as scan_columns() says.
template <int R, class F>
void with_scan_columns(int columns, F&& f) {
    if constexpr (R == 128)
        if (columns == 8) return f.template operator()<8>();
    if (columns <= 16) return f.template operator()<16>();
    f.template operator()<32>();
}

}  // namespace causeway::gpu::gated_delta
