// The part of a layer in which tokens see each other, in three steps, so that the middle one can be looked at and
// replaced: from rows to heads, attention, and back.
#pragma once

#include <map>

#include "core/model/cache.hpp"
#include "core/model/model.hpp"

namespace causeway::model {

struct DecayParts;
struct GatedDeltaParts;
struct Rotary;
struct SoftmaxParts;

// Tokens of a chunk: batch · n rows, token t of text s in row s · n + t.
class Chunk {
public:
    Chunk(Index batch_, Index n_, Index position_) : batch(batch_), n(n_), position(position_) {}

    const Index batch, n;
    const Index position;  // of the first of them in its text
    Index rows() const { return batch * n; }

    // Angles are the same for all layers.
    const Buffer<float>& angles(const Rotary& rotary) const;

private:
    mutable std::map<const Rotary*, Buffer<float>> angles_;
};

// What attention gets, and what waits for its output.
struct Heads {
    Tensor q, k, v;  // [batch, heads or key heads, n, width]
    std::optional<Tensor> log_decay, beta;
    Buffer<float> gate;  // rows
};

class Mixer {
public:
    virtual ~Mixer() = default;
    virtual LayerInfo info() const = 0;

    // x: rows of the width of the model.
    virtual Heads heads(const Chunk&, const float* x, LayerState&) const = 0;
    // o [batch, heads, n, value width]; `method` as in Swap.
    virtual Tensor attend(const Chunk&, const Heads&, LayerState&, const std::string& method) const = 0;
    // y: rows of the width of the model.
    virtual void out(const Chunk&, const Heads&, const Tensor& o, float* y) const = 0;

    // Whether attend() can use this exact method; a mixer without such a choice can use none.
    virtual bool takes_methods() const { return false; }

    // What it is made of, for who computes it on another device; null where it is not of that kind.
    virtual const SoftmaxParts* softmax_parts() const { return nullptr; }
    virtual const DecayParts* decay_parts() const { return nullptr; }
    virtual const GatedDeltaParts* delta_parts() const { return nullptr; }
};

}  // namespace causeway::model
