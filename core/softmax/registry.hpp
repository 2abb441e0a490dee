// The methods of softmax attention as values: the public call, its counted form and the tests read this list.
#pragma once

#include <string>

#include "core/kit/registry.hpp"
#include "core/measure/counting.hpp"
#include "core/softmax/problem.hpp"

namespace causeway::attention {

struct Method {
    std::string name;          // "flash"
    std::string source;        // where it comes from
    std::string formula;       // of a row
    std::string text;          // how it goes about it
    std::string use;           // when to take it
    std::string time, memory;  // of one head

    // All heads of a checked problem; the last runs the definition, counting its operations.
    void (*f32)(const Problem<float>&) = nullptr;
    void (*f64)(const Problem<double>&) = nullptr;
    void (*counted)(const Problem<Counted>&) = nullptr;
};
const Registry<Method>& methods();

}  // namespace causeway::attention
