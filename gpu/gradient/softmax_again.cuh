// Rows of the gradients of softmax attention once more, over the pairs that see each other alone, where a value that is
// not finite came through a tile's masked zeros (gpu/kit/finite.cuh).
#pragma once

#include "gpu/gradient/softmax_rows.cuh"
#include "gpu/kit/finite.cuh"

namespace causeway::gpu::softmax {

// By whole warps.
template <class E>
struct GradientAgain {
    const GradientRows<E>& in;

    static __device__ __forceinline__ float dot(const E* x, const E* y, int n) {
        float sum = 0;
        for (int e = threadIdx.x % 32; e < n; e += 32)
            sum = fmaf(static_cast<float>(x[e]), static_cast<float>(y[e]), sum);
        return sum_of_warp(sum);
    }
    __device__ __forceinline__ float p(int32_t row, int32_t key) const {
        const Params& c = in.c;
        return exp2f(fmaf(dot(in.q(row), in.k(key), c.d), c.scale_log2, -in.g.lse2[in.at(row)]));
    }
    __device__ __forceinline__ float ds(int32_t row, int32_t key) const {
        return p(row, key) * (dot(in.dO(row), in.v(key), in.c.dv) - in.g.D[in.at(row)]) * in.g.scale;
    }
    // to[c] = Σ weight(i) row(i)[c] for first <= i < last, of the columns [column, column + width).
    template <class Weight, class Row>
    static __device__ __forceinline__ void sum(E* to, int column, int width, int32_t first, int32_t last,
                                               Weight&& weight, Row&& row) {
        const auto value = [&](int64_t i, int c) {
            return static_cast<float>(row(static_cast<int32_t>(i))[column + c]);
        };
        sum_row_again(
            to + column, width, first, last, [](int) { return 0.0f; },
            [&](int64_t i) { return weight(static_cast<int32_t>(i)); }, value);
    }
};

// f(i) by a whole warp for i < n, the warps of the block taking turns.
template <class F>
__device__ __forceinline__ void each_row(int32_t n, F&& f) {
    for (int32_t i = static_cast<int32_t>(threadIdx.x) / 32; i < n; i += static_cast<int32_t>(blockDim.x) / 32) f(i);
}

// By all threads of a block, once its rows are written and seen by all. Functions of their own, that find out anew
// which block it is, so that the kernels keep their registers.
template <class Block>
__device__ __noinline__ void make_dq_again(const Gradient& g) {
    const Block block(g);
    const auto& in = block.in;
    const GradientAgain again{in};
    each_row(block.rows, [&](int32_t i) {
        const int32_t row = block.row0 + i;
        again.sum(
            in.dq(row), 0, in.c.d, 0, in.limit(row), [&](int32_t key) { return again.ds(row, key); },
            [&](int32_t key) { return in.k(key); });
    });
}
// Of the keys, those of the columns [column, column + most) that there are.
template <class Block, int most>
__device__ __noinline__ void make_dkv_again(const Gradient& g) {
    const Block block(g);
    const int column = block.part * most;
    const auto& in = block.in;
    const GradientAgain again{in};
    each_row(block.keys, [&](int32_t i) {
        const int32_t key = block.key0 + i, first = in.first_row(key), rows = in.c.rows;
        again.sum(
            in.dk(key), column, min(most, in.c.d - column), first, rows,
            [&](int32_t row) { return again.ds(row, key); }, [&](int32_t row) { return in.q(row); });
        again.sum(
            in.dv(key), column, min(most, in.c.dv - column), first, rows,
            [&](int32_t row) { return again.p(row, key); }, [&](int32_t row) { return in.dO(row); });
    });
}

}  // namespace causeway::gpu::softmax
