// Rows of the output once more, over the keys that they see alone: what a tile of weights, zeros for masked keys, lets
// through where a value of a later token is not finite (gpu/kit/finite.cuh).
#pragma once

#include "gpu/kit/finite.cuh"
#include "gpu/softmax/block.cuh"

namespace causeway::gpu::softmax {

// A row by a whole warp, for the elements of `o` (the output, or in Float32 that of a split) that are not finite: keys
// [first, last), of which the row sees those below its limit. The weights are computed anew, and not rounded.
template <class E, class O>
__device__ __forceinline__ void make_row_again(const BatchHead<E>& bh, int32_t row, int32_t first, int32_t last, O* o) {
    const Params& c = bh.c;
    if (is_row_finite(o, c.dv)) return;
    const E* const q = bh.q(row);
    const int32_t seen = min(last, bh.limit(row));
    const auto score = [&](int64_t j) { return dot_of_warp(q, bh.k(static_cast<int32_t>(j)), c.d) * c.scale_log2; };
    float max = minus_infinity, sum = 0;
    for (int32_t j = first; j < seen; ++j) {
        const float s = score(j), now = fmaxf(max, s), shift = now == minus_infinity ? 0.0f : now;
        sum = fmaf(sum, exp2f(max - shift), exp2f(s - shift));
        max = now;
        if (!is_finite(sum)) return;  // a score that is no number belongs to the row
    }
    float lse2;
    finish(max, sum, lse2);
    const auto weight = [&](int64_t j) { return exp2f(score(j) - lse2); };
    const auto value = [&](int64_t j, int column) { return static_cast<float>(bh.v(static_cast<int32_t>(j))[column]); };
    sum_row_again(
        o, c.dv, first, seen, [](int) { return 0.0f; }, weight, value);
}

// By all threads of a block of the portable kernels, once its rows are written and seen by all. A function of its own,
// that finds out anew which block it is, so that the kernel keeps its registers.
template <class E, int BM>
__device__ __noinline__ void make_rows_again(const Params& c) {
    const Block<E, BM> block(c);
    const auto [first, last, full] = block.keys();
    each_by_warps(block.row0, min(block.row0 + BM, c.rows), [&](int32_t row) {
        if (c.splits > 1) make_row_again(block.bh, row, first, last, block.partial(row));
        else make_row_again(block.bh, row, first, last, block.bh.o(row));
    });
}

}  // namespace causeway::gpu::softmax
