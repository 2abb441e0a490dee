// What gated_finish does, on FMA units: with a gate per channel, states of more than 128 rows, and chunks where a value
// is not finite. The letters are those of README.md.
#pragma once

#include "gpu/gradient/gated_chunks/tiles.cuh"

namespace causeway::gpu::gradient {

// One chunk of one batch-head, its inputs and its gradients.
template <int DK, int C, Gates gates>
struct Finish : FinishTiles<DK, C, gates> {
    using Tiles = FinishTiles<DK, C, gates>;
    using Tiles::own_tokens, Tiles::row_channels, Tiles::slab, Tiles::pitch, Tiles::square, Tiles::s, Tiles::lane,
        Tiles::token, Tiles::channel;
    using typename Tiles::Rows, typename Tiles::Elements, typename Tiles::Shared;
    static constexpr int own_channels = (DK + finish_threads - 1) / finish_threads;

    const BackwardPart& x;
    const Part& p;
    const Call& call;
    const int64_t bh, chunk, b, h, start, first_row;  // first_row: of this chunk in Y and dY
    const int n;
    const bool delta, quads;
    const float *matrices, *before, *after;

    __device__ __forceinline__ Finish(const BackwardPart& x, Shared& shared)
        : Tiles{shared},
          x(x),
          p(x.part),
          call(p.call),
          bh(blockIdx.x / p.chunks),
          chunk(blockIdx.x % p.chunks),
          b(bh / call.heads),
          h(bh % call.heads),
          start(p.first + chunk * C),
          first_row((bh * p.chunks + chunk) * C),
          n(static_cast<int>(min(p.first + p.tokens - start, int64_t{C}))),
          delta(call.beta != nullptr),
          quads(call.dv % 4 == 0),
          matrices(p.scores + (bh * p.chunks + chunk) * p.floats),
          before(p.states + (bh * p.chunks + chunk) * call.dk * call.dv),
          after(x.after + (bh * p.chunks + chunk) * call.dk * call.dv) {}

    // Returns whether what this thread loaded is finite.
    __device__ __forceinline__ bool load(float* to, const Operand& from, int64_t head) const {
        return load_rows<DK, C, finish_threads>(to, head_of(from, b, head) + start * from.token, from.token, n, call.dk,
                                                from.quads, call.type);
    }
    // Columns [first, first + slab) of a state.
    __device__ __forceinline__ void load_slab(float* to, const float* state, int first) const {
        move<DK * slab / 4, finish_threads>(
            [&](int i) {
                const int r = i / (slab / 4), c = i % (slab / 4) * 4;
                return r < call.dk ? quad_within(state + static_cast<int64_t>(r) * call.dv, first + c, call.dv, quads,
                                                 Type::Float32)
                                   : float4{0, 0, 0, 0};
            },
            [&](int i, float4 f) { *reinterpret_cast<float4*>(to + i / (slab / 4) * pitch + i % (slab / 4) * 4) = f; });
    }
    // The same columns of U: diag(β) Y, or V.
    __device__ __forceinline__ void load_written(int first) const {
        const char* V = head_of(call.v, b, h) + start * call.v.token;
        const Type type = delta ? Type::Float32 : call.type;
        move<C * slab / 4, finish_threads>(
            [&](int i) {
                const int t = i / (slab / 4), c = i % (slab / 4) * 4;
                if (delta) return raw_quad_within(p.Y + (first_row + t) * call.dv, first + c, call.dv, quads, type);
                return t < n ? raw_quad_within(V + t * call.v.token, first + c, call.dv, call.v.quads, type)
                             : RawQuad{0, 0, 0, 0};
            },
            [&](int i, RawQuad raw) {
                const int t = i / (slab / 4);
                const float4 f = value(raw, type);
                *reinterpret_cast<float4*>(s.U + t * pitch + i % (slab / 4) * 4) = delta ? times(s.beta[t], f) : f;
            });
    }
    // The same columns of D = scale · dO of one head of queries.
    __device__ __forceinline__ void load_upstream(int query, int first) const {
        const char* dO = head_of(x.dO, b, h * call.group + query) + start * x.dO.token;
        move<C * slab / 4, finish_threads>(
            [&](int i) {
                const int t = i / (slab / 4), c = i % (slab / 4) * 4;
                return t < n ? raw_quad_within(dO + t * x.dO.token, first + c, call.dv, x.dO.quads, call.type)
                             : RawQuad{0, 0, 0, 0};
            },
            [&](int i, RawQuad raw) {
                *reinterpret_cast<float4*>(s.upstream + i / (slab / 4) * pitch + i % (slab / 4) * 4) =
                    times(call.scale, value(raw, call.type));
            });
    }
    __device__ __forceinline__ void write_rows(const Rows& from, const Operand& to, int64_t head) const {
#pragma unroll
        for (int i = 0; i < own_tokens; ++i) {
            const int t = token(i);
            if (t >= n) continue;
            char* at = head_of(to, b, head) + (start + t) * to.token;
#pragma unroll
            for (int m = 0; m < row_channels; ++m) {
                if (channel(m) < call.dk) set_element(at, channel(m), call.type, from[i][m]);
            }
        }
    }

    // β, e, w, and Λ or its factors.
    __device__ __forceinline__ void load_gates() const {
        if (threadIdx.x < C) {
            const int t = threadIdx.x;
            s.beta[t] = delta && t < n ? call.beta[bh * call.N + start + t] : 0.0f;
            s.row[t] = s.column[t] = 0.0f;
            if constexpr (gates == Gates::head)
                s.e[t] = matrices[p.floats - 2 * C + t], s.w[t] = matrices[p.floats - C + t];
            if constexpr (gates != Gates::channel) {  // column t of Λ
                float f = 1.0f;
                for (int i = 0; i < C; ++i) {
                    if (gates == Gates::head && i > t) f *= i < n ? expf(call.g[bh * call.N + start + i]) : 1.0f;
                    s.lambda[i * square + t] = i < t ? 0.0f : f;
                }
            }
        }
        if constexpr (gates == Gates::head) {
            for (int i = threadIdx.x; i < C * square; i += finish_threads) s.Z[i] = 0.0f;
        }
        if constexpr (gates == Gates::channel) {
            const float* g = call.g + (bh * call.N + start) * call.gates;
            for (int c = threadIdx.x; c < DK; c += finish_threads) {
                running_products<C>(
                    [&](int t) {
                        const float a = t < n && c < call.dk ? expf(g[static_cast<int64_t>(t) * call.gates + c]) : 1.0f;
                        return s.a[t * DK + c] = a;
                    },
                    [&](int t, float product) { s.channel_e[t * DK + c] = product; },
                    [&](int t, float product) { s.channel_w[t * DK + c] = product; });
            }
            for (int i = threadIdx.x; i < finish_warps * C * DK; i += finish_threads) s.dg[i] = 0.0f;
        }
    }

    // dβ_t = dY_t · Y_t.
    __device__ __forceinline__ void write_dbeta() const {
#pragma unroll
        for (int i = 0; i < own_tokens; ++i) {
            const int t = token(i);
            float f = 0.0f;
            for (int c = lane; c < call.dv; c += 32)
                f = fmaf(x.dY[(first_row + t) * call.dv + c], p.Y[(first_row + t) * call.dv + c], f);
            f = sum32(f);
            if (lane == 0 && t < n) x.dbeta[bh * call.N + start + t] = f;
        }
    }

    // One head of queries: dQ, and what of dK comes from its scores.
    __device__ __forceinline__ void meet_queries(int query, Rows& dk, bool finite_keys) const {
        float dq[own_tokens][row_channels] = {}, dA[Tiles::own_elements] = {};
        const bool finite = load(s.Q, call.q, h * call.group + query);
        bool finite_queries = true;
        for (int first = 0; first < call.dv; first += slab) {
            load_slab(s.S, before, first);
            load_written(first);
            load_upstream(query, first);
            finite_queries = __syncthreads_and(finite);
            this->add_products(dq, s.upstream, s.S);
            this->add_elements(dA);
            __syncthreads();
        }
        this->put_elements(dA, 0, matrices + (p.matrices + query) * C * C);
        __syncthreads();
        this->add_gates(dq, s.Q);
#pragma unroll
        for (int i = 0; i < own_tokens; ++i) {
            float sum = 0.0f;
#pragma unroll
            for (int m = 0; m < row_channels; ++m) {
                dq[i][m] *= this->e_of(token(i), m);
                if constexpr (gates == Gates::head) sum = fmaf(dq[i][m], s.Q[token(i) * DK + channel(m)], sum);
            }
            if constexpr (gates == Gates::head) {
                sum = sum32(sum);
                if (lane == 0) s.row[token(i)] += sum;
            }
        }
        this->add_older(dq, s.K, finite_keys);
        this->add_newer(dk, s.Q, finite_queries);
        write_rows(dq, x.dq, h * call.group + query);
        __syncthreads();
    }

    // through += <S_0, E> over a slab, of the thread's own channels: what the gates of the whole chunk act on.
    __device__ __forceinline__ void add_through(float (&through)[own_channels]) const {
        for (int r = threadIdx.x, i = 0; r < DK; r += finish_threads, ++i) {
#pragma unroll 2
            for (int c = 0; c < slab; c += 4) {
                const float4 f = *reinterpret_cast<const float4*>(s.S + r * pitch + c),
                             g = *reinterpret_cast<const float4*>(s.E + r * pitch + c);
                through[i] = fmaf(f.w, g.w, fmaf(f.z, g.z, fmaf(f.y, g.y, fmaf(f.x, g.x, through[i]))));
            }
        }
    }

    // What is written (dKw) and, with the delta rule, read (dKe, dM): their part of dK, and dK to memory.
    __device__ __forceinline__ void meet_states(Rows& dk, Rows& dKw, float (&through)[own_channels],
                                                bool finite_keys) const {
        float dKe[own_tokens][row_channels] = {}, dM[Tiles::own_elements] = {};
        for (int first = 0; first < call.dv; first += slab) {
            if (delta || gates != Gates::none) load_slab(s.S, before, first);
            load_slab(s.E, after, first);
            load_written(first);
            if (delta) {
                for (int i = threadIdx.x; i < C * slab / 4; i += finish_threads) {
                    const int t = i / (slab / 4), c = i % (slab / 4) * 4;
                    const float4 f =
                        quad_within(x.dY + (first_row + t) * call.dv, first + c, call.dv, quads, Type::Float32);
                    *reinterpret_cast<float4*>(s.upstream + t * pitch + c) = times(-s.beta[t], f);
                }
            }
            __syncthreads();
            this->add_products(dKw, s.U, s.E);
            if (delta) {
                this->add_products(dKe, s.upstream, s.S);
                this->add_elements(dM);
            }
            if constexpr (gates != Gates::none) add_through(through);
            __syncthreads();
        }
        if (delta) {
            this->put_elements(dM, 1, matrices + 2 * C * C);
            __syncthreads();
            this->add_gates(dKe, s.K);
        }
#pragma unroll
        for (int i = 0; i < own_tokens; ++i) {
            float row = 0.0f, column = 0.0f;
#pragma unroll
            for (int m = 0; m < row_channels; ++m) {
                const float read = dKe[i][m] * this->e_of(token(i), m), written = dKw[i][m] * this->w_of(token(i), m),
                            k = s.K[token(i) * DK + channel(m)];
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
            this->add_older(dk, s.K, finite_keys);
            this->add_newer(dk, s.K, finite_keys);
        }
        write_rows(dk, x.dk, h);
    }

    // dg of a gate per head.
    __device__ __forceinline__ void write_head_gates(const float (&through)[own_channels]) const {
        for (int r = threadIdx.x, i = 0; r < DK; r += finish_threads, ++i) s.through[r] = s.e[C - 1] * through[i];
        __syncthreads();
        if (threadIdx.x < C) {
            // Z[t][i] becomes row[t] + Σ_{j<i} Z[t][j]: everything older than i that reaches t.
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
            if (i < n) x.dg[bh * call.N + start + i] = sum + older;
        }
    }
    // dg of a gate per channel. meet_states has made dKw ⊙ Kw of dKw; it goes by token into the place of Q.
    __device__ __forceinline__ void write_channel_gates(const Rows& dKw, const float (&through)[own_channels]) const {
#pragma unroll
        for (int i = 0; i < own_tokens; ++i) {
#pragma unroll
            for (int m = 0; m < row_channels; ++m) s.Q[token(i) * DK + channel(m)] = dKw[i][m];
        }
        __syncthreads();
        for (int c = threadIdx.x, i = 0; c < call.dk; c += finish_threads, ++i) {
            float older = s.channel_e[(C - 1) * DK + c] * through[i];
            for (int t = 0; t < n; ++t) {
                float sum = older;
                for (int w = 0; w < finish_warps; ++w) sum += s.dg[(w * C + t) * DK + c];
                x.dg[(bh * call.N + start + t) * call.gates + c] = sum;
                older += s.Q[t * DK + c];
            }
        }
    }
};

// All of a chunk.
template <int DK, int C, Gates gates>
__device__ __forceinline__ void finish_on_fma(const BackwardPart& x, FinishShared<DK, C, gates>& shared) {
    const Finish<DK, C, gates> f(x, shared);
    const bool finite = f.load(f.s.K, f.call.k, f.h);
    f.load_gates();
    const bool finite_keys = __syncthreads_and(finite);
    if (f.delta) f.write_dbeta();
    float dk[f.own_tokens][f.row_channels] = {};
    for (int query = 0; query < f.call.group; ++query) f.meet_queries(query, dk, finite_keys);
    float dKw[f.own_tokens][f.row_channels] = {}, through[f.own_channels] = {};
    f.meet_states(dk, dKw, through, finite_keys);
    if constexpr (gates == Gates::head) f.write_head_gates(through);
    if constexpr (gates == Gates::channel) f.write_channel_gates(dKw, through);
}

}  // namespace causeway::gpu::gradient
