// The families of bindings, in the order in which they are opened: the table of contents of the shell.
#pragma once

struct lua_State;

namespace causeway::lua {

void open_tensor(lua_State* L);  // lua/bind/tensor.cpp: construction, indexing, arithmetic, reductions, linear algebra,
                                 // random numbers
void open_gpu(lua_State* L);     // lua/bind/gpu.cpp: tensors on the GPU
void open_gpu_measure(lua_State* L);  // lua/bind/gpu_measure.cpp: time, memory and random numbers there
void open_files(lua_State* L);        // lua/bind/files.cpp: load, save
void open_attention(lua_State* L);    // lua/bind/attention.cpp: causal linear attention and the registry of methods
void open_gated(lua_State* L);  // lua/bind/gated.cpp: linear attention with gates and delta rules, and one token of it
void open_gradient(
    lua_State* L);                // lua/bind/gradient.cpp: gradients of causal linear attention and of the gated family
void open_softmax(lua_State* L);  // lua/bind/softmax.cpp: softmax attention, its gradients, the energy
void open_lowrank(lua_State* L);  // lua/bind/lowrank.cpp: low-rank factors of the attention matrix and their errors
void open_distributed(lua_State* L);  // lua/bind/distributed.cpp: tree and ring decoding, the model of a cluster, MPI
void open_calls(lua_State* L);        // lua/bind/call.cpp: what core/calls says of the calls
void open_measure(lua_State* L);      // lua/bind/measure.cpp: clock, memory, threads, operation counts, the machine
void open_support(
    lua_State* L);  // lua/shell/support.cpp: what the Lua files need: errors, options, journals, child programs
void open_display(lua_State* L);  // lua/shell/display.cpp: show a value through the display in use
void open_help(lua_State* L);     // lua/shell/help.cpp: what lua/lib/help.lua needs

}  // namespace causeway::lua
