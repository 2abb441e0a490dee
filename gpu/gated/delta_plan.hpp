// How delta_hopper cuts the sequences over the multiprocessors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gpu/gated/delta.hpp"

namespace causeway::gpu::gdr {

constexpr int chunk = 64, most_parts = 128;

struct Plan {                                   // how a call is cut over the multiprocessors
    std::vector<std::uint32_t> bound;           // part i of every sequence is the chunks [bound[i], bound[i+1])
    int columns = 64;                           // of v that one thread block owns
    std::int64_t column_blocks = 1, lines = 1;  // thread blocks along v; heads of q in all batches
    int parts() const { return static_cast<int>(bound.size()) - 1; }
};

void run_hopper(const GatedArgs& a, const Plan& p, cudaStream_t stream);  // arguments are already checked

}  // namespace causeway::gpu::gdr
