// A pool of states in 8 bits (core/kit/state_pool.hpp, gpu/tensor/state_pool.hpp) as the state of a call.
#pragma once

#include "lua/bind/call.hpp"

namespace causeway::lua {

// Whether a StatePool in the memory of the GPU is there.
bool is_gpu_pool(lua_State* L, int index);

// Where the state of the call on the stack is a StatePool: makes the call `again` with the states of its slots in
// Float32, puts the new ones back with inplace = true, pushes the results and returns their number. -1 for another
// call.
int with_state_pool(lua_State* L, const char* function, const std::vector<calls::Argument>& arguments,
                    lua_CFunction again);

// F, whose call Describe() describes, with such a pool too.
template <auto Describe, int (*F)(lua_State*)>
int pooled(lua_State* L) {
    const auto& call = Describe();
    const int results = with_state_pool(L, call.name, call.arguments, guarded<F>);
    return results >= 0 ? results : F(L);
}

}  // namespace causeway::lua
