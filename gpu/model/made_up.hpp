// Weights that are made up in place.
#pragma once

#include <cuda_runtime_api.h>

#include "core/model/weight.hpp"
#include "gpu/kit/layout.hpp"

namespace causeway::gpu::models {

// n numbers as causeway::model::MadeUp describes them, rounded to the type; where `by_way_of` is 16 bits wide they are
// rounded to it first, as a checkpoint of that type holds them.
void make_up(void* data, Type type, std::int64_t n, const causeway::model::MadeUp& numbers, Type by_way_of,
             cudaStream_t stream);

}  // namespace causeway::gpu::models
