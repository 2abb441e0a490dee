// The two kernels of the chunkwise form, for a part of the tokens of all heads; the gradients run them too.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/gated/arguments.hpp"

namespace causeway::gpu::gated {

// Tokens of a chunk, and rows of a state as kernels have them.
inline int padded_rows(int dk) { return dk <= 64 ? 64 : dk <= 128 ? 128 : 256; }
inline int chunk_of(int dk, Gates gates) { return gates == Gates::channel || dk > 128 ? 16 : 32; }

// f<rows, chunk, gates>() of a call: these sizes as constants.
template <class F>
void with_sizes(const Call& call, F&& f) {
    const int rows = padded_rows(call.dk);
    const auto by_rows = [&]<Gates gates, int C>() {
        if (rows == 64) f.template operator()<64, C, gates>();
        else if (rows == 128) f.template operator()<128, C, gates>();
        else f.template operator()<256, 16, gates>();
    };
    if (call.gates == 0) by_rows.template operator()<Gates::none, 32>();
    else if (call.gates == 1) by_rows.template operator()<Gates::head, 32>();
    else by_rows.template operator()<Gates::channel, 16>();
}

// Tokens [first, first + tokens) of every head, cut into chunks. `scores` has for each head and chunk `floats` Float32:
// C×C matrices, then e and w (C each) with a gate per head. The matrices: with the delta rule and M = Λ ⊙ K Kᵀ below
// the diagonal (I + M diag(β))⁻¹, for gradients also (I + diag(β) M)⁻¹ and M; then A = Λ ⊙ Q Kᵀ for each head of
// queries. What stands above the diagonal in them is 0 within 16 columns and not set elsewhere.
struct Part {
    Call call;
    std::int64_t first, tokens;
    int C, chunks, matrices;  // of the delta rule: 0, 1 or 3
    std::int64_t floats;
    float* scores;
    const float* state_in;                       // [all heads, dk, dv]; null: zeros
    float* state_out;                            // likewise; null: dropped
    std::int64_t state_in_step, state_out_step;  // from head to head
    // Without queries (call.group = 0), or where one of these is there, no outputs are made. states: [head, chunk, dk,
    // dv] before each chunk; Y: [head, chunk·C, dv], what the delta rule writes is U = diag(β) Y.
    float *states, *Y;
};

Part part_of(const Call& call, std::int64_t first, std::int64_t tokens,
             int matrices);  // sizes alone, states one behind the other: pointers are the caller's to set

// scores: those of every chunk, into p.scores. sweep: through the chunks with them, states and, where they are wanted,
// outputs.
void launch_scores(const Part& p, cudaStream_t stream);
void launch_sweep(const Part& p, cudaStream_t stream);

}  // namespace causeway::gpu::gated
