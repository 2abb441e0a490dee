// The role of a state warpgroup: 64 columns of v, whose part of the state stays in its registers.
//
//   U = T (V - diag(2^G) K S),   O = scale · diag(2^G) Q S + P U,   S ← 2^G_last S + Kᵀ diag(2^(G_last - G)) U
//
// Without the delta rule U = V. Everything is transposed: Sᵀ, Uᵀ and Oᵀ have their 64 columns of v as rows, so that the
// accumulator of one product is, rounded, operand A of the next without a word between threads.
#pragma once

#include "gpu/gated/delta/again.cuh"
#include "gpu/gated/delta/layout.cuh"
#include "gpu/gated/delta/work.cuh"
#include "gpu/kit/barriers.hpp"
#include "gpu/kit/pack.cuh"

namespace causeway::gpu::gated_delta {

// acc (+)= a · tileᵀ: 64 tokens as K, a the whole of operand A in registers.
template <class E>
__device__ __forceinline__ void times_tile(float (&acc)[32], const uint32_t (&a)[16], const ptx::TileDescriptor& tile,
                                           bool add) {
    ptx::wgmma_fence();
#pragma unroll
    for (int ks = 0; ks < 4; ++ks)
        ptx::wgmma_rs<E, 0>(acc, a[4 * ks], a[4 * ks + 1], a[4 * ks + 2], a[4 * ks + 3], tile + ks * 32, add || ks > 0);
    ptx::wgmma_commit();
}

// Gives a tile of v back. x: the words that four ldmatrix_x4_trans loaded, or words computed from them. An arrival does
// not wait for loads on their way, and TMA would overwrite what they read, so which lane arrives must depend on x. One
// word of each load is enough. Whatever the comparison gives, it gives the same to all lanes, and exactly one arrives;
// so any constant will do.
template <class P>
__device__ __forceinline__ void release_read(const P& pipe, uint32_t n, const uint32_t (&x)[16]) {
    constexpr uint32_t any_constant = 0x7F817F81;
    const bool met = __any_sync(0xFFFFFFFF, (x[3] ^ x[7] ^ x[11] ^ x[15]) == any_constant);
    if (warp_arrivals > 1 || threadIdx.x % 32 == (met ? 1 : 0)) ptx::mbarrier_arrive(pipe.empty(n));
}

template <class E, int R, int D, bool delta, bool packed, bool lengths>
struct StateWarpgroup {
    using S = Shared<R, D>;
    static constexpr bool take_turns = S::state_warpgroups == 2;

    const Pipelines<R, D> pipes;
    const Work& work;
    const Split<walks_of<packed, D>> split;
    const uint32_t index;  // 0 or 1: which state warpgroup this is, i.e. which 64 of the block's columns of v
    const int warp;
    // The lane, in a register for the whole loop; inner code reads laneid() anew to save registers.
    const int kept_lane;
    const typename Pipelines<R, D>::Out out;
    float s[R / 2];        // Sᵀ, an accumulator of 64 by R
    uint32_t sa[R / 4];    // the same as operand A
    uint32_t rounded[16];  // outputs of the chunk before

    __device__ __forceinline__ StateWarpgroup(Pipelines<R, D> pipes, const Work& work, Split<walks_of<packed, D>> split)
        : pipes(pipes),
          work(work),
          split(split),
          index(threadIdx.x / 128 - 2),
          warp(threadIdx.x % 128 / 32),
          kept_lane(threadIdx.x % 32),
          out(pipes.out(index)) {}

    // f(element of Sᵀ, where it lies in a state in memory, its row, its column), for those that the state in memory
    // has.
    template <class F>
    __device__ __forceinline__ void each_state(const F& f) {
        const int first_column = split.first_column(work), width = split.width(work);
#pragma unroll
        for (int i = 0; i < R / 2; ++i) {
            const int of_v = first_column + 64 * index + 16 * warp + kept_lane / 4 + i % 4 / 2 * 8,
                      of_k = 8 * (i / 4) + 2 * (kept_lane % 4) + i % 2;
            if (of_v < width && of_k < work.dk) f(s[i], int64_t{of_k} * width + of_v, of_k, of_v);
        }
    }
    __device__ __forceinline__ void start_state() {
#pragma unroll
        for (int i = 0; i < R / 2; ++i) s[i] = 0.0f;
        if (split.identity(work))
            each_state([](float& x, int64_t, int of_k, int of_v) { x = of_k == of_v ? 1.0f : 0.0f; });
        else if (const float* const from = split.from(work))
            each_state([=](float& x, int64_t at, int, int) { x = from[at]; });
        pack_state();
    }
    __device__ __forceinline__ void pack_state() {
#pragma unroll
        for (int i = 0; i < R / 4; ++i) sa[i] = pack(E{}, s[2 * i], s[2 * i + 1]);
    }

    // Queues acc = Sᵀ · rowsᵀ, rows: a tile of k or q.
    __device__ __forceinline__ void times_state(float (&acc)[32], const ptx::TileDescriptor& rows) {
        ptx::wgmma_fence();
#pragma unroll
        for (int ks = 0; ks < R / 16; ++ks) {
            ptx::wgmma_rs<E, 0>(acc, sa[4 * ks], sa[4 * ks + 1], sa[4 * ks + 2], sa[4 * ks + 3],
                                rows + (ks / 4 * tile_bytes + ks % 4 * 32), ks > 0);
        }
        ptx::wgmma_commit();
    }
    // The outputs of chunk first + n, for the store.
    __device__ __forceinline__ void leave(uint32_t n) {
        out.producer_acquire(n);
        const uint32_t to = out.at(n) + transposed_rows(warp, ptx::laneid());
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            ptx::stmatrix_x4_trans(to + j * 16 * 128, rounded[4 * j], rounded[4 * j + 1], rounded[4 * j + 2],
                                   rounded[4 * j + 3]);
        }
        out.producer_commit(n, kept_lane);
    }
    // va = Vᵀ.
    __device__ __forceinline__ void read_values(uint32_t (&va)[16], uint32_t tile) {
#pragma unroll
        for (int i = 0; i < 16; i += 4)
            ptx::ldmatrix_x4_trans(reinterpret_cast<uint32_t(&)[4]>(va[i]), tile + i / 4 * 16 * 128);
    }
    // With the delta rule va = (V - diag(2^G) K S)ᵀ, w the products K S; factors of the keys are in from_start.
    template <bool gated>
    __device__ __forceinline__ void read_values_minus(uint32_t (&va)[16], uint32_t tile, const float (&w)[32],
                                                      uint32_t gates, int col) {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            if (i % 4 == 0) ptx::ldmatrix_x4_trans(reinterpret_cast<uint32_t(&)[4]>(va[i]), tile + i / 4 * 16 * 128);
            float2 from_start{1, 1};
            if constexpr (gated) from_start = ptx::ld_shared_f32x2(gates + from_start_at(8 * (i / 2) + col));
            const float2 x = unpack(E{}, va[i]);
            va[i] = pack(E{}, x.x - from_start.x * w[2 * i], x.y - from_start.y * w[2 * i + 1]);
        }
    }
    // o = scale · diag(2^G) Q S, from Q S.
    template <bool gated>
    __device__ __forceinline__ void scale_outputs(float (&o)[32], uint32_t gates, int col) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            const int token = 8 * n + col;
            float2 from_start{1, 1};
            if constexpr (gated)
                from_start = ptx::ld_shared_f32x2(gates + (lengths ? q_from_start_at(token) : from_start_at(token)));
            const float x = work.scale * from_start.x, y = work.scale * from_start.y;
            o[4 * n] *= x, o[4 * n + 1] *= y, o[4 * n + 2] *= x, o[4 * n + 3] *= y;
        }
    }
    // ua = (diag(2^(G_last - G)) U)ᵀ, from U in Float32 or, without the delta rule, from V.
    __device__ __forceinline__ void decay_written(uint32_t (&ua)[16], const float (&u)[32], const uint32_t (&va)[16],
                                                  uint32_t gates, int col) {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float2 to_end = ptx::ld_shared_f32x2(gates + to_end_at(8 * (i / 2) + col));
            float2 x = unpack(E{}, va[i]);
            if constexpr (delta) x = {u[2 * i], u[2 * i + 1]};
            ua[i] = pack(E{}, x.x * to_end.x, x.y * to_end.y);
        }
    }

    // Queues K S and Q S, in this warpgroup's turn, and leaves the outputs of the chunk before in between.
    template <bool with_outputs>
    __device__ __forceinline__ void read_state(float (&w)[32], float (&o)[32], uint32_t c, uint32_t n_all,
                                               uint32_t n_out) {
        pipes.k.consumer_wait(n_all);
        if constexpr (with_outputs) pipes.q.consumer_wait(n_out);
        if constexpr (take_turns) ptx::named_barrier_sync(barriers::delta_turns + index, 2 * barriers::warpgroup);
        if constexpr (delta) times_state(w, ptx::TileDescriptor(pipes.k.at(n_all)));
        if constexpr (with_outputs) {
            if (c > split.first) leave(n_out - 1);
            const ptx::TileDescriptor queries(pipes.q.at(n_out));
            // This stage was waited for above, before the turn was asked for, so this wait returns at once.
            pipes.q.consumer_wait(n_out);
            times_state(o, queries);
        }
        if constexpr (take_turns) ptx::named_barrier_arrive(barriers::delta_turns + 1 - index, 2 * barriers::warpgroup);
    }

    template <bool with_outputs, bool gated>
    __device__ __forceinline__ void step(uint32_t c) {
        const uint32_t n_all = c - split.start, n_out = c - split.first;
        const int col = 2 * (ptx::laneid() % 4);
        uint32_t va[16];
        [[maybe_unused]] float w[32], o[32], u[32];
        read_state<with_outputs>(w, o, c, n_all, n_out);
        pipes.gate.consumer_wait(n_all);
        pipes.v.consumer_wait(n_all);
        const uint32_t gates = pipes.gate.at(n_all);
        const uint32_t v_tile = pipes.v.at(n_all) + index * tile_bytes + transposed_rows(warp, ptx::laneid());
        if constexpr (delta) {
            ptx::wgmma_wait<0>();
            ptx::hold(w);
            if constexpr (with_outputs) ptx::hold(o);
            read_values_minus<gated>(va, v_tile, w, gates, col);
            release_read(pipes.v, n_all, va);
            const ptx::TileDescriptor inverse(pipes.t.at(n_all));
            pipes.t.consumer_wait(n_all);
            times_tile<E>(u, va, inverse, false);
        } else {
            read_values(va, v_tile);
        }
        if constexpr (gated) {
            const float all =
                ptx::ld_shared_f32(gates + (lengths ? uint32_t{offsetof(DeltaGates, all)} : from_start_at(chunk - 1)));
#pragma unroll
            for (int i = 0; i < R / 2; ++i) s[i] *= all;
        }
        if constexpr (with_outputs) {
            if constexpr (!delta) {
                ptx::wgmma_wait<0>();
                ptx::hold(o);
            }
            pipes.q.consumer_release(n_out, kept_lane);
            scale_outputs<gated>(o, gates, col);
        }
        if constexpr (delta) {
            ptx::wgmma_wait<0>();
            ptx::hold(u);
            pipes.t.consumer_release(n_all, kept_lane);
#pragma unroll
            for (int i = 0; i < 16; ++i) va[i] = pack(E{}, u[2 * i], u[2 * i + 1]);
        }
        uint32_t ua[16];
        if constexpr (gated) decay_written(ua, u, va, gates, col);
        if constexpr (!delta) release_read(pipes.v, n_all, va);
        ptx::mbarrier_arrive(pipes.gate.empty(n_all));
        write_state(gated ? ua : va, n_all);
        if constexpr (with_outputs) {
            const ptx::TileDescriptor scores(pipes.p.at(n_out));
            pipes.p.consumer_wait(n_out);
            ptx::hold(o);
            times_tile<E>(o, va, scores, true);
        }
        ptx::wgmma_wait<with_outputs ? 1 : 0>();
        ptx::hold(s);
        pipes.k.consumer_release(n_all, kept_lane);
        pack_state();
        if constexpr (with_outputs) {
            ptx::wgmma_wait<0>();
            ptx::hold(o);
            pipes.p.consumer_release(n_out, kept_lane);
#pragma unroll
            for (int i = 0; i < 16; ++i) rounded[i] = pack(E{}, o[2 * i], o[2 * i + 1]);
        }
    }

    // Queues Sᵀ += ua · K.
    __device__ __forceinline__ void write_state(const uint32_t (&ua)[16], uint32_t n) {
        const ptx::TileDescriptor keys(pipes.k.at(n), tile_bytes);
        ptx::hold(s);
        ptx::wgmma_fence();
#pragma unroll
        for (int ks = 0; ks < 4; ++ks)
            ptx::wgmma_rs<E, 1>(s, ua[4 * ks], ua[4 * ks + 1], ua[4 * ks + 2], ua[4 * ks + 3], keys + ks * 16 * 128, 1);
        ptx::wgmma_commit();
    }

    template <bool gated>
    __device__ __forceinline__ void walk() {
        for (uint32_t c = split.start; c < split.first; ++c) step<false, gated>(c);
        for (uint32_t c = split.first; c < split.last; ++c) step<true, gated>(c);
    }

    __device__ __forceinline__ void run() {
        start_state();
        // The two state warpgroups take turns in queueing their products with the state. The first one goes first: the
        // second arrives for it here. Nobody waits for the second's last arrival; the block ends with it.
        if (take_turns && index == 1) ptx::named_barrier_arrive(barriers::delta_turns, 2 * barriers::warpgroup);
        bool gated = true;
        if constexpr (has_ungated_walks<R, D, delta, lengths>) gated = split.g;
        if (gated) walk<true>();
        else if constexpr (has_ungated_walks<R, D, delta, lengths>) walk<false>();
        if (split.last > split.first) leave(split.last - 1 - split.first);
        // In maps, and in the states behind the part, a value that is not finite stays. Elsewhere the walk once more
        // starts from the state before, which may lie where this one goes to: it is written last.
        if (split.making ||
            ptx::named_barrier_and(barriers::delta_finite + index, barriers::warpgroup, are_finite(s))) {
            if (float* const to = split.to(work)) each_state([=](float& x, int64_t at, int, int) { to[at] = x; });
            return;
        }
        out.producer_acquire(split.last - split.first);  // all outputs are in memory
        walk_again<E, R, D, delta, packed, lengths>(work, split, index);
    }
};

}  // namespace causeway::gpu::gated_delta
