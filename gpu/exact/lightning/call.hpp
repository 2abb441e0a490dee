// Calls of Lightning Attention-2, of several problems together where their gradients ask for it, and the two ways to
// run them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu::la {

constexpr int chunk = 64, max_heads = 256, max_problems = 3;
struct Plan;

// Problems done together, alike in type, B, H, N and γ. Reversed time: O_i = Σ_{j >= i} γ^(j-i) (q_i·k_j) v_j.
struct Call {
    std::array<CausalArgs, max_problems> problem;
    int count = 1;
    unsigned reversed = 0;         // bit i: problem i runs over later tokens; it has no state
    std::int64_t state_batch = 0;  // elements from one batch of the states to the next
    Workspace workspace;
    bool in_steps = false;  // states first, outputs from a state that is not known before
    int end_parts = 0;      // then: states stored for the end of each batch-head; 0: none

    const CausalArgs& any() const { return problem[0]; }
};

// Bytes of workspace for the call, and the call itself: on tensor cores where they reach all its problems, else on FMA
// units; heads in groups of max_heads. Arguments are already checked.
std::size_t workspace(const Call& call);
void run(const Call& call, cudaStream_t stream);

// Whether run() takes tensor cores for the call.
bool tensor_cores_reach(const Call& call);

// The two steps of one problem forward in time. states: to `after` [B, H, r, d], unless null, those after the last
// token from zeros before the first; N is then a multiple of `chunk`, or γ is 1. outputs: from a.state, of which a call
// has one.
bool steps_reach(const Call& call);
void run_states(const Call& call, float* after, cudaStream_t stream);
void run_outputs(const Call& call, cudaStream_t stream);

// Throws Error, naming the function, for sizes or decays that no kernel has.
void check_args(const char* function, const CausalArgs& a);

// On tensor cores, as planned; Hopper only.
void run_hopper(const Call& call, const Plan& p, cudaStream_t stream);
void run_hopper_states(const Call& call, const Plan& p, float* after, cudaStream_t stream);  // 16-bit elements
void run_hopper_outputs(const Call& call, const Plan& p, cudaStream_t stream);

// On FMA units, any device and stride; r and d at most 256 (max_width of check.hpp).
void run_portable(const CausalArgs& a, bool reversed, std::int64_t state_batch, cudaStream_t stream);

// r or d as the kernels for Hopper know it.
constexpr int padded(int n) { return n <= 64 ? 64 : 128; }

}  // namespace causeway::gpu::la
