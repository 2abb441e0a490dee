// Arguments that the calls of causal linear attention, the gated family and their gradients share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/exact/causal_linear_attention.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/lowrank/lowrank.hpp"
#include "lua/bind/bind.hpp"

namespace causeway::lua {

// What a call may be given: f(A, B, ..., options), or with everything in one table f{A = ..., B = ..., option = ...}.
struct CallForm {
    const char* function;
    int tensors;                     // that stand before the options
    std::vector<std::string> names;  // of the tensors in the table form
    std::vector<std::string> options;
};

// Those of the calls that run on the CPU and on the GPU.
namespace call_forms {
extern const CallForm causal_linear_attention, causal_linear_attention_grad, linear_attention, linear_attention_step,
    linear_attention_grad, softmax_attention, softmax_attention_grad;
}

// The arguments of a call by its form, from the stack.
class Arguments {
public:
    Arguments(lua_State* L, const CallForm& form);
    Arguments(lua_State* L, const CallForm&& form) = delete;  // it is kept

    // The tensor at `index`, or the field `name`, or where that is missing the field `alias`.
    Tensor tensor(int index, const char* name, const char* alias = nullptr) const;

    // Pushes the same, whatever it is.
    void push_tensor(int index, const char* name, const char* alias = nullptr) const;

    Options options() const;

private:
    lua_State* L_;
    const CallForm& form_;
    bool named_;
};

// The tensor given as the option; none where it is not given. Throws Error for another value.
std::optional<Tensor> tensor_option(lua_State* L, const Options& options, const char* key);

// The option decay: a number, a list of numbers or a tensor of them; none: empty.
std::vector<double> decay_option(lua_State* L, const Options& options);

// The names given to register_method.
std::vector<std::string> registered_names(lua_State* L);

// Throws Error for a device that is neither "cpu" nor "gpu"; which of them it is, lua/bind/gpu.hpp has seen to.
void check_device(const Options& options);

// The option precision, which is the GPU's: the CPU computes Float32 in Float32 whatever is asked for. Throws Error for
// an unknown one.
void check_precision(const Options& options);

// method, decay, normalize, block, scale, state, return_state, where they are among the known options, device and
// precision. Names of methods and the sizes of decay and state are checked in core. Throws Error for a block below 1.
CausalOptions causal_options(lua_State* L, const Options& options);

// update, log_decay, beta, mode, chunk and scale, where they are among the known options, and device. Names of updates
// and modes are checked in core.
LinearOptions linear_options(lua_State* L, const Options& options);

// The options of lowrank in the table at `index`, in lua/bind/lowrank.cpp.
LowRankOptions lowrank_options(lua_State* L, int index, const lowrank::Method& method);

}  // namespace causeway::lua
