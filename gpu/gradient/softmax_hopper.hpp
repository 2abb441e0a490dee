// The gradient of softmax attention on warpgroup products. softmax_hopper/README.md has who does what.
#pragma once

#include "gpu/gradient/softmax.hpp"
#include "gpu/gradient/softmax_params.hpp"

namespace causeway::gpu::softmax {

// Which calls gradient_on_hopper can compute: those of hopper_reaches() (gpu/softmax/flash.hpp) where TMA reaches dO
// and the gradients too.
bool gradient_hopper_reaches(const SoftmaxGradArgs&);

// dq, dk and dv, once the sums of rows are in g.
void gradient_on_hopper(const SoftmaxGradArgs&, const Gradient& g, cudaStream_t);

}  // namespace causeway::gpu::softmax
