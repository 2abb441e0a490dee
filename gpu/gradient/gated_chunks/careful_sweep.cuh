// gated_backward_sweep once more on FMA units, for heads where a value is not finite: without products with what a row
// does not see (gpu/kit/finite.cuh). The first four warps of the block run it, 8 columns to a warp.
#pragma once

#include "gpu/gated/chunks/sweep.cuh"
#include "gpu/gradient/gated_chunks.hpp"

namespace causeway::gpu::gradient {

using namespace gated;

template <int DK, int C, Gates gates>
struct CarefulBackwardShared {
    static constexpr int per_channel = gates == Gates::channel ? 1 : 0;
    float4 rows[2][C * DK / 4];                                       // tiles of k or q as they are in memory
    float4 log_gates[2][per_channel * C * DK / 4 + 1 - per_channel];  // with a gate per channel, of the keys' tile
    float A[2][C * (C + 4)], inverse[2][C * (C + 4)];  // by copy slot; by chunk % 2: (I + diag(β) M)⁻¹
    float K[C * DK], Q[C * DK];                        // k, or e ⊙ k; q, or e ⊙ q
    float scratch[careful_threads / 32][C * 8];        // rows that the lanes of a warp exchange
    float e[per_channel * C * DK + 1 - per_channel], weighted_k[per_channel * C * DK + 1 - per_channel];  // e, w ⊙ k
};

// dU = (w ⊙ K) E, E the gradient of the state after the chunk; then E ← e_last ⊙ E. scratch: C rows of 8 floats of this
// warp.
template <int DK, int C, Gates gates>
__device__ __forceinline__ void meet_keys(float4 (&dU)[C / 16], float (&E)[DK / 16][4],
                                          CarefulBackwardShared<DK, C, gates>& s, float* scratch,
                                          const float (&w)[C / 16], float last, SweepPlace at) {
#pragma unroll 1
    for (int i = 0; i < C / 16; ++i) {
        *reinterpret_cast<float4*>(scratch + at.mine(i)) =
            times_state<DK>((gates == Gates::channel ? s.weighted_k : s.K) + i * 16 * DK, E, at.rg);
    }
#pragma unroll
    for (int i = 0; i < C / 16; ++i) dU[i] = times(w[i], *reinterpret_cast<const float4*>(scratch + at.mine(i)));
    __syncwarp();
    decay_state<DK, C, gates>(E, last, s.e, at.rg);
}

// D = scale · dO of one head of queries: dU += Aᵀ D, E += (e ⊙ Q)ᵀ D. scratch: C rows of 8 floats of this warp.
template <int DK, int C, Gates gates>
__device__ __forceinline__ void meet_outputs(float4 (&dU)[C / 16], float (&E)[DK / 16][4], const float4 (&D)[C / 16],
                                             const float* A, const float* Q, float* scratch, const float (&e)[C / 16],
                                             SweepPlace at) {
#pragma unroll
    for (int i = 0; i < C / 16; ++i) *reinterpret_cast<float4*>(scratch + at.mine(i)) = D[i];
    __syncwarp();
    add_seen<C, true>(dU, A, scratch, at.rg, at.cg);
    __syncwarp();
    if constexpr (gates == Gates::head) {
#pragma unroll
        for (int i = 0; i < C / 16; ++i) *reinterpret_cast<float4*>(scratch + at.mine(i)) = times(e[i], D[i]);
        __syncwarp();
    }
    add_outer<DK, C>(E, Q, scratch, at.rg, at.cg);
    __syncwarp();
}

// dV = dU, or with the delta rule dY = (I + diag(β) M)⁻ᵀ dU, dV = diag(β) dY, both to memory, and E -= (e ⊙ K)ᵀ dV.
template <int DK, int C>
__device__ __forceinline__ void write_values(float4 (&dU)[C / 16], float (&E)[DK / 16][4], const BackwardPart& x,
                                             const float* inverse, const float* K, float* scratch,
                                             const float (&e)[C / 16], SweepPlace at, int chunk, int64_t start, int n) {
    const Call& call = x.part.call;
    const bool delta = call.beta != nullptr, state_quads = call.dv % 4 == 0;
    float4 dV[C / 16];
    if (delta) {
#pragma unroll
        for (int i = 0; i < C / 16; ++i) {
            *reinterpret_cast<float4*>(scratch + at.mine(i)) = dU[i];
            dU[i] = {0, 0, 0, 0};
        }
        __syncwarp();
        add_seen<C, true>(dU, inverse, scratch, at.rg, at.cg);
        __syncwarp();
    }
#pragma unroll
    for (int i = 0; i < C / 16; ++i) {
        const int t = i * 16 + at.rg;
        if (delta) {
            set_quad_within(x.dY + ((at.bh * x.part.chunks + chunk) * C + t) * call.dv, at.column, call.dv, state_quads,
                            Type::Float32, dU[i]);
            dV[i] = times(t < n ? call.beta[at.bh * call.N + start + t] : 0.0f, dU[i]);
            *reinterpret_cast<float4*>(scratch + at.mine(i)) = times(-e[i], dV[i]);
        } else {
            dV[i] = dU[i];
        }
        char* to = head_of(x.dv, at.b, at.h) + (start + t) * x.dv.token;
        if (t < n) set_quad_within(to, at.column, call.dv, x.dv.quads, call.type, dV[i]);
    }
    if (delta) {
        __syncwarp();
        add_outer<DK, C>(E, K, scratch, at.rg, at.cg);
        __syncwarp();
    }
}

template <int DK, int C, Gates gates>
__device__ __noinline__ void walk_back_carefully(const BackwardPart& x) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<CarefulBackwardShared<DK, C, gates>*>(shared);
    constexpr int blocks = C / 16, R = DK / 16;
    const Part& p = x.part;
    const Call& call = p.call;
    const SweepPlace at(call);
    const bool delta = call.beta != nullptr, state_quads = call.dv % 4 == 0;
    const int items = 1 + call.group;
    float* scratch = s.scratch[at.warp];

    float E[R][4];
    load_state<DK>(E, x.dstate_in ? x.dstate_in + at.bh * call.dk * call.dv : nullptr, call.dk, call.dv, at.rg,
                   at.column, state_quads);
    const auto start_copies = [&](int chunk, int item, int slot) {
        stage_item<DK, C, gates, careful_threads>(s.rows[slot], s.log_gates[slot], p, at, chunk, item);
        if (item > 0) stage_lower<C, careful_threads>(s.A[slot], p, at.bh, chunk, p.matrices + item - 1);
        else if (delta) stage_lower<C, careful_threads>(s.inverse[chunk % 2], p, at.bh, chunk, 1);
    };

    int slot = 0;
    start_copies(p.chunks - 1, 0, 0);
    for (int chunk = p.chunks - 1; chunk >= 0; --chunk) {
        const int n = tokens_of<C>(p, chunk);
        const int64_t start = p.first + int64_t{chunk} * C;
        store_state<DK>(x.after + (at.bh * p.chunks + chunk) * call.dk * call.dv, E, call.dk, call.dv, at.rg, at.column,
                        state_quads);
        float4 dU[blocks];
        float e[blocks], last = 1.0f;
        for (int item = 0; item < items; ++item, slot ^= 1) {
            cp_async_wait_all();
            careful_barrier();
            if (item + 1 < items) start_copies(chunk, item + 1, slot ^ 1);
            else if (chunk > 0) start_copies(chunk - 1, 0, slot ^ 1);

            RawQuad arriving[blocks];
            if (item > 0) {
                const char* dO = head_of(x.dO, at.b, at.h * call.group + item - 1) + start * x.dO.token;
#pragma unroll
                for (int i = 0; i < blocks; ++i) {
                    const int t = i * 16 + at.rg;
                    arriving[i] = t < n
                                      ? raw_quad_within(dO + t * x.dO.token, at.column, call.dv, x.dO.quads, call.type)
                                      : RawQuad{0, 0, 0, 0};
                }
            }
            float* tile = item == 0 ? s.K : s.Q;
            convert_item<DK, C, gates, careful_threads, PlainRows<DK>>(tile, s.e, s.weighted_k, s.rows[slot],
                                                                       s.log_gates[slot], item == 0, call.type);
            careful_barrier();

            if (item == 0) {
                float w[blocks];
#pragma unroll
                for (int i = 0; i < blocks; ++i) e[i] = w[i] = 1.0f;
                if constexpr (gates == Gates::head) head_gates<C>(e, w, last, p, at.bh, chunk, at.rg);
                meet_keys(dU, E, s, scratch, w, last, at);
                continue;
            }
            float4 D[blocks];
#pragma unroll
            for (int i = 0; i < blocks; ++i) D[i] = times(call.scale, value(arriving[i], call.type));
            meet_outputs<DK, C, gates>(dU, E, D, s.A[slot], s.Q, scratch, e, at);
            if (item + 1 == items)
                write_values<DK, C>(dU, E, x, s.inverse[chunk % 2], s.K, scratch, e, at, chunk, start, n);
        }
    }
    if (x.dstate_out)
        store_state<DK>(x.dstate_out + at.bh * call.dk * call.dv, E, call.dk, call.dv, at.rg, at.column, state_quads);
}

}  // namespace causeway::gpu::gradient
