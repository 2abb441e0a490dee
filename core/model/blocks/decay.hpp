// Linear attention with a fixed decay a head: O = (Q Kᵀ ⊙ M) V, M[i,j] = γ^(i−j), by the exact methods of core/exact.
#pragma once

#include <vector>

#include "core/model/mixer.hpp"

namespace causeway::model {

// What all layouts with such layers share; how q, k, v come about and what becomes of o is theirs.
class DecayMixer : public Mixer {
public:
    Tensor attend(const Chunk&, const Heads&, LayerState&, const std::string& method) const override;
    bool takes_methods() const override { return true; }

protected:
    DecayMixer(std::vector<double> decay, double scale) : decay_(std::move(decay)), scale_(scale) {}

    const std::vector<double>& decay() const { return decay_; }
    double scale() const { return scale_; }

private:
    std::vector<double> decay_;  // γ of each head
    double scale_;
};

// Slopes of attention with linear biases (Press et al. 2022): 2^(−8i/h) for h a power of two, and otherwise those of
// the power below with every second one of the power above.
std::vector<double> alibi_slopes(Index heads);

}  // namespace causeway::model
