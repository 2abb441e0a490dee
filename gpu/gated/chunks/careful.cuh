// gated_sweep once more on FMA units, for heads where a value is not finite: without products with what a row does not
// see (gpu/kit/finite.cuh). The first four warps of the block run it, 8 columns to a warp.
#pragma once

#include "gpu/gated/chunks/sweep.cuh"

namespace causeway::gpu::gated {

template <int DK, int C, Gates gates>
struct CarefulShared {
    static constexpr int per_channel = gates == Gates::channel ? 1 : 0;
    float4 rows[2][C * DK / 4];                                            // a tile of k or q as it is in memory
    float4 log_gates[2][per_channel * C * DK / 4 + 1 - per_channel];       // with a gate per channel, of the keys' tile
    float lower[2][C * (C + 4)];                                           // the inverse or A
    float K[C * DK], Q[C * DK];                                            // k, or e ⊙ k; q, or e ⊙ q
    float U[careful_threads / 32][C * 8], W[careful_threads / 32][C * 8];  // rows of a warp's columns
    float e[per_channel * C * DK + 1 - per_channel],
        weighted_k[per_channel * C * DK + 1 - per_channel];  // with a gate per channel: e, w ⊙ k
};

// A thread's values and βs of a chunk, on their way while the state is read.
template <int C>
struct Values {
    RawQuad v[C / 16];
    float beta[C / 16];

    __device__ __forceinline__ void load(const Call& call, SweepPlace at, int64_t start, int n) {
        const char* V = head_of(call.v, at.b, at.h) + start * call.v.token;
#pragma unroll
        for (int i = 0; i < C / 16; ++i) {
            const int t = i * 16 + at.rg;
            v[i] = t < n ? raw_quad_within(V + t * call.v.token, at.column, call.dv, call.v.quads, call.type)
                         : RawQuad{0, 0, 0, 0};
            beta[i] = call.beta && t < n ? call.beta[at.bh * call.N + start + t] : 0.0f;
        }
    }
};

// x = (e ⊙ X) S + A U for a tile of queries, or T (V - (e ⊙ K) S) for keys, T the inverse: `lower`. W: C rows of 8
// floats of this warp.
template <int DK, int C, Gates gates>
__device__ __forceinline__ void read_state(float4 (&x)[C / 16], const float (&S)[DK / 16][4], const float* X, float* W,
                                           const float* U, const float* lower, const float (&e)[C / 16],
                                           const Values<C>& values, bool keys, SweepPlace at, Type type) {
    constexpr int blocks = C / 16;
#pragma unroll 1
    for (int i = 0; i < blocks; ++i)
        *reinterpret_cast<float4*>(W + at.mine(i)) = times_state<DK>(X + i * 16 * DK, S, at.rg);
#pragma unroll
    for (int i = 0; i < blocks; ++i) {
        x[i] = *reinterpret_cast<const float4*>(W + at.mine(i));
        if constexpr (gates == Gates::head) x[i] = {x[i].x * e[i], x[i].y * e[i], x[i].z * e[i], x[i].w * e[i]};
        if (!keys) continue;
        const float4 f = value(values.v[i], type);
        *reinterpret_cast<float4*>(W + at.mine(i)) = {f.x - x[i].x, f.y - x[i].y, f.z - x[i].z, f.w - x[i].w};
        x[i] = {0, 0, 0, 0};
    }
    __syncwarp();
    add_seen<C>(x, lower, keys ? W : U, at.rg, at.cg);
}

// What the tokens write, U = V or diag(β) Y with Y = x, for the products with it; Y to memory where it is wanted.
template <int C, bool record>
__device__ __forceinline__ void write_values(float* U, float4 (&x)[C / 16], const Values<C>& values, const Part& p,
                                             SweepPlace at, int chunk) {
    const Call& call = p.call;
    const bool delta = call.beta != nullptr, state_quads = call.dv % 4 == 0;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < C / 16; ++i) {
        if (!delta) x[i] = value(values.v[i], call.type);
        if (record && delta && p.Y) {
            const int64_t t = (at.bh * p.chunks + chunk) * C + i * 16 + at.rg;
            set_quad_within(p.Y + t * call.dv, at.column, call.dv, state_quads, Type::Float32, x[i]);
        }
        if (delta) x[i] = times(values.beta[i], x[i]);
        *reinterpret_cast<float4*>(U + at.mine(i)) = x[i];
    }
    __syncwarp();
}

// scale · x to the rows of head `query` of those that share the keys.
template <int C>
__device__ __forceinline__ void write_outputs(const float4 (&x)[C / 16], const Call& call, SweepPlace at, int query,
                                              int64_t start, int n) {
    char* O = head_of(call.o, at.b, at.h * call.group + query) + start * call.o.token;
#pragma unroll
    for (int i = 0; i < C / 16; ++i) {
        const int t = i * 16 + at.rg;
        if (t < n)
            set_quad_within(O + t * call.o.token, at.column, call.dv, call.o.quads, call.type, times(call.scale, x[i]));
    }
}

// S ← e_last ⊙ S + (w ⊙ K)ᵀ U. U is changed where there is a gate per head.
template <int DK, int C, Gates gates>
__device__ __forceinline__ void advance_state(float (&S)[DK / 16][4], CarefulShared<DK, C, gates>& s, float* U,
                                              const float (&w)[C / 16], float last, SweepPlace at) {
    if constexpr (gates == Gates::head) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < C / 16; ++i) {
            float4& u = *reinterpret_cast<float4*>(U + at.mine(i));
            u = {u.x * w[i], u.y * w[i], u.z * w[i], u.w * w[i]};
        }
        __syncwarp();
    }
    decay_state<DK, C, gates>(S, last, s.e, at.rg);
    add_outer<DK, C>(S, gates == Gates::channel ? s.weighted_k : s.K, U, at.rg, at.cg);
}

template <int DK, int C, Gates gates, bool record>
__device__ __noinline__ void walk_carefully(const Part& p) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<CarefulShared<DK, C, gates>*>(shared);
    constexpr int blocks = C / 16, R = DK / 16;
    const Call& call = p.call;
    const SweepPlace at(call);
    const bool delta = call.beta != nullptr, state_quads = call.dv % 4 == 0;
    const int items = record ? 1 : 1 + call.group;
    float *U = s.U[at.warp], *W = s.W[at.warp];

    float S[R][4];
    load_state<DK>(S, p.state_in ? p.state_in + at.bh * p.state_in_step : nullptr, call.dk, call.dv, at.rg, at.column,
                   state_quads);
    const auto start_copies = [&](int chunk, int item, int slot) {
        stage_item<DK, C, gates, careful_threads>(s.rows[slot], s.log_gates[slot], p, at, chunk, item);
        const int matrix = item == 0 ? (delta ? 0 : -1) : p.matrices + item - 1;
        if (matrix >= 0) stage_lower<C, careful_threads>(s.lower[slot], p, at.bh, chunk, matrix);
    };

    float e[blocks], w[blocks], last = 1.0f;
    int slot = 0;
    start_copies(0, 0, 0);
    for (int chunk = 0; chunk < p.chunks; ++chunk) {
        const int n = tokens_of<C>(p, chunk);
        const int64_t start = p.first + int64_t{chunk} * C;
        if (record && p.states) {
            float* to = p.states + (at.bh * p.chunks + chunk) * call.dk * call.dv;
            store_state<DK>(to, S, call.dk, call.dv, at.rg, at.column, state_quads);
        }
        for (int item = 0; item < items; ++item, slot ^= 1) {
            cp_async_wait_all();
            careful_barrier();
            if (item + 1 < items) start_copies(chunk, item + 1, slot ^ 1);
            else if (chunk + 1 < p.chunks) start_copies(chunk + 1, 0, slot ^ 1);
            float* X = item == 0 ? s.K : s.Q;
            convert_item<DK, C, gates, careful_threads, PlainRows<DK>>(X, s.e, s.weighted_k, s.rows[slot],
                                                                       s.log_gates[slot], item == 0, call.type);
            careful_barrier();

            Values<C> values;
            if (item == 0) {
                values.load(call, at, start, n);
                if constexpr (gates == Gates::head) head_gates<C>(e, w, last, p, at.bh, chunk, at.rg);
            }
            float4 x[blocks];
            if (item > 0 || delta)
                read_state<DK, C, gates>(x, S, X, W, U, s.lower[slot], e, values, item == 0, at, call.type);
            if (item == 0) write_values<C, record>(U, x, values, p, at, chunk);
            else write_outputs<C>(x, call, at, item - 1, start, n);
            if (item + 1 == items) advance_state(S, s, U, w, last, at);
        }
    }
    if (p.state_out)
        store_state<DK>(p.state_out + at.bh * p.state_out_step, S, call.dk, call.dv, at.rg, at.column, state_quads);
}

}  // namespace causeway::gpu::gated
