// The contract of bits on the CPU: no bit of an output up to a token depends on later tokens and their gates, on the
// length of the text, on what else is in the batch or packed beside it, on the slot of its state or on the number of
// threads; a packed text has the bits of a call with it alone, outputs and gradients; and a call has the same bits
// every time. Random cases; the long search is hidden.
//
//     causeway-tests "[.bits-long]"      CAUSEWAY_BITS_CASES of them (100000), and a line with their number
//
// CAUSEWAY_TEST_SEED with CAUSEWAY_BITS_CASE is that case by itself.
#include "core/exact/causal_linear_attention.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/gradient/general_linear_attention_grad.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/gradient/softmax_attention_grad.hpp"
#include "tests/bits_calls.hpp"

using namespace causeway;
using namespace causeway::test::bits;

namespace {

class OnCpu : public AttentionCase {
public:
    OnCpu(std::uint64_t seed, long number) : AttentionCase(seed, number, false) {}

private:
    Result linear(const Tensors& in, const LinearOptions& o) override {
        const LinearResult out = linear_attention(in[0], in[1], in[2], o);
        return {{out.O}, out.state, out.checkpoints};
    }
    Result linear_gradient(const Tensors& in, const LinearOptions& o) override {
        const LinearGradient g = linear_attention_grad(in[0], in[1], in[2], in.back(), o);
        Result out{{g.dq, g.dk, g.dv}, g.dstate, {}};
        for (const auto& d : {g.dlog_decay, g.dbeta})
            if (d) out.outputs.push_back(*d);
        return out;
    }
    Result general(const Tensors& in, const GeneralOptions& o) override {
        const LinearResult out = general_linear_attention(in[0], in[1], in[2], o);
        return {{out.O}, out.state, out.checkpoints};
    }
    Result general_gradient(const Tensors& in, const GeneralOptions& o) override {
        const GeneralGradient g = general_linear_attention_grad(in[0], in[1], in[2], in.back(), o);
        Result out{{g.dq, g.dk, g.dv}, g.dstate, {}};
        for (const auto& d : {g.da, g.du, g.dw})
            if (d) out.outputs.push_back(*d);
        return out;
    }
    Result softmax(const Tensors& in, const SoftmaxOptions& o) override {
        const SoftmaxResult out = softmax_attention(in[0], in[1], in[2], o);
        return {{out.O, out.lse}, {}, {}};
    }
    Result softmax_gradient(const Tensors& in, const SoftmaxOptions& o) override {
        const SoftmaxGradient g = softmax_attention_grad(in[0], in[1], in[2], in.back(), o);
        return {{g.dq, g.dk, g.dv}, {}, {}};
    }

    Kind drawn_causal() override {
        Kind kind;
        const auto& list = exact::methods();
        const exact::Method& m = *std::next(list.begin(), below(static_cast<Index>(list.size())));
        CausalOptions o;
        o.method = m.name;
        o.normalize = below(3) == 0;
        if (m.block > 0 && coin()) o.block = 1 + below(150);
        if (coin()) o.scale = 0.125;
        const Index h = 1 + below(3), r = width(), d = width();
        if (coin())
            for (Index i = 0; i < h; ++i) o.decay.push_back(one_of<double>({1, 0.999, 0.9, 0.3}));
        const DType t = type();
        const Entries sign = o.normalize ? Entries::positive : Entries::normal;
        kind.arguments = {{sign, h, r, t}, {sign, h, r, t}, {Entries::normal, h, d, t}};
        if (m.state) put_state(kind, {1, h, r, d + (o.normalize ? 1 : 0)}, t, false);
        o.return_state = kind.state.has_value();
        if (kind.state && below(4) == 0) o.checkpoint_every = 1 + below(70);
        kind.prefix = m.prefix;
        if (m.prefix && coin()) o.deterministic = "prefix";
        kind.name = m.name + (o.normalize ? ", normalised " : " ") + causeway::name(t);
        kind.call = [=](const Joined& in) {
            CausalOptions with = o;
            with.state = in.state, with.cu_seqlens = in.cu_seqlens, with.state_indices = in.slots;
            CausalResult out = causal_linear_attention(in.arguments[0], in.arguments[1], in.arguments[2], with);
            return Result{{out.O}, out.state, out.checkpoints};
        };
        return kind;
    }
};

}  // namespace

TEST_CASE("no bit up to a token depends on what comes after it or stands beside it", "[bits]") {
    long cases = 300;
    CHECK(faults<OnCpu>(0, cases) == 0);
}

TEST_CASE("no bit up to a token depends on what comes after it or stands beside it, for long", "[.bits-long]") {
    search<OnCpu>("bits");
}
