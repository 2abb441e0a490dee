#include "gpu/gated/recurrent.hpp"

#include "gpu/gated/fma.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu {

namespace gated {
namespace {

constexpr int recurrent_threads = 128, recurrent_columns = 32;

// The lane's channels of a row of k, q or g.
template <int DK>
__device__ __forceinline__ void load_row(RawQuad (&x)[DK / 64], const void* row, int dk, int rg, bool quads, Type t) {
#pragma unroll
    for (int m = 0; m < DK / 64; ++m) x[m] = raw_quad_within(row, 64 * m + rg * 4, dk, quads, t);
}
template <int DK>
__device__ __forceinline__ void values(float (&to)[DK / 16], const RawQuad (&x)[DK / 64], Type t) {
#pragma unroll
    for (int m = 0; m < DK / 64; ++m) {
        const float4 f = value(x[m], t);
        to[4 * m] = f.x, to[4 * m + 1] = f.y, to[4 * m + 2] = f.z, to[4 * m + 3] = f.w;
    }
}

// What a token brings, the first of its queries with it.
template <int DK, Gates gates>
struct Token {
    RawQuad k[DK / 64], q[DK / 64], v, channel[gates == Gates::channel ? DK / 64 : 1];
    float gate, beta;

    __device__ __forceinline__ void load(const Call& call, const char* K, const char* Q, const char* V, const float* g,
                                         const float* betas, int64_t t, int rg, int column, bool g_quads) {
        load_row<DK>(k, K + t * call.k.token, call.dk, rg, call.k.quads, call.type);
        load_row<DK>(q, Q + t * call.q.token, call.dk, rg, call.q.quads, call.type);
        v = raw_quad_within(V + t * call.v.token, column, call.dv, call.v.quads, call.type);
        if constexpr (gates == Gates::channel)
            load_row<DK>(channel, g + t * call.gates, call.dk, rg, g_quads, Type::Float32);
        gate = gates == Gates::head ? g[t] : 0.0f;
        beta = betas ? betas[t] : 1.0f;
    }
};

// xᵀ S over the lane's rows and then over the lanes.
template <int DK>
__device__ __forceinline__ float4 row_times_state(const float (&x)[DK / 16], const float (&S)[DK / 16][4]) {
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < DK / 16; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[c] = fmaf(x[i], S[i][c], sum[c]);
    }
    return {sum16(sum[0]), sum16(sum[1]), sum16(sum[2]), sum16(sum[3])};
}

template <int DK, Gates gates>
__global__ __launch_bounds__(recurrent_threads) void gated_recurrence(const __grid_constant__ Call call) {
    constexpr int R = DK / 16;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rg = lane % 16, cg = lane / 16;
    const int wide = (call.dv + recurrent_columns - 1) / recurrent_columns;
    const int64_t bh = blockIdx.x / wide, b = bh / call.heads, h = bh % call.heads;
    const int column = static_cast<int>(blockIdx.x % wide) * recurrent_columns + warp * 8 + cg * 4;
    const bool state_quads = call.dv % 4 == 0,
               g_quads = call.dk % 4 == 0 && reinterpret_cast<uintptr_t>(call.g) % 16 == 0;
    const char *K = head_of(call.k, b, h), *V = head_of(call.v, b, h);
    const float* g = call.g ? call.g + bh * call.N * call.gates : nullptr;
    const float* betas = call.beta ? call.beta + bh * call.N : nullptr;
    float* state = call.state ? call.state + bh * call.dk * call.dv : nullptr;

    float S[R][4];
    load_state<DK>(S, state, call.dk, call.dv, rg, column, state_quads);
    const char* Q = head_of(call.q, b, h * call.group);
    Token<DK, gates> next;
    next.load(call, K, Q, V, g, betas, 0, rg, column, g_quads);
    for (int64_t t = 0; t < call.N; ++t) {
        const Token<DK, gates> now = next;
        if (t + 1 < call.N) next.load(call, K, Q, V, g, betas, t + 1, rg, column, g_quads);
        float k[R];
        values<DK>(k, now.k, call.type);
        if constexpr (gates != Gates::none) {
            float a[R];
            if constexpr (gates == Gates::channel) values<DK>(a, now.channel, Type::Float32);
            const float one = expf(now.gate);
#pragma unroll
            for (int i = 0; i < R; ++i) {
                const float f = gates == Gates::channel ? expf(a[i]) : one;
#pragma unroll
                for (int c = 0; c < 4; ++c) S[i][c] *= f;
            }
        }
        float4 u = value(now.v, call.type);
        if (betas) {
            const float4 x = row_times_state<DK>(k, S);
            u = {now.beta * (u.x - x.x), now.beta * (u.y - x.y), now.beta * (u.z - x.z), now.beta * (u.w - x.w)};
        }
#pragma unroll
        for (int i = 0; i < R; ++i) {
            S[i][0] = fmaf(k[i], u.x, S[i][0]), S[i][1] = fmaf(k[i], u.y, S[i][1]);
            S[i][2] = fmaf(k[i], u.z, S[i][2]), S[i][3] = fmaf(k[i], u.w, S[i][3]);
        }
        for (int query = 0; query < call.group; ++query) {
            RawQuad raw[DK / 64] = {};
            if (query > 0)
                load_row<DK>(raw, head_of(call.q, b, h * call.group + query) + t * call.q.token, call.dk, rg,
                             call.q.quads, call.type);
#pragma unroll
            for (int m = 0; m < DK / 64; ++m) raw[m] = query > 0 ? raw[m] : now.q[m];
            float q[R];
            values<DK>(q, raw, call.type);
            const float4 o = row_times_state<DK>(q, S);
            char* O = head_of(call.o, b, h * call.group + query) + t * call.o.token;
            if (rg == 0)
                set_quad_within(O, column, call.dv, call.o.quads, call.type,
                                {call.scale * o.x, call.scale * o.y, call.scale * o.z, call.scale * o.w});
        }
    }
    if (state) store_state<DK>(state, S, call.dk, call.dv, rg, column, state_quads);
}

template <int DK>
void recurrence(const Call& call, Gates gates, cudaStream_t stream) {
    const int64_t wide = (call.dv + recurrent_columns - 1) / recurrent_columns;
    const dim3 grid(static_cast<unsigned>(call.all_heads * wide));
    const auto run = [&](auto kernel) {
        launch(kernel, "launching gated_recurrence", grid, recurrent_threads, 0, 1, false, stream, call);
    };
    if (gates == Gates::none) run(gated_recurrence<DK, Gates::none>);
    else if (gates == Gates::head) run(gated_recurrence<DK, Gates::head>);
    else run(gated_recurrence<DK, Gates::channel>);
}

}  // namespace
}  // namespace gated

std::size_t gated_recurrent_workspace(const GatedArgs& a) {
    gated::check(a, "gated_recurrent");
    return 0;
}

void gated_recurrent(const GatedArgs& a, cudaStream_t stream) {
    gated::check(a, "gated_recurrent");
    if (a.B * a.H * a.N == 0) return;
    const gated::Call call = gated::call_of(a);
    const gated::Gates gates = gated::gates_of(a);
    if (a.dk <= 64) gated::recurrence<64>(call, gates, stream);
    else if (a.dk <= 128) gated::recurrence<128>(call, gates, stream);
    else gated::recurrence<256>(call, gates, stream);
}

}  // namespace causeway::gpu
