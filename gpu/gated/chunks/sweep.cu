// From chunk to chunk: the state in registers, and the outputs.
#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/gated/chunks/careful.cuh"
#include "gpu/gated/chunks/tile.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gated {

namespace {

template <int DK, int C, Gates gates>
struct SweepShared {
    static constexpr int per_channel = gates == Gates::channel ? 1 : 0;
    float lower[2][C * (C + 4)];       // the inverse or A
    float K[2][C * DK], Q[2][C * DK];  // by chunk % 2, by slot: k, or e ⊙ k; q, or e ⊙ q
    ChannelTiles<DK, per_channel * C> channel;
    TokenTiles<C> partial[2][channel_groups];  // of the halves: products with a state, by channels
    TokenTiles<C> W[2], U[2], weighted_U[2];   // V - (e ⊙ K) S; U; w ⊙ U with a gate per head, else U
};

// One block: 32 columns of one batch-head (tile.cuh). Its work is a sequence of items: the keys of a chunk, the queries
// of its heads of queries, the keys of the next chunk ...; the tile of the next item is copied while one is worked on.
// record: states and Y are wanted, and no outputs.
//
//   Y = T (V - (e ⊙ K) S), T the inverse, and U = diag(β) Y; without the delta rule U = V
//   O = scale · ((e ⊙ Q) S + A U);  S ← e_last ⊙ S + (w ⊙ K)ᵀ U
//
// A value that is not finite stays in the state for good, so a finite last state, and finite outputs, tell that none
// has come by. Where one has, all is done once more, carefully.
template <int DK, int C, Gates gates, bool record>
__global__ __launch_bounds__(sweep_threads, sweep_blocks<DK>) void gated_sweep(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<SweepShared<DK, C, gates>*>(shared);
    const Call& call = p.call;
    const TilePlace at(call);
    const bool delta = call.beta != nullptr, has_tokens = at.group < C / 8;
    const int items = record ? 1 : 1 + call.group;
    TokenTiles<C>&W = s.W[at.half], &U = s.U[at.half], &weighted_U = s.weighted_U[at.half];

    StateTile<DK> S;
    S.load(p.state_in ? p.state_in + at.bh * p.state_in_step : nullptr, call, at);
    ArrivingRows<DK, C> arriving;
    const auto start_copies = [&](int chunk, int item, int slot) {
        if constexpr (gates == Gates::channel) s.channel.start(p, at, chunk, item, slot);
        else arriving.start(rows_of<C>(p, at, chunk, item), operand_of(call, item), tokens_of<C>(p, chunk), call);
        const int matrix = item == 0 ? (delta ? 0 : -1) : p.matrices + item - 1;
        if (matrix >= 0) stage_lower<C, sweep_threads>(s.lower[slot], p, at.bh, chunk, matrix);
    };
    // What the copies bring, to where the item finds it.
    const auto put = [&](int chunk, int item, int slot) {
        float* X = item == 0 ? s.K[chunk % 2] : s.Q[slot];
        if constexpr (gates == Gates::channel) s.channel.put(X, item, slot, call.type);
        else arriving.put(X, call.type);
    };

    TokenFactors own;
    uint32_t values[4];  // of the lane's tile of tokens, on their way
    bool finite = true;
    int slot = 0;
    start_copies(0, 0, 0);
    if constexpr (gates != Gates::channel) put(0, 0, 0);
    for (int chunk = 0; chunk < p.chunks; ++chunk) {
        const int n = tokens_of<C>(p, chunk);
        const int64_t start = p.first + int64_t{chunk} * C;
        if (record && p.states) S.store(p.states + (at.bh * p.chunks + chunk) * call.dk * call.dv, call, at);
        for (int item = 0; item < items; ++item, slot ^= 1) {
            cp_async_wait_all();
            __syncthreads();
            const bool more = item + 1 < items || chunk + 1 < p.chunks;
            const int next_item = item + 1 < items ? item + 1 : 0, next_chunk = chunk + (next_item == 0);
            if (more) start_copies(next_chunk, next_item, slot ^ 1);
            if (item == 0 && has_tokens) {
                at.load(values, call.v, at.h, start, n, call);
                own.load<C, gates>(p, at, chunk, start, n);
            }
            if constexpr (gates == Gates::channel) {
                put(chunk, item, slot);
                __syncthreads();
            }
            const float* X = item == 0 ? s.K[chunk % 2] : s.Q[slot];

            float x[4];
            if (item > 0 || delta) {
                S.template times<C>(s.partial[at.half][at.group], X, at);
                at.meet();
                if (has_tokens) {
                    sum_groups<C>(x, s.partial[at.half], at);
                    scale_tokens(x, own.e);
                }
            }
            if (item > 0) {
                if (has_tokens) {
                    add_lower<C>(x, s.lower[slot], U, at);
                    finite = finite && are_finite(x);
#pragma unroll
                    for (float& f : x) f *= call.scale;
                    at.store(x, call.o, at.h * call.group + item - 1, start, n, call);
                }
            } else {
                if (has_tokens) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) x[i] = value(values[i], call.type) - (delta ? x[i] : 0.0f);
                }
                if (delta) {
                    if (has_tokens) W[at.group][at.lane] = quad_of(x);
                    at.meet();
                    if (has_tokens) {
#pragma unroll
                        for (float& f : x) f = 0.0f;
                        add_lower<C>(x, s.lower[slot], W, at);
                        if (record && p.Y) at.store<C>(x, p.Y + (at.bh * p.chunks + chunk) * C * call.dv, call);
                        scale_tokens(x, own.beta);
                    }
                }
                if (has_tokens) {
                    U[at.group][at.lane] = quad_of(x);
                    scale_tokens(x, own.w);
                    weighted_U[at.group][at.lane] = quad_of(x);
                }
            }
            if (item + 1 == items) {
                at.meet();
                S.template decay<C, gates>(gates == Gates::head ? last_gate<C>(p, at.bh, chunk) : 1.0f, s.channel.e,
                                           at);
                S.template add_outer<C>(weighted_U, gates == Gates::channel ? s.channel.weighted_k : s.K[chunk % 2],
                                        at);
            }
            if constexpr (gates != Gates::channel) {
                if (more) put(next_chunk, next_item, slot ^ 1);
            }
        }
    }
    if (!__syncthreads_and(finite && S.is_finite())) {
        if (threadIdx.x < careful_threads) walk_carefully<DK, C, gates, record>(p);
        return;
    }
    if (p.state_out) S.store(p.state_out + at.bh * p.state_out_step, call, at);
}

// Where a block has less shared memory than that.
template <int DK, int C, Gates gates, bool record>
__global__ __launch_bounds__(careful_threads) void gated_sweep_on_fma(const __grid_constant__ Part p) {
    walk_carefully<DK, C, gates, record>(p);
}

template <int DK, int C, Gates gates, bool record>
void sweep(const Part& p, cudaStream_t stream) {
    const int64_t wide = (p.call.dv + sweep_columns - 1) / sweep_columns;
    constexpr std::size_t careful = sizeof(CarefulShared<DK, C, gates>),
                          bytes = std::max(sizeof(SweepShared<DK, C, gates>), careful);
    const bool fits = bytes <= device().shared;
    launch(fits ? gated_sweep<DK, C, gates, record> : gated_sweep_on_fma<DK, C, gates, record>, "launching gated_sweep",
           dim3(static_cast<unsigned>(p.call.all_heads * wide)), fits ? sweep_threads : careful_threads,
           fits ? bytes : careful, 1, false, stream, p);
}

}  // namespace

void launch_sweep(const Part& p, cudaStream_t stream) {
    const bool record = p.states || p.call.group == 0;
    with_sizes(p.call, [&]<int DK, int C, Gates gates>() {
        record ? sweep<DK, C, gates, true>(p, stream) : sweep<DK, C, gates, false>(p, stream);
    });
}

}  // namespace causeway::gpu::gated
