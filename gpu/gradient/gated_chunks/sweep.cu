// The gradient of the state, chunk after chunk, the last one first. The letters are those of README.md.
#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/gated/chunks/tile.cuh"
#include "gpu/gradient/gated_chunks/careful_sweep.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gradient {

using namespace gated;

namespace {

template <int DK, int C, Gates gates>
struct BackwardShared {
    static constexpr int per_channel = gates == Gates::channel ? 1 : 0;
    float A[2][C * (C + 4)], inverse[2][C * (C + 4)];  // by slot; by chunk % 2: (I + diag(β) M)⁻¹
    float K[2][C * DK], Q[2][C * DK];                  // by chunk % 2, by slot: k, or e ⊙ k; q, or e ⊙ q
    ChannelTiles<DK, per_channel * C> channel;
    TokenTiles<C> partial[2][channel_groups];        // of the halves: products with a state, by channels
    TokenTiles<C> D[2], decayed_D[2], dU[2], dV[2];  // decayed: e ⊙ D with a gate per head, else D; dV: -e ⊙ dV
};

// One block: 32 columns of one batch-head (gpu/gated/chunks/tile.cuh). E, the gradient of the state after a chunk,
// stays in registers. The work is a sequence of items, as in gated_sweep but backwards: the keys of the last chunk, its
// queries, head after head, then the keys of the chunk before it ... The tile of the next item is copied while one is
// worked on. The sums are over the heads of queries:
//   dU = Kw E + Σ Aᵀ D,  dY = (I + diag(β) M)⁻ᵀ dU,  dV = diag(β) dY;  E ← e_last ⊙ E + Σ Qeᵀ D - Keᵀ dV
//
// Where the last E or a dV is not finite, all is done once more, carefully, as in gated_sweep.
template <int DK, int C, Gates gates>
__global__ __launch_bounds__(sweep_threads,
                             sweep_blocks<DK>) void gated_backward_sweep(const __grid_constant__ BackwardPart x) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<BackwardShared<DK, C, gates>*>(shared);
    const Part& p = x.part;
    const Call& call = p.call;
    const TilePlace at(call);
    const bool delta = call.beta != nullptr, has_tokens = at.group < C / 8;
    const int items = 1 + call.group;

    StateTile<DK> E;
    E.load(x.dstate_in ? x.dstate_in + at.bh * call.dk * call.dv : nullptr, call, at);
    ArrivingRows<DK, C> arriving;
    const auto start_copies = [&](int chunk, int item, int slot) {
        if constexpr (gates == Gates::channel) s.channel.start(p, at, chunk, item, slot);
        else arriving.start(rows_of<C>(p, at, chunk, item), operand_of(call, item), tokens_of<C>(p, chunk), call);
        if (item > 0) stage_lower<C, sweep_threads>(s.A[slot], p, at.bh, chunk, p.matrices + item - 1);
        else if (delta) stage_lower<C, sweep_threads>(s.inverse[chunk % 2], p, at.bh, chunk, 1);
    };
    // What the copies bring, to where the item finds it.
    const auto put = [&](int chunk, int item, int slot) {
        float* X = item == 0 ? s.K[chunk % 2] : s.Q[slot];
        if constexpr (gates == Gates::channel) s.channel.put(X, item, slot, call.type);
        else arriving.put(X, call.type);
    };

    TokenFactors own;
    float dU[4];  // of the lane's tile of tokens, as it grows
    bool finite = true;
    int slot = 0;
    start_copies(p.chunks - 1, 0, 0);
    if constexpr (gates != Gates::channel) put(p.chunks - 1, 0, 0);
    for (int chunk = p.chunks - 1; chunk >= 0; --chunk) {
        const int n = tokens_of<C>(p, chunk);
        const int64_t start = p.first + int64_t{chunk} * C;
        E.store(x.after + (at.bh * p.chunks + chunk) * call.dk * call.dv, call, at);
        for (int item = 0; item < items; ++item, slot ^= 1) {
            cp_async_wait_all();
            __syncthreads();
            const bool more = item + 1 < items || chunk > 0;
            const int next_item = item + 1 < items ? item + 1 : 0, next_chunk = chunk - (next_item == 0);
            if (more) start_copies(next_chunk, next_item, slot ^ 1);
            uint32_t upstream[4];
            if (has_tokens) {
                if (item == 0) own.template load<C, gates>(p, at, chunk, start, n);
                else at.load(upstream, x.dO, at.h * call.group + item - 1, start, n, call);
            }
            if constexpr (gates == Gates::channel) {
                put(chunk, item, slot);
                __syncthreads();
            }
            const float* K = s.K[chunk % 2];

            if (item == 0) {  // dU = Kw E, E ← e_last ⊙ E
                E.template times<C>(s.partial[at.half][at.group], gates == Gates::channel ? s.channel.weighted_k : K,
                                    at);
                E.template decay<C, gates>(gates == Gates::head ? last_gate<C>(p, at.bh, chunk) : 1.0f, s.channel.e,
                                           at);
                at.meet();
                if (has_tokens) {
                    sum_groups<C>(dU, s.partial[at.half], at);
                    scale_tokens(dU, own.w);
                }
            } else {  // dU += Aᵀ D, E += Qeᵀ D
                if (has_tokens) {
                    float D[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) D[i] = call.scale * value(upstream[i], call.type);
                    s.D[at.half][at.group][at.lane] = quad_of(D);
                    scale_tokens(D, own.e);
                    s.decayed_D[at.half][at.group][at.lane] = quad_of(D);
                }
                at.meet();
                if (has_tokens) add_lower<C, true>(dU, s.A[slot], s.D[at.half], at);
                E.template add_outer<C>(s.decayed_D[at.half], s.Q[slot], at);
            }
            if (item + 1 == items) {  // dV; E -= Keᵀ dV
                if (delta) {
                    if (has_tokens) s.dU[at.half][at.group][at.lane] = quad_of(dU);
                    at.meet();
                }
                if (has_tokens) {
                    float dV[4] = {dU[0], dU[1], dU[2], dU[3]};
                    if (delta) {
#pragma unroll
                        for (float& f : dV) f = 0.0f;
                        add_lower<C, true>(dV, s.inverse[chunk % 2], s.dU[at.half], at);
                        at.store<C>(dV, x.dY + (at.bh * p.chunks + chunk) * C * call.dv, call);
                        scale_tokens(dV, own.beta);
                    }
                    finite = finite && are_finite(dV);
                    at.store(dV, x.dv, at.h, start, n, call);
                    if (delta) {
                        scale_tokens(dV, own.e);
                        s.dV[at.half][at.group][at.lane] = {-dV[0], -dV[1], -dV[2], -dV[3]};
                    }
                }
                if (delta) {
                    at.meet();
                    E.template add_outer<C>(s.dV[at.half], K, at);
                }
            }
            if constexpr (gates != Gates::channel) {
                if (more) put(next_chunk, next_item, slot ^ 1);
            }
        }
    }
    if (!__syncthreads_and(finite && E.is_finite())) {
        if (threadIdx.x < careful_threads) walk_back_carefully<DK, C, gates>(x);
        return;
    }
    if (x.dstate_out) E.store(x.dstate_out + at.bh * call.dk * call.dv, call, at);
}

// Where a block has less shared memory than that.
template <int DK, int C, Gates gates>
__global__ __launch_bounds__(careful_threads) void gated_backward_sweep_on_fma(const __grid_constant__ BackwardPart x) {
    walk_back_carefully<DK, C, gates>(x);
}

template <int DK, int C, Gates gates>
void backward_sweep(const BackwardPart& x, cudaStream_t stream) {
    const int64_t wide = (x.part.call.dv + sweep_columns - 1) / sweep_columns;
    constexpr std::size_t careful = sizeof(CarefulBackwardShared<DK, C, gates>),
                          bytes = std::max(sizeof(BackwardShared<DK, C, gates>), careful);
    const bool fits = bytes <= device().shared;
    launch(fits ? gated_backward_sweep<DK, C, gates> : gated_backward_sweep_on_fma<DK, C, gates>,
           "launching gated_backward_sweep", dim3(static_cast<unsigned>(x.part.call.all_heads * wide)),
           fits ? sweep_threads : careful_threads, fits ? bytes : careful, 1, false, stream, x);
}

}  // namespace

void launch_backward_sweep(const BackwardPart& x, cudaStream_t stream) {
    with_sizes(x.part.call, [&]<int DK, int C, Gates gates>() { backward_sweep<DK, C, gates>(x, stream); });
}

}  // namespace causeway::gpu::gradient
