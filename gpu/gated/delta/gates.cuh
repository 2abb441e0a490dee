// Gates: where a split has to start because of them (all warps, before the roles part), and the role of one warp, which
// makes sums and products of each chunk's gates.
#pragma once

#include "gpu/gated/delta/layout.cuh"
#include "gpu/gated/delta/work.cuh"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::gated_delta {

// The last chunk such that the product of all gates from its first token up to chunk `first` is at most 2^-24; 0 if
// there is none. All threads of the block call it; in every round each warp sums the log gates of one chunk. fmaxf
// makes a gate of 0 of a NaN, so the search ends at its chunk; the block walks over that chunk, and make_gates keeps
// the NaN.
__device__ __forceinline__ uint32_t find_start(const float* g, uint32_t first, float* sums, uint32_t warps) {
    const int lane = threadIdx.x % 32;
    uint32_t start = first;
    float left = limits::unseen_weight_bits;
    while (start > 0 && left > 0) {
        const uint32_t i = threadIdx.x / 32 + 1;
        float x = 0;
        if (i <= start) {
            const float* from = g + int64_t{start - i} * chunk + lane;
            x = fmaxf(from[0] * limits::log2_e, -limits::zero_gate_bits) +
                fmaxf(from[32] * limits::log2_e, -limits::zero_gate_bits);
        }
        x = sum_of_warp(x);
        if (lane == 0) sums[i - 1] = x;
        __syncthreads();
        for (uint32_t n = 0; n < warps && start > 0 && left > 0; ++n) left += sums[n], --start;
        __syncthreads();
    }
    return start;
}

// Sums over the tokens up to each, tokens lane and 32 + lane of a chunk.
__device__ __forceinline__ void sum_up(float (&sum)[2], int lane) {
#pragma unroll
    for (int n = 1; n < 32; n *= 2) {
        const float s0 = __shfl_up_sync(0xFFFFFFFF, sum[0], n), s1 = __shfl_up_sync(0xFFFFFFFF, sum[1], n);
        if (lane >= n) sum[0] += s0, sum[1] += s1;
    }
    sum[1] += __shfl_sync(0xFFFFFFFF, sum[0], 31);
}

// A lane has the tokens lane and 32 + lane. The gates of the next chunk are on their way while these are worked on.
template <int R, int D, bool delta, bool lengths, Walks walks>
__device__ __forceinline__ void make_gates(Pipelines<R, D> pipes, const Work& work, Split<walks> split) {
    const int lane = threadIdx.x % 32;
    const float *g = split.g, *beta = delta ? split.beta(work) : nullptr;
    const int64_t tokens = split.tokens(work);
    float x[2], y[2];  // log gates and β, 0 past the end
    const auto fetch = [&](uint32_t c) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int64_t token = int64_t{c} * chunk + 32 * i + lane;
            x[i] = g && token < tokens ? __ldg(g + token) : 0.0f;
            y[i] = delta && token < tokens ? __ldg(beta + token) : 0.0f;
        }
    };
    fetch(split.start);
    for (uint32_t c = split.start; c < split.last; ++c) {
        float sum[2];
        const float now[2] = {y[0], y[1]};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            sum[i] = x[i] * limits::log2_e;
            if (sum[i] < -limits::zero_gate_bits) sum[i] = -limits::zero_gate_bits;  // -Inf too; a NaN stays
        }
        if (c + 1 < split.last) fetch(c + 1);
        sum_up(sum, lane);
        const float all = __shfl_sync(0xFFFFFFFF, sum[1], 31);
        const float sixteenth[2] = {__shfl_sync(0xFFFFFFFF, sum[0], lane | 15),
                                    __shfl_sync(0xFFFFFFFF, sum[1], lane | 15)};
        const uint32_t n = c - split.start, to = pipes.gate.at(n);
        pipes.gate.producer_acquire(n);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int token = 32 * i + lane;
            const float from_start = ptx::ex2_approx(sum[i]);
            ptx::st_shared(to + G_at(token), sum[i]);
            ptx::st_shared(to + from_start_at(token), from_start);
            ptx::st_shared(to + to_end_at(token), ptx::ex2_approx(all - sum[i]));
            ptx::st_shared(to + beta_at(token), now[i]);
            ptx::st_shared(to + to_sixteenth_at(token), ptx::ex2_approx(sixteenth[i] - sum[i]));
            if constexpr (lengths) ptx::st_shared(to + q_from_start_at(token), from_start);
        }
        if (lengths && lane == 31) ptx::st_shared(to + uint32_t{offsetof(DeltaGates, all)}, ptx::ex2_approx(all));
        // Every lane for itself; where the call divides by lengths, the auxiliary warpgroup multiplies by them first.
        ptx::mbarrier_arrive(lengths ? pipes.gates_alone(n) : pipes.gate.full(n));
    }
}

}  // namespace causeway::gpu::gated_delta
