// What a launch of a pass of the Hopper gradient is told: where its tensors lie, and how many blocks there are.
#pragma once

#include <cuda.h>

#include "gpu/gradient/softmax.hpp"
#include "gpu/gradient/softmax_params.hpp"

namespace causeway::gpu::softmax::backward {

// A block has so many keys, or queries of one head, of its own; a consumer warpgroup has half of them.
constexpr int own_rows = 128, consumer_rows = 64, consumers = own_rows / consumer_rows;
// Columns of a box that TMA moves at once: 128 bytes, which are swizzled.
constexpr int box_columns = 64;
// The rows of the other side pass by in tiles: scores, gradients of weights and the gradients of the own rows fill the
// registers of a consumer, two of the latter where keys are its own.
constexpr int passing_queries = 64;
constexpr int passing_keys(int d) { return d == 64 ? 128 : 64; }

// Rows a and b are k and v, or q and dO: a·aᵀ are scores, b·bᵀ gradients of weights.
struct TensorMaps {
    CUtensorMap own_a, own_b, passing_a, passing_b;
    CUtensorMap out_a, out_b;  // of the own rows: dk and dv, or dq twice
};

struct Plan {
    TensorMaps maps;
    std::int64_t blocks;
};

// The pass for dk and dv, to which keys belong, or that for dq.
Plan plan_of(const SoftmaxGradArgs&, bool own_keys);

}  // namespace causeway::gpu::softmax::backward
