// A matrix of Float32 times the columns of a state, by a thread block: what the scans over S ↦ A S + B are made of.
#pragma once

#include "gpu/gated/delta/work.cuh"
#include "gpu/kit/async_copy.cuh"

namespace causeway::gpu::gated_delta {

// A thread has 8 columns of a row.
constexpr int scan_threads = 256, scan_rows = 128, thread_columns = 8;
static_assert(scan_threads / scan_rows * thread_columns == scan_columns);

// Two matrices, one of which is on its way, and columns of a state. R: columns of A, 64 or 128. Rows of A are four
// words further apart than they are wide, so that eight lanes that read 16 bytes of a row each meet in different banks.
template <int R>
struct AffineShared {
    float A[2][R][R + 4];
    float S[R][scan_columns];
};

// Asks for the first `rows` rows of a matrix, and zeros in the place of the others.
template <int R>
__device__ __forceinline__ void load_matrix(AffineShared<R>& s, uint32_t stage, const float* A, int rows) {
    for (int i = threadIdx.x; i < R * R / 4; i += scan_threads) {
        const int r = i / (R / 4), c = i % (R / 4) * 4;
        const bool inside = r < rows;
        cp_async<16>(&s.A[stage][r][c], inside ? A + r * R + c : A, inside);
    }
    cp_async_commit();
}
// The thread's columns of a row to where all see them; x becomes 0.
template <int R>
__device__ __forceinline__ void put_rows(AffineShared<R>& s, int row, int own, float (&x)[thread_columns]) {
    if (row >= R) return;
#pragma unroll
    for (int c = 0; c < thread_columns; ++c) s.S[row][own + c] = x[c], x[c] = 0;
}
template <int R>
__device__ __forceinline__ void add_scaled(float (&x)[thread_columns], float a, const AffineShared<R>& s, int row,
                                           int own) {
#pragma unroll
    for (int c = 0; c < thread_columns; ++c) x[c] = fmaf(a, s.S[row][own + c], x[c]);
}
// x += A S, or Aᵀ S.
template <bool transposed = false, int R>
__device__ __forceinline__ void add_product(float (&x)[thread_columns], const AffineShared<R>& s, uint32_t stage,
                                            int row, int own) {
    if (row >= R) return;
    const auto& A = s.A[stage];
#pragma unroll 4
    for (int j = 0; j < R; j += 4) {
        float a[4];
        if constexpr (transposed) {
#pragma unroll
            for (int i = 0; i < 4; ++i) a[i] = A[j + i][row];
        } else {
            *reinterpret_cast<float4*>(a) = *reinterpret_cast<const float4*>(&A[row][j]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) add_scaled(x, a[i], s, j + i, own);
    }
}
// x = A_n x, or A_nᵀ x: the matrix n of `count` is on its way, and load(n + 1) asks for the next one.
template <bool transposed = false, int R, class Number, class Load>
__device__ __forceinline__ void apply_matrix(float (&x)[thread_columns], AffineShared<R>& s, Number n, Number count,
                                             int row, int own, Load&& load) {
    put_rows(s, row, own, x);
    if (n + 1 < count) {
        load(n + 1);
        cp_async_wait<1>();
    } else {
        cp_async_wait<0>();
    }
    __syncthreads();
    add_product<transposed>(x, s, n % 2, row, own);
    __syncthreads();
}

}  // namespace causeway::gpu::gated_delta
