#include "core/calls/causal_linear_attention.hpp"

#include "core/exact/registry.hpp"

namespace causeway::calls {

std::vector<std::string> causal_methods() {
    std::vector<std::string> names{"auto"};
    for (const auto& m : exact::methods()) names.push_back(m.name);
    return names;
}

}  // namespace causeway::calls
