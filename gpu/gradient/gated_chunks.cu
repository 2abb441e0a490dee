#include "gpu/gradient/gated_chunks.hpp"

#include "gpu/gated/fma.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gradient {

using namespace gated;

namespace {

constexpr int sweep_threads = 128, sweep_columns = 32;

// Rows rg and, of 32, rg + 16 of Lᵀ Y: as add_lower, which has L.
template <int C, int block>
__device__ __forceinline__ void add_upper_block(float4 (&out)[C / 16], const float* L, const float* Y, int rg, int cg) {
#pragma unroll 4
    for (int t = block * 16; t < block * 16 + 16; ++t) {
        const float4 y = *reinterpret_cast<const float4*>(Y + t * 8 + cg * 4);
#pragma unroll
        for (int b = 0; b <= block; ++b) {
            const float f = L[t * (C + 4) + b * 16 + rg];
            out[b].x = fmaf(f, y.x, out[b].x), out[b].y = fmaf(f, y.y, out[b].y);
            out[b].z = fmaf(f, y.z, out[b].z), out[b].w = fmaf(f, y.w, out[b].w);
        }
    }
}
template <int C>
__device__ __forceinline__ void add_upper(float4 (&out)[C / 16], const float* L, const float* Y, int rg, int cg) {
    add_upper_block<C, 0>(out, L, Y, rg, cg);
    if constexpr (C > 16) add_upper_block<C, 1>(out, L, Y, rg, cg);
}

__device__ __forceinline__ float4 times(float f, float4 x) { return {f * x.x, f * x.y, f * x.z, f * x.w}; }

// ---- The gradient of the state, chunk after chunk, last one first ----

template <int DK, int C, Gates gates>
struct BackwardShared {
    static constexpr int per_channel = gates == Gates::channel ? 1 : 0;
    float4 rows[2][C * DK / 4];
    float4 decay[2][per_channel * C * DK / 4 + 1 - per_channel];
    float A[2][C * (C + 4)], inverse[2][C * (C + 4)];
    float K[C * DK], Q[C * DK];  // k, or e ⊙ k; q, or e ⊙ q
    float U[sweep_threads / 32][C * 8];
    float e[per_channel * C * DK + 1 - per_channel], w[per_channel * C * DK + 1 - per_channel];
};

// One block: 32 columns of one head, 8 to a warp; E, the gradient of the state after the chunk, in registers. As
// gated_sweep, a line of items: the keys of a chunk, its queries, the keys of the chunk before it ...
//   dU = Kw E + Σ Aᵀ D,  dY = (I + diag(β) M)⁻ᵀ dU,  dV = diag(β) dY;  E <- e_last ⊙ E + Σ Qeᵀ D - Keᵀ dV
template <int DK, int C, Gates gates>
__global__ __launch_bounds__(sweep_threads) void gated_backward_sweep(const __grid_constant__ BackwardPart x) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<BackwardShared<DK, C, gates>*>(shared);
    constexpr int blocks = C / 16, R = DK / 16;
    const Part& p = x.part;
    const Call& call = p.call;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rg = lane % 16, cg = lane / 16;
    const int wide = (call.dv + sweep_columns - 1) / sweep_columns;
    const int64_t head = blockIdx.x / wide, b = head / call.heads, h = head % call.heads;
    const int column = static_cast<int>(blockIdx.x % wide) * sweep_columns + warp * 8 + cg * 4;
    const bool delta = call.beta != nullptr, state_quads = call.dv % 4 == 0;
    const int items = 1 + call.group;
    const float* gate_of_head = call.g ? call.g + head * call.N * call.gates : nullptr;
    float* U = s.U[warp];

    float E[R][4];
    load_state<DK>(E, x.dstate_in ? x.dstate_in + head * call.dk * call.dv : nullptr, call.dk, call.dv, rg, column,
                   state_quads);

    const auto tokens_of = [&](int chunk) { return static_cast<int>(min(p.tokens - int64_t{chunk} * C, int64_t{C})); };
    const auto copy_matrix = [&](float* to, int chunk, int matrix) {
        const float* L = p.scores + (head * p.chunks + chunk) * p.floats + matrix * C * C;
        for (int i = threadIdx.x; i < C * C / 4; i += sweep_threads) {
            const int t = i / (C / 4), c = i % (C / 4) * 4;
            if (c / 16 <= t / 16) copy_piece(to + t * (C + 4) + c, L + t * C + c, 16);
        }
    };
    const auto start_copies = [&](int chunk, int item, int slot) {
        const int n = tokens_of(chunk);
        const int64_t start = p.first + int64_t{chunk} * C;
        const Operand& from = item == 0 ? call.k : call.q;
        stage<C, DK, sweep_threads>(s.rows[slot],
                                    head_of(from, b, item == 0 ? h : h * call.group + item - 1) + start * from.token,
                                    from.token, n, call.dk, from.whole, call.type);
        if constexpr (gates == Gates::channel) {
            if (item == 0) {
                const bool whole = call.dk % 4 == 0 && reinterpret_cast<uintptr_t>(call.g) % 16 == 0;
                stage<C, DK, sweep_threads>(s.decay[slot],
                                            reinterpret_cast<const char*>(gate_of_head + start * call.gates),
                                            call.gates * int64_t{4}, n, call.dk, whole, Type::Float32);
            }
        }
        if (item > 0) copy_matrix(s.A[slot], chunk, p.matrices + item - 1);
        else if (delta) copy_matrix(s.inverse[chunk % 2], chunk, 1);
    };

    int slot = 0;
    start_copies(p.chunks - 1, 0, 0);
    for (int chunk = p.chunks - 1; chunk >= 0; --chunk) {
        const int n = tokens_of(chunk);
        const int64_t start = p.first + int64_t{chunk} * C;
        store_state<DK>(x.after + (head * p.chunks + chunk) * call.dk * call.dv, E, call.dk, call.dv, rg, column,
                        state_quads);
        float4 dU[blocks];
        float e[blocks], last = 1.0f;
        for (int item = 0; item < items; ++item, slot ^= 1) {
            copies_arrived();
            __syncthreads();
            if (item + 1 < items) start_copies(chunk, item + 1, slot ^ 1);
            else if (chunk > 0) start_copies(chunk - 1, 0, slot ^ 1);

            RawQuad arriving[blocks];
            if (item > 0) {
                const char* dO = head_of(x.dO, b, h * call.group + item - 1) + start * x.dO.token;
#pragma unroll
                for (int i = 0; i < blocks; ++i) {
                    const int t = i * 16 + rg;
                    arriving[i] = t < n ? raw_quad_within(dO + t * x.dO.token, column, call.dv, x.dO.quads, call.type)
                                        : RawQuad{0, 0, 0, 0};
                }
            }
            float* X = item == 0 ? s.K : s.Q;
            if constexpr (gates == Gates::channel) {
                for (int c = threadIdx.x; c < DK; c += sweep_threads) {
                    if (item == 0) {
                        const float* g = reinterpret_cast<const float*>(s.decay[slot]);
                        float a[C], product = 1.0f;
#pragma unroll
                        for (int t = 0; t < C; ++t) {
                            a[t] = expf(g[t * DK + c]);
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

            if (item == 0) {
                float w[blocks];
#pragma unroll
                for (int i = 0; i < blocks; ++i) e[i] = w[i] = 1.0f;
                if constexpr (gates == Gates::head) {
                    const float* at = p.scores + (head * p.chunks + chunk + 1) * p.floats - 2 * C;
#pragma unroll
                    for (int i = 0; i < blocks; ++i) e[i] = at[i * 16 + rg], w[i] = at[C + i * 16 + rg];
                    last = at[C - 1];
                }
#pragma unroll 1
                for (int i = 0; i < blocks; ++i) {
                    *reinterpret_cast<float4*>(U + (i * 16 + rg) * 8 + cg * 4) =
                        times_state<DK>((gates == Gates::channel ? s.w : s.K) + i * 16 * DK, E, rg);
                }
#pragma unroll
                for (int i = 0; i < blocks; ++i)
                    dU[i] = times(w[i], *reinterpret_cast<const float4*>(U + (i * 16 + rg) * 8 + cg * 4));
                __syncwarp();
#pragma unroll
                for (int i = 0; i < R; ++i) {
                    const float f = gates == Gates::channel ? s.e[(C - 1) * DK + i / 4 * 64 + rg * 4 + i % 4] : last;
                    E[i][0] *= f, E[i][1] *= f, E[i][2] *= f, E[i][3] *= f;
                }
                continue;
            }
            float4 D[blocks];
#pragma unroll
            for (int i = 0; i < blocks; ++i) {
                const int t = i * 16 + rg;
                D[i] = times(call.scale, value(arriving[i], call.type));
                *reinterpret_cast<float4*>(U + t * 8 + cg * 4) = D[i];
            }
            __syncwarp();
            add_upper<C>(dU, s.A[slot], U, rg, cg);
            __syncwarp();
            if constexpr (gates == Gates::head) {
#pragma unroll
                for (int i = 0; i < blocks; ++i)
                    *reinterpret_cast<float4*>(U + (i * 16 + rg) * 8 + cg * 4) = times(e[i], D[i]);
                __syncwarp();
            }
            add_outer<DK, C>(E, s.Q, U, rg, cg);
            __syncwarp();
            if (item + 1 < items) continue;

            float4 dV[blocks];
            if (delta) {
#pragma unroll
                for (int i = 0; i < blocks; ++i) {
                    *reinterpret_cast<float4*>(U + (i * 16 + rg) * 8 + cg * 4) = dU[i];
                    dU[i] = {0, 0, 0, 0};
                }
                __syncwarp();
                add_upper<C>(dU, s.inverse[chunk % 2], U, rg, cg);
                __syncwarp();
            }
#pragma unroll
            for (int i = 0; i < blocks; ++i) {
                const int t = i * 16 + rg;
                if (delta) {
                    set_quad_within(x.dY + ((head * p.chunks + chunk) * C + t) * call.dv, column, call.dv, state_quads,
                                    Type::Float32, dU[i]);
                    dV[i] = times(t < n ? call.beta[head * call.N + start + t] : 0.0f, dU[i]);
                    *reinterpret_cast<float4*>(U + t * 8 + cg * 4) = times(-e[i], dV[i]);
                } else {
                    dV[i] = dU[i];
                }
                char* to = head_of(x.dv, b, h) + (start + t) * x.dv.token;
                if (t < n) set_quad_within(to, column, call.dv, x.dv.quads, call.type, dV[i]);
            }
            if (delta) {
                __syncwarp();
                add_outer<DK, C>(E, s.K, U, rg, cg);
                __syncwarp();
            }
        }
    }
    if (x.dstate_out)
        store_state<DK>(x.dstate_out + head * call.dk * call.dv, E, call.dk, call.dv, rg, column, state_quads);
}

// ---- Everything that is left, chunk by chunk in parallel ----

constexpr int finish_threads = 128, finish_warps = finish_threads / 32;

template <int DK, int C, Gates gates>
struct FinishShared {
    static constexpr bool per_channel = gates == Gates::channel, per_head = gates == Gates::head;
    static constexpr int slab = DK == 256 || per_channel ? 16 : 32;  // columns of v at a time
    float S[DK * (slab + 4)], E[DK * (slab + 4)];                    // of the states before and after
    float X[C * (slab + 4)], U[C * (slab + 4)];
    float K[C * DK], Q[C * DK];
    float P[C * (C + 4)];  // dA, then dM; times Λ unless there is one for each channel
    float lambda[per_channel ? 1 : C * (C + 4)];
    float Z[per_head ? C * (C + 4) : 1], row[C], column[C], e[C], w[C], through[per_head ? DK : 1];
    float a[per_channel ? C * DK : 1], channel_e[per_channel ? C * DK : 1], channel_w[per_channel ? C * DK : 1];
    float dg[per_channel ? finish_warps * C * DK : 1];  // a part for each warp
    float beta[C];
};

// One block: one chunk of one head. Warp w has the tokens w + 4·i, lane l of it the channels l + 32·m of dQ and dK.
template <int DK, int C, Gates gates>
__global__ __launch_bounds__(finish_threads) void gated_finish(const __grid_constant__ BackwardPart x) {
    extern __shared__ __align__(16) unsigned char shared[];
    using Shared = FinishShared<DK, C, gates>;
    auto& s = *reinterpret_cast<Shared*>(shared);
    constexpr int T = C / finish_warps, M = DK / 32, slab = Shared::slab, pitch = slab + 4, square = C + 4;
    constexpr int tiles = C * C / finish_threads,
                  across = 32 / C;  // elements of a C×C matrix to a thread: (warp + 4·(i·across + lane / C), lane % C)
    const Part& p = x.part;
    const Call& call = p.call;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t head = blockIdx.x / p.chunks, chunk = blockIdx.x % p.chunks, b = head / call.heads,
                  h = head % call.heads;
    const int64_t start = p.first + chunk * C, rows = (head * p.chunks + chunk) * C;
    const int n = static_cast<int>(min(p.first + p.tokens - start, int64_t{C}));
    const bool delta = call.beta != nullptr, quads = call.dv % 4 == 0;
    const float* matrices = p.scores + (head * p.chunks + chunk) * p.floats;
    const float *before = p.states + (head * p.chunks + chunk) * call.dk * call.dv,
                *after = x.after + (head * p.chunks + chunk) * call.dk * call.dv;
    const auto token = [&](int i) { return warp + finish_warps * i; };
    const auto tile_row = [&](int i) { return warp + finish_warps * (i * across + lane / C); };
    const int tile_column = lane % C;

    const auto load_rows = [&](float* to, const Operand& from, int64_t index) {
        const char* at = head_of(from, b, index) + start * from.token;
        move<C * DK / 4, finish_threads>(
            [&](int i) {
                const int t = i / (DK / 4), c = i % (DK / 4) * 4;
                return t < n ? raw_quad_within(at + t * from.token, c, call.dk, from.quads, call.type)
                             : RawQuad{0, 0, 0, 0};
            },
            [&](int i, RawQuad raw) { *reinterpret_cast<float4*>(to + 4 * i) = value(raw, call.type); });
    };
    // Columns [first, first + slab) of a state.
    const auto load_slab = [&](float* to, const float* state, int first) {
        move<DK * slab / 4, finish_threads>(
            [&](int i) {
                const int r = i / (slab / 4), c = i % (slab / 4) * 4;
                return r < call.dk ? quad_within(state + static_cast<int64_t>(r) * call.dv, first + c, call.dv, quads,
                                                 Type::Float32)
                                   : float4{0, 0, 0, 0};
            },
            [&](int i, float4 f) { *reinterpret_cast<float4*>(to + i / (slab / 4) * pitch + i % (slab / 4) * 4) = f; });
    };
    // Of U: diag(β) Y, or V.
    const auto load_written = [&](int first) {
        const char* V = head_of(call.v, b, h) + start * call.v.token;
        const Type type = delta ? Type::Float32 : call.type;
        move<C * slab / 4, finish_threads>(
            [&](int i) {
                const int t = i / (slab / 4), c = i % (slab / 4) * 4;
                if (delta) return raw_quad_within(p.Y + (rows + t) * call.dv, first + c, call.dv, quads, type);
                return t < n ? raw_quad_within(V + t * call.v.token, first + c, call.dv, call.v.quads, type)
                             : RawQuad{0, 0, 0, 0};
            },
            [&](int i, RawQuad raw) {
                const int t = i / (slab / 4);
                const float4 f = value(raw, type);
                *reinterpret_cast<float4*>(s.U + t * pitch + i % (slab / 4) * 4) = delta ? times(s.beta[t], f) : f;
            });
    };
    // to[i][m] += row token(i) of X times row lane + 32·m of a slab.
    const auto add_products = [&](float(&to)[T][M], const float* X, const float* state) {
#pragma unroll 1
        for (int c = 0; c < slab; c += 4) {
            float4 f[M];
#pragma unroll
            for (int m = 0; m < M; ++m) f[m] = *reinterpret_cast<const float4*>(state + (lane + 32 * m) * pitch + c);
#pragma unroll
            for (int i = 0; i < T; ++i) {
                const float4 y = *reinterpret_cast<const float4*>(X + token(i) * pitch + c);
#pragma unroll
                for (int m = 0; m < M; ++m)
                    to[i][m] = fmaf(y.w, f[m].w, fmaf(y.z, f[m].z, fmaf(y.y, f[m].y, fmaf(y.x, f[m].x, to[i][m]))));
            }
        }
    };
    const auto add_tiles = [&](float(&to)[tiles]) {  // X Uᵀ
#pragma unroll 1
        for (int c = 0; c < slab; c += 4) {
            const float4 u = *reinterpret_cast<const float4*>(s.U + tile_column * pitch + c);
#pragma unroll
            for (int i = 0; i < tiles; ++i) {
                const float4 y = *reinterpret_cast<const float4*>(s.X + tile_row(i) * pitch + c);
                to[i] = fmaf(y.w, u.w, fmaf(y.z, u.z, fmaf(y.y, u.y, fmaf(y.x, u.x, to[i]))));
            }
        }
    };
    // P from a tile: what is above the diagonal, or on it, is 0. With a gate per head, Z grows by its products with the
    // scores.
    const auto put_tiles = [&](const float(&tile)[tiles], int above, const float* scores) {
#pragma unroll
        for (int i = 0; i < tiles; ++i) {
            const int t = tile_row(i), j = tile_column;
            const bool there = t >= j + above;
            float f = there ? tile[i] : 0.0f;
            if constexpr (gates == Gates::head) s.Z[t * square + j] += there ? f * scores[t * C + j] : 0.0f;
            if constexpr (gates != Gates::channel) f *= s.lambda[t * square + j];
            s.P[t * square + j] = f;
        }
    };
    // to[i] += Σ_j P_ij (Λ ⊙) Y_j over j <= i, Y rows of DK floats.
    const auto add_older = [&](float(&to)[T][M], const float* Y) {
        if constexpr (gates == Gates::channel) {
            for (int i = 0; i < T; ++i) {
                const int t = token(i);
                float decay[M], sum[M] = {};
#pragma unroll
                for (int m = 0; m < M; ++m) decay[m] = 1.0f;
                for (int j = t; j >= 0; --j) {
                    const float f = s.P[t * square + j];
#pragma unroll
                    for (int m = 0; m < M; ++m) {
                        sum[m] = fmaf(f * decay[m], Y[j * DK + lane + 32 * m], sum[m]);
                        decay[m] *= s.a[j * DK + lane + 32 * m];
                    }
                }
#pragma unroll
                for (int k = 0; k < T; ++k) {
                    if (k != i) continue;
#pragma unroll
                    for (int m = 0; m < M; ++m) to[k][m] += sum[m];
                }
            }
        } else {
#pragma unroll 2
            for (int j = 0; j < C; ++j) {
                float y[M];
#pragma unroll
                for (int m = 0; m < M; ++m) y[m] = Y[j * DK + lane + 32 * m];
#pragma unroll
                for (int i = 0; i < T; ++i) {
                    const float f = s.P[token(i) * square + j];
#pragma unroll
                    for (int m = 0; m < M; ++m) to[i][m] = fmaf(f, y[m], to[i][m]);
                }
            }
        }
    };
    // to[i] += Σ_t P_ti (Λ ⊙) Y_t over t >= i.
    const auto add_newer = [&](float(&to)[T][M], const float* Y) {
        if constexpr (gates == Gates::channel) {
            for (int i = 0; i < T; ++i) {
                const int j = token(i);
                float decay[M], sum[M] = {};
#pragma unroll
                for (int m = 0; m < M; ++m) decay[m] = 1.0f;
                for (int t = j; t < C; ++t) {
                    const float f = s.P[t * square + j];
#pragma unroll
                    for (int m = 0; m < M; ++m) {
                        if (t > j) decay[m] *= s.a[t * DK + lane + 32 * m];
                        sum[m] = fmaf(f * decay[m], Y[t * DK + lane + 32 * m], sum[m]);
                    }
                }
#pragma unroll
                for (int k = 0; k < T; ++k) {
                    if (k != i) continue;
#pragma unroll
                    for (int m = 0; m < M; ++m) to[k][m] += sum[m];
                }
            }
        } else {
#pragma unroll 2
            for (int t = 0; t < C; ++t) {
                float y[M];
#pragma unroll
                for (int m = 0; m < M; ++m) y[m] = Y[t * DK + lane + 32 * m];
#pragma unroll
                for (int i = 0; i < T; ++i) {
                    const float f = s.P[t * square + token(i)];
#pragma unroll
                    for (int m = 0; m < M; ++m) to[i][m] = fmaf(f, y[m], to[i][m]);
                }
            }
        }
    };
    // With a gate per channel: what row t of Y, through P and through the state (from_state · e ⊙ Y), moves of the
    // gates s <= t.
    const auto add_gates = [&](const float(&from_state)[T][M], const float* Y) {
        if constexpr (gates == Gates::channel) {
#pragma unroll
            for (int m = 0; m < M; ++m) {
                const int c = lane + 32 * m;
                float* dg = s.dg + warp * C * DK + c;
#pragma unroll
                for (int i = 0; i < T; ++i) {
                    const int t = token(i);
                    const float y = Y[t * DK + c];
                    float z[C], decay = 1.0f;
#pragma unroll
                    for (int j = C - 1; j >= 0; --j) {
                        z[j] = j <= t ? s.P[t * square + j] * decay * y * s.K[j * DK + c] : 0.0f;
                        if (j <= t) decay *= s.a[j * DK + c];
                    }
                    float older = from_state[i][m] * s.channel_e[t * DK + c] * y;
#pragma unroll
                    for (int j = 0; j < C; ++j) {
                        if (j <= t) dg[j * DK] += older;
                        older += z[j];
                    }
                }
            }
        }
    };
    const auto e_of = [&](int t, int m) {
        if constexpr (gates == Gates::none) return 1.0f;
        else if constexpr (gates == Gates::head) return s.e[t];
        else return s.channel_e[t * DK + lane + 32 * m];
    };
    const auto w_of = [&](int t, int m) {
        if constexpr (gates == Gates::none) return 1.0f;
        else if constexpr (gates == Gates::head) return s.w[t];
        else return s.channel_w[t * DK + lane + 32 * m];
    };
    const auto sum32 = [](float f) {
        f = sum16(f);
        return f + __shfl_xor_sync(0xFFFFFFFFu, f, 16);
    };
    const auto write_rows = [&](const float(&from)[T][M], const Operand& to, int64_t index) {
#pragma unroll
        for (int i = 0; i < T; ++i) {
            const int t = token(i);
            if (t >= n) continue;
            char* at = head_of(to, b, index) + (start + t) * to.token;
#pragma unroll
            for (int m = 0; m < M; ++m) {
                if (lane + 32 * m < call.dk) set_element(at, lane + 32 * m, call.type, from[i][m]);
            }
        }
    };

    // Gates and keys.
    load_rows(s.K, call.k, h);
    if (threadIdx.x < C) {
        const int t = threadIdx.x;
        s.beta[t] = delta && t < n ? call.beta[head * call.N + start + t] : 0.0f;
        s.row[t] = s.column[t] = 0.0f;
        if constexpr (gates == Gates::head)
            s.e[t] = matrices[p.floats - 2 * C + t], s.w[t] = matrices[p.floats - C + t];
        if constexpr (gates != Gates::channel) {  // column t of Λ
            float f = 1.0f;
            for (int i = 0; i < C; ++i) {
                if (gates == Gates::head && i > t) f *= i < n ? expf(call.g[head * call.N + start + i]) : 1.0f;
                s.lambda[i * square + t] = i < t ? 0.0f : f;
            }
        }
    }
    if constexpr (gates == Gates::head) {
        for (int i = threadIdx.x; i < C * square; i += finish_threads) s.Z[i] = 0.0f;
    }
    if constexpr (gates == Gates::channel) {
        const float* g = call.g + (head * call.N + start) * call.gates;
        for (int c = threadIdx.x; c < DK; c += finish_threads) {
            float a[C], product = 1.0f;
#pragma unroll
            for (int t = 0; t < C; ++t) {
                a[t] = t < n && c < call.dk ? expf(g[static_cast<int64_t>(t) * call.gates + c]) : 1.0f;
                product *= a[t];
                s.a[t * DK + c] = a[t], s.channel_e[t * DK + c] = product;
            }
            product = 1.0f;
#pragma unroll
            for (int t = C - 1; t >= 0; --t) {
                s.channel_w[t * DK + c] = product;
                product *= a[t];
            }
        }
        for (int i = threadIdx.x; i < finish_warps * C * DK; i += finish_threads) s.dg[i] = 0.0f;
    }
    __syncthreads();

    if (delta) {  // dβ_t = dY_t · Y_t
#pragma unroll
        for (int i = 0; i < T; ++i) {
            const int t = token(i);
            float f = 0.0f;
            for (int c = lane; c < call.dv; c += 32)
                f = fmaf(x.dY[(rows + t) * call.dv + c], p.Y[(rows + t) * call.dv + c], f);
            f = sum32(f);
            if (lane == 0 && t < n) x.dbeta[head * call.N + start + t] = f;
        }
    }

    float dk[T][M] = {};
    for (int query = 0; query < call.group; ++query) {
        float dq[T][M] = {}, tile[tiles] = {};
        load_rows(s.Q, call.q, h * call.group + query);
        const char* dO = head_of(x.dO, b, h * call.group + query) + start * x.dO.token;
        for (int first = 0; first < call.dv; first += slab) {
            load_slab(s.S, before, first);
            load_written(first);
            move<C * slab / 4, finish_threads>(
                [&](int i) {
                    const int t = i / (slab / 4), c = i % (slab / 4) * 4;
                    return t < n ? raw_quad_within(dO + t * x.dO.token, first + c, call.dv, x.dO.quads, call.type)
                                 : RawQuad{0, 0, 0, 0};
                },
                [&](int i, RawQuad raw) {
                    *reinterpret_cast<float4*>(s.X + i / (slab / 4) * pitch + i % (slab / 4) * 4) =
                        times(call.scale, value(raw, call.type));
                });
            __syncthreads();
            add_products(dq, s.X, s.S);
            add_tiles(tile);
            __syncthreads();
        }
        put_tiles(tile, 0, matrices + (p.matrices + query) * C * C);
        __syncthreads();
        add_gates(dq, s.Q);
#pragma unroll
        for (int i = 0; i < T; ++i) {
            float sum = 0.0f;
#pragma unroll
            for (int m = 0; m < M; ++m) {
                dq[i][m] *= e_of(token(i), m);
                if constexpr (gates == Gates::head) sum = fmaf(dq[i][m], s.Q[token(i) * DK + lane + 32 * m], sum);
            }
            if constexpr (gates == Gates::head) {
                sum = sum32(sum);
                if (lane == 0) s.row[token(i)] += sum;
            }
        }
        add_older(dq, s.K);
        add_newer(dk, s.Q);
        write_rows(dq, x.dq, h * call.group + query);
        __syncthreads();
    }

    // Through what is written and, with the delta rule, read.
    float dKe[T][M] = {}, dKw[T][M] = {}, tile[tiles] = {};
    float through[(DK + finish_threads - 1) / finish_threads] = {};  // <S_0, E> of the thread's channels
    for (int first = 0; first < call.dv; first += slab) {
        if (delta || gates != Gates::none) load_slab(s.S, before, first);
        load_slab(s.E, after, first);
        load_written(first);
        if (delta) {
            for (int i = threadIdx.x; i < C * slab / 4; i += finish_threads) {
                const int t = i / (slab / 4), c = i % (slab / 4) * 4;
                const float4 f = quad_within(x.dY + (rows + t) * call.dv, first + c, call.dv, quads, Type::Float32);
                *reinterpret_cast<float4*>(s.X + t * pitch + c) = times(-s.beta[t], f);
            }
        }
        __syncthreads();
        add_products(dKw, s.U, s.E);
        if (delta) {
            add_products(dKe, s.X, s.S);
            add_tiles(tile);
        }
        if constexpr (gates != Gates::none) {
            for (int r = threadIdx.x, i = 0; r < DK; r += finish_threads, ++i) {
#pragma unroll 2
                for (int c = 0; c < slab; c += 4) {
                    const float4 f = *reinterpret_cast<const float4*>(s.S + r * pitch + c),
                                 g = *reinterpret_cast<const float4*>(s.E + r * pitch + c);
                    through[i] = fmaf(f.w, g.w, fmaf(f.z, g.z, fmaf(f.y, g.y, fmaf(f.x, g.x, through[i]))));
                }
            }
        }
        __syncthreads();
    }
    if (delta) {
        put_tiles(tile, 1, matrices + 2 * C * C);
        __syncthreads();
        add_gates(dKe, s.K);
    }
#pragma unroll
    for (int i = 0; i < T; ++i) {
        float row = 0.0f, column = 0.0f;
#pragma unroll
        for (int m = 0; m < M; ++m) {
            const float read = dKe[i][m] * e_of(token(i), m), written = dKw[i][m] * w_of(token(i), m),
                        k = s.K[token(i) * DK + lane + 32 * m];
            dk[i][m] += read + written;
            row = fmaf(read, k, row), column = fmaf(written, k, column);
            if constexpr (gates == Gates::channel) dKw[i][m] = written * k;
        }
        if constexpr (gates == Gates::head) {
            row = sum32(row), column = sum32(column);
            if (lane == 0) s.row[token(i)] += row, s.column[token(i)] = column;
        }
    }
    if (delta) {
        add_older(dk, s.K);
        add_newer(dk, s.K);
    }
    write_rows(dk, x.dk, h);

    // The gates.
    if constexpr (gates == Gates::head) {
        for (int r = threadIdx.x, i = 0; r < DK; r += finish_threads, ++i) s.through[r] = s.e[C - 1] * through[i];
        __syncthreads();
        if (threadIdx.x < C) {  // row t of Z to sums of what is older than s
            const int t = threadIdx.x;
            float older = s.row[t];
            for (int i = 0; i <= t; ++i) {
                const float z = s.Z[t * square + i];
                s.Z[t * square + i] = older;
                older += z;
            }
        }
        __syncthreads();
        if (threadIdx.x < C) {
            const int i = threadIdx.x;
            float older = 0.0f, sum = 0.0f;
            for (int r = 0; r < DK; ++r) older += s.through[r];
            for (int j = 0; j < i; ++j) older += s.column[j];
            for (int t = i; t < C; ++t) sum += s.Z[t * square + i];
            if (i < n) x.dg[head * call.N + start + i] = sum + older;
        }
    }
    if constexpr (gates == Gates::channel) {
        // dKw ⊙ Kw by token, in the place of Q.
#pragma unroll
        for (int i = 0; i < T; ++i) {
#pragma unroll
            for (int m = 0; m < M; ++m) s.Q[token(i) * DK + lane + 32 * m] = dKw[i][m];
        }
        __syncthreads();
        for (int c = threadIdx.x, i = 0; c < call.dk; c += finish_threads, ++i) {
            float older = s.channel_e[(C - 1) * DK + c] * through[i];
            for (int t = 0; t < n; ++t) {
                float sum = older;
                for (int w = 0; w < finish_warps; ++w) sum += s.dg[(w * C + t) * DK + c];
                x.dg[(head * call.N + start + t) * call.gates + c] = sum;
                older += s.Q[t * DK + c];
            }
        }
    }
}

template <int DK, int C, Gates gates>
void backward_sweep(const BackwardPart& p, cudaStream_t stream) {
    const int64_t wide = (p.part.call.dv + sweep_columns - 1) / sweep_columns;
    launch(gated_backward_sweep<DK, C, gates>, "launching gated_backward_sweep",
           dim3(static_cast<unsigned>(p.part.call.all_heads * wide)), sweep_threads,
           sizeof(BackwardShared<DK, C, gates>), 1, false, stream, p);
}

template <int DK, int C, Gates gates>
void finish(const BackwardPart& p, cudaStream_t stream) {
    launch(gated_finish<DK, C, gates>, "launching gated_finish",
           dim3(static_cast<unsigned>(p.part.call.all_heads * p.part.chunks)), finish_threads,
           sizeof(FinishShared<DK, C, gates>), 1, false, stream, p);
}

// f<DK, C, gates>() for a call.
template <class F>
void choose(const Call& call, F&& f) {
    const int rows = padded_rows(call.dk);
    const auto by_rows = [&]<Gates gates, int C>() {
        if (rows == 64) f.template operator()<64, C, gates>();
        else if (rows == 128) f.template operator()<128, C, gates>();
        else f.template operator()<256, 16, gates>();
    };
    if (call.gates == 0) by_rows.template operator()<Gates::none, 32>();
    else if (call.gates == 1) by_rows.template operator()<Gates::head, 32>();
    else by_rows.template operator()<Gates::channel, 16>();
}

}  // namespace

void launch_backward_sweep(const BackwardPart& p, cudaStream_t stream) {
    choose(p.part.call, [&]<int DK, int C, Gates gates>() { backward_sweep<DK, C, gates>(p, stream); });
}

void launch_finish(const BackwardPart& p, cudaStream_t stream) {
    choose(p.part.call, [&]<int DK, int C, Gates gates>() { finish<DK, C, gates>(p, stream); });
}

}  // namespace causeway::gpu::gradient
