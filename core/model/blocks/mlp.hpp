// The part of a layer that works on each token alone.
#pragma once

#include <cmath>

#include "core/model/blocks/linear.hpp"

namespace causeway::model {

enum class Activation { none, silu, gelu };

// y_i = f(y_i) · x_i.
inline void gate_rows(float* y, const float* x, Index n, Index width, Activation f) {
    over_rows(n, width, [&](Index first, Index rows) {
        float* to = y + first * width;
        const float* by = x + first * width;
        const Index count = rows * width;
        using V = simd::Vector<float>;
        switch (f) {
            case Activation::silu:
                return each_vector(to, by, count, [](const V& a, const V& b) { return a * sigmoid(a) * b; });
            case Activation::none: return each_vector(to, by, count, [](const V& a, const V& b) { return a * b; });
            case Activation::gelu:
                for (Index i = 0; i < count; ++i) to[i] *= 0.5f * (1 + std::erf(to[i] * 0.70710678118654752f)) * by[i];
        }
    });
}

class Mlp {
public:
    virtual ~Mlp() = default;
    virtual void run(const float* x, Index n, float* y) const = 0;  // rows of the width of the model
};

// down(f(gate x) ⊙ (up x)), the gated linear unit (Shazeer 2020).
class GatedMlp : public Mlp {
public:
    GatedMlp(Linear gate_, Linear up_, Linear down_, Activation activation_)
        : gate(std::move(gate_)), up(std::move(up_)), down(std::move(down_)), activation(activation_) {}

    void run(const float* x, Index n, float* y) const override {
        Buffer<float> a(n * gate.outputs()), b(n * up.outputs());
        gate.run(x, n, a.data());
        up.run(x, n, b.data());
        gate_rows(a.data(), b.data(), n, gate.outputs(), activation);
        down.run(a.data(), n, y);
    }

private:
    Linear gate, up, down;
    Activation activation;
};

}  // namespace causeway::model
