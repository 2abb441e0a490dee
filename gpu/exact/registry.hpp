// The methods of causal linear attention on the GPU as values, under the names that core/exact/registry.hpp gives them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

struct CausalMethod {
    std::string name;    // "lightning-attention-2"
    bool state;          // takes and leaves CausalArgs::state
    std::int64_t block;  // tokens of its blocks; 0: it has none
    bool any_block;      // CausalArgs::block chooses another length
    std::size_t (*workspace)(const CausalArgs&);
    void (*run)(const CausalArgs&, cudaStream_t);
};

const std::vector<CausalMethod>& causal_methods();  // all of them

// By name. Throws Error for an unknown one, with the nearest known name.
const CausalMethod& causal_method(const std::string& name);

}  // namespace causeway::gpu
