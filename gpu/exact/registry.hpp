// The methods of causal linear attention on the GPU as values, under the names that core/exact/registry.hpp gives them.
// A method of the CPU need not be here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// A method in two steps (lightning.hpp): what does not depend on the state before the first token, then the outputs.
struct CausalSteps {
    bool (*possible)(const CausalArgs&);
    std::size_t (*workspace)(const CausalArgs&, bool with_after);
    void (*states)(const CausalArgs&, float* after, cudaStream_t);
    void (*outputs)(const CausalArgs&, bool with_after, cudaStream_t);
    std::int64_t tokens;  // `after` is there for multiples of so many
};

struct CausalMethod {
    std::string name;    // "lightning-attention-2"
    bool state;          // takes and leaves CausalArgs::state
    std::int64_t block;  // tokens of its blocks; 0: it has none
    bool any_block;      // CausalArgs::block chooses another length
    std::size_t (*workspace)(const CausalArgs&);
    void (*run)(const CausalArgs&, cudaStream_t);

    // What tests and benches hold it to: the relative Frobenius error of Float32 outputs (bf16x3 products err by 7e-6
    // each, sums of exact ones by less), the most heads of one call, and whether its times are those of a bench of its
    // own.
    double f32_error = 6e-6;
    std::int64_t max_heads = std::numeric_limits<std::int64_t>::max();
    bool own_bench = false;

    const CausalSteps* steps = nullptr;  // null: it has none
};

const std::vector<CausalMethod>& causal_methods();  // all of them

// By name; null where there is none.
const CausalMethod* find_causal_method(const std::string& name);

// By name. Throws Error for an unknown one, with the nearest known name.
const CausalMethod& causal_method(const std::string& name);

}  // namespace causeway::gpu
