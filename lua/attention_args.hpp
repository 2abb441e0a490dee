// Arguments that the calls of causal linear attention, the gated family and their gradients share.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/gated/linear_attention.hpp"
#include "lua/bind.hpp"

namespace causeway::lua {

// A call f(A, B, ..., options), or with everything in one table: f{A = ..., B = ..., option = ...}.
class Arguments {
public:
    // `count` tensors stand before the options.
    Arguments(lua_State* L, int count);

    // The tensor at `index`, or the field `name`, or where that is missing the field `alias`.
    Tensor tensor(int index, const char* name, const char* alias = nullptr) const;

    // `known` options, and in the table form the names of the tensors.
    Options options(const char* function, std::vector<std::string> known, std::initializer_list<const char*> tensors) const;

private:
    lua_State* L_;
    bool named_;
    int count_;
};

std::optional<Tensor> tensor_option(lua_State* L, const Options& options, const char* key);

// The option decay: a number, a list of numbers or a tensor of them; none: empty.
std::vector<double> decay_option(lua_State* L, const Options& options);

// Throws Error for device = "gpu", with the reason.
void check_device(const Options& options);

// update, log_decay, beta, mode, chunk and scale, where they are among the known options, and device. Names of updates and
// modes are checked in core.
LinearOptions linear_options(lua_State* L, const Options& options);

}  // namespace causeway::lua
