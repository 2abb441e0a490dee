// One head after the other through the code of a step.
#pragma once

#include "core/scan/code.hpp"
#include "core/scan/scan.hpp"

namespace causeway::scan {

struct Problem {
    struct Place {
        Tensor tensor;  // of the element type of the computation
        Scan::Steps steps;
    };
    const Code& code;
    DType type;
    bool reverse;
    Index batch, heads, tokens;
    std::vector<Place> inputs, initial;  // of the inputs and states, by slot
    std::vector<Place> outputs, final;   // written
};

void run(Problem& problem);

}  // namespace causeway::scan
