// Products of rows of activations with a matrix of weights.
#pragma once

#include <cuda_runtime_api.h>

#include "core/model/activations.hpp"
#include "gpu/model/weights.hpp"

namespace causeway::gpu::models {

// Where and how the result of a product goes: y = alpha (x Wᵀ + bias) + beta y.
struct Result {
    void* data = nullptr;
    Type type = Type::BFloat16;
    std::int64_t row = 0;  // elements from one row to the next
    float alpha = 1, beta = 0;
};

// n rows of x, of the type of the weights, `x_row` elements apart. Up to max_few_rows rows by a kernel that is bound by
// reading the weights, more by cuBLAS in `blas_room` (blas_workspace bytes).
constexpr int max_few_rows = 4;
void multiply(const Matrix& w, const void* x, std::int64_t x_row, std::int64_t n, const Result& y, void* blas_room,
              cudaStream_t stream);

// For few rows the kernel can norm them as it reads them: x is Float32, what goes into the product is norm(x), not
// rounded to the type of the weights. takes_normed() says whether it can.
bool takes_normed(const Matrix& w, const Norm& norm, const float* x, std::int64_t n);
void multiply_normed(const Matrix& w, const Norm& norm, const float* x, std::int64_t n, const Result& y,
                     cudaStream_t stream);
// The same, and of rows [gate, up] of the result y = f(gate) ⊙ up, of the type of the weights; alpha and beta are not
// looked at.
void multiply_gated(const Matrix& w, const Norm& norm, const float* x, std::int64_t n, causeway::model::Activation f,
                    const Result& y, cudaStream_t stream);

}  // namespace causeway::gpu::models
