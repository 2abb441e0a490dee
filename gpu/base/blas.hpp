// cuBLAS: one handle per thread and device, and products of matrices as this library stores them.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// Throws Error with what cuBLAS says when status is not success. `what` says what was being done ("multiplying
// matrices").
void check(cublasStatus_t status, const char* what);

// Loads cuBLAS, which the first call that needs it does too. Throws Error where it is missing.
void load_blas();

// What a call that uses cuBLAS adds to its workspace: cuBLAS may use it until the work of the call is done, in replays
// of a graph too.
constexpr std::size_t blas_workspace = std::size_t{8} << 20;

// The handle of this thread for the current device, made at its first use, set to work on `stream` in `workspace`
// (blas_workspace bytes on the device, 256-byte aligned). Sums and results are Float32.
cublasHandle_t blas(cudaStream_t stream, void* workspace);

// A Float32 matrix in rows `row` elements apart, and the next of a batch `next` elements behind it; `transposed`: used
// as its transpose.
struct Matrices {
    const float* data;
    std::int64_t row, next;
    bool transposed = false;
};

// C_i = A_i B_i + beta C_i for i < count: A_i is m×k, B_i k×n, C_i m×n, rows of C_i `row` elements apart, C_i `next`.
// tf32: products of operands of 11 bits on tensor cores; otherwise of Float32.
void multiply(cublasHandle_t handle, bool tf32, std::int64_t m, std::int64_t n, std::int64_t k, Matrices A, Matrices B,
              float beta, float* C, std::int64_t row, std::int64_t next, std::int64_t count);

// Y = alpha X Wᵀ + beta Y: X [m, k] and W [n, k] of one type, Y [m, n] of that type or Float32; rows of X and Y `x_row`
// and `y_row` elements apart, those of W k. Sums in Float32, of Float32 factors without rounding them first.
void multiply_transposed(cublasHandle_t handle, Type type, std::int64_t m, std::int64_t n, std::int64_t k,
                         const void* X, std::int64_t x_row, const void* W, void* Y, Type y_type, std::int64_t y_row,
                         float alpha = 1, float beta = 0);

}  // namespace causeway::gpu
