// Softmax attention on the GPU: the public function, where everything is checked.
#pragma once

#include <optional>

#include "core/softmax/softmax_attention.hpp"
#include "gpu/calls/pieces.hpp"
#include "gpu/softmax/problem.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// The options that core/calls/softmax_attention.hpp describes, and the stream that everything is queued on.
struct SoftmaxOptions : calls::SoftmaxOptions<Tensor> {
    cudaStream_t stream = nullptr;
};

struct SoftmaxResult {
    Tensor O;    // [b, h_q, N, d_v], the type of q
    Tensor lse;  // Float32 [b, h_q, N], the log-sum-exp of the scaled scores of every query
};

// softmax_attention of core for tensors on the GPU, tiled with an online softmax; few queries (decoding) are spread
// over the keys. Float32, Float16 or BFloat16, sums in Float32; d and d_v at most 256. A packed sequence is queued as a
// call of its own and has its bits. Throws Error naming the
// argument, OutOfMemory.
SoftmaxResult softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& = {});

namespace softmax {

// A checked call, without outputs and workspace.
struct CheckedCall {
    causeway::attention::Sizes sizes;
    SoftmaxArgs args;
};
CheckedCall check(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions&);
// The arguments of a call for one of its packed sequences, whose lse lies behind those of the sequences before.
SoftmaxArgs args_of(const SoftmaxArgs& all, const Piece&);

}  // namespace softmax
}  // namespace causeway::gpu
