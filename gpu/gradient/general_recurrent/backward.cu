// From the last token to the first: what arrives at the state, in registers, and the gradients of every token.
#include "gpu/gated/general/token.cuh"
#include "gpu/gradient/general_recurrent/part.hpp"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::general {

namespace {

constexpr int warps = grad_threads / 32;

template <int DK>
struct BackwardShared {
    static constexpr int kept = DK == 256 ? 4 : 8;  // tokens_kept()
    float4 before[kept][DK / 16][grad_threads];     // S_{t-1}, of each thread its own part
    float sums[2][warps][DK];                       // rows of a product, of the columns of each warp
};

// The lane's rows of X y: over its four columns, y of these.
template <int DK>
__device__ __forceinline__ void over_columns(float (&sum)[DK / 16], const float (&X)[DK / 16][4], float4 y) {
#pragma unroll
    for (int i = 0; i < DK / 16; ++i)
        sum[i] = fmaf(X[i][0], y.x, fmaf(X[i][1], y.y, fmaf(X[i][2], y.z, X[i][3] * y.w)));
}

// Adds the rows of all warps up and writes them to `to` [dk]; slot: changes with every call.
template <int DK>
__device__ __forceinline__ void write_rows(BackwardShared<DK>& s, int& slot, float (&x)[DK / 16], float* to, int dk) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rg = lane % 16;
#pragma unroll
    for (int i = 0; i < DK / 16; ++i) x[i] += __shfl_xor_sync(0xFFFFFFFFu, x[i], 16);
    if (lane < 16) {
#pragma unroll
        for (int m = 0; m < DK / 64; ++m)
            *reinterpret_cast<float4*>(s.sums[slot][warp] + rg * 4 + 64 * m) = {x[4 * m], x[4 * m + 1], x[4 * m + 2],
                                                                                x[4 * m + 3]};
    }
    __syncthreads();
    for (int c = threadIdx.x; c < dk; c += grad_threads) {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < warps; ++w) sum += s.sums[slot][w][c];
        to[c] = sum;
    }
    slot ^= 1;
}

// One block: 32 columns of the state of one head.
template <int DK, Gates gates, bool erases>
__global__ __launch_bounds__(grad_threads) void general_backward(const __grid_constant__ Backward p, int vectors) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<BackwardShared<DK>*>(shared);
    constexpr int R = DK / 16, kept = BackwardShared<DK>::kept;
    const Call& call = p.call;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rg = lane % 16, cg = lane / 16;
    const int wide = (call.dv + grad_columns - 1) / grad_columns, own = static_cast<int>(blockIdx.x % wide);
    const int64_t bh = blockIdx.x / wide, b = bh / call.heads, h = bh % call.heads,
                  elements = int64_t{call.dk} * call.dv;
    const int column = own * grad_columns + warp * 8 + cg * 4;
    const bool quads = call.dv % 4 == 0;
    const Heads heads = heads_of(call, b, h);
    float* const sums = p.sums + (own * call.all_heads + bh) * p.tokens * vectors * call.dk;
    int slot = 0;

    float G[R][4];
    load_state<DK>(G, p.dstate + bh * elements, call.dk, call.dv, rg, column, quads);
    for (int64_t group = (p.tokens - 1) / kept; group >= 0; --group) {
        const int64_t first = p.first + group * kept;
        const int n = static_cast<int>(min(p.tokens - group * kept, int64_t{kept}));
        float S[R][4];
        load_state<DK>(S, p.states + (group * call.all_heads + bh) * elements, call.dk, call.dv, rg, column, quads);
        for (int i = 0; i < n; ++i) {
            Token<DK, gates, erases> token;
            token.load(call, heads, first + i, rg, column);
#pragma unroll
            for (int r = 0; r < R; ++r) s.before[i][r][threadIdx.x] = {S[r][0], S[r][1], S[r][2], S[r][3]};
            advance(S, token, call);
        }
        for (int i = n - 1; i >= 0; --i) {
            const int64_t t = first + i;
            Token<DK, gates, erases> token;
            token.load(call, heads, t, rg, column);
            float* to = sums + (group * kept + i) * vectors * call.dk;
            float x[R], row[R];
            for (int query = 0; query < call.group; ++query, to += call.dk) {
                const char* dO = head_of(p.dO, b, h * call.group + query) + t * p.dO.rows.token;
                const float4 arrives = times(call.scale, quad_within(dO, column, call.dv, p.dO.rows.quads, p.dO.type));
                over_columns<DK>(row, S, arrives);
                Row<DK> q;
                q.load(call.q, head_of(call.q, b, h * call.group + query), t, call.dk, rg);
                q.values(x, call.q.type);
                add_to_state<DK>(G, x, arrives);
                write_rows(s, slot, row, to, call.dk);
            }
            over_columns<DK>(row, G, value(token.v, call.v.type));
            write_rows(s, slot, row, to, call.dk);
            to += call.dk;
            token.k.values(x, call.k.type);
            const float4 of_v = read_state<DK>(x, G);
            if (rg == 0)
                set_quad_within(p.dv + (bh * p.rows + t) * call.dv, column, call.dv, quads, Type::Float32, of_v);
#pragma unroll
            for (int r = 0; r < R; ++r) {
                const float4 f = s.before[i][r][threadIdx.x];
                S[r][0] = f.x, S[r][1] = f.y, S[r][2] = f.z, S[r][3] = f.w;
            }
            float4 of_y = {0, 0, 0, 0};
            if constexpr (erases) {
                token.u.values(x, call.u.type);
                of_y = times(-1.0f, read_state<DK>(x, G));
                over_columns<DK>(row, S, of_y);
                write_rows(s, slot, row, to, call.dk);
                to += call.dk;
                token.w.values(x, call.w.type);
                over_columns<DK>(row, G, times(-1.0f, read_state<DK>(x, S)));
                write_rows(s, slot, row, to, call.dk);
                to += call.dk;
            }
            if constexpr (gates != Gates::none) {
#pragma unroll
                for (int r = 0; r < R; ++r)
                    row[r] = fmaf(G[r][0], S[r][0], fmaf(G[r][1], S[r][1], fmaf(G[r][2], S[r][2], G[r][3] * S[r][3])));
                write_rows(s, slot, row, to, call.dk);
                float a[R];
                if constexpr (gates == Gates::channel) token.a.values(a, call.a.type);
                const float one = gates == Gates::head ? value(token.one, call.a.type) : 1.0f;
#pragma unroll
                for (int r = 0; r < R; ++r) {
#pragma unroll
                    for (int c = 0; c < 4; ++c) G[r][c] *= gates == Gates::channel ? a[r] : one;
                }
            }
            if constexpr (erases) add_to_state<DK>(G, x, of_y);
        }
    }
    store_state<DK>(p.dstate + bh * elements, G, call.dk, call.dv, rg, column, quads);
}

}  // namespace

void launch_backward(const Backward& p, cudaStream_t stream) {
    with_kinds(p.call, [&]<int DK, Gates gates, bool erases>() {
        launch(general_backward<DK, gates, erases>, "launching general_backward",
               dim3(static_cast<unsigned>(p.call.all_heads * p.wide())), grad_threads, sizeof(BackwardShared<DK>), 1,
               false, stream, p, p.vectors());
    });
}

}  // namespace causeway::gpu::general
