#include "gpu/model/layers.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/interrupt.hpp"
#include "core/model/blocks/decay.hpp"
#include "core/model/blocks/gated_delta.hpp"
#include "core/model/blocks/softmax.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/model/heads.hpp"

namespace causeway::gpu::models {
namespace {

namespace core = causeway::model;

// Of `count` groups of rows, `apart` rows from one to the next, so many rows from this one on.
struct Some {
    std::int64_t first, count, apart, rows;
};

// The rows of a matrix in another order.
Matrix in_order(const Matrix& m, const std::vector<Some>& order, cudaStream_t stream) {
    Matrix out;
    out.type = m.type, out.rows = m.rows, out.columns = m.columns;
    const auto take = [&](const Buffer& from, std::size_t row) {
        Buffer to(from.bytes());
        auto* next = to.as<unsigned char>();
        for (const Some& s : order) {
            const std::size_t bytes = static_cast<std::size_t>(s.rows) * row, count = static_cast<std::size_t>(s.count);
            copy_rows({next, bytes, from.as<unsigned char>() + static_cast<std::size_t>(s.first) * row,
                       static_cast<std::size_t>(s.apart) * row, bytes, count},
                      stream, "copying weights");
            next += bytes * count;
        }
        return to;
    };
    out.data = take(m.data, static_cast<std::size_t>(m.columns * bytes_of(m.type)));
    if (m.bias.bytes() > 0) out.bias = take(m.bias, sizeof(float));
    check(cudaStreamSynchronize(stream), "copying weights");
    return out;
}

// The layers as they are built.
class Builder {
public:
    Builder(const core::Network& network, Type type) : network_(network), loader_(type, stream_) {
        out_.type = type, out_.width = network.about.width, out_.vocabulary = network.about.vocabulary;
        out_.embedding_scale = static_cast<float>(network.embedding_scale);
    }

    Layers build() {
        for (std::size_t i = 0; i < network_.layers.size(); ++i) {
            interrupt::check();
            add(network_.layers[i], i + 1);
        }
        out_.norm = norm_of(network_.norm, stream_);
        const core::Weight &embedding = network_.embedding, &head = network_.head.weight;
        const bool tied =
            embedding.data == head.data && embedding.made_up == head.made_up && network_.head.bias.size() == 0;
        out_.embedding = std::make_shared<const Matrix>(loader_.load(embedding));
        out_.head = tied ? out_.embedding : std::make_shared<const Matrix>(matrix({&network_.head}));
        return std::move(out_);
    }

private:
    Matrix matrix(const std::vector<const core::Linear*>& parts) { return loader_.load(parts); }

    int rotary(const std::shared_ptr<const core::Rotary>& r) {
        if (!r || r->pairs() == 0) return -1;
        const auto known = rotaries_.find(r.get());
        if (known != rotaries_.end()) return known->second;
        out_.most_pairs = std::max<std::int64_t>(out_.most_pairs, r->pairs());
        out_.rotaries.push_back(
            {numbers_of(r->frequencies.data(), r->pairs(), stream_), r->pairs(), r->factor, r->interleaved});
        return rotaries_[r.get()] = static_cast<int>(out_.rotaries.size()) - 1;
    }

    static void check_head(Index width, std::size_t layer) {
        if (width > max_head)
            fail("device: layer ", layer, " has heads of ", width, ", expected at most ", max_head, " on the GPU");
    }

    // The kernels behind attention, and those that place its heads, scale alone.
    static void check_norm(const core::Norm& norm, std::size_t layer) {
        if (norm.centred || norm.bias.size() > 0)
            fail("device: layer ", layer, " has a norm with a ", norm.centred ? "mean" : "bias",
                 " in its attention, expected one that only scales on the GPU");
    }

    SoftmaxMixer softmax(const core::SoftmaxParts& p, std::size_t layer) {
        check_head(p.width, layer);
        SoftmaxMixer out;
        out.heads = p.heads, out.key_heads = p.key_heads, out.width = p.width;
        out.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(p.width)));
        out.inputs = matrix({&p.q, &p.k, &p.v});
        if (p.gated)  // every head of q has its gate behind it
            out.inputs = in_order(out.inputs,
                                  {{0, p.heads, 2 * p.width, p.width},
                                   {2 * p.heads * p.width, p.key_heads, 2 * p.width, 2 * p.width},
                                   {p.width, p.heads, 2 * p.width, p.width}},
                                  stream_);
        out.gated = p.gated;
        out.out = matrix({&p.out});
        check_norm(p.q_norm, layer), check_norm(p.k_norm, layer);
        if (p.q_norm.width > 0) out.q_norm = norm_of(p.q_norm, stream_), out.k_norm = norm_of(p.k_norm, stream_);
        out.rotary = rotary(p.rotary);
        return out;
    }

    DecayMixer decay(const core::DecayParts& p, std::size_t layer) {
        check_head(p.width, layer);
        if (p.value_activation != core::Activation::none) check_head(p.value_width, layer);
        DecayMixer out;
        out.heads = p.heads, out.width = p.width, out.value_width = p.value_width, out.key_width = p.key_width();
        out.q = p.q, out.k = p.k, out.v = p.v, out.gate = p.gate, out.step = p.step, out.value_step = p.value_step;
        out.activation = p.activation, out.value_activation = p.value_activation;
        out.gate_activation = p.gate_activation;
        std::vector<const core::Linear*> inputs;
        for (const core::Linear& input : p.inputs) inputs.push_back(&input);
        out.inputs = matrix(inputs);
        out.out = matrix({&p.out});
        check_norm(p.norm, layer);
        out.norm = norm_of(p.norm, stream_);
        out.theta = numbers_of(p.theta.data(), p.theta.size(), stream_);
        out.rotary = rotary(p.rotary);
        out.decay = p.decay;
        out.scale = static_cast<float>(p.scale);
        return out;
    }

    DeltaMixer delta(const core::GatedDeltaParts& p, std::size_t layer) {
        check_head(p.width, layer), check_head(p.value_width, layer);
        DeltaMixer out;
        out.key_heads = p.key_heads, out.value_heads = p.value_heads;
        out.width = p.width, out.value_width = p.value_width, out.taps = p.convolution.taps;
        const Index shared = p.shared(), wide = shared * p.value_width, group = 2 * p.width + 2 * wide,
                    gates = p.key_heads * group;
        out.inputs = in_order(matrix({&p.qkvz, &p.ba}),
                              {{0, p.key_heads, group, p.width},
                               {p.width, p.key_heads, group, p.width},
                               {2 * p.width, p.key_heads, group, wide},
                               {2 * p.width + wide, p.key_heads, group, wide},
                               {gates, p.key_heads, 2 * shared, shared},
                               {gates + shared, p.key_heads, 2 * shared, shared}},
                              stream_);
        out.out = matrix({&p.out});
        out.convolution = numbers_of(p.convolution.weight.data(), p.convolution.weight.size(), stream_);
        out.a_log = numbers_of(p.a_log.data(), p.a_log.size(), stream_);
        out.dt_bias = numbers_of(p.dt_bias.data(), p.dt_bias.size(), stream_);
        // x / √(|x|² + ε) is the root mean square norm with ε / width and weights of 1/√width.
        const double width = static_cast<double>(p.width), weight = 1 / std::sqrt(width);
        const std::vector<float> weights(static_cast<std::size_t>(p.width), static_cast<float>(weight));
        out.length.width = p.width, out.length.eps = static_cast<float>(core::length_eps / width);
        out.length.weight = numbers_of(weights.data(), p.width, stream_);
        check_norm(p.norm, layer);
        out.norm = norm_of(p.norm, stream_);
        out.scale = static_cast<float>(weight);
        return out;
    }

    void add(const core::Layer& from, std::size_t number) {
        Layer to;
        to.mixer_norm = norm_of(from.mixer_norm, stream_), to.mlp_norm = norm_of(from.mlp_norm, stream_);
        to.mixed = from.mixed, to.thought = from.thought;
        if (const core::SoftmaxParts* p = from.mixer->softmax_parts()) to.softmax = softmax(*p, number);
        else if (const core::DecayParts* d = from.mixer->decay_parts()) to.decay = decay(*d, number);
        else if (const core::GatedDeltaParts* g = from.mixer->delta_parts()) to.delta = delta(*g, number);
        else
            fail("device: layer ", number, " has ", from.mixer->info().attention,
                 ", expected softmax attention, linear attention with decay or a gated delta net on the GPU");
        const auto* mlp = dynamic_cast<const core::GatedMlp*>(from.mlp.get());
        if (!mlp) fail("device: layer ", number, " has an MLP without a gate, expected one with it on the GPU");
        to.mlp.gate_up = matrix({&mlp->gate, &mlp->up});
        to.mlp.down = matrix({&mlp->down});
        to.mlp.inner = mlp->gate.outputs(), to.mlp.activation = mlp->activation;
        out_.layer.push_back(std::move(to));
    }

    const core::Network& network_;
    Stream stream_;
    Loader loader_;
    std::map<const core::Rotary*, int> rotaries_;
    Layers out_;
};

}  // namespace

std::size_t Layers::bytes() const {
    std::size_t sum = embedding->bytes() + (head == embedding ? 0 : head->bytes());
    for (const Layer& l : layer) {
        sum += l.mlp.gate_up.bytes() + l.mlp.down.bytes() + l.inputs().bytes() + l.out().bytes();
    }
    return sum;
}

Layers layers_of(const causeway::model::Network& network, Type type) { return Builder(network, type).build(); }

}  // namespace causeway::gpu::models
