// The kernel for Hopper, and its launch.
#include <algorithm>

#include "gpu/gated/delta/launch.cuh"

namespace causeway::gpu::gated_delta {

void run_hopper(const GatedArgs& a, const Plan& p, cudaStream_t stream) {
    const Scratch scratch = scratch_of(a, p);
    Work work = work_of(a, p, scratch);
    work.chunks = p.bound.back(), work.splits = static_cast<uint32_t>(p.splits());
    work.finer = static_cast<uint32_t>(p.finer);
    std::copy(p.bound.begin(), p.bound.end(), work.bound);
    const Group all = p.group();
    copy_states(work, a, p, all, scratch, stream);
    const Maps maps = maps_of(a);
    with_sizes(a, p, [&]<class E, int R, int D, bool delta, bool lengths>() {
        launch_group<E, R, D, delta, false, lengths>(maps, work, p, all, nullptr, stream);
    });
}

}  // namespace causeway::gpu::gated_delta
