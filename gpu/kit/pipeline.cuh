// The pipeline between warps of a block: a ring of stages of shared memory that a producer fills and consumers empty,
// each stage with two mbarriers. The words are those of CUTLASS:
//
//   producer   acquire (waits until the stage is empty), writes or starts a TMA load, commit (the stage is full)
//   consumer   wait (until the stage is full), reads, release (the stage is empty)
//
// A position in the ring is either the number of stages that went through before, uint32_t, from which stage and phase
// are a division by a constant (cheap for powers of two), or a PipelineState, which counts both itself.
#pragma once

#include <cstdint>

#include "gpu/kit/ptx.cuh"

namespace causeway::gpu {

// Arrivals at a barrier of a warp that has done something together. racecheck of compute-sanitizer does not know that
// __syncwarp orders what all lanes did before the arrival of one of them (gpu/bench/bench_racecheck.cu shows it); in a
// library built for it, -DCAUSEWAY_RACECHECK=ON, every lane arrives for itself.
#ifdef CAUSEWAY_RACECHECK
constexpr uint32_t warp_arrivals = 32;
#else
constexpr uint32_t warp_arrivals = 1;
#endif
// By all lanes of a warp.
__device__ __forceinline__ void arrive_as_warp(uint32_t bar, int lane) {
    __syncwarp();
    if (warp_arrivals > 1 || lane == 0) ptx::mbarrier_arrive(bar);
}

// Which stage comes next, and how often, modulo 2, the ring went round.
template <uint32_t stages>
struct PipelineState {
    uint32_t stage = 0, phase = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == stages) stage = 0, phase ^= 1;
    }
};

// The barriers of a pipeline as they lie in shared memory.
template <uint32_t stages>
struct PipelineBarriers {
    uint64_t full[stages], empty[stages];
};

// Stages of `stage_bytes` that begin `data` bytes behind the base of the block's shared memory, and their barriers,
// first all full ones, then all empty ones, that begin `barriers` bytes behind it. Where several alike lie one after
// the other, `more_data` and `more_barriers` choose one of them.
template <uint32_t stages, uint32_t stage_bytes, uint32_t data, uint32_t barriers>
struct Pipeline {
    static constexpr uint32_t data_end = data + stages * stage_bytes;
    using State = PipelineState<stages>;

    uint32_t base, more_data = 0, more_barriers = 0;

    // By one thread of the block, before all others use it: how many arrivals (TMA: 1, which also announces the bytes;
    // a warp: warp_arrivals) fill a stage, and how many empty it.
    __device__ __forceinline__ void init(uint32_t producers, uint32_t consumers) const {
        for (uint32_t i = 0; i < stages; ++i)
            ptx::mbarrier_init(full(i), producers), ptx::mbarrier_init(empty(i), consumers);
    }

    static __device__ __forceinline__ uint32_t stage_of(uint32_t n) { return n % stages; }
    static __device__ __forceinline__ uint32_t stage_of(const State& s) { return s.stage; }
    static __device__ __forceinline__ uint32_t phase_of(uint32_t n) { return n / stages % 2; }
    static __device__ __forceinline__ uint32_t phase_of(const State& s) { return s.phase; }

    // Addresses in shared memory of a stage and of its barriers.
    template <class Position>
    __device__ __forceinline__ uint32_t at(const Position& n) const {
        return base + data + more_data + stage_of(n) * stage_bytes;
    }
    template <class Position>
    __device__ __forceinline__ uint32_t full(const Position& n) const {
        return base + barriers + more_barriers + stage_of(n) * 8;
    }
    template <class Position>
    __device__ __forceinline__ uint32_t empty(const Position& n) const {
        return base + barriers + more_barriers + 8 * stages + stage_of(n) * 8;
    }

    template <class Position>
    __device__ __forceinline__ void producer_acquire(const Position& n) const {
        ptx::mbarrier_wait(empty(n), phase_of(n) ^ 1);
    }
    // Before TMA loads, which complete the stage: it is full when that many bytes have come.
    template <class Position>
    __device__ __forceinline__ void producer_expect(const Position& n, uint32_t bytes) const {
        ptx::mbarrier_arrive_expect_tx(full(n), bytes);
    }
    // By all lanes of a warp that has written by ordinary stores: the tensor cores and the TMA unit see them.
    template <class Position>
    __device__ __forceinline__ void producer_commit(const Position& n, int lane) const {
        ptx::fence_proxy_async();
        arrive_as_warp(full(n), lane);
    }

    template <class Position>
    __device__ __forceinline__ void consumer_wait(const Position& n) const {
        ptx::mbarrier_wait(full(n), phase_of(n));
    }
    // By all lanes of a warp.
    template <class Position>
    __device__ __forceinline__ void consumer_release(const Position& n, int lane) const {
        arrive_as_warp(empty(n), lane);
    }
};

}  // namespace causeway::gpu
