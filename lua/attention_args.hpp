// Arguments that the calls of causal linear attention, the gated family and their gradients share.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/gated/linear_attention.hpp"
#include "core/lowrank/lowrank.hpp"
#include "lua/bind.hpp"

namespace causeway::lua {

// A call f(A, B, ..., options), or with everything in one table: f{A = ..., B = ..., option = ...}.
class Arguments {
public:
    // `count` tensors stand before the options.
    Arguments(lua_State* L, int count);

    // The tensor at `index`, or the field `name`, or where that is missing the field `alias`.
    Tensor tensor(int index, const char* name, const char* alias = nullptr) const;

    // Pushes the same, whatever it is.
    void push_tensor(int index, const char* name, const char* alias = nullptr) const;

    // `known` options, and in the table form the names of the tensors.
    Options options(const char* function, std::vector<std::string> known, std::initializer_list<const char*> tensors) const;

private:
    lua_State* L_;
    bool named_;
    int count_;
};

// The options of causal_linear_attention.
const std::vector<std::string>& causal_option_names();

std::optional<Tensor> tensor_option(lua_State* L, const Options& options, const char* key);

// The option decay: a number, a list of numbers or a tensor of them; none: empty.
std::vector<double> decay_option(lua_State* L, const Options& options);

// Throws Error for a device that is neither "cpu" nor "gpu"; which of them it is, lua/gpu.hpp has seen to.
void check_device(const Options& options);

// The option precision, which is the GPU's: the CPU computes Float32 in Float32 whatever is asked for. Throws Error for an unknown one.
void check_precision(const Options& options);

// update, log_decay, beta, mode, chunk and scale, where they are among the known options, and device. Names of updates and
// modes are checked in core.
LinearOptions linear_options(lua_State* L, const Options& options);

// The options of lowrank in the table at `index`, in lua/lowrank.cpp.
LowRankOptions lowrank_options(lua_State* L, int index, const lowrank::Method& method);

}  // namespace causeway::lua
