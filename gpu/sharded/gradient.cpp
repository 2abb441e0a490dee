#include "gpu/sharded/gradient.hpp"

#include "core/sharded/gradients.hpp"
#include "gpu/base/buffer.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/gradient/gated.hpp"

namespace causeway::gpu::sharded {

namespace {

class TokenGradPart final : public TokenPart<causeway::sharded::GradPart<float>> {
public:
    TokenGradPart(GatedGradTokens& tokens, const float* first_states, const float* last_gradients,
                  float* first_gradients)
        : TokenPart(tokens, first_states, nullptr),
          grad_tokens_(tokens),
          last_gradients_(last_gradients),
          first_gradients_(first_gradients) {}

    void last_gradients(Stops stops, float* dS) const override { from_given(stops, last_gradients_, dS); }
    void first_gradients(Stops stops, const float* dS) override { to_given(stops, dS, first_gradients_); }
    void forths(Stops stops, const float* S, float* dS) override {
        queue_copy(S, static_cast<Index>(stops.size()) * size(), dS, tokens_.stream());
        advances(stops, dS);
    }
    void backs(Stops stops, const float* S, float* dS) override {
        each_span(stops,
                  [&](Span of, Index before) { grad_tokens_.back(of, S + before * size(), dS + before * size()); });
    }

    bool backs_have_states() const override { return grad_tokens_.has_states(); }
    void backs(Stops stops, const float* S, float* dS, float* after) override {
        each_span(stops, [&](Span of, Index before) {
            const Index at = before * size();
            grad_tokens_.back(of, S + at, dS + at, after + at);
        });
    }

    bool may_forget_both_ways() const override { return grad_tokens_.gates(); }
    std::vector<char> forgets_both_ways(Stops stops) override {
        reach_ = tokens_.reach(From::end), first_reach_ = tokens_.reach(From::start);
        std::vector<char> out;
        for (const auto& s : stops) {
            const auto i = static_cast<std::size_t>(s.state);
            out.push_back((!s.after || reach_[i] >= 0) && (!s.before || first_reach_[i] >= 0));
        }
        return out;
    }
    // What is written besides, the gradients of these tokens, is written once more.
    void first_tokens(Stops stops, float* dS) override {
        const Buffer none(stops.size() * static_cast<std::size_t>(size()) * sizeof(float), tokens_.stream());
        queue_zeros(none.as<float>(), static_cast<Index>(stops.size()) * size(), tokens_.stream());
        queue_zeros(dS, static_cast<Index>(stops.size()) * size(), tokens_.stream());
        each_group(stops, first_reach_, From::start, [&](Span of, std::int64_t n, Index before) {
            grad_tokens_.back_of_first(of, n, none.as<float>() + before, dS + before);
        });
    }
    Index kept(Index) const override { return 0; }
    Work forth_work(Index) const override { return {}; }
    Work back_work(Index) const override { return {}; }

private:
    GatedGradTokens& grad_tokens_;
    const float* last_gradients_;
    float* first_gradients_;
    std::vector<std::int64_t> first_reach_;  // as reach_, of the first tokens
};

}  // namespace

bool GatedGradTokens::has_states() const {
    // Where a part has no tokens no kernel runs.
    return N_ > 0 && !is_packed() && gated_gradient_has_state(args_);
}

void GatedGradTokens::back(Span states, const float* S, float* dS, float* after) {
    each_block(states, [&](const Block& block, std::int64_t before) {
        const std::int64_t at = before * elements();
        back(block, block.tokens, S + at, dS + at, after ? after + at : nullptr);
    });
}

void GatedGradTokens::back_of_first(Span states, std::int64_t n, const float* S, float* dS) {
    each_block(states, [&](const Block& block, std::int64_t before) {
        back(block, {block.tokens.first, n}, S + before * elements(), dS + before * elements(), nullptr);
    });
}

void GatedGradTokens::back(const Block& block, Span tokens, const float* S, float* dS, float* after) {
    if (tokens.n == 0) return;
    GatedGradArgs a = args_;
    GatedArgs& in = a.in;
    in = cut(block);
    const std::int64_t first = block.batch * heads_ + block.head, queries = block.head * in.group;
    a.dO = moved(a.dO, in.type, in.o_stride, block.batch, queries, tokens.first);
    a.dq = moved(a.dq, in.type, in.q_stride, block.batch, queries, tokens.first);
    a.dk = moved(a.dk, in.type, in.k_stride, block.batch, block.head, tokens.first);
    a.dv = moved(a.dv, in.type, in.v_stride, block.batch, block.head, tokens.first);
    Buffer g, beta, dg, dbeta;
    in = of_tokens(in, tokens, g, beta);
    // Those of some tokens are not contiguous, and not all kernels take strides of them.
    const auto gradient_of_gates = [&](float* given, int width, Buffer& own) -> float* {
        if (!given) return nullptr;
        if (tokens.n == N_) return given + first * N_ * width;
        own = Buffer(static_cast<std::size_t>(block.count() * tokens.n * width) * sizeof(float), stream_);
        return own.as<float>();
    };
    a.dg = gradient_of_gates(a.dg, in.gates, dg), a.dbeta = gradient_of_gates(a.dbeta, 1, dbeta);
    in.state = const_cast<float*>(S);  // the backward pass does not change it
    a.dstate_in = a.dstate = dS, a.after = after;
    const Buffer workspace(gated_gradient_workspace(a), stream_);
    in.workspace = {workspace.data(), workspace.bytes()};
    gated_gradient(a, stream_);
    if (tokens.n < block.tokens.n) return;
    const auto give = [&](const Buffer& own, float* given, int width) {
        const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n * width) * sizeof(float); };
        if (own.bytes() > 0)
            copy_rows({given + (first * N_ + tokens.first) * width, bytes(N_), own.data(), bytes(tokens.n),
                       bytes(tokens.n), static_cast<std::size_t>(block.count())},
                      stream_, "copying gradients of gates");
    };
    give(dg, args_.dg, in.gates), give(dbeta, args_.dbeta, 1);
}

Starts backward_starts(std::int64_t N, int p, std::int64_t unit, bool has_states) {
    // The state alone takes an eighth of the time of the gradients (gated delta rule, 32 heads, N = 131072).
    return weighted_starts(N, p, unit, has_states ? 1 : 8.0 / 9, 1);
}

Exchange backward(Communicator& comm, const SharedSequences& sequences, const Starts& starts, GatedGradTokens& tokens,
                  Exchange exchange, const float* first_states, const float* last_gradients, float* first_gradients) {
    Route z = route_of(comm, tokens, sequences, starts, exchange);
    // A rank waits for what comes to its last sequence alone, not before all others; messages are of a state each.
    if (sequences.packed && exchange == Exchange::ring)
        z.together = static_cast<int>(std::max<Index>(1, sequences.heads));
    TokenGradPart part(tokens, first_states, last_gradients, first_gradients);
    return causeway::sharded::backward(comm, z, part, exchange);
}

}  // namespace causeway::gpu::sharded
