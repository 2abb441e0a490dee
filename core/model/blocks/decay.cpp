#include "core/model/blocks/decay.hpp"

#include <cmath>

#include "core/exact/causal_linear_attention.hpp"
#include "core/gated/step.hpp"
#include "core/kit/product.hpp"
#include "core/kit/spread.hpp"

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

}  // namespace

Tensor DecayMixer::attend(const Chunk& chunk, const Heads& h, LayerState& state, const std::string& method) const {
    const Shape& v = h.v.shape();
    if (!state.state) state.state = Tensor::zeros(DType::f32, {v[0], v[1], h.k.shape()[3], v[3]});
    if (chunk.n == 1) return step(h, *state.state, decay_, scale_);
    CausalOptions options;
    options.method = method.empty() ? usual_method : method;
    options.decay = decay_, options.scale = scale_;
    if (options.method == "auto" || exact::method(options.method).state) {
        options.state = *state.state, options.return_state = true;
        CausalResult result = causal_linear_attention(h.q, h.k, h.v, options);
        state.state = result.state;
        return result.O;
    }
    Tensor o = causal_linear_attention(h.q, h.k, h.v, options).O;
    carry(h, o, *state.state, decay_, scale_);
    return o;
}

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
