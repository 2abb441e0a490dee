// The launch of the Hopper kernel: the only file of the folder compiled for sm_90a.
#include "gpu/kit/launch.hpp"
#include "gpu/softmax/flash.hpp"
#include "gpu/softmax/flash/kernel.cuh"

namespace causeway::gpu::softmax {

namespace {

template <class E, int D>
void run(const SoftmaxArgs& a, cudaStream_t stream) {
    const flash::Plan plan = flash::plan_of(a);
    launch(flash::flash_hopper<E, D>, "launching flash_hopper", dim3(plan.blocks), flash::threads,
           flash::Layout<D>::bytes, 1, false, stream, plan.maps, plan.params);
}

template <class E>
void run(const SoftmaxArgs& a, cudaStream_t stream) {
    if (a.d == 64) run<E, 64>(a, stream);
    else run<E, 128>(a, stream);
}

}  // namespace

void flash_on_hopper(const SoftmaxArgs& a, cudaStream_t stream) {
    if (a.type == Type::BFloat16) run<__nv_bfloat16>(a, stream);
    else run<__half>(a, stream);
}

}  // namespace causeway::gpu::softmax
