// What a token does to a state in the registers of warps, as gpu/gated/fma.cuh lays it out.
#pragma once

#include "gpu/gated/fma.cuh"
#include "gpu/gated/general/arguments.hpp"

namespace causeway::gpu::general {

using namespace gated;

// The lane's channels of a row of q, k, u, w or a, on their way.
template <int DK>
struct Row {
    RawQuad x[DK / 64];

    __device__ __forceinline__ void load(const Input& in, const char* rows, int64_t t, int dk, int rg) {
        const char* row = rows + t * in.rows.token;
#pragma unroll
        for (int m = 0; m < DK / 64; ++m) x[m] = raw_quad_within(row, 64 * m + rg * 4, dk, in.rows.quads, in.type);
    }
    __device__ __forceinline__ void values(float (&to)[DK / 16], Type t) const {
#pragma unroll
        for (int m = 0; m < DK / 64; ++m) {
            const float4 f = value(x[m], t);
            to[4 * m] = f.x, to[4 * m + 1] = f.y, to[4 * m + 2] = f.z, to[4 * m + 3] = f.w;
        }
    }
};

// Where the inputs of a head begin.
struct Heads {
    const char *k, *v, *u, *w, *a, *q;  // q: the first of its queries
};

__device__ __forceinline__ Heads heads_of(const Call& call, int64_t b, int64_t h) {
    const auto rows = [&](const Input& x) { return x.rows.data ? head_of(x, b, h) : nullptr; };
    return {rows(call.k), rows(call.v), rows(call.u), rows(call.w), rows(call.a), head_of(call.q, b, h * call.group)};
}

// What a token brings, the first of its queries with it.
template <int DK, Gates gates, bool erases>
struct Token {
    Row<DK> k, q;
    Row<erases ? DK : 64> u, w;
    Row<gates == Gates::channel ? DK : 64> a;
    RawQuad v;
    uint32_t one;

    __device__ __forceinline__ void load(const Call& call, const Heads& heads, int64_t t, int rg, int column) {
        if constexpr (erases) w.load(call.w, heads.w, t, call.dk, rg), u.load(call.u, heads.u, t, call.dk, rg);
        if constexpr (gates == Gates::channel) a.load(call.a, heads.a, t, call.dk, rg);
        if constexpr (gates == Gates::head) one = raw_element(heads.a + t * call.a.rows.token, 0, call.a.type);
        k.load(call.k, heads.k, t, call.dk, rg);
        v = raw_quad_within(heads.v + t * call.v.rows.token, column, call.dv, call.v.rows.quads, call.v.type);
        q.load(call.q, heads.q, t, call.dk, rg);
    }
};

// xᵀ S over the lane's rows and then over the lanes.
template <int DK>
__device__ __forceinline__ float4 read_state(const float (&x)[DK / 16], const float (&S)[DK / 16][4]) {
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < DK / 16; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[c] = fmaf(x[i], S[i][c], sum[c]);
    }
    return {sum16(sum[0]), sum16(sum[1]), sum16(sum[2]), sum16(sum[3])};
}

// S += x yᵀ.
template <int DK>
__device__ __forceinline__ void add_to_state(float (&S)[DK / 16][4], const float (&x)[DK / 16], float4 y) {
#pragma unroll
    for (int i = 0; i < DK / 16; ++i) {
        S[i][0] = fmaf(x[i], y.x, S[i][0]), S[i][1] = fmaf(x[i], y.y, S[i][1]);
        S[i][2] = fmaf(x[i], y.z, S[i][2]), S[i][3] = fmaf(x[i], y.w, S[i][3]);
    }
}

// S ← diag(a) S - u (Sᵀw)ᵀ + k vᵀ.
template <int DK, Gates gates, bool erases>
__device__ __forceinline__ void advance(float (&S)[DK / 16][4], const Token<DK, gates, erases>& now, const Call& call) {
    constexpr int R = DK / 16;
    float x[R];
    float4 y = {0, 0, 0, 0};
    if constexpr (erases) {
        now.w.values(x, call.w.type);
        y = times(-1.0f, read_state<DK>(x, S));
    }
    if constexpr (gates == Gates::channel) now.a.values(x, call.a.type);
    const float one = gates == Gates::head ? value(now.one, call.a.type) : 1.0f;
#pragma unroll
    for (int i = 0; i < R && gates != Gates::none; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) S[i][c] *= gates == Gates::channel ? x[i] : one;
    }
    if constexpr (erases) {
        now.u.values(x, call.u.type);
        add_to_state<DK>(S, x, y);
    }
    now.k.values(x, call.k.type);
    add_to_state<DK>(S, x, value(now.v, call.v.type));
}

// f<rows of a state, gates, erases>() of a call: these as constants.
template <class F>
void with_kinds(const Call& call, F&& f) {
    const auto with_gates = [&]<int DK, bool erases>() {
        if (call.gates == 0) f.template operator()<DK, Gates::none, erases>();
        else if (call.gates == 1) f.template operator()<DK, Gates::head, erases>();
        else f.template operator()<DK, Gates::channel, erases>();
    };
    const auto with_rows = [&]<int DK>() {
        if (call.u.rows.data) with_gates.template operator()<DK, true>();
        else with_gates.template operator()<DK, false>();
    };
    if (call.dk <= 64) with_rows.template operator()<64>();
    else if (call.dk <= 128) with_rows.template operator()<128>();
    else with_rows.template operator()<256>();
}

}  // namespace causeway::gpu::general
