// The updates and modes of linear attention as values: the public calls, their gradients and the tests read these
// lists.
#pragma once

#include <string>

#include "core/gated/problem.hpp"
#include "core/kit/registry.hpp"
#include "core/measure/counting.hpp"

namespace causeway::gated {

// What becomes of the state at a token; see problem.hpp.
struct Rule {
    std::string name;  // "gated_delta"
    Update update;
    std::string source;
    std::string formula;  // of a token
    std::string text;     // what it does to the state, in a sentence or two
    std::string use;      // when to take it
};
const Registry<Rule>& updates();

// In which order the sums of the recurrence are taken.
struct Mode {
    std::string name;          // "chunkwise"
    std::string source;        // where it comes from
    std::string text;          // how it goes about it
    std::string use;           // when to take it
    std::string time, memory;  // of one head, C the chunk length
    bool chunk = false;        // takes the option chunk

    // All heads of a checked problem; the last runs the definition, counting its operations.
    void (*f32)(const Problem<float>&) = nullptr;
    void (*f64)(const Problem<double>&) = nullptr;
    void (*counted)(const Problem<Counted>&) = nullptr;
};
const Registry<Mode>& modes();

}  // namespace causeway::gated
