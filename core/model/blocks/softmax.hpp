// Softmax attention with rotary positions and grouped queries over a cache of keys and values.
#pragma once

#include "core/model/blocks/heads.hpp"
#include "core/model/blocks/linear.hpp"
#include "core/model/blocks/norm.hpp"
#include "core/model/blocks/rotary.hpp"
#include "core/model/mixer.hpp"

namespace causeway::model {

// What a layout says of it. The norms of a head's q and k come before the rotation; without a width there are none.
struct SoftmaxParts {
    Index heads = 0, key_heads = 0, width = 0;  // of q, of k and v, of a head
    Linear q, k, v, out;
    Norm q_norm{}, k_norm{};
    std::shared_ptr<const Rotary> rotary;  // one for all layers
    // Rows of q hold a gate behind the queries of each head; the output is multiplied by its sigmoid.
    bool gated = false;
};

std::unique_ptr<Mixer> softmax_mixer(SoftmaxParts);

}  // namespace causeway::model
