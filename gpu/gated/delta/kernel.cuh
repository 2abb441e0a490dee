// delta_rule, the kernel of the gated delta rule for Hopper: the README of this folder draws its roles and pipelines.
#pragma once

#include "gpu/gated/delta/auxiliary.cuh"
#include "gpu/gated/delta/gates.cuh"
#include "gpu/gated/delta/load.cuh"
#include "gpu/gated/delta/state.cuh"
#include "gpu/gated/delta/store.cuh"

namespace causeway::gpu::gated_delta {

// Registers of a thread after setmaxnreg. A block of 512 threads (D = 128) starts with 128 for each, and
// 24 + 104 + 2 · 192 = 4 · 128. A block of 384 threads (D = 64) starts with 168 for each, and 48 + 200 + 240 = 488 of
// the 3 · 168 = 504 are used. So the auxiliary warpgroup gives registers back at D = 128 and takes some at D = 64.
template <int D>
struct Registers {
    static constexpr int producers = D == 128 ? 24 : 48, auxiliary = D == 128 ? 104 : 200, state = D == 128 ? 192 : 240;
};

template <int D>
constexpr unsigned threads = 256 + 2 * D;  // producers, auxiliary warpgroup, a state warpgroup for 64 columns of v

// lengths: whether the call divides q and k by their lengths.
template <class E, int R, int D, bool delta, bool packed, bool lengths>
__global__ __launch_bounds__(threads<D>, 1) void delta_rule(const __grid_constant__ Maps maps,
                                                            const __grid_constant__ Told<packed> work) {
    using S = Shared<R, D>;
    constexpr Walks walks = walks_of<packed, D>;
    extern __shared__ uint8_t raw[];
    const Pipelines<R, D> pipes(round_up_to_swizzle_atom(ptx::shared_address(raw)));
    const int warpgroup = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        ptx::prefetch_tensor_map(maps.q), ptx::prefetch_tensor_map(maps.k), ptx::prefetch_tensor_map(maps.v),
            ptx::prefetch_tensor_map(maps.o);
        if constexpr (packed) ptx::mbarrier_init(pipes.landed(), 1), ptx::mbarrier_init(pipes.cleared(), 32);
        pipes.template init<lengths>();
    }
    if constexpr (walks == Walks::own) take_walk(work);
    if (work.making) ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();  // for the heads that take maps, and for the states that splits start from
    if constexpr (walks == Walks::own) await_walk(work);
    Split<walks> split(work);
    if (!split.exists(work)) return;
    if (split.making) {
        if (!split.takes_maps(work) || !split.to(work)) return;
    } else if (split.index > 0 && !split.starts_from_maps(work)) {
        float* sums =
            reinterpret_cast<float*>(raw + (pipes.base - ptx::shared_address(raw)) + offsetof(S, sum_of_gates));
        split.start = find_start(split.g, split.start, sums, S::warps);
    }
    __syncthreads();

    if (warpgroup == 0) {
        ptx::reg_dealloc<Registers<D>::producers>();
        // Of packed sequences the whole warp loads and stores: the last chunk needs more than TMA.
        if (packed ? warp == 0 : threadIdx.x == 0) load(pipes, maps, work, split);
        else if (warp == 1) make_gates<R, D, delta, lengths>(pipes, work, split);
        else if ((packed || lane == 0) && warp - 2u < S::state_warpgroups) store<E>(pipes, maps, work, split, warp - 2);
    } else if (warpgroup == 1) {
        if constexpr (D == 128) ptx::reg_dealloc<Registers<D>::auxiliary>();
        else ptx::reg_alloc<Registers<D>::auxiliary>();
        Auxiliary<E, R, D, delta, packed, lengths>{pipes, split, work.scale, work.length_eps, warp, lane}.run();
    } else {
        ptx::reg_alloc<Registers<D>::state>();
        StateWarpgroup<E, R, D, delta, packed, lengths>(pipes, work, split).run();
    }
}

}  // namespace causeway::gpu::gated_delta
