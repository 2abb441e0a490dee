// Causal-dot-product on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: 0 unless the sequence is cut, then B·H·r·d floats for
// each piece (register_tile.hpp), 64 MiB at most unless `splits` is given. It depends on the precision, and on whether
// k and v lie in rows of whole pieces of 16 bytes.
std::size_t causal_dot_product_workspace(const CausalArgs& a);

// For each token i and each row e of the state: U_e ← γ U_e + k_ie v_i, then o_i += q_ie U_e while U_e is at hand. On
// FMA units in Float32, U in registers, 32 or 64 columns of a head to a block of threads. 2Nrd multiply-adds a head,
// with and without decay. Where that is quicker the sequence is cut: the states before the cuts take up to Nrd
// multiply-adds more, for Float32 on tensor cores (operands as sums of two TF32, relative error at most 1.2e-6 a
// product) unless the precision is Precision::exact. r, d <= 256. Launches on `stream` and returns; reads a.gamma
// before it does. Throws Error on bad arguments. Vyas et al. 2020, Fast Transformers
// (core/exact/causal_dot_product.hpp).
void causal_dot_product(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
