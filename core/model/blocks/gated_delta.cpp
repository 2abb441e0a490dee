#include "core/model/blocks/gated_delta.hpp"

#include <cmath>

#include "core/around/decay_gate.hpp"
#include "core/gated/step.hpp"
#include "core/model/blocks/activation.hpp"

namespace causeway::model {
namespace {

class GatedDeltaMixer : public Mixer {
public:
    explicit GatedDeltaMixer(GatedDeltaParts parts) : p(std::move(parts)), shared(p.value_heads / p.key_heads) {}

    LayerInfo info() const override {
        return {.attention = "gated delta net",
                .heads = p.value_heads,
                .key_heads = p.value_heads,
                .width = p.width,
                .value_width = p.value_width,
                .scale = scale(),
                .decay = {},
                .replaced = {},
                .settings = {}};
    }

    Heads heads(const Chunk& chunk, const float* x, LayerState& state) const override {
        const Index n = chunk.rows(), keys = p.key_heads * p.width, values = p.value_heads * p.value_width,
                    channels = 2 * keys + values;
        Buffer<float> qkvz(n * p.qkvz.outputs()), qkv(n * channels), mixed(n * channels);
        p.qkvz.run(x, n, qkvz.data());
        Heads out;
        out.gate = Buffer<float>(n * values);
        sort(qkvz.data(), n, qkv.data(), out.gate.data());
        p.convolution.run(qkv.data(), chunk.batch, chunk.n, state.window, mixed.data());
        out.q = of_length_one(split_shared(chunk, mixed.data(), channels));
        out.k = of_length_one(split_shared(chunk, mixed.data() + keys, channels));
        out.v = split_heads(mixed.data() + 2 * keys, channels, chunk.batch, chunk.n, p.value_heads, p.value_width,
                            p.value_width);
        gates(chunk, x, out);
        return out;
    }

    Tensor attend(const Chunk& chunk, const Heads& h, LayerState& state, const std::string&) const override {
        if (!state.state) state.state = Tensor::zeros(DType::f32, {chunk.batch, p.value_heads, p.width, p.value_width});
        LinearOptions options;
        options.update = "gated_delta", options.scale = scale();
        options.log_decay = h.log_decay, options.beta = h.beta;
        if (chunk.n == 1) {
            Tensor o(DType::f32, h.v.shape());
            linear_attention_step(h.q, h.k, h.v, *state.state, o, options);
            return o;
        }
        options.state = state.state;
        const LinearResult result = linear_attention(h.q, h.k, h.v, options);
        state.state = result.state;
        return result.O;
    }

    void out(const Chunk& chunk, const Heads& h, const Tensor& o, float* y) const override {
        const Index n = chunk.rows(), values = p.value_heads * p.value_width;
        Buffer<float> rows(n * values);
        join_heads(o, rows.data());
        p.norm.run(rows.data(), n, values, rows.data());
        multiply_by(rows.data(), h.gate.data(), n, values, Activation::silu);
        p.out.run(rows.data(), n, y);
    }

    const GatedDeltaParts* delta_parts() const override { return &p; }

private:
    double scale() const { return 1 / std::sqrt(static_cast<double>(p.width)); }

    // Rows of q, k, v and z by key head become rows of all q, all k, all v, and rows of all z.
    void sort(const float* from, Index n, float* qkv, float* z) const {
        const Index wide = shared * p.value_width, group = 2 * p.width + 2 * wide, keys = p.key_heads * p.width;
        over_rows(n, p.key_heads * group, [&](Index first, Index rows) {
            for (Index i = first; i < first + rows; ++i) {
                float* to = qkv + i * (2 * keys + p.key_heads * wide);
                for (Index h = 0; h < p.key_heads; ++h) {
                    const float* at = from + (i * p.key_heads + h) * group;
                    std::copy_n(at, p.width, to + h * p.width);
                    std::copy_n(at + p.width, p.width, to + keys + h * p.width);
                    std::copy_n(at + 2 * p.width, wide, to + 2 * keys + h * wide);
                    std::copy_n(at + 2 * p.width + wide, wide, z + (i * p.key_heads + h) * wide);
                }
            }
        });
    }

    // Heads of q or k, each as often as value heads share it.
    Tensor split_shared(const Chunk& chunk, const float* rows, Index stride) const {
        const Tensor once = split_heads(rows, stride, chunk.batch, chunk.n, p.key_heads, p.width, p.width);
        if (shared == 1) return once;
        Tensor out(DType::f32, {chunk.batch, p.value_heads, chunk.n, p.width});
        const Index size = chunk.n * p.width;
        for (Index h = 0; h < chunk.batch * p.value_heads; ++h)
            std::copy_n(once.data<float>() + h / shared * size, size, out.data<float>() + h * size);
        return out;
    }

    static Tensor of_length_one(Tensor x) {
        const Index d = x.shape()[3];
        over_rows(x.size() / d, d, [&](Index first, Index rows) {
            for (Index i = first; i < first + rows; ++i) {
                float* row = x.data<float>() + i * d;
                const float factor = around::length_factor(row, d, length_eps);
                for (Index e = 0; e < d; ++e) row[e] *= factor;
            }
        });
        return x;
    }

    // β = sigmoid(b) and g, [batch, value heads, n].
    void gates(const Chunk& chunk, const float* x, Heads& out) const {
        const Index n = chunk.rows();
        Buffer<float> ba(n * p.ba.outputs());
        p.ba.run(x, n, ba.data());
        const Shape shape{chunk.batch, p.value_heads, chunk.n};
        Tensor g(DType::f32, shape), beta(DType::f32, shape);
        for (Index i = 0; i < n; ++i) {
            for (Index h = 0; h < p.value_heads; ++h) {
                const float* at = ba.data() + (i * p.key_heads + h / shared) * 2 * shared + h % shared;
                const double b = static_cast<double>(at[0]),
                             a = static_cast<double>(at[shared]) + static_cast<double>(p.dt_bias[h]);
                const Index to = (i / chunk.n * p.value_heads + h) * chunk.n + i % chunk.n;
                const double rate = std::exp(static_cast<double>(p.a_log[h]));
                g.data<float>()[to] = static_cast<float>(around::log_decay(a, rate));
                beta.data<float>()[to] = static_cast<float>(around::sigmoid(b));
            }
        }
        out.log_decay = g, out.beta = beta;
    }

    GatedDeltaParts p;
    Index shared;  // value heads that share a key head
};

}  // namespace

std::unique_ptr<Mixer> gated_delta_mixer(GatedDeltaParts parts) {
    return std::make_unique<GatedDeltaMixer>(std::move(parts));
}

}  // namespace causeway::model
