// The role of the auxiliary warpgroup: what needs no state, P and T of each chunk, a chunk or two ahead of the state
// warpgroups.
//
//   T = (I + strict(diag(β) (K Kᵀ ⊙ Γ)))⁻¹ diag(β)   (inverse.cuh)      P = scale · Q Kᵀ ⊙ Γ   (scores.cuh)
//
// Its four warps meet only at the wgmma products and, with the delta rule, at one named barrier a chunk. In between,
// the first warp makes the most of T and the least of P and A, and the last one the other way round.
#pragma once

#include "gpu/gated/delta/inverse.cuh"
#include "gpu/gated/delta/work.cuh"
#include "gpu/kit/barriers.hpp"

namespace causeway::gpu::gated_delta {

template <class E, int R, int D, bool delta, bool packed>
struct Auxiliary {
    const Pipelines<R, D> pipes;
    const Split<packed> split;
    const float scale;
    const int warp;
    // The lane, in a register for the whole loop; inner code reads laneid() anew to save registers.
    const int kept_lane;
    const Triangle<R, D> triangle{pipes.base};

    // What lies above the diagonals of P, T and the inverses stays zero.
    __device__ __forceinline__ void clear() const {
        using S = Shared<R, D>;
        const uint32_t thread = threadIdx.x - 128;
        for (uint32_t at = pipes.p.at(0u) + 16 * thread; at < pipes.base + pipes.t.data_end; at += 16 * 128)
            ptx::st_shared(at, {0, 0, 0, 0});
        const uint32_t inverses = triangle.inverse(0), end = inverses + static_cast<uint32_t>(sizeof(S::inverse));
        for (uint32_t at = inverses + 16 * thread; at < end; at += 16 * 128) ptx::st_shared(at, {0, 0, 0, 0});
        ptx::named_barrier_sync(barriers::delta_auxiliary, barriers::warpgroup);
    }

    // Queues K Kᵀ of the n-th chunk.
    __device__ __forceinline__ void queue_keys(float (&kk)[32], uint32_t n) const {
        pipes.k.consumer_wait(n);
        times_keys<E, R>(kk, pipes.k.at(n), pipes.k.at(n));
    }
    // Waits for K Kᵀ and the gates of the n-th chunk, and writes its A to shared memory, to one of two buffers.
    __device__ __forceinline__ void leave_keys(float (&kk)[32], uint32_t n, uint32_t buffer) const {
        const int lane = ptx::laneid(), row = 16 * warp + lane / 4;
        const uint32_t gates = pipes.gate.at(n);
        pipes.gate.consumer_wait(n);
        const float beta0 = ptx::ld_shared_f32(gates + beta_at(row)),
                    beta1 = ptx::ld_shared_f32(gates + beta_at(row + 8));
        ptx::wgmma_wait<0>();
        ptx::hold(kk);
        write_triangle(kk, gates, triangle.diagonal(warp), triangle.below(buffer), warp, lane, beta0, beta1);
    }

    template <bool with_outputs>
    __device__ __forceinline__ void step(uint32_t c) const {
        // After the last chunk its own A is made again, into the other buffer, and never used: this saves a branch. Its
        // stages have been given back by then, but nothing more is loaded into them.
        const uint32_t n_all = c - split.start, n_out = c - split.first,
                       next = min(c + 1, split.last - 1) - split.start;
        [[maybe_unused]] float kk[32], qk[32];
        if constexpr (!delta && !with_outputs) {
            // Nothing to make here. But an arrival before the stage is full would count for its previous use, so this
            // waits until it is.
            pipes.k.consumer_wait(n_all);
            pipes.gate.consumer_wait(n_all);
        }
        if constexpr (with_outputs) {
            pipes.q.consumer_wait(n_out);
            pipes.k.consumer_wait(n_all);
            times_keys<E, R>(qk, pipes.q.at(n_out), pipes.k.at(n_all));
        }
        const int lane = ptx::laneid();
        const uint32_t gates = pipes.gate.at(n_all);
        if constexpr (delta)
            invert_diagonal(triangle.inverse(n_all) + warp * static_cast<uint32_t>(sizeof(HalfBlock)),
                            triangle.diagonal(warp), lane);
        if constexpr (with_outputs) {
            ptx::wgmma_wait<0>();
            ptx::hold(qk);
            pipes.q.consumer_release(n_out, kept_lane);
        }
        pipes.k.consumer_release(n_all, kept_lane);
        if constexpr (delta) {
            ptx::named_barrier_sync(barriers::delta_auxiliary, barriers::warpgroup);
            queue_keys(kk, next);
        }
        if constexpr (with_outputs) {
            // With the delta rule leave_keys() has waited for these gates already, in the step before.
            if constexpr (!delta) pipes.gate.consumer_wait(n_all);
            pipes.p.producer_acquire(n_out);
            write_scores<E>(qk, pipes.p.at(n_out), gates, scale, warp, lane);
            pipes.p.producer_commit(n_out, kept_lane);
        }
        if constexpr (delta) {
            pipes.t.producer_acquire(n_all);
            write_inverse<E>(pipes.t.at(n_all), gates, triangle.below(n_all), triangle.inverse(n_all), warp, lane);
            pipes.t.producer_commit(n_all, kept_lane);
        }
        ptx::mbarrier_arrive(pipes.gate.empty(n_all));
        // Buffer n_all + 1 was last read in the step before, and since then all warps have passed the named barrier.
        if constexpr (delta) leave_keys(kk, next, n_all + 1);
    }

    __device__ __forceinline__ void run() const {
        clear();
        if constexpr (delta) {
            float kk[32];
            queue_keys(kk, 0);
            leave_keys(kk, 0, 0);
        }
        for (uint32_t c = split.start; c < split.first; ++c) step<false>(c);
        for (uint32_t c = split.first; c < split.last; ++c) step<true>(c);
    }
};

}  // namespace causeway::gpu::gated_delta
