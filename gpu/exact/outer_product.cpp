#include "gpu/exact/outer_product.hpp"

#include <algorithm>

#include "gpu/exact/prefix_states.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;

constexpr int64_t segment = 256;
constexpr int64_t max_states = int64_t{1} << 28,
                  max_of_block = int64_t{1} << 27;  // floats, where it is more than one head

// What both need: states of `tokens` tokens of some heads, and what is carried where the call carries nothing.
struct Plan {
    int64_t batch_heads, tokens;
    float *S, *D, *U;
    std::size_t bytes;

    Plan(const CausalArgs& a, int64_t at_a_time, int64_t max_floats_at_a_time, int64_t sums, void* workspace)
        : tokens(at_a_time) {
        const int64_t state = int64_t{a.r} * a.d;
        batch_heads = std::clamp<int64_t>(max_floats_at_a_time / (tokens * state), 1,
                                          std::min<int64_t>(a.B * a.H, max_batch_heads));
        Carve carve(workspace);
        S = carve.floats(batch_heads * tokens * state), D = carve.floats(batch_heads * sums * state);
        U = carve.floats(a.state ? 0 : batch_heads * state);
        bytes = carve.end() + slack;
    }
};

Plan plan_of_all(const CausalArgs& a, void* workspace) {
    return {a, a.N, max_states, prefix::Part{0, a.N, segment}.segments(), workspace};
}
Plan plan_of_blocks(const CausalArgs& a, void* workspace) { return {a, block_of(a), max_of_block, 0, workspace}; }

}  // namespace

std::size_t outer_product_workspace(const CausalArgs& a) {
    check_causal("outer_product", a);
    return empty(a) ? 0 : plan_of_all(a, nullptr).bytes;
}

void outer_product(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("outer_product", a, outer_product_workspace(a));
    if (empty(a)) return;
    const Plan p = plan_of_all(a, a.workspace.data);
    in_groups(a, p.batch_heads, p.U, stream, [&](const BatchHeads& l, float* U) {
        const prefix::Part all{0, a.N, segment};
        prefix::segment_sums(a, l, all, p.D, stream);
        scan_blocks(a, l, all.segments(), segment, 0, false, p.D, U, stream);
        prefix::states(a, l, all, p.D, p.S, nullptr, stream);
        prefix::outputs(a, l, all, p.S, stream);
    });
}

std::size_t outer_product_blockwise_workspace(const CausalArgs& a) {
    check_causal("outer_product_blockwise", a);
    return empty(a) ? 0 : plan_of_blocks(a, nullptr).bytes;
}

void outer_product_blockwise(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("outer_product_blockwise", a, outer_product_blockwise_workspace(a));
    if (empty(a)) return;
    const Plan p = plan_of_blocks(a, a.workspace.data);
    in_groups(a, p.batch_heads, p.U, stream, [&](const BatchHeads& l, float* U) {
        for (int64_t at = 0; at < a.N; at += p.tokens) {
            const int64_t n = std::min(p.tokens, a.N - at);
            const prefix::Part block{at, n, n};
            prefix::states(a, l, block, U, p.S, U, stream);
            prefix::outputs(a, l, block, p.S, stream);
        }
    });
}

}  // namespace causeway::gpu
