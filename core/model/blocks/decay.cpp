#include "core/model/blocks/decay.hpp"

#include <cmath>

#include "core/exact/causal_linear_attention.hpp"
#include "core/gated/step.hpp"
#include "core/kit/product.hpp"
#include "core/kit/spread.hpp"
#include "core/model/blocks/heads.hpp"

namespace causeway::model {
namespace {

// The method of the models, where nobody asks for another: one with a state.
constexpr const char* usual_method = "lightning-attention-2";

// One token.
Tensor step(const Heads& h, Tensor& state, const std::vector<double>& decay, double scale) {
    const Shape& v = h.v.shape();
    Tensor gates(DType::f32, {v[0], v[1], 1});
    for (Index i = 0; i < gates.size(); ++i) gates.set(i, std::log(decay[static_cast<std::size_t>(i % v[1])]));
    Tensor o(DType::f32, {v[0], h.q.shape()[1], 1, v[3]});
    LinearOptions options;
    options.update = "gated", options.log_decay = gates, options.scale = scale;
    linear_attention_step(h.q, h.k, h.v, state, o, options);
    return o;
}

// What the tokens before a chunk add to its outputs, and what the chunk adds to the state, for methods that carry none:
// O_i += scale γ^(i+1) q_i S, S = γ^n S + Σ_j γ^(n−1−j) k_jᵀ v_j.
void carry(const Heads& h, Tensor& o, Tensor& state, const std::vector<double>& decay, double scale) {
    const Index n = h.q.shape()[2], r = h.q.shape()[3], d = h.v.shape()[3], heads = h.q.shape()[1];
    parallel_for(h.q.shape()[0] * heads, [&](Index head) {
        const kit::Powers<double> power(decay[static_cast<std::size_t>(head % heads)], n + 1);
        const kit::ConstView<float> Q(h.q.data<float>() + head * n * r, n, r),
            K(h.k.data<float>() + head * n * r, n, r), V(h.v.data<float>() + head * n * d, n, d);
        kit::View<float> O(o.data<float>() + head * n * d, n, d), S(state.data<float>() + head * r * d, r, d);
        kit::Scratch<float> placed(n, std::max(r, d));
        auto before = placed.leftCols(d);
        kit::set_product(before, Q, S);
        for (Index i = 0; i < n; ++i) O.row(i) += static_cast<float>(scale * power[i + 1]) * before.row(i);
        auto later = placed.leftCols(r);
        for (Index j = 0; j < n; ++j) later.row(j) = static_cast<float>(power[n - 1 - j]) * K.row(j);
        S *= static_cast<float>(power[n]);
        kit::add_product(S, later.transpose(), V);
    });
}

class DecayMixer : public Mixer {
public:
    explicit DecayMixer(DecayParts parts) : p(std::move(parts)) {}

    LayerInfo info() const override {
        return {.attention = "linear attention with decay",
                .heads = p.heads,
                .key_heads = p.heads,
                .width = p.key_width(),
                .value_width = p.value_width,
                .scale = p.scale,
                .decay = p.decay,
                .replaced = {},
                .settings = {}};
    }

    Heads heads(const Chunk& chunk, const float* x, LayerState&) const override {
        const Index n = chunk.rows(), row = p.row(), wide = p.heads * p.value_width;
        Buffer<float> rows(n * row);
        Index at = 0;
        std::vector<LinearTo> inputs;
        for (const Linear& input : p.inputs) {
            inputs.push_back({&input, rows.data() + at, row});
            at += input.outputs();
        }
        run_together(inputs, x, n);
        const auto part = [&](Index first, Index width, Index step, Activation f) {
            Tensor out = split_heads(rows.data() + first, row, chunk.batch, chunk.n, p.heads, width, step);
            activate(out.data<float>(), n * p.heads, width, f);
            return out;
        };
        Heads out;
        out.q = placed(chunk, part(p.q, p.width, p.step, p.activation));
        out.k = placed(chunk, part(p.k, p.width, p.step, p.activation));
        out.v = part(p.v, p.value_width, p.value_step, p.value_activation);
        out.gate = Buffer<float>(n * wide);
        for (Index i = 0; i < n; ++i) std::copy_n(rows.data() + i * row + p.gate, wide, out.gate.data() + i * wide);
        return out;
    }

    Tensor attend(const Chunk&, const Heads&, LayerState&, const std::string& method) const override;

    // Retention divides the rows of its matrix by sums; a norm of each head takes such factors out again.
    void out(const Chunk& chunk, const Heads& h, const Tensor& o, float* y) const override {
        const Index n = chunk.rows(), wide = p.heads * p.value_width;
        Buffer<float> rows(n * wide);
        join_heads(o, rows.data());
        p.norm.run(rows.data(), n, wide, rows.data());
        multiply_by(rows.data(), h.gate.data(), n, wide, p.gate_activation);
        p.out.run(rows.data(), n, y);
    }

    bool takes_methods() const override { return true; }
    const DecayParts* decay_parts() const override { return &p; }

private:
    // At its position.
    Tensor placed(const Chunk& chunk, Tensor x) const {
        if (p.rotary) p.rotary->turn(x, chunk.angles(*p.rotary));
        if (p.theta.size() == 0) return x;
        const Index d = p.width, n = chunk.n;
        Tensor out(DType::f32, {chunk.batch, p.heads, n, 2 * d});
        over_rows(chunk.batch * p.heads * n, 32 * d, [&](Index first, Index rows) {
            for (Index row = first; row < first + rows; ++row) {
                const float *from = x.data<float>() + row * d, *theta = p.theta.data() + row / n % p.heads * d;
                float* to = out.data<float>() + row * 2 * d;
                const double position = static_cast<double>(chunk.position + row % n);
                for (Index e = 0; e < d; ++e) {
                    const double angle = position * static_cast<double>(theta[e]);
                    to[e] = from[e] * static_cast<float>(std::cos(angle));
                    to[e + d] = from[e] * static_cast<float>(std::sin(angle));
                }
            }
        });
        return out;
    }

    DecayParts p;
};

Tensor DecayMixer::attend(const Chunk& chunk, const Heads& h, LayerState& state, const std::string& method) const {
    const Shape& v = h.v.shape();
    if (!state.state) state.state = Tensor::zeros(DType::f32, {v[0], v[1], h.k.shape()[3], v[3]});
    if (chunk.n == 1) return step(h, *state.state, p.decay, p.scale);
    CausalOptions options;
    options.method = method.empty() ? usual_method : method;
    options.decay = p.decay, options.scale = p.scale;
    if (options.method == "auto" || exact::method(options.method).state) {
        options.state = *state.state, options.return_state = true;
        CausalResult result = causal_linear_attention(h.q, h.k, h.v, options);
        state.state = result.state;
        return result.O;
    }
    Tensor o = causal_linear_attention(h.q, h.k, h.v, options).O;
    carry(h, o, *state.state, p.decay, p.scale);
    return o;
}

}  // namespace

Index DecayParts::row() const {
    Index sum = 0;
    for (const Linear& input : inputs) sum += input.outputs();
    return sum;
}

std::unique_ptr<Mixer> decay_mixer(DecayParts parts) { return std::make_unique<DecayMixer>(std::move(parts)); }

std::vector<double> alibi_slopes(Index heads) {
    Index power = 1;
    while (2 * power <= heads) power *= 2;
    std::vector<double> out;
    const auto slope = [](Index i, Index of) {
        return std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(of));
    };
    for (Index i = 1; i <= power; ++i) out.push_back(slope(i, power));
    for (Index i = 1; static_cast<Index>(out.size()) < heads; i += 2) out.push_back(slope(i, 2 * power));
    return out;
}

}  // namespace causeway::model
