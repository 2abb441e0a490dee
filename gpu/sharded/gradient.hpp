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
    GatedGradTokens(const GatedGradArgs& args, std::string mode, cudaStream_t stream, std::vector<Span> packed = {})
        : GatedTokens(args.in, std::move(mode), stream, std::move(packed)), args_(args) {}

    // Of some states, from S before their tokens: dS arrives with respect to the states after them, and is left with
    // respect to S. after: those states too, where has_states() says so; null: dropped.
    void back(Span states, const float* S, float* dS, float* after = nullptr);
    bool has_states() const;
    // The same of their first n tokens alone, without the gradients of gates and steps; where sequences are packed, of
    // heads of one.
    void back_of_first(Span states, std::int64_t n, const float* S, float* dS);
    // A state that back() gives is compared with one of the forward kernels, which round other factors: of 32 heads of
    // standard normal tokens five (N = 131072) and eight (16384) differed somewhere by more than 2^-7.
    float rounding() const override { return has_states() ? 2 * GatedTokens::rounding() : GatedTokens::rounding(); }

private:
    void back(const Block&, Span tokens, const float* S, float* dS, float* after);

    GatedGradArgs args_;
};

// Parts in whole `unit`s of tokens for ranks that are to finish together: all but the last one also make the state
// after their tokens, unless the backward pass has it.
Starts backward_starts(std::int64_t N, int p, std::int64_t unit, bool has_states);

// Gradients of the rank's tokens. last_gradients, as states: what arrives at the last ones, null: zeros;
// first_gradients are written by the ranks that have the first tokens. Queued as forward() is; returns which exchange
// it was.
Exchange backward(Communicator& comm, const SharedSequences& sequences, const Starts& starts, GatedGradTokens& tokens,
                  Exchange exchange, const float* first_states, const float* last_gradients, float* first_gradients);

}  // namespace causeway::gpu::sharded
