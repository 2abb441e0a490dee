// The kernels of the gated and delta-rule family as values, under the modes that core/gated/registry.hpp names.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gpu/gated/problem.hpp"
#include "gpu/gated/sequences.hpp"

namespace causeway::gpu {

// A form in steps (delta.hpp): what does not depend on the state before the first token, the states that follow once it
// is known, then the outputs.
struct GatedSteps {
    bool (*possible)(const GatedArgs&);
    std::size_t (*workspace)(const GatedArgs&, bool goes_on);
    void (*maps)(const GatedArgs&, bool goes_on, cudaStream_t);
    void (*states)(const GatedArgs&, bool goes_on, float* after, cudaStream_t);
    void (*outputs)(const GatedArgs&, bool goes_on, cudaStream_t);
};

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
    bool prefix = false;  // no bit of a finite output depends on later tokens, N, the batch or the heads
    // The same so that none does, for one sequence too; null: `prefix` says whether `run` is so.
    std::size_t (*prefix_workspace)(const GatedArgs&, const Sequences&) = nullptr;
    void (*run_prefix)(const GatedArgs&, const Sequences&, cudaStream_t) = nullptr;
    bool lengths = false;                             // divides q and k by their lengths itself (GatedArgs::length_eps)
    bool (*makes_gates)(const GatedArgs&) = nullptr;  // makes gates of this projection itself; null: of none
    const GatedSteps* steps = nullptr;                // null: it has none

    bool keeps_prefix() const { return prefix || run_prefix; }
};

// All of them; of a mode the first that takes a problem computes it.
const std::vector<GatedForm>& gated_forms();

// That form; prefix: of those with keeps_prefix(); with length_eps of those with `lengths`; with a projection of those
// that make its gates. Throws Error where none takes it.
const GatedForm& gated_form(const std::string& mode, const GatedArgs&, bool prefix = false);

// Whether the form that computes the problem divides q and k by their lengths itself.
bool takes_lengths(const std::string& mode, const GatedArgs&, bool prefix);

// Whether the form that computes the problem, once its gates are made, makes them itself.
bool makes_gates(const std::string& mode, const GatedArgs&, bool prefix);

// Throw Error, naming the modes that do, where no form of the mode takes a gate per key channel, has a gradient, or
// keeps deterministic = "prefix".
void check_channels(const std::string& mode);
void check_gradient(const std::string& mode);
void check_prefix(const std::string& mode);

}  // namespace causeway::gpu
