// The layers of a causeway::model::Network with their weights in device memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/network.hpp"
#include "gpu/model/product.hpp"
#include "gpu/model/weights.hpp"

namespace causeway::gpu::models {

// Rotary positions: one for all layers that share them.
struct Rotary {
    Buffer frequencies;  // Float64 [pairs]
    std::int64_t pairs = 0;
    double factor = 1;
    bool interleaved = false;
};

// Softmax attention with grouped queries: a row of `inputs` holds q, k and v one behind the other, and behind them,
// where the output is gated, the gates of all heads.
struct SoftmaxMixer {
    std::int64_t heads = 0, key_heads = 0, width = 0;
    float scale = 1;
    Matrix inputs, out;
    Norm q_norm, k_norm;  // without a width: none
    int rotary = -1;      // of Layers::rotaries; none
    bool gated = false;   // by the sigmoid of the gates

    std::int64_t gate() const { return (heads + 2 * key_heads) * width; }
};

// Linear attention with fixed decay, as causeway::model::DecayParts has it; the factor of its scores is on q. The
// columns of keys and of values are cut into parts that the kernels on tensor cores take.
struct DecayMixer {
    std::int64_t heads = 0, width = 0, value_width = 0, key_width = 0;  // key_width: as attention gets them
    std::int64_t q = 0, k = 0, v = 0, gate = 0, step = 0, value_step = 0;
    causeway::model::Activation activation{}, value_activation{}, gate_activation{};
    Matrix inputs, out;
    Norm norm;
    Buffer theta;  // Float32 [heads, width], or none
    int rotary = -1;
    std::vector<double> decay;
    float scale = 1;

    static constexpr std::int64_t part = 128;
    std::int64_t key_parts() const { return (key_width + part - 1) / part; }
    std::int64_t value_parts() const { return (value_width + part - 1) / part; }
};

// The gated delta net, as causeway::model::GatedDeltaParts has it. A row of `inputs` holds all q, all k, all v, which
// the convolution takes, then the gates of all values, and of every head of values what β and what its log decay is
// made of.
struct DeltaMixer {
    std::int64_t key_heads = 0, value_heads = 0, width = 0, value_width = 0, taps = 0;
    Matrix inputs, out;
    Buffer convolution;     // Float32 [channels, taps]
    Buffer a_log, dt_bias;  // Float32 [value heads]
    Norm length;            // that leaves a head of q or k of length one
    Norm norm;
    float scale = 1;

    std::int64_t keys() const { return key_heads * width; }
    std::int64_t values() const { return value_heads * value_width; }
    std::int64_t channels() const { return 2 * keys() + values(); }
    std::int64_t shared() const { return value_heads / key_heads; }  // heads of values that share one of keys
};

// The heads that attention works on.
struct HeadSizes {
    std::int64_t heads = 0, key_heads = 0, width = 0, value_width = 0;
    double scale = 1;  // of q kᵀ
};

struct Mlp {
    Matrix gate_up, down;
    std::int64_t inner = 0;
    causeway::model::Activation activation{};
};

struct Layer {
    Norm mixer_norm, mlp_norm;
    causeway::model::Residual mixed, thought;
    std::optional<SoftmaxMixer> softmax;  // one of the three
    std::optional<DecayMixer> decay;
    std::optional<DeltaMixer> delta;
    Mlp mlp;

    const Matrix& inputs() const { return softmax ? softmax->inputs : decay ? decay->inputs : delta->inputs; }
    const Matrix& out() const { return softmax ? softmax->out : decay ? decay->out : delta->out; }
    HeadSizes sizes() const {
        if (softmax) return {softmax->heads, softmax->key_heads, softmax->width, softmax->width, softmax->scale};
        if (decay) return {decay->heads, decay->heads, decay->key_width, decay->value_width, decay->scale};
        return {delta->value_heads, delta->value_heads, delta->width, delta->value_width, delta->scale};
    }
};

struct Layers {
    Type type = Type::BFloat16;  // of weights and of what products get
    std::int64_t width = 0, vocabulary = 0;
    float embedding_scale = 1;
    std::shared_ptr<const Matrix> embedding, head;  // one where they are tied
    std::vector<Rotary> rotaries;
    std::int64_t most_pairs = 0;  // of a rotary
    std::vector<Layer> layer;
    Norm norm;

    std::size_t bytes() const;  // of all matrices
};

// Throws Error where there are no kernels for a layer, naming it, and OutOfMemory.
Layers layers_of(const causeway::model::Network& network, Type type);

}  // namespace causeway::gpu::models
