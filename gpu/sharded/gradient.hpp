// The backward pass of linear attention on the tokens that a GPU has, and the hand-over of states and of their
// gradients between GPUs.
#pragma once

#include "gpu/gradient/problem.hpp"
#include "gpu/sharded/forward.hpp"

namespace causeway::gpu::sharded {

// The gradients of the tokens of a part: `args.in` as for GatedTokens, and where its gradients go, those of gates
// contiguous as the gates are.
class GatedGradTokens final : public GatedTokens {
public:
    GatedGradTokens(const GatedGradArgs& args, std::string mode, cudaStream_t stream)
        : GatedTokens(args.in, std::move(mode), stream), args_(args) {}

    // Of some states and tokens, from S before the tokens: dS arrives with respect to the states after them, and is
    // left with respect to S. Gradients of gates and steps are written where `tokens` are all of the part.
    void back(Span states, Span tokens, const float* S, float* dS);

private:
    GatedGradArgs args_;
};

// Parts in whole `unit`s of tokens for ranks that are to finish together: all but the last one also make the state
// after their tokens.
Starts backward_starts(std::int64_t N, int p, std::int64_t unit);

// Gradients of the rank's tokens. last_gradients [batch, heads, d_k, d_v]: what arrives at the last states, null:
// zeros; first_gradients are written by the rank that has the first token. Queued as forward() is.
void backward(Communicator& comm, const Starts& starts, GatedGradTokens& tokens, const float* first_states,
              const float* last_gradients, float* first_gradients);

}  // namespace causeway::gpu::sharded
