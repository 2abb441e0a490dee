// What a launch of the Hopper kernel is told: where its tensors lie, and how its blocks share the queries.
#pragma once

#include <cuda.h>

#include "gpu/softmax/params.hpp"

namespace causeway::gpu::softmax::flash {

// Tokens of a tile: a block has as many queries, of one head, and k and v pass by in tiles of as many keys. A consumer
// warpgroup has half of the queries.
constexpr int tile_tokens = 128, consumer_tokens = 64, consumers = tile_tokens / consumer_tokens;
// Columns of a box that TMA moves at once: 128 bytes, which are swizzled.
constexpr int box_columns = 64;

struct TensorMaps {
    CUtensorMap q, k, v, o;
};

struct Plan {
    TensorMaps maps;
    Params params;
    unsigned blocks;
};

// For calls that hopper_reaches() (gpu/softmax/flash.hpp) accepts. Throws Error where there are too many queries for
// one launch.
Plan plan_of(const SoftmaxArgs&);

}  // namespace causeway::gpu::softmax::flash
