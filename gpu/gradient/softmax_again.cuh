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

    __device__ __forceinline__ float p(int32_t row, int32_t key) const {
        const Params& c = in.c;
        return exp2f(fmaf(dot_of_warp(in.q(row), in.k(key), c.d), c.scale_log2, -in.g.lse2[in.at(row)]));
    }
    __device__ __forceinline__ float ds(int32_t row, int32_t key) const {
        return p(row, key) * (dot_of_warp(in.dO(row), in.v(key), in.c.dv) - in.g.D[in.at(row)]) * in.g.scale;
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

// What is not finite of the gradients of a query, or of a key's columns [column, column + most) that there are: by a
// whole warp.
template <class E>
__device__ __forceinline__ void make_query_again(const GradientRows<E>& in, int32_t row) {
    const GradientAgain<E> again{in};
    again.sum(
        in.dq(row), 0, in.c.d, 0, in.limit(row), [&](int32_t key) { return again.ds(row, key); },
        [&](int32_t key) { return in.k(key); });
}
template <class E>
__device__ __forceinline__ void make_key_again(const GradientRows<E>& in, int32_t key, int column, int most) {
    const GradientAgain<E> again{in};
    const int32_t first = in.first_row(key), rows = in.c.rows;
    again.sum(
        in.dk(key), column, min(most, in.c.d - column), first, rows, [&](int32_t row) { return again.ds(row, key); },
        [&](int32_t row) { return in.q(row); });
    again.sum(
        in.dv(key), column, min(most, in.c.dv - column), first, rows, [&](int32_t row) { return again.p(row, key); },
        [&](int32_t row) { return in.dO(row); });
}

// By all threads of a block, once its rows are written and seen by all. Functions of their own, that find out anew
// which block it is, so that the kernels keep their registers.
template <class Block>
__device__ __noinline__ void make_dq_again(const Gradient& g) {
    const Block block(g);
    each_by_warps(block.row0, block.row0 + block.rows, [&](int32_t row) { make_query_again(block.in, row); });
}
template <class Block, int most>
__device__ __noinline__ void make_dkv_again(const Gradient& g) {
    const Block block(g);
    each_by_warps(block.key0, block.key0 + block.keys,
                  [&](int32_t key) { make_key_again(block.in, key, block.part * most, most); });
}

}  // namespace causeway::gpu::softmax
