#include "gpu/sharded/gradient.hpp"

#include "gpu/base/buffer.hpp"
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

    void last_gradients(Stops stops, float* dS) const override {
        const Span s = states(stops);
        if (last_gradients_) queue_copy(last_gradients_ + s.first * size(), s.n * size(), dS, tokens_.stream());
        else queue_zeros(dS, s.n * size(), tokens_.stream());
    }
    void first_gradients(Stops stops, const float* dS) override {
        const Span s = states(stops);
        queue_copy(dS, s.n * size(), first_gradients_ + s.first * size(), tokens_.stream());
    }
    void forths(Stops stops, const float* S, float* dS) override {
        queue_copy(S, static_cast<Index>(stops.size()) * size(), dS, tokens_.stream());
        tokens_.advance(states(stops), all(), dS);
    }
    void backs(Stops stops, const float* S, float* dS) override { grad_tokens_.back(states(stops), S, dS); }
    Index kept(Index) const override { return 0; }
    Work forth_work(Index) const override { return {}; }
    Work back_work(Index) const override { return {}; }

private:
    GatedGradTokens& grad_tokens_;
    const float* last_gradients_;
    float* first_gradients_;
};

}  // namespace

void GatedGradTokens::back(Span states, const float* S, float* dS) {
    if (length() == 0) return;
    each_block(states, [&](const Block& block, std::int64_t before) {
        GatedGradArgs a = args_;
        a.in = cut(block);
        const std::int64_t state = block.batch * heads_ + block.head, queries = block.head * a.in.group;
        a.dO = moved(a.dO, a.in.type, a.in.o_stride, block.batch, queries);
        a.dq = moved(a.dq, a.in.type, a.in.q_stride, block.batch, queries);
        a.dk = moved(a.dk, a.in.type, a.in.k_stride, block.batch, block.head);
        a.dv = moved(a.dv, a.in.type, a.in.v_stride, block.batch, block.head);
        if (a.dg) a.dg += state * N_ * a.in.gates;
        if (a.dbeta) a.dbeta += state * N_;
        a.in.state = const_cast<float*>(S) + before * elements();  // the backward pass does not change it
        a.dstate = dS + before * elements();
        const Buffer workspace(gated_gradient_workspace(a), stream_);
        a.in.workspace = {workspace.data(), workspace.bytes()};
        gated_gradient(a, stream_);
    });
}

void backward(Communicator& comm, const Starts& starts, GatedGradTokens& tokens, const float* first_states,
              const float* last_gradients, float* first_gradients) {
    const Route z = route_of(comm, tokens, starts, Exchange::ring);
    TokenGradPart part(tokens, first_states, last_gradients, first_gradients);
    causeway::sharded::backward(comm, z, part);
}

}  // namespace causeway::gpu::sharded
