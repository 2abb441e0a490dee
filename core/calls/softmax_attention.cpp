#include "core/calls/softmax_attention.hpp"

#include "core/softmax/registry.hpp"

namespace causeway::calls {

std::vector<std::string> softmax_methods() { return softmax::methods().names(); }

}  // namespace causeway::calls
