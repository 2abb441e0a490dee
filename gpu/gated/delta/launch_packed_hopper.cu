// The kernel for Hopper on packed sequences, and its launch.
#include "gpu/gated/delta/launch.cuh"
#include "gpu/kit/copy_list.hpp"

namespace causeway::gpu::gated_delta {

void run_packed_hopper(const GatedArgs& a, const PackedPlan& p, cudaStream_t stream) {
    if (p.groups.empty()) return;  // no token at all
    const Maps maps = maps_of(a);
    for (const Group& group : p.groups) {
        const Scratch scratch = scratch_of(a, p, group);
        PackedWork work{work_of(a, p, scratch), {}};
        work.each = group.each;
        if (a.state) work.initial = work.final = a.state + group.first * p.state_heads * a.dk * a.dv;
        copy_states(work, a, p, group, scratch, stream);
        if (scratch.walks) copy_list(scratch.walks, group.walks, stream, "copying the walks over packed sequences");
        else std::copy(group.walks.begin(), group.walks.end(), work.few);
        work.walks = scratch.walks;
        with_sizes(a, p, [&]<class E, int R, int D, bool delta, bool lengths>() {
            launch_group<E, R, D, delta, true, lengths>(maps, work, p, group, stream);
        });
    }
}

}  // namespace causeway::gpu::gated_delta
