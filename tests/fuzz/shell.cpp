// What lua/bind/bind.cpp asks of the rest of the shell, which the readers go without: here is no GPU, no tape that
// records and no page of help, so a name is only ever near another one.
#include "core/base/text.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/called.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {

int seen_by_tape(lua_State*) { return -1; }
bool is_traced(lua_State*, int) { return false; }
std::size_t gpu_bytes() { return 0; }
bool is_gpu_tensor(lua_State*, int) { return false; }
std::string meant_here(lua_State*, const std::string&) { return ""; }
std::string meant_among(lua_State*, const std::string& name, const std::vector<std::string>& known) {
    return did_you_mean(name, known);
}
std::string meant_method(lua_State*, const std::string& name, const std::vector<std::string>& known) {
    return did_you_mean(name, known);
}

}  // namespace causeway::lua
