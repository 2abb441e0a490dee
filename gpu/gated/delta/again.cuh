// The walk of a state warpgroup once more, token for token, where a value that is not finite has come by
// (gpu/kit/finite.cuh): such a value of k, v or β reaches earlier tokens of its chunk through the zeros of T and P.
//
// It stays in the state for good, so a finite last state tells that there was none, and the question costs nothing.
#pragma once

#include "gpu/gated/delta/work.cuh"
#include "gpu/kit/finite.cuh"
#include "gpu/kit/limits.hpp"

namespace causeway::gpu::gated_delta {

template <class E>
__device__ __forceinline__ E* row_of(const void* x, const Strides& s, uint32_t b, uint32_t h, int64_t token) {
    return static_cast<E*>(const_cast<void*>(x)) + b * s.batch + h * s.head + token * s.token;
}

// 1/√(Σ x² + ε) of a row, half of which this thread has, from first_row on; 1 where the call does not divide by
// lengths.
template <bool lengths, int rows, class E>
__device__ __forceinline__ float factor_of(const E* x, int first_row, const Work& work) {
    if constexpr (!lengths) return 1;
    float sum = 0;
#pragma unroll
    for (int e = 0; e < rows; ++e)
        if (first_row + e < work.dk) sum = fmaf(static_cast<float>(x[e]), static_cast<float>(x[e]), sum);
    sum += __shfl_xor_sync(all_lanes, sum, 1);
    return rsqrtf(sum + work.length_eps);
}

// S ← a S, u = β (v - kᵀ S) or v, S ← S + k uᵀ, o = scale · qᵀ S for every token of the walk, in the order of the
// definition. Written are the elements of o that are not finite; the others are in memory already; and the last state,
// where it is wanted. Two threads have a column of the state, half of its rows each.
template <class E, int R, int D, bool delta, bool packed, bool lengths>
__device__ __noinline__ void walk_again(const Work& work, Split<walks_of<packed, D>> split, uint32_t warpgroup) {
    constexpr int rows = R / 2;
    const int thread = threadIdx.x % 128, first_row = thread % 2 * rows,
              column = static_cast<int>(split.column_block) * D + 64 * static_cast<int>(warpgroup) + thread / 2;
    const bool real = column < work.dv;
    const float* const from = split.from(work);
    float S[rows];
#pragma unroll
    for (int e = 0; e < rows; ++e) {
        const bool given = from && real && first_row + e < work.dk;
        S[e] = given ? from[(int64_t{first_row} + e) * work.dv + column] : 0.0f;
    }
    const int64_t before = split.first_token(work), first = int64_t{split.first} * chunk,
                  last = min(int64_t{split.last} * chunk, split.tokens(work));
    const float* const beta = split.beta(work);
#pragma unroll 1
    for (int64_t t = int64_t{split.start} * chunk; t < last; ++t) {
        const E* const k = row_of<E>(work.k, work.k_stride, split.b, split.kv_h, before + t) + first_row;
        const float a = split.g ? exp2f(fmaxf(split.g[t] * limits::log2_e, -limits::zero_gate_bits)) : 1.0f;
        float written =
            real ? static_cast<float>(row_of<E>(work.v, work.v_stride, split.b, split.kv_h, before + t)[column]) : 0.0f;
        const float factor = factor_of<lengths, rows>(k, first_row, work);
        float seen = 0;
#pragma unroll
        for (int e = 0; e < rows; ++e) {
            S[e] *= a;
            if (delta && first_row + e < work.dk) seen = fmaf(static_cast<float>(k[e]), S[e], seen);
        }
        if constexpr (delta) {
            seen += __shfl_xor_sync(all_lanes, seen, 1);
            written = beta[t] * (written - factor * seen);
        }
        written *= factor;
#pragma unroll
        for (int e = 0; e < rows; ++e)
            if (first_row + e < work.dk) S[e] = fmaf(static_cast<float>(k[e]), written, S[e]);
        if (t < first) continue;
        const E* const q = row_of<E>(work.q, work.q_stride, split.b, split.h, before + t) + first_row;
        float sum = 0;
#pragma unroll
        for (int e = 0; e < rows; ++e)
            if (first_row + e < work.dk) sum = fmaf(static_cast<float>(q[e]), S[e], sum);
        sum += __shfl_xor_sync(all_lanes, sum, 1);
        sum *= factor_of<lengths, rows>(q, first_row, work);
        if (!real || thread % 2 == 1) continue;
        E& o = row_of<E>(work.o, work.o_stride, split.b, split.h, before + t)[column];
        if (!is_finite(static_cast<float>(o))) o = static_cast<E>(work.scale * sum);
    }
    float* const to = split.to(work);
    if (!to || !real) return;
#pragma unroll
    for (int e = 0; e < rows; ++e)
        if (first_row + e < work.dk) to[(int64_t{first_row} + e) * work.dv + column] = S[e];
}

}  // namespace causeway::gpu::gated_delta
