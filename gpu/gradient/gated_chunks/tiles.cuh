// What gated_finish is made of: its shared memory, who has which elements, and the products between them. The letters
// are those of README.md.
#pragma once

#include "gpu/gated/chunks.hpp"
#include "gpu/gated/fma.cuh"
#include "gpu/gradient/gated_chunks.hpp"

namespace causeway::gpu::gradient {

using namespace gated;

constexpr int finish_threads = 128, finish_warps = finish_threads / 32;

template <int DK, int C, Gates gates>
struct FinishShared {
    static constexpr bool per_channel = gates == Gates::channel, per_head = gates == Gates::head;
    static constexpr int slab = DK == 256 || per_channel ? 16 : 32;  // columns of v at a time
    static constexpr int pitch = slab + 4, square = C + 4;           // floats of a row of a slab, of a C×C matrix
    // Slabs of the state before the chunk and of the gradient of the state after it.
    float S[DK * pitch], E[DK * pitch];
    // Slabs of D = scale · dO of one head of queries, in meet_states of -diag(β) dY; and of U.
    float upstream[C * pitch], U[C * pitch];
    float K[C * DK], Q[C * DK];
    float P[C * square];  // dA, then dM; times Λ unless there is one for each channel
    float lambda[per_channel ? 1 : C * square];
    // With a gate per head: Z = dA ⊙ A + dM ⊙ M, later its prefix sums; row[t] = Σ dQe_t · Qe_t + dKe_t · Ke_t,
    // column[t] = dKw_t · Kw_t; e and w; through[r]: row r of <e_last ⊙ S_0, E>.
    float Z[per_head ? C * square : 1], row[C], column[C], e[C], w[C], through[per_head ? DK : 1];
    // With a gate per channel: the gates, e and w, each [token][channel].
    float a[per_channel ? C * DK : 1], channel_e[per_channel ? C * DK : 1], channel_w[per_channel ? C * DK : 1];
    float dg[per_channel ? finish_warps * C * DK : 1];  // a part for each warp
    float beta[C];
};

// A thread's elements of matrices of C rows. Warp w has the tokens w + 4 i; lane l of it has of a row of DK floats the
// channels l + 32 m, and of a C×C matrix the elements (element_row(i), element_column).
template <int DK, int C, Gates gates>
struct FinishTiles {
    using Shared = FinishShared<DK, C, gates>;
    // Tokens and channels that a thread has, and elements of a C×C matrix; rows of such a matrix that a warp covers at
    // once.
    static constexpr int own_tokens = C / finish_warps, row_channels = DK / 32, own_elements = C * C / finish_threads,
                         rows_at_once = 32 / C;
    static constexpr int slab = Shared::slab, pitch = Shared::pitch, square = Shared::square;
    using Rows = float[own_tokens][row_channels];
    using Elements = float[own_elements];

    Shared& s;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, element_column = lane % C;

    __device__ __forceinline__ int token(int i) const { return warp + finish_warps * i; }
    __device__ __forceinline__ int element_row(int i) const {
        return warp + finish_warps * (i * rows_at_once + lane / C);
    }
    __device__ __forceinline__ int channel(int m) const { return lane + 32 * m; }

    __device__ __forceinline__ float e_of(int t, int m) const {
        if constexpr (gates == Gates::none) return 1.0f;
        else if constexpr (gates == Gates::head) return s.e[t];
        else return s.channel_e[t * DK + channel(m)];
    }
    __device__ __forceinline__ float w_of(int t, int m) const {
        if constexpr (gates == Gates::none) return 1.0f;
        else if constexpr (gates == Gates::head) return s.w[t];
        else return s.channel_w[t * DK + channel(m)];
    }

    // to[i][m] += row token(i) of `rows` times row channel(m) of a slab of a state.
    __device__ __forceinline__ void add_products(Rows& to, const float* rows, const float* state) const {
#pragma unroll 1
        for (int c = 0; c < slab; c += 4) {
            float4 f[row_channels];
#pragma unroll
            for (int m = 0; m < row_channels; ++m)
                f[m] = *reinterpret_cast<const float4*>(state + channel(m) * pitch + c);
#pragma unroll
            for (int i = 0; i < own_tokens; ++i) {
                const float4 y = *reinterpret_cast<const float4*>(rows + token(i) * pitch + c);
#pragma unroll
                for (int m = 0; m < row_channels; ++m)
                    to[i][m] = fmaf(y.w, f[m].w, fmaf(y.z, f[m].z, fmaf(y.y, f[m].y, fmaf(y.x, f[m].x, to[i][m]))));
            }
        }
    }
    // to += upstream Uᵀ over the columns of a slab: a part of dA, or of dM.
    __device__ __forceinline__ void add_elements(Elements& to) const {
#pragma unroll 1
        for (int c = 0; c < slab; c += 4) {
            const float4 u = *reinterpret_cast<const float4*>(s.U + element_column * pitch + c);
#pragma unroll
            for (int i = 0; i < own_elements; ++i) {
                const float4 y = *reinterpret_cast<const float4*>(s.upstream + element_row(i) * pitch + c);
                to[i] = fmaf(y.w, u.w, fmaf(y.z, u.z, fmaf(y.y, u.y, fmaf(y.x, u.x, to[i]))));
            }
        }
    }
    // P from dA or dM: what is above the diagonal, or (above = 1) on it, is 0. With a gate per head, Z grows by its
    // products with the scores A or M.
    __device__ __forceinline__ void put_elements(const Elements& elements, int above, const float* scores) const {
#pragma unroll
        for (int i = 0; i < own_elements; ++i) {
            const int t = element_row(i), j = element_column;
            const bool there = t >= j + above;
            float f = there ? elements[i] : 0.0f;
            if constexpr (gates == Gates::head) s.Z[t * square + j] += there ? f * scores[t * C + j] : 0.0f;
            if constexpr (gates != Gates::channel) f *= s.lambda[t * square + j];
            s.P[t * square + j] = f;
        }
    }

    // to[i] += Σ_{j<=i} P_ij (Λ_ij ⊙) rows_j, rows of DK floats. With a gate per channel Λ is applied here, otherwise P
    // contains it already. finite: all rows are, so that what stands above the diagonal may be multiplied as well.
    __device__ __forceinline__ void add_older(Rows& to, const float* rows, bool finite) const {
        if constexpr (gates == Gates::channel) {
            for (int i = 0; i < own_tokens; ++i) {
                const int t = token(i);
                float decay[row_channels], sum[row_channels] = {};
#pragma unroll
                for (int m = 0; m < row_channels; ++m) decay[m] = 1.0f;
                for (int j = t; j >= 0; --j) {
                    const float f = s.P[t * square + j];
#pragma unroll
                    for (int m = 0; m < row_channels; ++m) {
                        sum[m] = fmaf(f * decay[m], rows[j * DK + channel(m)], sum[m]);
                        decay[m] *= s.a[j * DK + channel(m)];
                    }
                }
                add_row(to, i, sum);
            }
        } else {
            const auto factor = [&](int i, int j) { return s.P[token(i) * square + j]; };
            if (finite) add_matrix(to, rows, factor);
            else add_seen(to, rows, factor, [&](int i, int j) { return j <= token(i); });
        }
    }
    // to[i] += Σ_{t>=i} P_ti (Λ_ti ⊙) rows_t, likewise.
    __device__ __forceinline__ void add_newer(Rows& to, const float* rows, bool finite) const {
        if constexpr (gates == Gates::channel) {
            for (int i = 0; i < own_tokens; ++i) {
                const int j = token(i);
                float decay[row_channels], sum[row_channels] = {};
#pragma unroll
                for (int m = 0; m < row_channels; ++m) decay[m] = 1.0f;
                for (int t = j; t < C; ++t) {
                    const float f = s.P[t * square + j];
#pragma unroll
                    for (int m = 0; m < row_channels; ++m) {
                        if (t > j) decay[m] *= s.a[t * DK + channel(m)];
                        sum[m] = fmaf(f * decay[m], rows[t * DK + channel(m)], sum[m]);
                    }
                }
                add_row(to, i, sum);
            }
        } else {
            const auto factor = [&](int i, int t) { return s.P[t * square + token(i)]; };
            if (finite) add_matrix(to, rows, factor);
            else add_seen(to, rows, factor, [&](int i, int t) { return t >= token(i); });
        }
    }

    // With a gate per channel: row t of `rows` gives to dg_j, j <= t, everything older than j that reaches t over the
    // gate of j: its term with the state before the chunk (from_state ⊙ e ⊙ rows) and its terms with the tokens before
    // j.
    __device__ __forceinline__ void add_gates(const Rows& from_state, const float* rows) const {
        if constexpr (gates == Gates::channel) {
#pragma unroll
            for (int m = 0; m < row_channels; ++m) {
                const int c = channel(m);
                float* dg = s.dg + warp * C * DK + c;
#pragma unroll
                for (int i = 0; i < own_tokens; ++i) {
                    const int t = token(i);
                    const float y = rows[t * DK + c];
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
    }

private:
    // to[row] += sum, for a row that is no constant: registers have no addresses.
    __device__ __forceinline__ static void add_row(Rows& to, int row, const float (&sum)[row_channels]) {
#pragma unroll
        for (int k = 0; k < own_tokens; ++k) {
            if (k != row) continue;
#pragma unroll
            for (int m = 0; m < row_channels; ++m) to[k][m] += sum[m];
        }
    }
    // to[i] += Σ_j factor(i, j) rows_j over the j that i sees.
    template <class F, class Sees>
    __device__ __forceinline__ void add_seen(Rows& to, const float* rows, const F& factor, const Sees& sees) const {
#pragma unroll 1
        for (int j = 0; j < C; ++j) {
#pragma unroll
            for (int i = 0; i < own_tokens; ++i) {
                if (!sees(i, j)) continue;
                const float f = factor(i, j);
#pragma unroll
                for (int m = 0; m < row_channels; ++m) to[i][m] = fmaf(f, rows[j * DK + channel(m)], to[i][m]);
            }
        }
    }
    // to[i] += Σ_j factor(i, j) rows_j.
    template <class F>
    __device__ __forceinline__ void add_matrix(Rows& to, const float* rows, const F& factor) const {
#pragma unroll 2
        for (int j = 0; j < C; ++j) {
            float y[row_channels];
#pragma unroll
            for (int m = 0; m < row_channels; ++m) y[m] = rows[j * DK + channel(m)];
#pragma unroll
            for (int i = 0; i < own_tokens; ++i) {
                const float f = factor(i, j);
#pragma unroll
                for (int m = 0; m < row_channels; ++m) to[i][m] = fmaf(f, y[m], to[i][m]);
            }
        }
    }
};

}  // namespace causeway::gpu::gradient
