// The part of a layer that works on each token alone.
#pragma once

#include "core/model/blocks/activation.hpp"
#include "core/model/blocks/linear.hpp"

namespace causeway::model {

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
        run_together(std::array<LinearTo, 2>{{{&gate, a.data(), gate.outputs()}, {&up, b.data(), up.outputs()}}}, x, n);
        multiply_by(b.data(), a.data(), n, gate.outputs(), activation);
        down.run(b.data(), n, y);
    }

    const Linear gate, up, down;
    const Activation activation;
};

}  // namespace causeway::model
