#include "core/calls/linear_attention.hpp"

#include "core/gated/registry.hpp"

namespace causeway::calls {

std::vector<std::string> linear_updates() { return gated::updates().names(); }
std::vector<std::string> linear_modes() { return gated::modes().names(); }

}  // namespace causeway::calls
