// l2norm and rms_norm of core for tensors on the GPU (core/around/norms.hpp).
#pragma once

#include <optional>

#include "core/calls/around.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// The options that core/calls/around.hpp describes, and the stream that everything is queued on.
struct LengthOptions : calls::LengthOptions<Tensor> {
    cudaStream_t stream = nullptr;
};
struct NormOptions : calls::NormOptions<Tensor> {
    cudaStream_t stream = nullptr;
};

// Float32, Float16 or BFloat16, computed in Float32; weight and gate may have another of these types. Everything
// returns when it is queued. A row has the same bits whatever stands beside it. Throws Error naming the argument,
// OutOfMemory.
Tensor l2norm(const Tensor& x, const LengthOptions& = {});
Tensor l2norm_grad(const Tensor& x, const Tensor& dy, const LengthOptions& = {});

Tensor rms_norm(const Tensor& x, const NormOptions& = {});

struct NormGradient {
    Tensor dx;
    std::optional<Tensor> dweight, dgate;  // where they were given, with their shapes and types
};

// The weight's sum over rows is made in Float64, in an order that the number of rows alone decides.
NormGradient rms_norm_grad(const Tensor& x, const Tensor& dy, const NormOptions& = {});

namespace around {

// Rows x / √(s Σ x² + eps), s = 1 / width for a mean, times weight and f(gate).
struct NormArgs {
    const void* x;
    Type type;
    std::int64_t rows, width;
    float eps;
    bool mean;
    const float* weight;  // [width], or null
    const void* gate;     // as x, or null
    Type gate_type;
    bool silu;
};

void norm(const NormArgs&, void* y, cudaStream_t);
// dx in the type of x, dgate (null without a gate) in that of the gate; factor [rows], what each row was multiplied by.
void norm_gradient(const NormArgs&, const void* dy, void* dx, void* dgate, float* factor, cudaStream_t);
// sums [parts, width] of dy ⊙ x factor ⊙ f(gate).
void norm_weights(const NormArgs&, const void* dy, const float* factor, double* sums, cudaStream_t);

}  // namespace around
}  // namespace causeway::gpu
