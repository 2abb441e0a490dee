#include "gpu/gated/chunks.hpp"

#include "gpu/gated/fma.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gated {

namespace {

constexpr int score_threads = 256, sweep_threads = 128, sweep_columns = 32;

// ---- What needs no state ----

template <int DK, int C>
struct ScoreShared {
    float K[C * DK], X[C * DK], decay[C * DK];
    float L[C * (C + 4)];
    float a[C], beta[C];
};

// One block: one chunk of one head. Two columns j of the scores to a warp, 16 lanes each, which go down the rows t >=
// j: lane rg has Λ_tj ⊙ k_j at its DK/16 channels, one gate multiplied on at each row.
template <int DK, int C>
__global__ __launch_bounds__(score_threads, 3) void gated_scores(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<ScoreShared<DK, C>*>(shared);
    constexpr int R = DK / 16, warps = score_threads / 32;
    const Call& call = p.call;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rg = lane % 16;
    const int64_t head = blockIdx.x / p.chunks, chunk = blockIdx.x % p.chunks, b = head / call.heads,
                  h = head % call.heads;
    const int64_t start = p.first + chunk * C;
    const int n = static_cast<int>(min(p.first + p.tokens - start, int64_t{C}));
    float* out = p.scores + (head * p.chunks + chunk) * p.floats;
    const bool per_channel = call.gates > 1, per_head = call.gates == 1;

    const auto load = [&](float* to, const Operand& x, int64_t index) {
        const char* from = head_of(x, b, index) + start * x.token;
        move<C * DK / 4, score_threads>(
            [&](int i) {
                const int t = i / (DK / 4), c = i % (DK / 4) * 4;
                return t < n ? raw_quad_within(from + t * x.token, c, call.dk, x.quads, call.type)
                             : RawQuad{0, 0, 0, 0};
            },
            [&](int i, RawQuad raw) { *reinterpret_cast<float4*>(to + 4 * i) = value(raw, call.type); });
    };
    load(s.K, call.k, h);
    if (per_channel) {
        const float* g = call.g + (head * call.N + start) * call.gates;
        move<C * DK, score_threads>(
            [&](int i) {
                const int t = i / DK, c = i % DK;
                return t < n && c < call.dk ? g[static_cast<int64_t>(t) * call.gates + c] : 0.0f;
            },
            [&](int i, float f) { s.decay[i] = expf(f); });
    }
    if (threadIdx.x < C) {
        const int t = threadIdx.x;
        s.a[t] = per_head && t < n ? expf(call.g[head * call.N + start + t]) : 1.0f;
        s.beta[t] = call.beta && t < n ? call.beta[head * call.N + start + t] : 0.0f;
    }
    __syncthreads();
    if (per_head && threadIdx.x < C) {
        float e = 1.0f, w = 1.0f;
        for (int t = 0; t < C; ++t) {
            if (t <= static_cast<int>(threadIdx.x)) e *= s.a[t];
            else w *= s.a[t];
        }
        float* to = out + p.floats - 2 * C;
        to[threadIdx.x] = e, to[C + threadIdx.x] = w;
    }

    for (int query = p.matrices > 0 ? -1 : 0; query < call.group; ++query) {
        const float* X = s.K;
        if (query >= 0) {
            load(s.X, call.q, h * call.group + query);
            X = s.X;
        }
        __syncthreads();
        for (int pair = warp; pair < C / 2; pair += warps) {
            const int j = 2 * pair + lane / 16;
            float k[R], decayed = 1.0f;
#pragma unroll
            for (int m = 0; m < R / 4; ++m) {
                const float4 f = *reinterpret_cast<const float4*>(s.K + j * DK + rg * 4 + 64 * m);
                k[4 * m] = f.x, k[4 * m + 1] = f.y, k[4 * m + 2] = f.z, k[4 * m + 3] = f.w;
            }
            for (int first = pair / 8 * 16; first < C; first += 16) {
                float sum[16];
#pragma unroll
                for (int i = 0; i < 16; ++i) {
                    const int t = first + i;
                    float x = 0.0f;
#pragma unroll
                    for (int m = 0; m < R / 4; ++m) {
                        const float4 f = *reinterpret_cast<const float4*>(X + t * DK + rg * 4 + 64 * m);
                        if (per_channel) {
                            const float4 a = *reinterpret_cast<const float4*>(s.decay + t * DK + rg * 4 + 64 * m);
                            if (t > j) k[4 * m] *= a.x, k[4 * m + 1] *= a.y, k[4 * m + 2] *= a.z, k[4 * m + 3] *= a.w;
                        }
                        x = fmaf(f.w, k[4 * m + 3],
                                 fmaf(f.z, k[4 * m + 2], fmaf(f.y, k[4 * m + 1], fmaf(f.x, k[4 * m], x))));
                    }
                    if (t > j) decayed *= s.a[t];
                    sum[i] = x * decayed;
                }
                const float score = fold(sum, rg);
                const int t = first + rg;
                s.L[t * (C + 4) + j] = t > j || (t == j && query >= 0) ? score : 0.0f;
            }
        }
        __syncthreads();
        if (query >= 0 || p.matrices == 3) {
            float* to = out + (query >= 0 ? p.matrices + query : 2) * C * C;
            for (int i = threadIdx.x; i < C * C / 4; i += score_threads) {
                const int t = i / (C / 4), c = i % (C / 4) * 4;
                if (c / 16 <= t / 16)
                    *reinterpret_cast<float4*>(to + t * C + c) =
                        *reinterpret_cast<const float4*>(s.L + t * (C + 4) + c);
            }
        }
        if (query < 0 && warp < min(p.matrices, 2) && lane < C) {
            // A column to a lane, by substitution: y_t = [t = column] - Σ_{j<t} M_tj x_j with x = β y, or with β_t M_tj
            // and x = y.
            float x[C];
#pragma unroll
            for (int t = 0; t < C; ++t) {
                float sum[4] = {};
#pragma unroll
                for (int j = 0; j < t; j += 4) {
                    const float4 l = *reinterpret_cast<const float4*>(s.L + t * (C + 4) + j);
                    sum[0] = fmaf(l.x, x[j], sum[0]);
                    if (j + 1 < t) sum[1] = fmaf(l.y, x[j + 1], sum[1]);
                    if (j + 2 < t) sum[2] = fmaf(l.z, x[j + 2], sum[2]);
                    if (j + 3 < t) sum[3] = fmaf(l.w, x[j + 3], sum[3]);
                }
                const float all = (sum[0] + sum[1]) + (sum[2] + sum[3]),
                            found = (t == lane ? 1.0f : 0.0f) - (warp == 0 ? all : s.beta[t] * all);
                if (lane / 16 <= t / 16) out[warp * C * C + t * C + lane] = found;
                x[t] = warp == 0 ? s.beta[t] * found : found;
            }
        }
        __syncthreads();
    }
}

// ---- Chunk after chunk ----

template <int DK, int C, Gates gates>
struct SweepShared {
    static constexpr int per_channel = gates == Gates::channel ? 1 : 0;
    float4 rows[2][C * DK / 4];  // a tile of k or q as it is in memory
    float4 decay[2][per_channel * C * DK / 4 + 1 - per_channel];
    float lower[2][C * (C + 4)];                                       // the inverse or A
    float K[C * DK], Q[C * DK];                                        // k, or e ⊙ k; q, or e ⊙ q
    float U[sweep_threads / 32][C * 8], W[sweep_threads / 32][C * 8];  // rows of a warp's columns
    float e[per_channel * C * DK + 1 - per_channel],
        w[per_channel * C * DK + 1 - per_channel];  // with a gate per channel: e, w ⊙ k
};

// One block: 32 columns of one head, 8 to a warp. Its work is a line of items: the keys of a chunk, the queries of its
// heads of queries, the keys of the next chunk ...; the tile of the next item is copied while one is worked on.
template <int DK, int C, Gates gates, bool record>
__global__ __launch_bounds__(sweep_threads) void gated_sweep(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    using Shared = SweepShared<DK, C, gates>;
    auto& s = *reinterpret_cast<Shared*>(shared);
    constexpr int blocks = C / 16, R = DK / 16;
    const Call& call = p.call;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rg = lane % 16, cg = lane / 16;
    const int wide = (call.dv + sweep_columns - 1) / sweep_columns;
    const int64_t head = blockIdx.x / wide, b = head / call.heads, h = head % call.heads;
    const int column = static_cast<int>(blockIdx.x % wide) * sweep_columns + warp * 8 + cg * 4;
    const bool delta = call.beta != nullptr, state_quads = call.dv % 4 == 0;
    const int items = record ? 1 : 1 + call.group;
    const float* gate_of_head = call.g ? call.g + head * call.N * call.gates : nullptr;
    float *U = s.U[warp], *W = s.W[warp];

    float S[R][4];
    load_state<DK>(S, p.state_in ? p.state_in + head * call.dk * call.dv : nullptr, call.dk, call.dv, rg, column,
                   state_quads);

    const auto tokens_of = [&](int chunk) { return static_cast<int>(min(p.tokens - int64_t{chunk} * C, int64_t{C})); };
    const auto start_copies = [&](int chunk, int item, int slot) {
        const int n = tokens_of(chunk);
        const int64_t start = p.first + int64_t{chunk} * C;
        const Operand& x = item == 0 ? call.k : call.q;
        const char* from = head_of(x, b, item == 0 ? h : h * call.group + item - 1) + start * x.token;
        stage<C, DK, sweep_threads>(s.rows[slot], from, x.token, n, call.dk, x.whole, call.type);
        if constexpr (gates == Gates::channel) {
            if (item == 0) {
                const bool whole = call.dk % 4 == 0 && reinterpret_cast<uintptr_t>(call.g) % 16 == 0;
                stage<C, DK, sweep_threads>(s.decay[slot],
                                            reinterpret_cast<const char*>(gate_of_head + start * call.gates),
                                            call.gates * int64_t{4}, n, call.dk, whole, Type::Float32);
            }
        }
        const int matrix = item == 0 ? (delta ? 0 : -1) : p.matrices + item - 1;
        if (matrix >= 0) {
            const float* L = p.scores + (head * p.chunks + chunk) * p.floats + matrix * C * C;
            for (int i = threadIdx.x; i < C * C / 4; i += sweep_threads) {
                const int t = i / (C / 4), c = i % (C / 4) * 4;
                if (c / 16 <= t / 16) copy_piece(s.lower[slot] + t * (C + 4) + c, L + t * C + c, 16);
            }
        }
    };

    float e[blocks], w[blocks], last = 1.0f;
    int slot = 0;
    start_copies(0, 0, 0);
    for (int chunk = 0; chunk < p.chunks; ++chunk) {
        const int n = tokens_of(chunk);
        const int64_t start = p.first + int64_t{chunk} * C;
        if (record && p.states) {
            float* to = p.states + (head * p.chunks + chunk) * call.dk * call.dv;
            store_state<DK>(to, S, call.dk, call.dv, rg, column, state_quads);
        }
        for (int item = 0; item < items; ++item, slot ^= 1) {
            copies_arrived();
            __syncthreads();
            if (item + 1 < items) start_copies(chunk, item + 1, slot ^ 1);
            else if (chunk + 1 < p.chunks) start_copies(chunk + 1, 0, slot ^ 1);

            // The tile in Float32, with its gates.
            float* X = item == 0 ? s.K : s.Q;
            if constexpr (gates == Gates::channel) {
                for (int c = threadIdx.x; c < DK; c += sweep_threads) {
                    if (item == 0) {
                        const float* g = reinterpret_cast<const float*>(s.decay[slot]);
                        float a[C], product = 1.0f;
#pragma unroll
                        for (int t = 0; t < C; ++t) {
                            a[t] = expf(g[t * DK + c]);  // 1 past the end
                            product *= a[t];
                            s.e[t * DK + c] = product;
                            X[t * DK + c] = product * element(s.rows[slot], t * DK + c, call.type);
                        }
                        product = 1.0f;
#pragma unroll
                        for (int t = C - 1; t >= 0; --t) {
                            s.w[t * DK + c] = product * element(s.rows[slot], t * DK + c, call.type);
                            product *= a[t];
                        }
                    } else {
#pragma unroll
                        for (int t = 0; t < C; ++t)
                            X[t * DK + c] = s.e[t * DK + c] * element(s.rows[slot], t * DK + c, call.type);
                    }
                }
            } else {
                convert_tile<C * DK, sweep_threads>(X, s.rows[slot], call.type);
            }
            __syncthreads();

            // What the state has for the rows of the tile, and for keys what V has.
            const auto mine = [&](int i) { return (i * 16 + rg) * 8 + cg * 4; };
            RawQuad v[blocks];
            float beta[blocks];
            if (item == 0) {
                const char* V = head_of(call.v, b, h) + start * call.v.token;
#pragma unroll
                for (int i = 0; i < blocks; ++i) {
                    const int t = i * 16 + rg;
                    v[i] = t < n ? raw_quad_within(V + t * call.v.token, column, call.dv, call.v.quads, call.type)
                                 : RawQuad{0, 0, 0, 0};
                    beta[i] = delta && t < n ? call.beta[head * call.N + start + t] : 0.0f;
                }
                if constexpr (gates == Gates::head) {
                    const float* at = p.scores + (head * p.chunks + chunk + 1) * p.floats - 2 * C;
#pragma unroll
                    for (int i = 0; i < blocks; ++i) e[i] = at[i * 16 + rg], w[i] = at[C + i * 16 + rg];
                    last = at[C - 1];
                }
            }
            float4 x[blocks];
            if (item > 0 || delta) {
#pragma unroll 1
                for (int i = 0; i < blocks; ++i)
                    *reinterpret_cast<float4*>(W + mine(i)) = times_state<DK>(X + i * 16 * DK, S, rg);
#pragma unroll
                for (int i = 0; i < blocks; ++i) {
                    x[i] = *reinterpret_cast<const float4*>(W + mine(i));
                    if constexpr (gates == Gates::head)
                        x[i] = {x[i].x * e[i], x[i].y * e[i], x[i].z * e[i], x[i].w * e[i]};
                    if (item > 0) continue;
                    const float4 f = value(v[i], call.type);
                    *reinterpret_cast<float4*>(W + mine(i)) = {f.x - x[i].x, f.y - x[i].y, f.z - x[i].z, f.w - x[i].w};
                    x[i] = {0, 0, 0, 0};
                }
                __syncwarp();
                add_lower<C>(x, s.lower[slot], item == 0 ? W : U, rg, cg);
            }
            if (item == 0) {
                __syncwarp();
#pragma unroll
                for (int i = 0; i < blocks; ++i) {
                    if (!delta) x[i] = value(v[i], call.type);
                    if (record && delta && p.Y) {
                        const int64_t t = (head * p.chunks + chunk) * C + i * 16 + rg;
                        set_quad_within(p.Y + t * call.dv, column, call.dv, state_quads, Type::Float32, x[i]);
                    }
                    if (delta) x[i] = {beta[i] * x[i].x, beta[i] * x[i].y, beta[i] * x[i].z, beta[i] * x[i].w};
                    *reinterpret_cast<float4*>(U + mine(i)) = x[i];
                }
                __syncwarp();
            } else {
                char* O = head_of(call.o, b, h * call.group + item - 1) + start * call.o.token;
#pragma unroll
                for (int i = 0; i < blocks; ++i) {
                    const int t = i * 16 + rg;
                    const float4 scaled = {call.scale * x[i].x, call.scale * x[i].y, call.scale * x[i].z,
                                           call.scale * x[i].w};
                    if (t < n) set_quad_within(O + t * call.o.token, column, call.dv, call.o.quads, call.type, scaled);
                }
            }
            if (item + 1 < items) continue;

            // The state after the chunk.
            if constexpr (gates == Gates::head) {
                __syncwarp();
#pragma unroll
                for (int i = 0; i < blocks; ++i) {
                    float4& u = *reinterpret_cast<float4*>(U + mine(i));
                    u = {u.x * w[i], u.y * w[i], u.z * w[i], u.w * w[i]};
                }
                __syncwarp();
#pragma unroll
                for (int i = 0; i < R; ++i) S[i][0] *= last, S[i][1] *= last, S[i][2] *= last, S[i][3] *= last;
            }
            if constexpr (gates == Gates::channel) {
#pragma unroll
                for (int i = 0; i < R; ++i) {
                    const float f = s.e[(C - 1) * DK + i / 4 * 64 + rg * 4 + i % 4];
                    S[i][0] *= f, S[i][1] *= f, S[i][2] *= f, S[i][3] *= f;
                }
            }
            add_outer<DK, C>(S, gates == Gates::channel ? s.w : s.K, U, rg, cg);
        }
    }
    if (p.state_out)
        store_state<DK>(p.state_out + head * call.dk * call.dv, S, call.dk, call.dv, rg, column, state_quads);
}

template <int DK, int C, Gates gates>
void sweep(const Part& p, cudaStream_t stream) {
    const int64_t wide = (p.call.dv + sweep_columns - 1) / sweep_columns;
    const dim3 grid(static_cast<unsigned>(p.call.all_heads * wide));
    const std::size_t shared = sizeof(SweepShared<DK, C, gates>);
    if (p.states || p.call.group == 0)
        launch(gated_sweep<DK, C, gates, true>, "launching gated_sweep", grid, sweep_threads, shared, 1, false, stream,
               p);
    else
        launch(gated_sweep<DK, C, gates, false>, "launching gated_sweep", grid, sweep_threads, shared, 1, false, stream,
               p);
}

template <int DK, int C>
void scores(const Part& p, cudaStream_t stream) {
    const dim3 grid(static_cast<unsigned>(p.call.all_heads * p.chunks));
    launch(gated_scores<DK, C>, "launching gated_scores", grid, score_threads, sizeof(ScoreShared<DK, C>), 1, false,
           stream, p);
}

Gates gates_of(const Call& call) {
    return call.gates == 0 ? Gates::none : call.gates == 1 ? Gates::head : Gates::channel;
}

}  // namespace

Part part_of(const Call& call, int64_t first, int64_t tokens, int matrices) {
    Part p{};
    p.call = call;
    p.first = first, p.tokens = tokens;
    p.C = chunk_of(call.dk, gates_of(call));
    p.chunks = static_cast<int>((tokens + p.C - 1) / p.C);
    p.matrices = matrices;
    p.floats = int64_t{matrices + call.group} * p.C * p.C + 2 * p.C;
    return p;
}

void launch_scores(const Part& p, cudaStream_t stream) {
    const int rows = padded_rows(p.call.dk);
    if (rows == 256) return scores<256, 16>(p, stream);
    if (p.C == 16) return rows == 64 ? scores<64, 16>(p, stream) : scores<128, 16>(p, stream);
    rows == 64 ? scores<64, 32>(p, stream) : scores<128, 32>(p, stream);
}

void launch_sweep(const Part& p, cudaStream_t stream) {
    const int rows = padded_rows(p.call.dk);
    switch (gates_of(p.call)) {
        case Gates::none:
            return rows == 64    ? sweep<64, 32, Gates::none>(p, stream)
                   : rows == 128 ? sweep<128, 32, Gates::none>(p, stream)
                                 : sweep<256, 16, Gates::none>(p, stream);
        case Gates::head:
            return rows == 64    ? sweep<64, 32, Gates::head>(p, stream)
                   : rows == 128 ? sweep<128, 32, Gates::head>(p, stream)
                                 : sweep<256, 16, Gates::head>(p, stream);
        default:
            return rows == 64    ? sweep<64, 16, Gates::channel>(p, stream)
                   : rows == 128 ? sweep<128, 16, Gates::channel>(p, stream)
                                 : sweep<256, 16, Gates::channel>(p, stream);
    }
}

}  // namespace causeway::gpu::gated
