// What gated_finish does on tensor cores, operands as sums of two TF32 (gpu/kit/tf32.cuh): chunks of 32 tokens, no gate
// or one a head. The letters are those of README.md.
#pragma once

#include "gpu/gated/chunks/sweep.cuh"
#include "gpu/gradient/gated_chunks/tiles.cuh"

namespace causeway::gpu::gradient {

template <int DK, Gates gates>
struct TensorFinishShared {
    static constexpr int C = 32, warps = finish_warps, slab = 16;  // columns of v at a time
    static constexpr int pitch = slab + 4, square = C + 4;         // floats of a row of a slab, of a C×C matrix
    static constexpr bool per_head = gates == Gates::head;
    // Slabs of the state before the chunk, of the gradient of the state after it, of dO, of Y (without the delta rule
    // V) and of dY. One is copied while another is worked on.
    struct Slabs {
        float S[DK * pitch], E[DK * pitch], dO[C * pitch], Y[C * pitch], dY[C * pitch];
    } slabs[2];
    float K[C * DK], Q[C * DK];            // rows swizzled
    float dA[C * square], dM[C * square];  // the scores A and M, then dA and dM times Λ
    float lambda[C * square];
    float Z[per_head ? C * square : 1];  // dA ⊙ A + dM ⊙ M, later its prefix sums
    // By warps, each of its channels: row[t] = Σ dQe_t · Qe_t + dKe_t · Ke_t, column[t] = dKw_t · Kw_t; <S_0, E>.
    float row[warps][C], column[warps][C], through[warps];
    float a[C], e[C], w[C], written[C];  // written: of U = diag(written) Y, β or without the delta rule 1
};

// One chunk of one batch-head. A warp has DK/4 channels of all tokens, and 8 columns of C×C matrices.
template <int DK, Gates gates>
struct TensorFinish {
    using Shared = TensorFinishShared<DK, gates>;
    using Slabs = typename Shared::Slabs;
    static constexpr int C = Shared::C, slab = Shared::slab, pitch = Shared::pitch, square = Shared::square;
    static constexpr int threads = finish_threads, warps = Shared::warps, channels = DK / warps, tiles = channels / 8;
    static constexpr bool per_head = gates == Gates::head;
    // Tiles of 16 tokens × 8: what a product leaves in a lane.
    using Tokens = float[2][4];
    using Rows = Tokens[tiles];
    using Square = Tokens[1];
    using Place = SwizzledRows<DK>;

    const BackwardPart& x;
    Shared& s;
    const Part& p = x.part;
    const Call& call = p.call;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int64_t bh = blockIdx.x / p.chunks, chunk = blockIdx.x % p.chunks, b = bh / call.heads, h = bh % call.heads;
    const int64_t start = p.first + chunk * C, first_row = (bh * p.chunks + chunk) * C;  // of this chunk in Y and dY
    const int n = static_cast<int>(min(p.first + p.tokens - start, int64_t{C}));
    const bool delta = call.beta != nullptr, quads = call.dv % 4 == 0;
    const float* const matrices = p.scores + (bh * p.chunks + chunk) * p.floats;
    const float* const before = p.states + (bh * p.chunks + chunk) * call.dk * call.dv;
    const float* const after = x.after + (bh * p.chunks + chunk) * call.dk * call.dv;
    // The token and the columns of a slab of which this thread copies four numbers.
    static_assert(C * slab / 4 == threads);
    const int copied_token = threadIdx.x / 4, copied_column = threadIdx.x % 4 * 4;

    // Of element i of tile m of tokens.
    __device__ __forceinline__ int token(int m, int i) const { return 16 * m + g + i / 2 * 8; }
    __device__ __forceinline__ int channel(int n_tile, int i) const {
        return warp * channels + 8 * n_tile + 2 * t + i % 2;
    }

    // ---- Loads ----

    __device__ __forceinline__ void load_rows(float* to, const Operand& from, int64_t head) const {
        load_tile<DK, C, threads, Place>(to, head_of(from, b, head) + start * from.token, from, n, call);
    }
    // β, e, w and Λ.
    __device__ __forceinline__ void load_gates() const {
        if (threadIdx.x < C) {
            const int i = threadIdx.x;
            s.written[i] = !delta ? 1.0f : i < n ? call.beta[bh * call.N + start + i] : 0.0f;
            s.a[i] = per_head && i < n ? expf(call.g[bh * call.N + start + i]) : 1.0f;
            s.e[i] = per_head ? matrices[p.floats - 2 * C + i] : 1.0f;
            s.w[i] = per_head ? matrices[p.floats - C + i] : 1.0f;
            __syncwarp();
            float f = 1.0f;  // column i of Λ
            for (int row = 0; row < C; ++row) {
                if (row > i) f *= s.a[row];
                s.lambda[row * square + i] = row < i ? 0.0f : f;
            }
        }
    }

    // Starts the copy of columns [first, first + slab) of a state.
    __device__ __forceinline__ void start_copy(float* to, const float* state, int first) const {
        constexpr int row_quads = slab / 4, rows_at_once = threads / row_quads;
        const int row = threadIdx.x / row_quads, c = threadIdx.x % row_quads * 4;
        const float* from = state + static_cast<int64_t>(row) * call.dv + first + c;
        float* at = to + row * pitch + c;
        if (quads && call.dk == DK && first + slab <= call.dv) {
#pragma unroll
            for (int j = 0; j < DK / rows_at_once; ++j)
                cp_async<16>(at + j * rows_at_once * pitch, from + j * rows_at_once * call.dv, true);
            return;
        }
#pragma unroll 1
        for (int j = 0; j < DK; j += rows_at_once, at += rows_at_once * pitch, from += rows_at_once * call.dv) {
#pragma unroll 1
            for (int k = 0; k < 4; ++k) {
                const bool there = row + j < call.dk && first + c + k < call.dv;
                cp_async<4>(at + k, there ? from + k : state, there);
            }
        }
    }
    // This thread's row of a slab: what is Float32 already and aligned is copied on its own, the rest by way of the
    // thread's registers. Null: zeros.
    struct Source {
        const char* row;
        Type type;
        bool quads;
    };
    __device__ __forceinline__ Source source_of(const float* rows) const {
        return {reinterpret_cast<const char*>(rows + (first_row + copied_token) * call.dv), Type::Float32, quads};
    }
    __device__ __forceinline__ Source source_of(const Operand& rows, int64_t head) const {
        const char* row = head_of(rows, b, head) + (start + copied_token) * rows.token;
        return {copied_token < n ? row : nullptr, call.type, rows.quads != 0};
    }
    __device__ __forceinline__ RawQuad start_copy(float* slab_rows, const Source& from, int first) const {
        const int c = first + copied_column;
        if (from.type == Type::Float32 && from.quads) {
            const bool there = from.row && c < call.dv;
            cp_async<16>(slab_rows + copied_token * pitch + copied_column,
                         there ? from.row + 4 * c : reinterpret_cast<const char*>(before), there);
        } else if (from.row) {
            return raw_quad_within(from.row, c, call.dv, from.quads, from.type);
        }
        return {0, 0, 0, 0};
    }
    __device__ __forceinline__ void finish_copy(float* slab_rows, const Source& from, RawQuad raw) const {
        if (from.type == Type::Float32 && from.quads) return;
        *reinterpret_cast<float4*>(slab_rows + copied_token * pitch + copied_column) = value(raw, from.type);
    }
    struct Sources {
        Source dO, Y, dY;
    };
    struct Arriving {
        RawQuad dO, Y, dY;
    };
    template <bool with_states>
    __device__ __forceinline__ Arriving start_slab(Slabs& to, const Sources& from, int first) const {
        start_copy(to.S, before, first);
        if constexpr (with_states) start_copy(to.E, after, first);
        Arriving a;
        a.dO = start_copy(to.dO, from.dO, first), a.Y = start_copy(to.Y, from.Y, first);
        if (with_states && delta) a.dY = start_copy(to.dY, from.dY, first);
        return a;
    }
    template <bool with_states>
    __device__ __forceinline__ void finish_slab(Slabs& to, const Sources& from, const Arriving& a) const {
        finish_copy(to.dO, from.dO, a.dO), finish_copy(to.Y, from.Y, a.Y);
        if (with_states && delta) finish_copy(to.dY, from.dY, a.dY);
    }

    // ---- Products ----

    // Rows of tokens of a slab as left operands.
    __device__ __forceinline__ void lefts(tf32::Left (&to)[2], const float* rows, int k) const {
#pragma unroll
        for (int m = 0; m < 2; ++m)
            to[m] = tf32::left([&](int row, int c) { return rows[(16 * m + row) * pitch + k + c]; });
    }
    // A C×C matrix, or its transpose, from column k on.
    template <bool transposed>
    __device__ __forceinline__ void square_lefts(tf32::Left (&to)[2], const float* matrix, int k) const {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            to[m] = tf32::left([&](int row, int c) {
                return transposed ? matrix[(k + c) * square + 16 * m + row] : matrix[(16 * m + row) * square + k + c];
            });
        }
    }

    // The warp's channels of a slab of a state, transposed, as right operands.
    __device__ __forceinline__ void columns(tf32::Right (&to)[tiles], const float* state, int k) const {
        const float* rows = state + warp * channels * pitch + k;
#pragma unroll
        for (int m = 0; m < tiles; ++m)
            to[m] = tf32::right([&](int c, int row) { return rows[(8 * m + row) * pitch + c]; });
    }

    // What a slab adds, without the factors of tokens: dq = dO S_0ᵀ, dA = dO Yᵀ, and with the states of the keys
    // dKw = Y Eᵀ, dKe = dY S_0ᵀ, dM = dY Yᵀ.
    template <bool with_states>
    __device__ __forceinline__ void multiply_slab(const Slabs& from, Rows& dq, Rows& dKw, Rows& dKe, Square& dA,
                                                  Square& dM) const {
#pragma unroll
        for (int k = 0; k < slab; k += 8) {
            tf32::Left dO[2], Y[2], dY[2];
            lefts(dO, from.dO, k);
            if constexpr (with_states) {
                lefts(Y, from.Y, k);
                if (delta) lefts(dY, from.dY, k);
            }
            tf32::Right S[tiles];
            columns(S, from.S, k);
            tf32::multiply(dq, dO, S);
            if constexpr (with_states) {
                if (delta) tf32::multiply(dKe, dY, S);
                tf32::Right E[tiles];
                columns(E, from.E, k);
                tf32::multiply(dKw, Y, E);
            }
            const tf32::Right written[1] = {
                tf32::right([&](int c, int row) { return from.Y[(8 * warp + row) * pitch + k + c]; })};
            tf32::multiply(dA, dO, written);
            if constexpr (with_states) {
                if (delta) tf32::multiply(dM, dY, written);
            }
        }
    }

    // A matrix from dA or dM: what is above the diagonal, or (above = 1) on it, is 0, the rest times Λ and the factors
    // of its row and column. With a gate per head Z grows by the products with the scores A or M, which lay there.
    template <class Factor>
    __device__ __forceinline__ void put_elements(float* to, const Square& elements, int above,
                                                 const Factor& factor) const {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = token(m, i), j = 8 * warp + 2 * t + i % 2;
                const bool there = row >= j + above;
                const float f = there ? factor(row) * s.written[j] * elements[0][m][i] : 0.0f;
                if constexpr (per_head) s.Z[row * square + j] += there ? f * to[row * square + j] : 0.0f;
                to[row * square + j] = f * s.lambda[row * square + j];
            }
        }
    }
    // rows ← factor ⊙ rows, and with a gate per head sums[token] += rows · other over this warp's channels.
    template <class Factor>
    __device__ __forceinline__ void scale_rows(Rows& rows, const Factor& factor, const float* other,
                                               float* sums) const {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int row = token(m, 2 * r);
                const float by = factor(row);
                float sum = 0.0f;
#pragma unroll
                for (int c = 0; c < tiles; ++c) {
                    float &first = rows[c][m][2 * r], &second = rows[c][m][2 * r + 1];
                    first *= by, second *= by;
                    if constexpr (per_head) {
                        const float2 f = *reinterpret_cast<const float2*>(other + Place::at(row, channel(c, 0)));
                        sum = fmaf(second, f.y, fmaf(first, f.x, sum));
                    }
                }
                if constexpr (per_head) {
                    sum += __shfl_xor_sync(all_lanes, sum, 1);
                    sum += __shfl_xor_sync(all_lanes, sum, 2);
                    if (t == 0) sums[row] += sum;
                }
            }
        }
    }

    // ---- The work ----

    // dQ of one head of queries, and what of dK comes from it; with the first head dK's other terms.
    template <bool with_states>
    __device__ __forceinline__ bool meet_queries(int query, Rows& dk) const {
        Rows dq{}, dKe{};
        Square dA{}, dM{};
        float dbeta = 0.0f, through = 0.0f;
        if constexpr (per_head) {
            const int at = static_cast<int>(chunk);
            stage_lower<C, threads>(s.dA, p, bh, at, p.matrices + query);
            if (with_states && delta) stage_lower<C, threads>(s.dM, p, bh, at, 2);
        }
        load_rows(s.Q, call.q, h * call.group + query);
        const int count = (call.dv + slab - 1) / slab;
        const Sources sources = {source_of(x.dO, h * call.group + query), delta ? source_of(p.Y) : source_of(call.v, h),
                                 source_of(x.dY)};
        Arriving arriving = start_slab<with_states>(s.slabs[0], sources, 0);
        finish_slab<with_states>(s.slabs[0], sources, arriving);
        for (int i = 0; i < count; ++i) {
            const Slabs& now = s.slabs[i % 2];
            Slabs& next = s.slabs[(i + 1) % 2];
            cp_async_wait_all();
            __syncthreads();
            if (i + 1 < count) arriving = start_slab<with_states>(next, sources, (i + 1) * slab);
            multiply_slab<with_states>(now, dq, dk, dKe, dA, dM);
            if constexpr (with_states) {
                if (delta) add_dbeta(dbeta, now);
                if constexpr (per_head) add_through(through, now);
            }
            if (i + 1 < count) finish_slab<with_states>(next, sources, arriving);
        }
        put_elements(s.dA, dA, 0, [&](int) { return call.scale; });
        if constexpr (with_states) {
            if (delta) {
                put_elements(s.dM, dM, 1, [&](int row) { return -s.written[row]; });
                write_dbeta(dbeta);
            }
            if constexpr (per_head) {
                through = sum32(through);
                if (lane == 0) s.through[warp] = through;
            }
        }
        scale_rows(
            dq, [&](int row) { return call.scale * s.e[row]; }, s.Q, s.row[warp]);
        if constexpr (with_states) {  // dKw until here
            scale_rows(
                dk, [&](int row) { return s.written[row] * s.w[row]; }, s.K, s.column[warp]);
            if (delta) {
                scale_rows(
                    dKe, [&](int row) { return -s.written[row] * s.e[row]; }, s.K, s.row[warp]);
#pragma unroll
                for (int c = 0; c < tiles; ++c) {
#pragma unroll
                    for (int m = 0; m < 2; ++m) {
#pragma unroll
                        for (int i = 0; i < 4; ++i) dk[c][m][i] += dKe[c][m][i];
                    }
                }
            }
        }
        __syncthreads();
        add_tokens<with_states>(dq, dk);
        const bool finite = write_rows(dq, x.dq, h * call.group + query);
        __syncthreads();
        return finite;
    }

    // dQ += (Λ ⊙ dA) K, dK += (Λ ⊙ dA)ᵀ Q, and with the states (Λ ⊙ dM) K + (Λ ⊙ dM)ᵀ K.
    template <bool with_states>
    __device__ __forceinline__ void add_tokens(Rows& dq, Rows& dk) const {
#pragma unroll 1
        for (int k = 0; k < C; k += 8) {
            tf32::Left dA[2], dA_transposed[2], dM[2], dM_transposed[2];
            square_lefts<false>(dA, s.dA, k);
            square_lefts<true>(dA_transposed, s.dA, k);
            if (with_states && delta) {
                square_lefts<false>(dM, s.dM, k);
                square_lefts<true>(dM_transposed, s.dM, k);
            }
            const auto rows = [&](tf32::Right(&to)[tiles], const float* X) {
#pragma unroll
                for (int c = 0; c < tiles; ++c) {
                    to[c] = tf32::right([&](int row, int column) {
                        return X[k * DK + Place::at(row, warp * channels + 8 * c + column)];
                    });
                }
            };
            tf32::Right K[tiles], Q[tiles];
            rows(K, s.K), rows(Q, s.Q);
            tf32::multiply(dq, dA, K);
            tf32::multiply(dk, dA_transposed, Q);
            if (with_states && delta) {
                tf32::multiply(dk, dM, K);
                tf32::multiply(dk, dM_transposed, K);
            }
        }
    }

    // through += <S_0, E> over the numbers that this thread has copied.
    __device__ __forceinline__ void add_through(float& through, const Slabs& from) const {
#pragma unroll
        for (int j = 0; j < DK * slab / 4 / threads; ++j) {
            const int i = threadIdx.x + j * threads, at = i / (slab / 4) * pitch + i % (slab / 4) * 4;
            const float4 f = *reinterpret_cast<const float4*>(from.S + at),
                         e = *reinterpret_cast<const float4*>(from.E + at);
            through = fmaf(f.w, e.w, fmaf(f.z, e.z, fmaf(f.y, e.y, fmaf(f.x, e.x, through))));
        }
    }
    // dβ_t = dY_t · Y_t, of which four threads have a part each.
    __device__ __forceinline__ void add_dbeta(float& part, const Slabs& from) const {
        const int at = copied_token * pitch + copied_column;
        const float4 y = *reinterpret_cast<const float4*>(from.Y + at),
                     d = *reinterpret_cast<const float4*>(from.dY + at);
        part = fmaf(d.w, y.w, fmaf(d.z, y.z, fmaf(d.y, y.y, fmaf(d.x, y.x, part))));
    }
    __device__ __forceinline__ void write_dbeta(float part) const {
        part += __shfl_xor_sync(all_lanes, part, 1);
        part += __shfl_xor_sync(all_lanes, part, 2);
        if (threadIdx.x % 4 == 0 && copied_token < n) x.dbeta[bh * call.N + start + copied_token] = part;
    }
    // Returns whether they are finite.
    __device__ __forceinline__ bool write_rows(const Rows& from, const Operand& to, int64_t head) const {
        char* rows = head_of(to, b, head) + (start + g) * to.token;
        // put(row of the lane's first token's, channel, two numbers) for all of the lane's pairs.
        const auto each_pair = [&](const auto& put) {
#pragma unroll
            for (int m = 0; m < 2; ++m) {
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    char* row = rows + (16 * m + 8 * r) * to.token;
#pragma unroll
                    for (int c = 0; c < tiles; ++c)
                        put(row, token(m, 2 * r), channel(c, 0), from[c][m][2 * r], from[c][m][2 * r + 1]);
                }
            }
        };
        bool finite = true;
        each_pair(
            [&](char*, int, int, float x, float y) { finite = finite && gpu::is_finite(x) && gpu::is_finite(y); });
        if (n < C || call.dk < DK || !to.quads) {
            each_pair([&](char* row, int t, int c, float x, float y) {
                if (t < n) set_pair_within(row, c, call.dk, to.quads, call.type, x, y);
            });
        } else {  // without a branch for each pair
            by_type(call.type, [&](Type type) {
                each_pair([&](char* row, int, int c, float x, float y) { set_pair(row, c, type, x, y); });
            });
        }
        return finite;
    }

    // dg of a gate per head.
    __device__ __forceinline__ void write_gates() const {
        const auto over_warps = [&](const float(&parts)[warps][C], int i) {
            float sum = 0.0f;
            for (const auto& part : parts) sum += part[i];
            return sum;
        };
        if (threadIdx.x >= C) return;
        // Z[i][j] becomes row[i] + Σ_{k<j} Z[i][k]: everything older than j that reaches i.
        const int i = threadIdx.x;
        float older = over_warps(s.row, i);
        for (int j = 0; j <= i; ++j) {
            const float z = s.Z[i * square + j];
            s.Z[i * square + j] = older;
            older += z;
        }
        __syncwarp();
        float all = 0.0f, sum = 0.0f;
        for (const float f : s.through) all += f;
        all *= s.e[C - 1];
        for (int j = 0; j < i; ++j) all += over_warps(s.column, j);
        for (int j = i; j < C; ++j) sum += s.Z[j * square + i];
        if (i < n) x.dg[bh * call.N + start + i] = sum + all;
    }

    // Returns whether all results are finite: then so is all that came in.
    __device__ __forceinline__ bool run() const {
        load_rows(s.K, call.k, h);
        load_gates();
        for (int i = threadIdx.x; i < warps * C; i += threads) s.row[i / C][i % C] = s.column[i / C][i % C] = 0.0f;
        if constexpr (per_head) {
            for (int i = threadIdx.x; i < C * square; i += threads) s.Z[i] = 0.0f;
        }
        __syncthreads();
        Rows dk{};
        bool finite = meet_queries<true>(0, dk);
        for (int query = 1; query < call.group; ++query) finite = meet_queries<false>(query, dk) && finite;
        finite = write_rows(dk, x.dk, h) && finite;
        if constexpr (per_head) write_gates();
        return finite;
    }
};

}  // namespace causeway::gpu::gradient
