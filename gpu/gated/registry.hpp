// The kernels of the gated and delta-rule family as values, under the modes that core/gated/registry.hpp names.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gpu/gated/problem.hpp"
#include "gpu/gated/sequences.hpp"

namespace causeway::gpu {

struct GatedForm {
    std::string name;                 // "delta"
    std::string mode;                 // "chunkwise"
    std::string source;               // where it comes from
    bool channels;                    // takes a gate per key channel
    bool gradient;                    // its mode has a backward pass (gpu/gradient/gated.hpp); said at one form of it
    bool (*takes)(const GatedArgs&);  // whether it computes this problem, on this device
    std::size_t (*workspace)(const GatedArgs&);
    void (*run)(const GatedArgs&, cudaStream_t);
    // The same for packed sequences; null: it takes one after the other.
    std::size_t (*packed_workspace)(const GatedArgs&, const Sequences&) = nullptr;
    void (*run_packed)(const GatedArgs&, const Sequences&, cudaStream_t) = nullptr;
};

// All of them; of a mode the first that takes a problem computes it.
const std::vector<GatedForm>& gated_forms();

// That form. Throws Error where none takes it.
const GatedForm& gated_form(const std::string& mode, const GatedArgs&);

// Throw Error, naming the modes that do, where no form of the mode takes a gate per key channel, or has a gradient.
void check_channels(const std::string& mode);
void check_gradient(const std::string& mode);

}  // namespace causeway::gpu
