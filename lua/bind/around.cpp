#include "lua/bind/around.hpp"

#include "core/around/decay_gate.hpp"
#include "core/around/norms.hpp"
#include "core/around/short_convolution.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {
namespace around {

template <>
struct Place<Tensor> {
    using Convolution = ConvolutionOptions;
    using Length = LengthOptions;
    using Norm = NormOptions;
    using Gate = DecayGateOptions;
    static void done() {}
};

}  // namespace around

namespace {

// A gradient where the first of its tensors is. Upvalues: the function for tensors of the CPU, that for the GPU or nil.
int where_first_is(lua_State* L) { return lua_tocfunction(L, lua_upvalueindex(is_gpu_tensor(L, 1) ? 2 : 1))(L); }

}  // namespace

void open_around(lua_State* L) {
    for (const char* name : {"short_convolution", "l2norm", "rms_norm", "decay_gate"}) {
        add_functions_by_device(L, {{name, around::call<Tensor>(name)}});
        const std::string gradient = "_" + std::string(name) + "_grad";
        push_causeway(L);
        lua_pushcfunction(L, around::call<Tensor>(gradient));
        if (const lua_CFunction on_gpu = gpu_call(gradient.c_str())) lua_pushcfunction(L, on_gpu);
        else lua_pushnil(L);
        lua_pushcclosure(L, where_first_is, 2);
        lua_setfield(L, -2, gradient.c_str());
        lua_pop(L, 1);
    }
}

}  // namespace causeway::lua
