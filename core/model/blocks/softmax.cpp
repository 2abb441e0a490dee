#include "core/model/blocks/softmax.hpp"

#include "core/kit/online_softmax.hpp"
#include "core/kit/spread.hpp"
#include "core/model/blocks/activation.hpp"

namespace causeway::model {
namespace {

// o_i = Σ_j softmax_j(scale · q_i·k_j) v_j over the keys up to token i, q the last n of the tokens of the cache, where
// the keys lie: q [batch, heads, n, d] in, o out.
Tensor over_cache(const Tensor& q, const Grown& k, const Grown& v, double scale) {
    const Shape shape{q.shape()[0], q.shape()[1], q.shape()[2], v.width()};
    Tensor o(DType::f32, shape);
    const Index group = shape[0] * shape[1] / k.heads(), rows = group * shape[2];
    Buffer<float> m(k.heads() * rows), l(k.heads() * rows);
    const auto run = [&](Index h, Index from, Index to) {
        kit::AttentionHead<float> head;
        head.rows = rows, head.N = shape[2], head.M = k.length(), head.d = k.width(), head.dv = v.width();
        head.causal = true, head.scale = static_cast<float>(scale);
        head.q = q.data<float>() + h * rows * head.d, head.k = k.head(h), head.v = v.head(h);
        kit::online_softmax(head, from, to, Index(0), head.M, true, o.data<float>() + (h * rows + from) * head.dv,
                            m.data() + h * rows + from, l.data() + h * rows + from);
    };
    const Index blocks = (rows + kit::max_softmax_rows - 1) / kit::max_softmax_rows;
    parallel_for(k.heads() * blocks, [&](Index task) {
        const Index from = (blocks - 1 - task / k.heads()) * kit::max_softmax_rows;  // the longest rows first
        run(task % k.heads(), from, std::min(rows, from + kit::max_softmax_rows));
    });
    return o;
}

class SoftmaxMixer : public Mixer {
public:
    explicit SoftmaxMixer(SoftmaxParts parts) : p(std::move(parts)) {}

    LayerInfo info() const override {
        return {.attention = "softmax attention",
                .heads = p.heads,
                .key_heads = p.key_heads,
                .width = p.width,
                .value_width = p.width,
                .scale = scale(),
                .decay = {},
                .replaced = {},
                .settings = {}};
    }

    Heads heads(const Chunk& chunk, const float* x, LayerState&) const override {
        Heads out;
        const Index n = chunk.rows(), step = p.gated ? 2 * p.width : p.width, wide = p.heads * step,
                    narrow = p.key_heads * p.width;
        Buffer<float> rows(n * wide), k(n * narrow), v(n * narrow);
        run_together(
            std::array<LinearTo, 3>{{{&p.q, rows.data(), wide}, {&p.k, k.data(), narrow}, {&p.v, v.data(), narrow}}}, x,
            n);
        out.q = split_heads(rows.data(), wide, chunk.batch, chunk.n, p.heads, p.width, step);
        if (p.gated) {
            out.gate = Buffer<float>(n * p.heads * p.width);
            for (Index i = 0; i < n * p.heads; ++i)
                std::copy_n(rows.data() + i * step + p.width, p.width, out.gate.data() + i * p.width);
        }
        out.k = split_heads(k.data(), narrow, chunk.batch, chunk.n, p.key_heads, p.width, p.width);
        out.v = split_heads(v.data(), narrow, chunk.batch, chunk.n, p.key_heads, p.width, p.width);
        place(chunk, out.q, p.q_norm);
        place(chunk, out.k, p.k_norm);
        return out;
    }

    Tensor attend(const Chunk&, const Heads& h, LayerState& state, const std::string&) const override {
        state.k.append(h.k), state.v.append(h.v);
        return over_cache(h.q, state.k, state.v, scale());
    }

    void out(const Chunk& chunk, const Heads& h, const Tensor& o, float* y) const override {
        Buffer<float> rows(chunk.rows() * p.heads * p.width);
        join_heads(o, rows.data());
        if (p.gated) multiply_by(rows.data(), h.gate.data(), chunk.rows(), p.heads * p.width, Activation::sigmoid);
        p.out.run(rows.data(), chunk.rows(), y);
    }

    const SoftmaxParts* softmax_parts() const override { return &p; }

private:
    double scale() const { return 1 / std::sqrt(static_cast<double>(p.width)); }

    // The norm of heads, and the rotation to their positions.
    void place(const Chunk& chunk, Tensor& x, const Norm& norm) const {
        if (norm.width > 0) norm.run(x.data<float>(), x.size() / p.width, p.width, x.data<float>());
        if (p.rotary->pairs() > 0) p.rotary->turn(x, chunk.angles(*p.rotary));
    }

    SoftmaxParts p;
};

}  // namespace

const Buffer<float>& Chunk::angles(const Rotary& rotary) const {
    const auto known = angles_.find(&rotary);
    return known != angles_.end() ? known->second : angles_.emplace(&rotary, rotary.table(position, n)).first->second;
}

std::unique_ptr<Mixer> softmax_mixer(SoftmaxParts parts) { return std::make_unique<SoftmaxMixer>(std::move(parts)); }

}  // namespace causeway::model
