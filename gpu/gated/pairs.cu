#include "gpu/gated/pairs.hpp"

#include <algorithm>
#include <cub/block/block_scan.cuh>

#include "gpu/base/error.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/finite.cuh"
#include "gpu/kit/rows.cuh"

namespace causeway::gpu::gated {

namespace {

using std::int64_t;

constexpr int threads = 256, warps = threads / 32;

struct Plus {
    __device__ GateSum operator()(const GateSum& a, const GateSum& b) const {
        return {a.sum + b.sum, a.resets + b.resets};
    }
};

// e^x of less is 0 in Float32. Such a gate must not be summed: behind a large one the sum would lose all that follow.
constexpr float vanishing = -104.0f;

// Π of the gates after the first `from` to `to`.
__device__ __forceinline__ float between(const GateSum& from, const GateSum& to) {
    return to.resets > from.resets ? 0.0f : expf(static_cast<float>(to.sum - from.sum));
}

__global__ __launch_bounds__(threads) void sum_gates_kernel(const float* g, int64_t N, GateSum* sums) {
    using Scan = cub::BlockScan<GateSum, threads>;
    __shared__ typename Scan::TempStorage room;
    GateSum before{0, 0};
    for (int64_t start = 0; start < N; start += threads) {
        const int64_t t = start + threadIdx.x, at = blockIdx.x * N + t;
        const float x = t < N ? g[at] : 0.0f;
        const bool forgets = x < vanishing;
        GateSum sum{forgets ? 0.0 : x, forgets}, all;
        Scan(room).InclusiveScan(sum, sum, Plus(), all);
        if (t < N) sums[at] = Plus()(before, sum);
        before = Plus()(before, all);
        __syncthreads();
    }
}

__global__ __launch_bounds__(threads) void gate_scores_kernel(const GateSum* sums, int64_t N, int64_t row, int64_t rows,
                                                              int64_t columns, int64_t all, float* S) {
    for (int64_t x = blockIdx.x * int64_t{warps} + threadIdx.x / 32; x < all; x += int64_t{gridDim.x} * warps) {
        const int64_t i = row + x % rows;
        const GateSum* const of_bh = sums ? sums + x / rows * N : nullptr;
        const GateSum own = of_bh ? of_bh[i] : GateSum{0, 0};
        float* const to = S + x * columns;
        for (int64_t j = threadIdx.x % 32; j < columns; j += 32) {
            const float gate = j > i ? 0.0f : of_bh ? between(of_bh[j], own) : 1.0f;
            to[j] = gate == 0 ? 0.0f : to[j] * gate;
        }
    }
}

__global__ __launch_bounds__(threads) void weigh_kernel(const GateSum* sums, int64_t N, Rows x, Decay decay,
                                                        float factor) {
    const int64_t all = x.batch_heads * x.rows;
    for (int64_t i = blockIdx.x * int64_t{warps} + threadIdx.x / 32; i < all; i += int64_t{gridDim.x} * warps) {
        const int64_t bh = i / x.rows, t = x.row + i % x.rows;
        float f = factor;
        if (decay == Decay::up_to) f *= between({0, 0}, sums[bh * N + t]);
        if (decay == Decay::after) f *= between(sums[bh * N + t], sums[bh * N + N - 1]);
        float* const to = x.x + bh * x.next + i % x.rows * x.width;
        for (int64_t e = threadIdx.x % 32; e < x.width; e += 32) to[e] = f == 0 ? 0.0f : f * to[e];
    }
}

// A column of U to a thread.
constexpr int columns = 64;
__global__ __launch_bounds__(columns) void substitute_kernel(const float* M, const float* X, const float* beta,
                                                             int64_t N, int64_t row, int rows, int dv, float* U) {
    __shared__ float m[solved_rows][solved_rows], u[solved_rows][columns];
    const int wide = (dv + columns - 1) / columns, column = static_cast<int>(blockIdx.x % wide) * columns + threadIdx.x;
    const int64_t bh = blockIdx.x / wide;
    for (int i = threadIdx.x; i < rows * rows; i += columns) m[i / rows][i % rows] = M[bh * rows * rows + i];
    __syncthreads();
    if (column >= dv) return;
    for (int t = 0; t < rows; ++t) {
        float& to = U[(bh * N + row + t) * dv + column];
        float rest = to - X[(bh * rows + t) * dv + column];
        for (int s = 0; s < t; ++s) rest = fmaf(-m[t][s], u[s][threadIdx.x], rest);
        to = u[t][threadIdx.x] = beta[bh * N + row + t] * rest;
    }
}

// The i-th row of the outputs, of `count` a batch-head, token for token (gpu/kit/finite.cuh), for its elements that are
// not finite.
template <class E>
__device__ __noinline__ void sum_again(E* o, const Outputs& x, int64_t i, int64_t count, int64_t token) {
    const int64_t bh = i / count;
    const float* const q = x.q + i * x.dk;
    const GateSum* const sums = x.sums ? x.sums + bh * x.N : nullptr;
    const auto begin = [&](int c) {
        float sum = 0;
        if (!x.state) return sum;
        for (int e = 0; e < x.dk; ++e) sum = fmaf(q[e], x.state[(bh * x.dk + e) * x.dv + c], sum);
        return sums ? between({0, 0}, sums[token]) * sum : sum;
    };
    const auto weight = [&](int64_t j) {
        return (sums ? between(sums[j], sums[token]) : 1.0f) * dot_of_warp(q, x.k + (bh * x.N + j) * x.dk, x.dk);
    };
    const auto value = [&](int64_t j, int c) { return x.U[(bh * x.N + j) * x.dv + c]; };
    sum_row_again(o, x.dv, 0, token + 1, begin, weight, value);
}

template <class E>
__global__ __launch_bounds__(32 * rows_of_block, 8) void scatter_outputs_kernel(const __grid_constant__ Outputs x, E* o,
                                                                                Strides s, RowRange r) {
    each_row(r, s, [&](int64_t i, int64_t at) {
        if (!store_row(o + at, x.X + i * x.dv, x.dv)) sum_again(o + at, x, i, r.rows, r.row + i % r.rows);
    });
}

unsigned blocks_of(int64_t rows) {
    return static_cast<unsigned>(std::clamp<int64_t>((rows + warps - 1) / warps, 1, 1 << 16));
}

}  // namespace

void sum_gates(const float* g, int64_t batch_heads, int64_t N, GateSum* sums, cudaStream_t stream) {
    sum_gates_kernel<<<static_cast<unsigned>(batch_heads), threads, 0, stream>>>(g, N, sums);
    check_launch("launching sum_gates");
}

void gate_scores(const GateSum* sums, int64_t batch_heads, int64_t N, int64_t row, int64_t rows, int64_t columns,
                 float* S, cudaStream_t stream) {
    gate_scores_kernel<<<blocks_of(batch_heads * rows), threads, 0, stream>>>(sums, N, row, rows, columns,
                                                                              batch_heads * rows, S);
    check_launch("launching gate_scores");
}

void weigh(const GateSum* sums, int64_t N, const Rows& x, Decay decay, float factor, cudaStream_t stream) {
    if (!sums) decay = Decay::none;
    if (decay == Decay::none && factor == 1) return;
    weigh_kernel<<<blocks_of(x.batch_heads * x.rows), threads, 0, stream>>>(sums, N, x, decay, factor);
    check_launch("launching weigh");
}

void scatter_outputs(const Outputs& x, void* o, Type type, Strides s, const RowRange& r, cudaStream_t stream) {
    visit(type, [&](auto zero) {
        using E = decltype(zero);
        scatter_outputs_kernel<<<gpu::blocks_of(r), dim3(32, rows_of_block), 0, stream>>>(x, static_cast<E*>(o), s, r);
    });
    check_launch("launching scatter_outputs");
}

void substitute(const float* M, const float* X, const float* beta, int64_t batch_heads, int64_t N, int64_t row,
                int64_t rows, int dv, float* U, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>(batch_heads * ((dv + columns - 1) / columns));
    substitute_kernel<<<blocks, columns, 0, stream>>>(M, X, beta, N, row, static_cast<int>(rows), dv, U);
    check_launch("launching substitute");
}

}  // namespace causeway::gpu::gated
