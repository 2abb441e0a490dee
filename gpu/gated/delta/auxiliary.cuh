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

template <class E, int R, int D, bool delta, bool packed, bool lengths>
struct Auxiliary {
    const Pipelines<R, D> pipes;
    const Split<walks_of<packed, D>> split;
    const float scale, length_eps;
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
    // Of a row of a tile, half of which this lane has, and lane ^ 16 the other: 1/√(Σ x² + ε).
    __device__ __forceinline__ float factor_of_row(uint32_t tile, int row, int half) const {
        float even = 0, odd = 0;
#pragma unroll
        for (int i = 0; i < R / 16; ++i) {
            const uint32_t at = R == 128 ? half * tile_bytes + swizzle_128(row, i) : swizzle_128(row, 4 * half + i);
            const float4 x = ptx::ld_shared_f32x4(tile + at);
            const float words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (float word : words) {
                const float2 pair = unpack(E{}, __float_as_uint(word));
                even = fmaf(pair.x, pair.x, even), odd = fmaf(pair.y, pair.y, odd);
            }
        }
        const float sum = even + odd;
        return rsqrtf(sum + __shfl_xor_sync(0xFFFFFFFF, sum, 16) + length_eps);
    }
    // Multiplies the gates of chunk c by the factors of its keys and, where there are outputs, of its queries. Half of
    // the lanes have the keys' part of a row, the others the queries'.
    __device__ __forceinline__ void multiply_by_lengths(uint32_t c) const {
        const uint32_t n = c - split.start, gates = pipes.gate.at(n);
        const int lane = ptx::laneid(), row = 16 * warp + lane % 16, half = lane / 16;
        pipes.k.consumer_wait(n);
        const float of_key = factor_of_row(pipes.k.at(n), row, half);
        float of_query = 1;
        if (c >= split.first) {
            pipes.q.consumer_wait(c - split.first);
            of_query = factor_of_row(pipes.q.at(c - split.first), row, half);
        }
        ptx::mbarrier_wait(pipes.gates_alone(n), pipes.gate.phase_of(n));
        const auto multiply = [&](uint32_t at, float by) { ptx::st_shared(at, by * ptx::ld_shared_f32(at)); };
        if (half == 0) {
            ptx::st_shared(gates + k_factor_at(row), of_key);
            multiply(gates + from_start_at(row), of_key), multiply(gates + to_end_at(row), of_key);
            multiply(gates + to_sixteenth_at(row), of_key);
        } else {
            ptx::st_shared(gates + q_factor_at(row), of_query);
            multiply(gates + q_from_start_at(row), of_query);
        }
        ptx::mbarrier_arrive(pipes.gate.full(n));
    }
    // Waits for the gates of chunk c, which nobody has waited for before. A consumer's wait orders the stores of the
    // other warps before what follows.
    __device__ __forceinline__ void wait_for_gates(uint32_t c) const {
        if constexpr (lengths) multiply_by_lengths(c);
        pipes.gate.consumer_wait(c - split.start);
    }
    // Waits for K Kᵀ of the n-th chunk, whose gates are there, and writes its A to shared memory, to one of two
    // buffers.
    template <bool gated>
    __device__ __forceinline__ void leave_keys(float (&kk)[32], uint32_t n, uint32_t buffer) const {
        const int lane = ptx::laneid(), row = 16 * warp + lane / 4;
        const uint32_t gates = pipes.gate.at(n);
        float beta0 = ptx::ld_shared_f32(gates + beta_at(row)), beta1 = ptx::ld_shared_f32(gates + beta_at(row + 8));
        if constexpr (lengths) {
            beta0 *= ptx::ld_shared_f32(gates + k_factor_at(row));
            beta1 *= ptx::ld_shared_f32(gates + k_factor_at(row + 8));
        }
        ptx::wgmma_wait<0>();
        ptx::hold(kk);
        write_triangle<lengths, gated>(kk, gates, triangle.diagonal(warp), triangle.below(buffer), warp, lane, beta0,
                                       beta1);
    }

    template <bool with_outputs, bool gated>
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
            wait_for_gates(c);
        }
        if constexpr (with_outputs) {
            pipes.q.consumer_wait(n_out);
            pipes.k.consumer_wait(n_all);
            times_keys<E, R>(qk, pipes.q.at(n_out), pipes.k.at(n_all));
            // With the delta rule these gates were waited for in the step before.
            if constexpr (!delta) wait_for_gates(c);
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
            pipes.p.producer_acquire(n_out);
            write_scores<E, lengths, gated>(qk, pipes.p.at(n_out), gates, scale, warp, lane);
            pipes.p.producer_commit(n_out, kept_lane);
        }
        if constexpr (delta) {
            pipes.t.producer_acquire(n_all);
            write_inverse<E>(pipes.t.at(n_all), gates, triangle.below(n_all), triangle.inverse(n_all), warp, lane);
            pipes.t.producer_commit(n_all, kept_lane);
        }
        ptx::mbarrier_arrive(pipes.gate.empty(n_all));
        // Buffer n_all + 1 was last read in the step before, and since then all warps have passed the named barrier.
        if constexpr (delta) {
            if (next > n_all) wait_for_gates(c + 1);
            leave_keys<gated>(kk, next, n_all + 1);
        }
    }

    template <bool gated>
    __device__ __forceinline__ void walk() const {
        if constexpr (delta) {
            float kk[32];
            queue_keys(kk, 0);
            wait_for_gates(split.start);
            leave_keys<gated>(kk, 0, 0);
        }
        for (uint32_t c = split.start; c < split.first; ++c) step<false, gated>(c);
        for (uint32_t c = split.first; c < split.last; ++c) step<true, gated>(c);
    }

    __device__ __forceinline__ void run() const {
        clear();
        if constexpr (has_ungated_walks<R, D, delta, lengths>) {
            if (!split.g) return walk<false>();
        }
        walk<true>();
    }
};

}  // namespace causeway::gpu::gated_delta
