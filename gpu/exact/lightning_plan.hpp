// How lightning_attention_2 is cut over the multiprocessors, and the two ways to run it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gpu/base/error.hpp"
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
void run_hopper(const LightningArgs& a, const Plan& p, cudaStream_t stream);

// On FMA units, any device and stride; r and d at most portable_most, B·H at most 65535.
constexpr int portable_most = 256;
void run_portable(const LightningArgs& a, cudaStream_t stream);

// Decay of head h.
inline double decay_of(const LightningArgs& a, std::int64_t h) { return a.gamma ? a.gamma[h] : 1.0; }

// Launches with so much dynamic shared memory, in clusters, and, where it comes after a kernel it depends on, before that ends.
template <class... P, class... A>
void launch(void (*kernel)(P...), const char* name, dim3 grid, unsigned threads, std::size_t shared, int cluster, bool after, cudaStream_t stream, const A&... args) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)), name);
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    cudaLaunchAttribute attributes[2] = {};
    config.attrs = attributes;
    const auto add = [&]() -> cudaLaunchAttribute& { return attributes[config.numAttrs++]; };
    if (after) {
        cudaLaunchAttribute& x = add();
        x.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        x.val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        cudaLaunchAttribute& x = add();
        x.id = cudaLaunchAttributeClusterDimension;
        x.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
    }
    check(cudaLaunchKernelEx(&config, kernel, args...), name);
}

}  // namespace causeway::gpu::la
