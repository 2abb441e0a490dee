// Tensors on the GPU in Lua, and calls that run where their tensors are.
#pragma once

#include "lua/bind/bind.hpp"
#ifdef CAUSEWAY_GPU
#include "gpu/tensor/tensor.hpp"
#endif

namespace causeway::lua {

// Adds functions, each described in core/calls, that also run on the GPU where lua/bind/gpu_calls.cpp has one of the
// same name. Called, they run where the tensors among their arguments (or in a table among these) are; the option
// `device` of a table decides otherwise: tensors are copied there, and results back. Without that option, tensors in
// both places are an error.
void add_functions_by_device(lua_State* L, std::initializer_list<Entry> entries);

// The call on tensors of the GPU; null: this function runs on the CPU alone.
lua_CFunction gpu_call(const char* name);

// Bytes that tensors hold on the GPU.
std::size_t gpu_bytes();

// Whether a GPU can be used; if not, one sentence of why.
bool gpu_available(std::string* why = nullptr);
std::string gpu_name();  // of the device that is used, where there is one
std::string gpu_text();  // its name, or "no GPU: WHY"

// Whether a method of causal linear attention has a form for the GPU in this program.
bool runs_on_gpu(const std::string& method);

bool is_gpu_tensor(lua_State* L, int index);

// Pushes the tensor at `index` as one of the CPU; another value as it is.
void push_on_cpu(lua_State* L, int index);

// A tensor of either place, to be asked for its shape and type alone.
Tensor check_form(lua_State* L, int index, const char* argument);

// While alive, calls on the GPU wait for their kernels or do not; they do unless said otherwise.
class GpuWaits {
public:
    explicit GpuWaits(bool wait) : before_(waits) { waits = wait; }
    ~GpuWaits() { waits = before_; }
    GpuWaits(const GpuWaits&) = delete;
    GpuWaits& operator=(const GpuWaits&) = delete;
    static bool now() { return waits; }

private:
    inline static bool waits = true;
    bool before_;
};

#ifdef CAUSEWAY_GPU
void push(lua_State* L, gpu::Tensor value);
void set_field(lua_State* L, const char* key, const gpu::Tensor& value);
// Throws Error naming the argument.
gpu::Tensor& check_gpu_tensor(lua_State* L, int index, const char* argument);
#endif

}  // namespace causeway::lua
