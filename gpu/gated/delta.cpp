#include "gpu/gated/delta.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/gated/delta/plan.hpp"
#include "gpu/kit/tensor_map.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

void check_args(const GatedArgs& a) {
    if (a.B < 0 || a.H < 0 || a.N < 0)
        fail("delta_hopper: B, H, N are ", a.B, ", ", a.H, ", ", a.N, ", expected none below 0");
    if (!delta_hopper_takes(a)) fail("delta_hopper: a problem that it does not take; see delta_hopper_takes");
}

bool no_tokens(const GatedArgs& a) { return a.B == 0 || a.H == 0 || a.N == 0; }

void check_workspace(const GatedArgs& a, std::size_t need) {
    if (need > a.workspace.bytes) fail("delta_hopper: a workspace of ", a.workspace.bytes, " bytes, expected ", need);
}

// The most that any group needs.
std::size_t bytes_of(const GatedArgs& a, const gated_delta::PackedPlan& p) {
    GatedArgs sizes = a;
    sizes.workspace = {};
    std::size_t most = 0;
    for (const gated_delta::Group& group : p.groups)
        most = std::max(most, gated_delta::scratch_of(sizes, p, group).bytes);
    return most;
}

// As packed sequences that are not at fixed places are cut.
gated_delta::PackedCut cut_of(const GatedArgs& a) {
    return a.cut_together ? gated_delta::PackedCut::together : gated_delta::PackedCut::alone;
}

std::size_t packed_workspace(const GatedArgs& a, const Sequences& sequences, gated_delta::PackedCut how) {
    check_args(a);
    if (no_tokens(a)) return 0;
    return bytes_of(a, gated_delta::packed_plan_of(a, sequences, how));
}

void run_packed(const GatedArgs& a, const Sequences& sequences, gated_delta::PackedCut how, cudaStream_t stream) {
    check_args(a);
    if (no_tokens(a)) return;
    const gated_delta::PackedPlan p = gated_delta::packed_plan_of(a, sequences, how);
    check_workspace(a, bytes_of(a, p));
    gated_delta::run_packed_hopper(a, p, stream);
}

}  // namespace

bool delta_hopper_takes(const GatedArgs& a) {
    return (a.type == Type::BFloat16 || a.type == Type::Float16) && a.gates <= 1 && a.group >= 1 && a.dk >= 1 &&
           a.dk <= 128 && a.dv >= 1 && a.dv <= 256 && a.N < int64_t{1} << 31 &&
           a.B * a.H * a.group < int64_t{1} << 22 && device().hopper() && tma_reaches(a.q, a.type, a.q_stride) &&
           tma_reaches(a.k, a.type, a.k_stride) && tma_reaches(a.v, a.type, a.v_stride) &&
           tma_reaches(a.o, a.type, a.o_stride);
}

std::size_t delta_hopper_workspace(const GatedArgs& a) {
    check_args(a);
    if (no_tokens(a)) return 0;
    GatedArgs sizes = a;
    sizes.workspace = {};
    return gated_delta::scratch_of(sizes, gated_delta::plan_of(a)).bytes;
}

void delta_hopper(const GatedArgs& a, cudaStream_t stream) {
    check_workspace(a, delta_hopper_workspace(a));
    if (no_tokens(a)) return;
    gated_delta::run_hopper(a, gated_delta::plan_of(a), stream);
}

bool delta_hopper_in_steps(const GatedArgs& a) { return a.beta && delta_hopper_takes(a); }

std::size_t delta_hopper_steps_workspace(const GatedArgs& a, bool goes_on) {
    check_args(a);
    if (no_tokens(a)) return 0;
    GatedArgs sizes = a;
    sizes.workspace = {};
    return gated_delta::scratch_of(sizes, gated_delta::steps_plan_of(a, goes_on)).bytes;
}

void delta_hopper_maps(const GatedArgs& a, bool goes_on, cudaStream_t stream) {
    check_workspace(a, delta_hopper_steps_workspace(a, goes_on));
    if (!no_tokens(a)) gated_delta::run_hopper_maps(a, gated_delta::steps_plan_of(a, goes_on), stream);
}

void delta_hopper_states(const GatedArgs& a, bool goes_on, float* after, cudaStream_t stream) {
    if (after && !goes_on) fail("delta_hopper_states: after: given, expected none without goes_on");
    check_workspace(a, delta_hopper_steps_workspace(a, goes_on));
    if (!no_tokens(a)) gated_delta::run_hopper_states(a, gated_delta::steps_plan_of(a, goes_on), after, stream);
}

void delta_hopper_outputs(const GatedArgs& a, bool goes_on, cudaStream_t stream) {
    check_workspace(a, delta_hopper_steps_workspace(a, goes_on));
    if (!no_tokens(a)) gated_delta::run_hopper_outputs(a, gated_delta::steps_plan_of(a, goes_on), stream);
}

std::size_t delta_hopper_packed_workspace(const GatedArgs& a, const Sequences& sequences) {
    return packed_workspace(a, sequences, cut_of(a));
}

void delta_hopper_packed(const GatedArgs& a, const Sequences& sequences, cudaStream_t stream) {
    run_packed(a, sequences, cut_of(a), stream);
}

std::size_t delta_hopper_prefix_workspace(const GatedArgs& a, const Sequences& sequences) {
    return packed_workspace(a, sequences, gated_delta::PackedCut::fixed);
}

void delta_hopper_prefix(const GatedArgs& a, const Sequences& sequences, cudaStream_t stream) {
    run_packed(a, sequences, gated_delta::PackedCut::fixed, stream);
}

}  // namespace causeway::gpu
