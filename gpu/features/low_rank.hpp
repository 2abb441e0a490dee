// Low-rank factors of the attention matrix on the GPU: the feature maps among the factorisations.
#pragma once

#include <string>

#include "core/lowrank/lowrank.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

struct LowRank {
    Tensor B, C;                           // [b, h, N, r], Float32
    std::map<std::string, Tensor> extras;  // [b, h, N] each, Float32
};

// Whether a factorisation of core's registry runs on the GPU: favor+, rfa, taylor, hedgehog. The others look at the
// whole prompt.
bool low_rank_takes(const std::string& name);

// low_rank of core for tensors on the GPU, with the same random numbers for the same seed. q and k are not looked at
// for entries that are not finite: these give features that are not. options.v must not be given. Throws Error naming
// the argument, OutOfMemory.
LowRank low_rank(const std::string& name, const Tensor& q, const Tensor& k, const LowRankOptions& options = {},
                 cudaStream_t stream = nullptr);

}  // namespace causeway::gpu
