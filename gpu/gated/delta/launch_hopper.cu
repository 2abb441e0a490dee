// The kernel for Hopper, and its launch.
#include <algorithm>

#include "gpu/gated/delta/launch.cuh"

namespace causeway::gpu::gated_delta {

namespace {

// Some of the kernels of a call; work.initial and work.final as they are to be.
void launch_some(const GatedArgs& a, const Plan& p, Work work, Launched which, cudaStream_t stream) {
    work.chunks = p.bound.back();
    work.splits = static_cast<uint32_t>(which.maps || which.scan ? p.splits() : p.with_outputs());
    work.finer = static_cast<uint32_t>(p.finer), work.leads = p.lead > 0;
    std::copy(p.bound.begin(), p.bound.end(), work.bound);
    const Maps maps = maps_of(a);
    with_sizes(a, p, [&]<class E, int R, int D, bool delta, bool lengths>() {
        launch_group<E, R, D, delta, false, lengths>(maps, work, p, p.group(), stream, which);
    });
}

Work steps_work_of(const GatedArgs& a, const Plan& p, const Scratch& scratch) {
    Work work = work_of(a, p, scratch);
    work.first_maps = true;
    if (scratch.A) work.A += p.state_heads * a.dk * p.rows;
    return work;
}

}  // namespace

void run_hopper(const GatedArgs& a, const Plan& p, cudaStream_t stream) {
    const Scratch scratch = scratch_of(a, p);
    Work work = work_of(a, p, scratch);
    copy_states(work, a, p, p.group(), scratch, stream);
    launch_some(a, p, work, {}, stream);
}

void run_hopper_maps(const GatedArgs& a, const Plan& p, cudaStream_t stream) {
    Work work = steps_work_of(a, p, scratch_of(a, p));
    work.initial = nullptr;
    launch_some(a, p, work, {.maps = true, .scan = false, .outputs = false}, stream);
}

void run_hopper_states(const GatedArgs& a, const Plan& p, float* after, cudaStream_t stream) {
    const Scratch scratch = scratch_of(a, p);
    launch_some(a, p, steps_work_of(a, p, scratch), {.maps = false, .scan = true, .outputs = false}, stream);
    if (!after) return;
    const std::int64_t states = p.state_heads * a.dk * a.dv;
    check(cudaMemcpyAsync(after, scratch.B + (p.group().parts - 1) * states, static_cast<std::size_t>(states) * 4,
                          cudaMemcpyDeviceToDevice, stream),
          "copying the state");
}

void run_hopper_outputs(const GatedArgs& a, const Plan& p, cudaStream_t stream) {
    const Scratch scratch = scratch_of(a, p);
    Work work = steps_work_of(a, p, scratch);
    copy_states(work, a, p, p.group(), scratch, stream);
    launch_some(a, p, work, {.maps = false, .scan = false, .outputs = true}, stream);
}

}  // namespace causeway::gpu::gated_delta
