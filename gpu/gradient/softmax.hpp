// Gradients of softmax attention on the GPU, its weights computed again.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/softmax/problem.hpp"

namespace causeway::gpu {

// From dO (type and strides of o) to dq, dk, dv (type and strides of q, k, v) by the formulas of
// core/gradient/softmax.hpp. in.o and in.lse are those that flash_attention or flash_decoding left for the same
// arguments, and are read.
struct SoftmaxGradArgs {
    SoftmaxArgs in;
    const void* dO = nullptr;
    void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

// Two passes without atomics, for dq and for dk and dv: 7 products where one pass that adds up dq in memory would take
// 5, but the same bits in every run. 16-bit types on tensor cores, with weights and their gradients rounded to the
// type: on Hopper and of widths of 64 or 128 in softmax_hopper/, all others on mma.sync; Float32 on FMA units. Sizes,
// groups and masks as in flash_attention. O(rows·M·(d + dv)) time; a workspace of 2 floats for each row, in whole
// tiles. Throws Error naming what is wrong with the sizes or the workspace.
std::size_t flash_attention_grad_workspace(const SoftmaxGradArgs&);
void flash_attention_grad(const SoftmaxGradArgs&, cudaStream_t);

namespace softmax {

// The same on kernels that every device has.
void gradient_portable(const SoftmaxGradArgs&, cudaStream_t);

}  // namespace softmax

}  // namespace causeway::gpu
