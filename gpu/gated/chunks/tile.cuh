// A state and its products on tensor cores, operands as sums of two TF32 (gpu/kit/tf32.cuh).
//
// A block has 32 columns of a state of DK rows, a warp 16 columns and DK/4 rows (channels of the keys) of them,
// transposed: Sᵀ is 16 columns × 8 channels a tile, and a lane 4 g + t has of it the columns g and g + 8 at the
// channels 2t and 2t + 1. Rows of tokens are transposed likewise, 16 columns × 8 tokens a tile, so that a product with
// the state leaves what the next one takes. The warps of 16 columns ("half" of the block) sum up the products of their
// channels through shared memory; warp i of them, i < C/8, then has the tokens 8 i ... 8 i + 7.
#pragma once

#include "gpu/gated/chunks/sweep.cuh"

namespace causeway::gpu::gated {

constexpr int channel_groups = 4;  // warps of a half of a block
constexpr int sweep_threads = 2 * 32 * channel_groups;
// Blocks that a multiprocessor is to hold: above 64 rows one, since a thread takes close to 200 registers
// and two blocks would leave it 128.
template <int DK>
constexpr int sweep_blocks = DK == 64 ? 2 : 1;

// Tiles that warps of a half exchange, a tile as its lanes have it.
template <int C>
using TokenTiles = float4[C / 8][32];

__device__ __forceinline__ float4 quad_of(const float (&x)[4]) { return {x[0], x[1], x[2], x[3]}; }

// Which part of which state a thread has.
struct TilePlace {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int group = threadIdx.x / 32 % channel_groups, half = threadIdx.x / 32 / channel_groups;
    int column;        // the first of the warp's
    int64_t bh, b, h;  // of k and v

    explicit __device__ __forceinline__ TilePlace(const Call& call) {
        const int wide = (call.dv + sweep_columns - 1) / sweep_columns;
        bh = blockIdx.x / wide, b = bh / call.heads, h = bh % call.heads;
        column = static_cast<int>(blockIdx.x % wide) * sweep_columns + 16 * half;
    }
    // The token and the column of element i of the lane's part of tile `group`.
    __device__ __forceinline__ int token(int i) const { return 8 * group + 2 * t + i % 2; }
    __device__ __forceinline__ int column_of(int i) const { return column + g + i / 2 * 8; }
    // All warps of this half have come.
    __device__ __forceinline__ void meet() const { ptx::named_barrier_sync(1 + half, 32 * channel_groups); }

    // f(i, token, column) for the lane's elements of tile `group` that are among n rows of dv numbers.
    template <class F>
    __device__ __forceinline__ void each(int n, const Call& call, const F& f) const {
        const bool whole = n > 8 * group + 7 && column + 16 <= call.dv;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (whole || (token(i) < n && column_of(i) < call.dv)) f(i, token(i), column_of(i));
        }
    }
    // Of a tensor's rows from `start` on, on their way from memory.
    __device__ __forceinline__ void load(uint32_t (&to)[4], const Operand& from, int64_t head, int64_t start, int n,
                                         const Call& call) const {
        const char* rows = head_of(from, b, head) + start * from.token;
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = 0;
        each(n, call, [&](int i, int token, int c) { to[i] = raw_element(rows + token * from.token, c, call.type); });
    }
    __device__ __forceinline__ void store(const float (&from)[4], const Operand& to, int64_t head, int64_t start, int n,
                                          const Call& call) const {
        char* rows = head_of(to, b, head) + start * to.token;
        each(n, call, [&](int i, int token, int c) { set_element(rows + token * to.token, c, call.type, from[i]); });
    }
    // To C rows of dv floats, one behind the other.
    template <int C>
    __device__ __forceinline__ void store(const float (&from)[4], float* rows, const Call& call) const {
        each(C, call, [&](int i, int token, int c) { rows[token * call.dv + c] = from[i]; });
    }
};

// A tile of rows of k or q on its way to shared memory, in the registers of the whole block.
template <int DK, int C>
struct ArrivingRows {
    static constexpr int count = C * DK / 4 / sweep_threads;
    RawQuad x[count];

    // Rows of dk numbers from `rows` on, n of them.
    __device__ __forceinline__ void start(const char* rows, const Operand& from, int n, const Call& call) {
        const bool whole = n == C && call.dk == DK && from.quads;
#pragma unroll
        for (int j = 0; j < count; ++j) {
            const int i = threadIdx.x + j * sweep_threads, t = i / (DK / 4), c = i % (DK / 4) * 4;
            const char* row = rows + t * from.token;
            if (whole) x[j] = raw_quad(row, c, call.type);
            else if (t < n) x[j] = raw_quad_within(row, c, call.dk, from.quads, call.type);
            else x[j] = {0, 0, 0, 0};
        }
    }
    __device__ __forceinline__ void put(float* X, Type type) const {
#pragma unroll
        for (int j = 0; j < count; ++j) {
            const int i = threadIdx.x + j * sweep_threads;
            *reinterpret_cast<float4*>(X + SwizzledRows<DK>::at(i / (DK / 4), i % (DK / 4) * 4)) = value(x[j], type);
        }
    }
};

// With a gate per channel, whose products go down the tokens, tiles are copied as they are in memory first. C = 0:
// nothing.
template <int DK, int C>
struct ChannelTiles {
    float4 rows[2][C * DK / 4], log_gates[2][C * DK / 4];  // by slot; of the keys' tile
    float e[C * DK], weighted_k[C * DK];                   // e, w ⊙ k

    __device__ __forceinline__ void start(const Part& p, const TilePlace& at, int chunk, int item, int slot) {
        stage_item<DK, C, Gates::channel, sweep_threads>(rows[slot], log_gates[slot], p, at, chunk, item);
    }
    // e ⊙ k or e ⊙ q to X.
    __device__ __forceinline__ void put(float* X, int item, int slot, Type type) {
        convert_item<DK, C, Gates::channel, sweep_threads, SwizzledRows<DK>>(X, e, weighted_k, rows[slot],
                                                                             log_gates[slot], item == 0, type);
    }
};
template <int DK>
struct ChannelTiles<DK, 0> {
    static constexpr const float *e = nullptr, *weighted_k = nullptr;
};

// x times one factor a token: two numbers, of the tokens of elements 0 and 1.
__device__ __forceinline__ void scale_tokens(float (&x)[4], const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] *= factor[i % 2];
}

// Of the lane's tokens of tile `at.group`: β, e and w.
struct TokenFactors {
    float beta[2], e[2] = {1.0f, 1.0f}, w[2] = {1.0f, 1.0f};

    template <int C, Gates gates>
    __device__ __forceinline__ void load(const Part& p, const TilePlace& at, int chunk, int64_t start, int n) {
        const Call& call = p.call;
        const float* head_gates = p.scores + (at.bh * p.chunks + chunk + 1) * p.floats - 2 * C;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int t = at.token(i);
            beta[i] = call.beta && t < n ? call.beta[at.bh * call.N + start + t] : 0.0f;
            if constexpr (gates == Gates::head) e[i] = head_gates[t], w[i] = head_gates[C + t];
        }
    }
};

// The warp's part of a state.
template <int DK>
struct StateTile {
    static constexpr int channels = DK / channel_groups, tiles = channels / 8;
    float x[tiles][4];

    // f(element, channel, column).
    template <class F>
    __device__ __forceinline__ void each(const TilePlace& at, const F& f) {
#pragma unroll
        for (int m = 0; m < tiles; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) f(x[m][i], at.group * channels + 8 * m + 2 * at.t + i % 2, at.column_of(i));
        }
    }
    // f(element, its place) for those that a state [dk, dv] in memory has.
    template <class Float, class F>
    __device__ __forceinline__ void each_in(Float* state, const Call& call, const TilePlace& at, const F& f) {
        const int channel = at.group * channels + 2 * at.t;
        Float* even = state + static_cast<int64_t>(channel) * call.dv + at.column_of(0);
        const bool whole = call.dk == DK && at.column + 16 <= call.dv;
#pragma unroll
        for (int m = 0; m < tiles; ++m, even += 8 * call.dv) {
            Float* odd = even + call.dv;
            if (whole) {
                f(x[m][0], even[0]), f(x[m][1], odd[0]), f(x[m][2], even[8]), f(x[m][3], odd[8]);
                continue;
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (channel + 8 * m + i % 2 < call.dk && at.column_of(i) < call.dv)
                    f(x[m][i], (i % 2 ? odd : even)[i / 2 * 8]);
            }
        }
    }
    // From and to such a state; from null: zeros.
    __device__ __forceinline__ void load(const float* from, const Call& call, const TilePlace& at) {
#pragma unroll
        for (int m = 0; m < tiles; ++m) x[m][0] = x[m][1] = x[m][2] = x[m][3] = 0.0f;
        if (from) each_in(from, call, at, [](float& to, float in_memory) { to = in_memory; });
    }
    __device__ __forceinline__ void store(float* to, const Call& call, const TilePlace& at) {
        each_in(to, call, at, [](float f, float& in_memory) { in_memory = f; });
    }
    __device__ __forceinline__ bool is_finite() const {
        bool finite = true;
#pragma unroll
        for (int m = 0; m < tiles; ++m) finite = finite && are_finite(x[m]);
        return finite;
    }

    // S ← e_last ⊙ S; channel_e: with a gate per channel, [C][DK].
    template <int C, Gates gates>
    __device__ __forceinline__ void decay(float last, const float* channel_e, const TilePlace& at) {
        if constexpr (gates != Gates::none) {
            each(at, [&](float& f, int channel, int) {
                f *= gates == Gates::channel ? channel_e[(C - 1) * DK + channel] : last;
            });
        }
    }

    // This warp's channels of X S for C rows of X.
    template <int C>
    __device__ __forceinline__ void times(TokenTiles<C>& to, const float* X, const TilePlace& at) const {
        using Rows = SwizzledRows<DK>;
        float sum[C / 8][4] = {};
#pragma unroll
        for (int m = 0; m < tiles; ++m) {
            const tf32::Left a = tf32::left_of(x[m]);
            const float* pairs = X + Rows::at(at.g, at.group * channels + 8 * m + 2 * at.t);
            tf32::Right b[C / 8];
#pragma unroll
            for (int n = 0; n < C / 8; ++n) {
                const float2 pair = *reinterpret_cast<const float2*>(pairs + 8 * n * DK);
                b[n] = tf32::right_of(pair.x, pair.y);
            }
            tf32::multiply(sum, a, b);
        }
#pragma unroll
        for (int n = 0; n < C / 8; ++n) to[n][at.lane] = quad_of(sum[n]);
    }

    // S += Xᵀ Y for C rows of X and of Y.
    template <int C>
    __device__ __forceinline__ void add_outer(const TokenTiles<C>& Y, const float* X, const TilePlace& at) {
        using Rows = SwizzledRows<DK>;
        const float *even[tiles], *odd[tiles];  // rows of two consecutive tokens
#pragma unroll
        for (int m = 0; m < tiles; ++m) {
            const int channel = at.group * channels + 8 * m + at.g;
            even[m] = X + Rows::at(2 * at.t, channel), odd[m] = X + Rows::at(2 * at.t + 1, channel);
        }
        float sum[tiles][4] = {};
#pragma unroll
        for (int n = 0; n < C / 8; ++n) {
            const tf32::Left a = tf32::left_of(Y[n][at.lane]);
            tf32::Right b[tiles];
#pragma unroll
            for (int m = 0; m < tiles; ++m) b[m] = tf32::right_of(even[m][8 * n * DK], odd[m][8 * n * DK]);
            tf32::multiply(sum, a, b);
        }
#pragma unroll
        for (int m = 0; m < tiles; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) x[m][i] += sum[m][i];
        }
    }
};

// The lane's elements of tile `at.group` of a product with the state, all channels.
template <int C>
__device__ __forceinline__ void sum_groups(float (&to)[4], const TokenTiles<C> (&partial)[channel_groups],
                                           const TilePlace& at) {
    float4 sum = partial[0][at.group][at.lane];
#pragma unroll
    for (int i = 1; i < channel_groups; ++i) {
        const float4 f = partial[i][at.group][at.lane];
        sum = {sum.x + f.x, sum.y + f.y, sum.z + f.z, sum.w + f.w};
    }
    to[0] = sum.x, to[1] = sum.y, to[2] = sum.z, to[3] = sum.w;
}

// x += tile `at.group` of L Y, or of Lᵀ Y: L lower triangular of C rows of C + 4 floats (what stands above the diagonal
// within 8 columns must be 0).
template <int C, bool transposed = false>
__device__ __forceinline__ void add_lower(float (&x)[4], const float* L, const TokenTiles<C>& Y, const TilePlace& at) {
    float sum[2][4] = {};
    const int own = 8 * at.group + at.g;
#pragma unroll
    for (int n = 0; n < C / 8; ++n) {
        if (transposed ? n < at.group : n > at.group) continue;
        const float* l = transposed ? L + (8 * n + 2 * at.t) * (C + 4) + own : L + own * (C + 4) + 8 * n + 2 * at.t;
        tf32::multiply(sum[n % 2], tf32::left_of(Y[n][at.lane]), tf32::right_of(l[0], l[transposed ? C + 4 : 1]));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] += sum[0][i] + sum[1][i];
}

}  // namespace causeway::gpu::gated
