// From the rows of tokens to the heads that attention works on.
#pragma once

#include <cuda_runtime_api.h>

#include "core/model/activations.hpp"
#include "gpu/kit/layout.hpp"

namespace causeway::gpu::models {

// cos and sin of the angles of n positions from *position on, [n, 2, pairs]: position · frequency in Float64.
void rotary_table(const double* frequencies, std::int64_t pairs, double factor, const std::int32_t* position,
                  std::int64_t n, float* table, cudaStream_t stream);

// The heads of q, of k or of v: numbers from `offset` on in every row, `step` from one head to the next. Each goes
// through the activation and the norm, is turned to its position, or becomes [x cos(pθ), x sin(pθ)] with θ of its head,
// and is multiplied by `scale`.
struct PlacedHeads {
    std::int64_t offset = 0, step = 0;
    std::int32_t heads = 0, width = 0;
    causeway::model::Activation activation = causeway::model::Activation::none;
    const float* norm = nullptr;  // [width]; null: no norm
    float eps = 0;
    bool rotate = false;
    const float* theta = nullptr;  // [heads, width]; null: none
    float scale = 1;
    void* to = nullptr;
    Strides to_stride;
    bool at_position = false;  // token t goes to place *position + t, as in a cache
};

// Rows of `batch` texts of n tokens each, `row` elements apart; widths to max_head.
constexpr int max_head = 256;
struct PlaceCall {
    const void* rows = nullptr;
    std::int64_t row = 0, batch = 1, n = 0;
    PlacedHeads part[3];
    std::int32_t parts = 0;
    const std::int32_t* position = nullptr;  // of the first token
    const float* table = nullptr;            // of rotary_table
    std::int32_t pairs = 0;
    bool interleaved = false;
};
void place_heads(const PlaceCall& call, Type type, cudaStream_t stream);
// The first two parts, each of their heads `times` times, one behind the other.
void place_shared(PlaceCall call, std::int64_t times, Type type, cudaStream_t stream);

// The gates of a gated delta net, of numbers b and a of every head in the rows of `batch` texts of n tokens each:
// β = sigmoid(b) and g = -e^a_log softplus(a + dt_bias), Float32 [batch, heads, n].
struct GateCall {
    const void* rows = nullptr;
    std::int64_t row = 0, b = 0, a = 0, batch = 1, n = 0, heads = 0;  // b, a: where those of the first head stand
    const float *a_log = nullptr, *dt_bias = nullptr;                 // [heads]
    float *g = nullptr, *beta = nullptr;
};
void place_gates(const GateCall& call, Type type, cudaStream_t stream);

}  // namespace causeway::gpu::models
