// Flash attention for Hopper: warpgroup products and TMA, d = dv = 64 or 128, 16-bit types. README.md draws it.
#pragma once

#include "gpu/softmax/flash/attend.cuh"
#include "gpu/softmax/flash/load.cuh"

namespace causeway::gpu::softmax::flash {

constexpr int threads = 128 * (1 + consumers);

// Registers of a thread: the producer gives back what the consumers take, 24 + 2 · 240 = 3 · 168 of them.
constexpr int producer_registers = 24, consumer_registers = 240;

template <class E, int D>
__global__ __launch_bounds__(threads, 1) void flash_hopper(const __grid_constant__ TensorMaps maps,
                                                           const __grid_constant__ Params c) {
    extern __shared__ unsigned char dynamic[];
    const Layout<D> memory{round_up_to_swizzle_atom(ptx::shared_address(dynamic))};
    const int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128;
    const Block block(c);
    if (threadIdx.x == 0) memory.init_barriers();
    __syncthreads();

    if (warpgroup == 0) {
        ptx::reg_dealloc<producer_registers>();
        if (thread == 0) load<D>(maps, memory, block);
    } else {
        ptx::reg_alloc<consumer_registers>();
        attend<E, D>(maps, memory, block, warpgroup - 1, thread);
    }
}

}  // namespace causeway::gpu::softmax::flash
