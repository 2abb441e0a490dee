// Linear attention with a fixed decay a head: O = (Q Kᵀ ⊙ M) V, M[i,j] = γ^(i−j), by the exact methods of core/exact.
#pragma once

#include <memory>
#include <vector>

#include "core/model/blocks/activation.hpp"
#include "core/model/blocks/linear.hpp"
#include "core/model/blocks/norm.hpp"
#include "core/model/blocks/rotary.hpp"
#include "core/model/mixer.hpp"

namespace causeway::model {

// What a layout says of it. A token's row holds its products with `inputs`, one behind the other; in it the heads of q
// and k lie `step` numbers apart and those of v `value_step`, the first at q, k and v, and from `gate` on a number for
// each of the output: y = out(norm(o) ⊙ gate_activation(gate)).
struct DecayParts {
    Index heads = 0, width = 0, value_width = 0;  // of a head's q and k in the row, and of its v
    std::vector<Linear> inputs{};
    Index q = 0, k = 0, v = 0, gate = 0, step = 0, value_step = 0;
    Activation activation = Activation::none;  // of q and k
    Activation value_activation = Activation::none, gate_activation = Activation::none;
    std::shared_ptr<const Rotary> rotary{};  // turns q and k, or none
    Buffer<float> theta{};                   // [heads, width]: q and k become [x cos(pθ), x sin(pθ)]; or none
    Norm norm{};
    Linear out{};
    std::vector<double> decay{};  // γ of each head
    double scale = 1;

    Index row() const;                                                        // numbers of a token's row
    Index key_width() const { return theta.size() > 0 ? 2 * width : width; }  // of q and k as attention gets them
};

std::unique_ptr<Mixer> decay_mixer(DecayParts);

// Slopes of attention with linear biases (Press et al. 2022): 2^(−8i/h) for h a power of two, and otherwise those of
// the power below with every second one of the power above.
std::vector<double> alibi_slopes(Index heads);

}  // namespace causeway::model
