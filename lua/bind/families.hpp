// The families of bindings, in the order in which they are opened: the table of contents of what Lua finds. Each is
// one file of this folder that adds its functions to the table `causeway`.
#pragma once

struct lua_State;

namespace causeway::lua {

// patterns.cpp: find, match, gmatch and gsub of Lua's table `string`, which Ctrl-C stops
void open_patterns(lua_State* L);
// tensor.cpp: the type Tensor; tensor_*.cpp: construction, indexing, arithmetic, reductions, linear algebra
void open_tensor(lua_State* L);
// scan.cpp: a state carried over the tokens; scan_values.cpp: the values inside its step
void open_scan(lua_State* L);
// gpu.cpp: tensors on the GPU, and calls that run where their tensors are (gpu_calls.cpp)
void open_gpu(lua_State* L);
// gpu_measure.cpp: time, memory and random numbers there
void open_gpu_measure(lua_State* L);
// files.cpp: load, save; json.cpp: Lua values as JSON
void open_files(lua_State* L);
// attention.cpp: causal linear attention and the registry of methods
void open_attention(lua_State* L);
// gated.cpp: linear attention with gates and delta rules, and one token of it
void open_gated(lua_State* L);
// state_pool.cpp: pools of states in 8 bits
void open_state_pool(lua_State* L);
// general.cpp: linear attention by the general rule, tokens of it and its gradient
void open_general(lua_State* L);
// around.cpp: short convolutions, norms and gates around it
void open_around(lua_State* L);
// gradient.cpp: gradients of causal linear attention and of the gated family
void open_gradient(lua_State* L);
// softmax.cpp: softmax attention, its gradients, the energy
void open_softmax(lua_State* L);
// lowrank.cpp: low-rank factors of the attention matrix and their errors
void open_lowrank(lua_State* L);
// bounds.cpp: the claims of proofs/ on inputs of the user's
void open_bounds(lua_State* L);
// distributed.cpp: tree and ring decoding, the model of a cluster, MPI
void open_distributed(lua_State* L);
// model.cpp: language models
void open_model(lua_State* L);
// measure.cpp: clock, memory, threads, statistics, the machine
void open_measure(lua_State* L);
// time_limit.cpp: a limit on the time of a call
void open_time_limit(lua_State* L);
// numbers.cpp: numbers for pictures
void open_numbers(lua_State* L);
// support.cpp: what the files of lua/lib check arguments with
void open_support(lua_State* L);
// trace.cpp: what the tape of gradients in lua/lib/grad.lua is made of
void open_trace(lua_State* L);
// journal.cpp: the journal of a sweep
void open_journal(lua_State* L);
// provenance.cpp: what results are made of
void open_provenance(lua_State* L);
// system.cpp: folders, files and child programs
void open_system(lua_State* L);
// lua/shell/display.cpp: show a value through the display in use
void open_display(lua_State* L);
// layout.cpp: the option layout around the calls above
void open_layouts(lua_State* L);
// call.cpp: what core/calls says of the calls
void open_calls(lua_State* L);

}  // namespace causeway::lua
