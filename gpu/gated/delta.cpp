#include "gpu/gated/delta.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/gated/delta_plan.hpp"
#include "gpu/kit/tensor_map.hpp"

namespace causeway::gpu {

namespace {

using gdr::chunk;
using gdr::Plan;
using std::int64_t;

// In units of the time of one chunk: a chunk without outputs; what a thread block needs to start; chunks that gates are
// expected to reach.
constexpr double replay_cost = 0.6, start_cost = 3, expected_reach = 4;

int64_t blocks_of(const GatedArgs& a) { return (a.N + chunk - 1) / chunk; }

// Ends of P parts of n chunks that take equal time when each but the first walks over everything before it.
std::vector<std::uint32_t> shrinking(int64_t n, int P) {
    std::vector<std::uint32_t> bound{0};
    const double left = 1 - replay_cost, all = (1 - std::pow(left, P)) / replay_cost;
    for (int i = 1; i <= P; ++i) {
        const auto at = static_cast<std::uint32_t>(
            std::lround(static_cast<double>(n) * (1 - std::pow(left, i)) / replay_cost / all));
        if (at > bound.back()) bound.push_back(at);
    }
    return bound;
}

std::vector<std::uint32_t> even(int64_t n, int P) {
    std::vector<std::uint32_t> bound;
    for (int i = 0; i <= P; ++i) bound.push_back(static_cast<std::uint32_t>(n * i / P));
    return bound;
}

// As many parts as take the least time on this device, as far as the sizes tell.
Plan plan_of(const GatedArgs& a) {
    Plan p;
    p.columns = a.dv <= 64 ? 64 : 128;
    p.column_blocks = (a.dv + p.columns - 1) / p.columns;
    p.lines = a.B * a.H * a.group;
    const int64_t n = blocks_of(a), blocks = p.lines * p.column_blocks, at_once = device().multiprocessors;
    const bool gated = a.gates > 0;
    double best = INFINITY;
    for (int P = 1; P <= std::min<int64_t>(n, gdr::most_parts) && (P == 1 || blocks * P <= 4 * at_once); ++P) {
        const auto waves = static_cast<double>((blocks * P + at_once - 1) / at_once);
        auto bound = gated ? even(n, P) : shrinking(n, P);
        const double longest =
            gated ? static_cast<double>((n + P - 1) / P) + (P > 1 ? expected_reach * replay_cost : 0) : bound[1];
        const double time = waves * (longest + start_cost);
        if (time < 0.999 * best) best = time, p.bound = std::move(bound);
    }
    return p;
}

void check_args(const GatedArgs& a) {
    if (a.B < 0 || a.H < 0 || a.N < 0)
        fail("delta_hopper: B, H, N are ", a.B, ", ", a.H, ", ", a.N, ", expected none below 0");
    if (!delta_hopper_takes(a)) fail("delta_hopper: a problem that it does not take; see delta_hopper_takes");
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
    if (!a.state || a.B == 0 || a.H == 0 || a.N == 0) return 0;
    if (a.group == 1 && plan_of(a).parts() == 1) return 0;
    return static_cast<std::size_t>(a.B * a.H) * static_cast<std::size_t>(a.dk) * static_cast<std::size_t>(a.dv) *
           sizeof(float);
}

void delta_hopper(const GatedArgs& a, cudaStream_t stream) {
    if (const std::size_t need = delta_hopper_workspace(a); need > a.workspace.bytes) {
        fail("delta_hopper: a workspace of ", a.workspace.bytes, " bytes, expected ", need);
    }
    if (a.B == 0 || a.H == 0 || a.N == 0) return;
    gdr::run_hopper(a, plan_of(a), stream);
}

}  // namespace causeway::gpu
