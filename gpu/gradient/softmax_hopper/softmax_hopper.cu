// The two passes of the gradient of softmax attention on Hopper, and their launches.
#include "gpu/gradient/softmax_hopper.hpp"

#include <algorithm>

#include "gpu/gradient/softmax_hopper/consume.cuh"
#include "gpu/gradient/softmax_hopper/load.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::softmax {

namespace backward {
namespace {

constexpr int threads = 128 * (1 + consumers);

// Registers of a thread: the producer gives back what the consumers take, 24 + 2 · 240 = 3 · 168 of them.
constexpr int producer_registers = 24, consumer_registers = 240;

// Where a block of a pass finds its tensors, for both passes.
struct AllMaps {
    TensorMaps keys, queries;
};

template <class E, class Pass>
__device__ __forceinline__ void run_pass(const TensorMaps& maps, const Gradient& g, uint32_t base, int32_t block) {
    const Layout<Pass> memory{base};
    const Pass pass(g.c, block);
    if (threadIdx.x == 0) memory.init_barriers();
    __syncthreads();
    if (threadIdx.x < 128) {
        ptx::reg_dealloc<producer_registers>();
        if (threadIdx.x == 0) load(maps, g, memory, pass);
    } else {
        ptx::reg_alloc<consumer_registers>();
        Consumer<E, Pass>(memory, g, pass).run(maps);
    }
}

// Both passes in one launch: where the blocks of keys run out, those of queries fill the device.
template <class E, int D>
__global__ __launch_bounds__(threads, 1) void gradient_hopper(const __grid_constant__ AllMaps maps,
                                                              const __grid_constant__ Gradient g, int32_t key_blocks) {
    extern __shared__ unsigned char dynamic[];
    const uint32_t base = round_up_to_swizzle_atom(ptx::shared_address(dynamic));
    const auto block = static_cast<int32_t>(blockIdx.x);
    if (block < key_blocks) run_pass<E, KeyPass<D>>(maps.keys, g, base, block);
    else run_pass<E, QueryPass<D>>(maps.queries, g, base, block - key_blocks);
}

template <class E, int D>
void run(const SoftmaxGradArgs& a, const Gradient& g, cudaStream_t stream) {
    const Plan keys = plan_of(a, true), queries = plan_of(a, false);
    launch(gradient_hopper<E, D>, "launching gradient_hopper",
           dim3(check_blocks(gradient_name, keys.blocks + queries.blocks)), threads,
           std::max(Layout<KeyPass<D>>::bytes, Layout<QueryPass<D>>::bytes), 1, false, stream,
           AllMaps{keys.maps, queries.maps}, g, static_cast<int32_t>(keys.blocks));
}

template <class E>
void run(const SoftmaxGradArgs& a, const Gradient& g, cudaStream_t stream) {
    if (a.in.d == 64) run<E, 64>(a, g, stream);
    else run<E, 128>(a, g, stream);
}

}  // namespace
}  // namespace backward

void gradient_on_hopper(const SoftmaxGradArgs& a, const Gradient& g, cudaStream_t stream) {
    if (a.in.type == Type::BFloat16) backward::run<__nv_bfloat16>(a, g, stream);
    else backward::run<__half>(a, g, stream);
}

}  // namespace causeway::gpu::softmax
