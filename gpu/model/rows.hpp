// What happens to the rows of tokens between products: embedding, norms, activations.
#pragma once

#include <cuda_runtime_api.h>

#include "core/model/activations.hpp"
#include "gpu/model/weights.hpp"

namespace causeway::gpu::models {

using causeway::model::Activation;

// x[i] = scale · row ids[i] of the embedding, n rows, Float32 [n, columns].
void embed(const Matrix& embedding, const std::int32_t* ids, std::int64_t n, float scale, float* x,
           cudaStream_t stream);

// y[i] = norm(x[i]) in the type, rows of y one behind the other, those of x `x_row` apart; where `in_place`, x[i]
// becomes the same.
void norm_rows(const Norm& norm, float* x, std::int64_t x_row, std::int64_t n, void* y, Type type, bool in_place,
               cudaStream_t stream);

// y[i] = f(gate[i]) ⊙ up[i] for rows [gate, up] of 2 · width numbers, n rows of y one behind the other.
void gate_rows(const void* rows, std::int64_t n, std::int64_t width, Activation f, void* y, Type type,
               cudaStream_t stream);

// Rows of attention, in groups that are normed each: y = norm(Σ_p x_p) ⊙ f(gate), x_p [n, row] lying `next` elements
// apart, gates `gate_row` elements from one row to the next. A norm without a width leaves them as they are.
struct NormedGate {
    const void* x = nullptr;
    std::int64_t parts = 1, next = 0, row = 0;
    const void* gate = nullptr;
    std::int64_t gate_row = 0;
    Activation activation = Activation::none;
    void* y = nullptr;  // [n, row]
};
void norm_and_gate(const Norm& norm, const NormedGate& call, std::int64_t n, Type type, cudaStream_t stream);

}  // namespace causeway::gpu::models
