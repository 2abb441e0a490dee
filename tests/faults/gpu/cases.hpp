// The calls that are run while CUDA fails.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway::faults {

using Results = std::vector<Tensor>;
using Call = std::function<Results()>;

// prepare() copies the inputs to the device and gives the call, whose results are the same every time.
struct Case {
    std::string name;
    int devices = 1;        // that it needs
    bool connects = false;  // NCCL connects GPUs anew after many a failure, which takes a second
    std::function<Call()> prepare;
};

// Every method, update, mode and factorisation of the registries and every gradient, with their options, in Float32 and
// BFloat16; decoding, sequences on several GPUs, and models.
std::vector<Case> all_cases();

// A call that shows whether others still work.
Case other_case();

}  // namespace causeway::faults
