// causeway::model::Activation of a number.
#pragma once

#include "core/model/activations.hpp"

namespace causeway::gpu::models {

__device__ __forceinline__ float sigmoid_of(float x) {
    const float e = __expf(-fabsf(x)), below = e / (1 + e);
    return x < 0 ? below : 1 - below;
}

__device__ __forceinline__ float activated(float x, causeway::model::Activation f) {
    switch (f) {
        case causeway::model::Activation::sigmoid: return sigmoid_of(x);
        case causeway::model::Activation::silu: return x * sigmoid_of(x);
        case causeway::model::Activation::gelu: return 0.5f * x * (1 + erff(x * 0.70710678118654752f));
        default: return x;
    }
}

}  // namespace causeway::gpu::models
