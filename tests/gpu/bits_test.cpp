// The contract of bits on a GPU. With deterministic = "prefix" no bit of an output up to a token depends on later
// tokens and their gates, on the length of the text, on what else is in the batch or packed beside it or on the slot of
// its state; without it a packed text has the bits of a call with it alone, outputs and gradients; and a call has the
// same bits every time. Random cases; the long search is hidden.
//
//     causeway-gpu-tests "[.gpu-bits-long]"      CAUSEWAY_BITS_CASES of them (100000), and a line with their number
//
// CAUSEWAY_TEST_SEED with CAUSEWAY_BITS_CASE is that case by itself.
#include "gpu/calls/general_linear_attention.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/gradient/general_linear_attention_grad.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"
#include "gpu/softmax/softmax_attention.hpp"
#include "tests/bits_calls.hpp"
#include "tests/gpu/device.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::bits;

namespace {

std::optional<gpu::Tensor> moved(const std::optional<Tensor>& x) {
    if (!x) return {};
    return gpu::Tensor(*x);
}
std::optional<Tensor> back(const std::optional<gpu::Tensor>& x) {
    if (!x) return {};
    return x->cpu();
}

gpu::LinearOptions there(const LinearOptions& o) {
    gpu::LinearOptions out;
    out.update = o.update, out.mode = o.mode, out.scale = o.scale, out.deterministic = o.deterministic;
    out.qk_l2norm = o.qk_l2norm;
    out.A_log = moved(o.A_log), out.norm_gate = moved(o.norm_gate);
    out.log_decay = moved(o.log_decay), out.beta = moved(o.beta), out.state = moved(o.state);
    out.cu_seqlens = o.cu_seqlens, out.state_indices = o.state_indices, out.checkpoint_every = o.checkpoint_every;
    return out;
}
gpu::GeneralOptions there(const GeneralOptions& o) {
    gpu::GeneralOptions out;
    out.mode = o.mode, out.scale = o.scale, out.deterministic = o.deterministic;
    out.a = moved(o.a), out.u = moved(o.u), out.w = moved(o.w), out.state = moved(o.state);
    out.cu_seqlens = o.cu_seqlens, out.state_indices = o.state_indices, out.checkpoint_every = o.checkpoint_every;
    return out;
}
gpu::SoftmaxOptions there(const SoftmaxOptions& o) {
    gpu::SoftmaxOptions out;
    out.causal = o.causal, out.cu_seqlens = o.cu_seqlens;
    return out;
}

class OnGpu : public AttentionCase {
public:
    OnGpu(std::uint64_t seed, long number) : AttentionCase(seed, number, true) {}

private:
    // Those that kernels are made for, too.
    Index width() override { return below(3) == 0 ? one_of<Index>({32, 64, 128}) : 1 + below(coin() ? 20 : 140); }
    // Now and then as long that a head is split among thread blocks.
    Index length() override { return below(60) == 0 ? 500 + below(2500) : AttentionCase::length(); }

    static Result of(const gpu::LinearResult& out) { return {{out.O.cpu()}, out.state.cpu(), back(out.checkpoints)}; }
    template <class Gradient>
    static Result of(const Gradient& g, std::initializer_list<std::optional<gpu::Tensor>> further) {
        Result out{{g.dq.cpu(), g.dk.cpu(), g.dv.cpu()}, {}, {}};
        for (const auto& d : further)
            if (d) out.outputs.push_back(d->cpu());
        if constexpr (requires { g.dstate; }) out.state = g.dstate.cpu();
        return out;
    }

    Result linear(const Tensors& in, const LinearOptions& o) override {
        return of(gpu::linear_attention(gpu::Tensor(in[0]), gpu::Tensor(in[1]), gpu::Tensor(in[2]), there(o)));
    }
    Result linear_gradient(const Tensors& in, const LinearOptions& o) override {
        const gpu::LinearGradient g = gpu::linear_attention_grad(gpu::Tensor(in[0]), gpu::Tensor(in[1]),
                                                                 gpu::Tensor(in[2]), gpu::Tensor(in.back()), there(o));
        return of(g, {g.dlog_decay, g.dbeta});
    }
    Result general(const Tensors& in, const GeneralOptions& o) override {
        return of(gpu::general_linear_attention(gpu::Tensor(in[0]), gpu::Tensor(in[1]), gpu::Tensor(in[2]), there(o)));
    }
    Result general_gradient(const Tensors& in, const GeneralOptions& o) override {
        const gpu::GeneralGradient g = gpu::general_linear_attention_grad(
            gpu::Tensor(in[0]), gpu::Tensor(in[1]), gpu::Tensor(in[2]), gpu::Tensor(in.back()), there(o));
        return of(g, {g.da, g.du, g.dw});
    }
    Result softmax(const Tensors& in, const SoftmaxOptions& o) override {
        const gpu::SoftmaxResult out =
            gpu::softmax_attention(gpu::Tensor(in[0]), gpu::Tensor(in[1]), gpu::Tensor(in[2]), there(o));
        return {{out.O.cpu(), out.lse.cpu()}, {}, {}};
    }
    Result softmax_gradient(const Tensors& in, const SoftmaxOptions& o) override {
        return of(gpu::softmax_attention_grad(gpu::Tensor(in[0]), gpu::Tensor(in[1]), gpu::Tensor(in[2]),
                                              gpu::Tensor(in.back()), there(o)),
                  {});
    }

    Kind drawn_causal() override {
        Kind kind;
        const auto& methods = gpu::causal_methods();
        const auto& m = methods[static_cast<std::size_t>(below(static_cast<Index>(methods.size())))];
        gpu::CausalOptions o;
        o.method = m.name;
        o.normalize = below(3) == 0;
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
        kind.prefix = false;
        kind.name = m.name + (o.normalize ? ", normalised " : " ") + causeway::name(t);
        kind.call = [=](const Joined& in) {
            gpu::CausalOptions with = o;
            with.state = moved(in.state), with.cu_seqlens = in.cu_seqlens, with.state_indices = in.slots;
            const gpu::CausalResult out = gpu::causal_linear_attention(
                gpu::Tensor(in.arguments[0]), gpu::Tensor(in.arguments[1]), gpu::Tensor(in.arguments[2]), with);
            return Result{{out.O.cpu()}, o.return_state ? out.state.cpu() : Tensor(), back(out.checkpoints)};
        };
        return kind;
    }
};

}  // namespace

TEST_CASE("no bit on a GPU depends on what comes after it or stands beside it", "[gpu][gpu-bits]") {
    if (!on_gpu()) return;
    long cases = 300;
    CHECK(faults<OnGpu>(0, cases) == 0);
}

TEST_CASE("no bit on a GPU depends on what comes after it or stands beside it, for long", "[.gpu-bits-long]") {
    if (!on_gpu()) return;
    search<OnGpu>("gpu-bits");
}
