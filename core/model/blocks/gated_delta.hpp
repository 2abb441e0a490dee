// The gated delta net (Yang et al. 2025) as Qwen3-Next has it: S = e^g S + k β (v − (e^g S)ᵀ k)ᵀ, o = Sᵀ q, its q, k
// and v through a short convolution and SiLU, q and k of length one, the output normed and gated.
#pragma once

#include "core/model/blocks/convolution.hpp"
#include "core/model/blocks/heads.hpp"
#include "core/model/blocks/linear.hpp"
#include "core/model/blocks/norm.hpp"
#include "core/model/mixer.hpp"

namespace causeway::model {

// Of the r = value_heads / key_heads value heads that share a key head, the rows of qkvz hold q, k, r values and r
// gates, those of ba r betas and r gates.
struct GatedDeltaParts {
    Index key_heads = 0, value_heads = 0, width = 0, value_width = 0;
    Linear qkvz, ba, out;
    Convolution convolution;       // of all q, then all k, then all v
    Buffer<float> a_log, dt_bias;  // g = −e^a_log softplus(a + dt_bias), [value_heads]
    Norm norm;                     // of a value head

    Index shared() const { return value_heads / key_heads; }  // r
};

// In the lengths of q and k: x / √(|x|² + ε).
inline constexpr double length_eps = 1e-6;

std::unique_ptr<Mixer> gated_delta_mixer(GatedDeltaParts);

}  // namespace causeway::model
