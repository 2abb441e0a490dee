// Everything that is left when the gradient of the state is known: dQ, dK, dg, dβ, chunk by chunk in parallel. A block:
// one chunk of one batch-head. The letters are those of README.md.
#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/gradient/gated_chunks/finish_fma.cuh"
#include "gpu/gradient/gated_chunks/finish_tf32.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gradient {

namespace {

template <Gates gates, int C>
constexpr bool on_tensor_cores = gates != Gates::channel&& C == 32;

// Blocks that a multiprocessor is to hold: at 128 rows the two that its shared memory has room for, so that ptxas does
// not save registers for a third. 0 leaves it to ptxas.
template <int DK>
constexpr int finish_blocks = DK == 128 ? 2 : 0;

template <int DK, int C, Gates gates>
__device__ __noinline__ void finish_carefully(const BackwardPart& x) {
    extern __shared__ __align__(16) unsigned char shared[];
    finish_on_fma<DK, C, gates>(x, *reinterpret_cast<FinishShared<DK, C, gates>*>(shared));
}

template <int DK, int C, Gates gates>
__global__ __launch_bounds__(finish_threads,
                             finish_blocks<DK>) void gated_finish_on_fma(const __grid_constant__ BackwardPart x) {
    extern __shared__ __align__(16) unsigned char shared[];
    finish_on_fma<DK, C, gates>(x, *reinterpret_cast<FinishShared<DK, C, gates>*>(shared));
}

template <int DK, int C, Gates gates>
__global__ __launch_bounds__(finish_threads,
                             finish_blocks<DK>) void gated_finish(const __grid_constant__ BackwardPart x) {
    extern __shared__ __align__(16) unsigned char shared[];
    const TensorFinish<DK, gates> f{x, *reinterpret_cast<TensorFinishShared<DK, gates>*>(shared)};
    if (!__syncthreads_and(f.run())) finish_carefully<DK, C, gates>(x);
}

template <int DK, int C, Gates gates>
void finish(const BackwardPart& x, cudaStream_t stream) {
    const auto run = [&](auto kernel, std::size_t bytes) {
        launch(kernel, "launching gated_finish", dim3(static_cast<unsigned>(x.part.call.all_heads * x.part.chunks)),
               finish_threads, bytes, 1, false, stream, x);
    };
    constexpr std::size_t on_fma = sizeof(FinishShared<DK, C, gates>);
    if constexpr (on_tensor_cores<gates, C>) {
        constexpr std::size_t bytes = std::max(sizeof(TensorFinishShared<DK, gates>), on_fma);
        if (bytes <= device().shared) return run(gated_finish<DK, C, gates>, bytes);
    }
    run(gated_finish_on_fma<DK, C, gates>, on_fma);
}

}  // namespace

void launch_finish(const BackwardPart& x, cudaStream_t stream) {
    with_sizes(x.part.call, [&]<int DK, int C, Gates gates>() { finish<DK, C, gates>(x, stream); });
}

}  // namespace causeway::gpu::gradient
