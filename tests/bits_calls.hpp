// Random calls of attention for the contract of bits, forwards and backwards: the same for the CPU and a GPU, each of
// which makes them its own way.
#pragma once

#include "core/gated/general/general_linear_attention.hpp"
#include "core/gated/registry.hpp"
#include "core/softmax/softmax_attention.hpp"
#include "tests/bits.hpp"

namespace causeway::test::bits {

class AttentionCase : public Case {
public:
    // on_gpu: of the types and forms that run there; nothing but packed texts keeps its bits there unless it is asked.
    AttentionCase(std::uint64_t seed, long number, bool on_gpu) : Case(seed, number), on_gpu_(on_gpu) {}

protected:
    using Tensors = std::vector<Tensor>;  // q, k, v and, for gradients last, what arrives at the output

    virtual Result linear(const Tensors&, const LinearOptions&) = 0;
    virtual Result linear_gradient(const Tensors&, const LinearOptions&) = 0;
    virtual Result general(const Tensors&, const GeneralOptions&) = 0;
    virtual Result general_gradient(const Tensors&, const GeneralOptions&) = 0;
    virtual Result softmax(const Tensors&, const SoftmaxOptions&) = 0;
    virtual Result softmax_gradient(const Tensors&, const SoftmaxOptions&) = 0;
    virtual Kind drawn_causal() = 0;

    Kind drawn_kind() override {
        switch (below(10)) {
            case 0:
            case 1:
            case 2: return drawn_gated(false);
            case 3: return drawn_gated(true);
            case 4:
            case 5: return drawn_general(false);
            case 6: return drawn_general(true);
            case 7: return drawn_softmax();
            default: return drawn_causal();
        }
    }

    DType type() {
        if (on_gpu_) return one_of<DType>({DType::f32, DType::f16, DType::bf16, DType::bf16});
        return one_of<DType>({DType::f32, DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16});
    }

    // Heads of values that share heads of keys and of queries, or heads of queries that share a state.
    struct Heads {
        Index q, k, v;
    };
    Heads heads() {
        return one_of<Heads>({{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 2, 2}, {3, 1, 1}, {2, 2, 4}, {1, 2, 2}, {1, 1, 3}});
    }

    void put_state(Kind& kind, const Shape& shape, DType type, bool gradient) {
        if (coin()) return;
        kind.state = shape;
        kind.state_type = type == DType::f64 ? type : DType::f32;
        kind.pools = !gradient;
        if (kind.pools && type != DType::f64 && coin())
            kind.state_type = one_of<DType>({kind.state_type, DType::bf16, DType::f16});
    }

    Kind drawn_gated(bool gradient) {
        Kind kind;
        LinearOptions o;
        o.update = one_of<std::string>(gated::updates().names());
        o.mode = one_of<std::string>(gated::modes().names());
        const bool gate = o.update.starts_with("gated"), delta = o.update.ends_with("delta"), channels = gate && coin();
        kind.prefix = !gradient && (!on_gpu_ || coin());
        if (on_gpu_ && (gradient || (o.mode == "parallel" && (channels || kind.prefix)))) o.mode = "chunkwise";
        put_deterministic(o, kind);
        if (!on_gpu_ && coin()) o.chunk = 1 + below(100);
        if (coin()) o.scale = 0.125;
        o.qk_l2norm = below(4) == 0;
        const bool made = gate && below(4) == 0, normed = below(4) == 0;
        if (!gradient && below(4) == 0) o.checkpoint_every = 1 + below(70);
        gate_ = one_of<double>({0.001, 0.1, 2});
        const Heads h = heads();
        const Index dk = width(), dv = width();
        const DType t = type(), gates = t == DType::f64 ? t : DType::f32;
        kind.arguments = {{Entries::normal, h.q, dk, t}, {Entries::unit, h.k, dk, t}, {Entries::normal, h.v, dv, t}};
        if (made) o.A_log = Tensor::zeros(gates, {h.v});
        if (gate) kind.arguments.push_back({made ? Entries::normal : Entries::log_gate, h.v, channels ? dk : 0, gates});
        if (delta) kind.arguments.push_back({Entries::strength, h.v, 0, gates});
        if (normed) kind.arguments.push_back({Entries::normal, std::max(h.q, h.v), dv, t});
        if (gradient) kind.arguments.push_back({Entries::normal, std::max(h.q, h.v), dv, t});
        put_state(kind, {1, h.v, dk, dv}, t, gradient);
        kind.name = (gradient ? "gradient " : "") + o.update + (channels ? " (channels) " : " ") + o.mode + " " +
                    o.deterministic + " " + causeway::name(t) + (o.qk_l2norm ? " qk_l2norm" : "") +
                    (made ? " A_log" : "") + (normed ? " norm_gate" : "");
        kind.call = [=, this](const Joined& in) {
            LinearOptions with = o;
            std::size_t at = 3;
            if (gate) with.log_decay = in.arguments[at++];
            if (delta) with.beta = in.arguments[at++];
            if (normed) with.norm_gate = in.arguments[at];
            with.state = in.state, with.cu_seqlens = in.cu_seqlens, with.state_indices = in.slots;
            return gradient ? linear_gradient(in.arguments, with) : linear(in.arguments, with);
        };
        return kind;
    }

    Kind drawn_general(bool gradient) {
        Kind kind;
        GeneralOptions o;
        o.mode = one_of<std::string>(gated::modes().names());
        if (on_gpu_ && (gradient || o.mode == "parallel")) o.mode = "chunkwise";
        kind.prefix = !gradient && (!on_gpu_ || coin());
        put_deterministic(o, kind);
        if (!on_gpu_ && coin()) o.chunk = 1 + below(60);
        if (!gradient && below(4) == 0) o.checkpoint_every = 1 + below(70);
        gate_ = one_of<double>({0.001, 0.1, 2});
        const Heads h = heads();
        const Index dk = width(), dv = width(), a_width = coin() ? dk : 0;
        const DType t = type();
        kind.arguments = {{Entries::normal, h.q, dk, t}, {Entries::key, h.k, dk, t}, {Entries::normal, h.v, dv, t}};
        const bool a = coin(), erases = coin();
        if (a) kind.arguments.push_back({Entries::factor, h.v, a_width, t});
        if (erases) {
            kind.arguments.push_back({Entries::unit, h.v, dk, t});
            kind.arguments.push_back({Entries::unit, h.v, dk, t});
        }
        if (gradient) kind.arguments.push_back({Entries::normal, std::max(h.q, h.v), dv, t});
        put_state(kind, {1, h.v, dk, dv}, t, gradient);
        kind.name = std::string(gradient ? "gradient " : "") + "general " + o.mode +
                    (a ? a_width > 0 ? ", a a row" : ", a" : "") + (erases ? ", u w " : " ") + o.deterministic + " " +
                    causeway::name(t);
        kind.call = [=, this](const Joined& in) {
            GeneralOptions with = o;
            std::size_t at = 3;
            if (a) with.a = in.arguments[at++];
            if (erases) with.u = in.arguments[at], with.w = in.arguments[at + 1];
            with.state = in.state, with.cu_seqlens = in.cu_seqlens, with.state_indices = in.slots;
            return gradient ? general_gradient(in.arguments, with) : general(in.arguments, with);
        };
        return kind;
    }

    Kind drawn_softmax() {
        Kind kind;
        SoftmaxOptions o;
        const bool gradient = coin();
        if (!on_gpu_) o.method = one_of<std::string>({"flash", "standard"});
        o.causal = coin();
        const Index h = 1 + below(3), group = 1 + below(2), d = width(), dv = width();
        const DType t = type();
        kind.arguments = {{Entries::normal, h * group, d, t}, {Entries::normal, h, d, t}, {Entries::normal, h, dv, t}};
        if (gradient) kind.arguments.push_back({Entries::normal, h * group, dv, t});
        kind.prefix = false;
        kind.name = std::string(gradient ? "gradient " : "") + "softmax " + o.method + (o.causal ? " causal " : " ") +
                    causeway::name(t);
        kind.call = [=, this](const Joined& in) {
            SoftmaxOptions with = o;
            with.cu_seqlens = in.cu_seqlens;
            return gradient ? softmax_gradient(in.arguments, with) : softmax(in.arguments, with);
        };
        return kind;
    }

    const bool on_gpu_;

private:
    // On the CPU everything of these calls keeps it, whether it is asked or not.
    template <class O>
    void put_deterministic(O& o, const Kind& kind) {
        if (on_gpu_) o.deterministic = kind.prefix ? "prefix" : "alone";
        else if (kind.prefix && coin()) o.deterministic = "prefix";
    }
};

}  // namespace causeway::test::bits
