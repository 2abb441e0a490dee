// How lightning_attention_2 is cut over the multiprocessors, and the two ways to run it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gpu/exact/lightning.hpp"

namespace causeway::gpu::la {

constexpr int chunk = 64, most_stretches = 192, most_heads = 256;
constexpr int from_memory = -1;  // Head::reach: states come from la_state

struct Head {
    float log2_gamma;
    int reach;  // chunks back that still count
};

struct Plan {
    int stretches = 0;
    int parts = 0;      // states that la_state leaves for each stretch; 0: not needed
    bool scan = false;  // ... and la_scan sums them: some head has many
    double time = 0;
    std::vector<Head> head;
    std::vector<uint32_t> bound;
};

// On tensor cores, as planned; Hopper only.
void run_hopper(const CausalArgs& a, const Plan& p, cudaStream_t stream);

// On FMA units, any device and stride; r and d at most portable_most, B·H at most 65535.
constexpr int portable_most = 256;
void run_portable(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu::la
