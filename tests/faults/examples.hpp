// What is run while allocations fail.
#pragma once

#include <string>
#include <vector>

namespace causeway::faults {

struct Example {
    std::string name, code;
};

// The examples of all pages of help, which are those of every public function and of every entry of a registry, and
// calls that reach what no example does.
std::vector<Example> all_examples();

}  // namespace causeway::faults
