// Language models on the GPU.
#pragma once

#include <memory>

#include "core/model/accelerator.hpp"
#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

struct ModelOptions {
    Type type = Type::BFloat16;  // of weights, products, keys and values; sums and the residual are Float32
    bool graph = true;           // a token that is generated is a replay of a CUDA graph
};

// Copies the weights of a network to the current device, in the type of the options whatever the checkpoint has, or
// makes them up there, and runs it there: everything between the ids of the tokens that go in and those that come out.
// A text runs in chunks (RunOptions::chunk; by default of as many tokens as keep the device busy): products by cuBLAS,
// softmax attention by flash_attention and cached_decoding, linear attention with decay by lightning_attention_2 and
// gated_step, gated delta nets by delta_hopper (on FMA units elsewhere) and gated_step. Throws Error where there is no
// GPU or where it has no kernels for a layer, OutOfMemory.
std::shared_ptr<const causeway::model::Accelerator> on_gpu(const causeway::model::Network& network,
                                                           const ModelOptions& options = {});

}  // namespace causeway::gpu
