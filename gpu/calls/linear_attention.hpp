// Linear attention with gates and delta rules on the GPU: the public functions, where everything is checked.
#pragma once

#include <optional>
#include <string>

#include "core/gated/linear_attention.hpp"
#include "gpu/gated/problem.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// The options that core/calls/linear_attention.hpp describes, and the stream that everything is queued on.
struct LinearOptions : calls::LinearOptions<Tensor> {
    bool check_gates = true;  // whether elements of log_decay are looked at, which waits for the stream
    cudaStream_t stream = nullptr;
};

struct LinearResult {
    Tensor O;      // [b, h_q, N, d_v], the type of q
    Tensor state;  // Float32 [b, h, d_k, d_v] after the last token
};

// linear_attention of core for tensors on the GPU: Float32, Float16 or BFloat16, sums in Float32. Returns when
// everything is queued on options.stream. chunkwise: on Hopper, for 16-bit types with at most one gate a head, on
// tensor cores, where keys must have beta |k|² <= 2, as stable states do (gpu/gated/delta.hpp); elsewhere on FMA units.
// Throws Error naming the argument, OutOfMemory.
LinearResult linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& = {});

// One token, N = 1, advancing `state` (Float32) in place; O [b, h_q, 1, d_v] of the type of q is written. Allocates
// nothing where log_decay and beta are Float32 with a value for every head.
void linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                           const LinearOptions& = {});

namespace gated {

// A checked call: `args` holds everything but outputs, state and workspace; the tensors keep its gates alive.
struct Call {
    causeway::gated::Sizes sizes;
    GatedArgs args;
    Tensor log_decay, beta;
};
Call check(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions&);

}  // namespace gated
}  // namespace causeway::gpu
