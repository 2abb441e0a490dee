// The functions on each element by name. Tensors and the values of a scan have the same ones.
#pragma once

#include <initializer_list>

#include "core/tensor/elementwise.hpp"
#include "lua/bind/bind.hpp"

namespace causeway::lua {

// Operand has static functions: unary<op>, binary<op> and clamp.
// One entry a line, so that a new one is a line of its own.
// clang-format off
template <class Operand>
inline constexpr std::initializer_list<Entry> elementwise_functions = {
    {"abs", guarded<Operand::template unary<Unary::abs>>},
    {"sign", guarded<Operand::template unary<Unary::sign>>},
    {"exp", guarded<Operand::template unary<Unary::exp>>},
    {"log", guarded<Operand::template unary<Unary::log>>},
    {"sqrt", guarded<Operand::template unary<Unary::sqrt>>},
    {"sin", guarded<Operand::template unary<Unary::sin>>},
    {"cos", guarded<Operand::template unary<Unary::cos>>},
    {"tanh", guarded<Operand::template unary<Unary::tanh>>},
    {"floor", guarded<Operand::template unary<Unary::floor>>},
    {"ceil", guarded<Operand::template unary<Unary::ceil>>},
    {"round", guarded<Operand::template unary<Unary::round>>},
    {"relu", guarded<Operand::template unary<Unary::relu>>},
    {"elu", guarded<Operand::template unary<Unary::elu>>},
    {"sigmoid", guarded<Operand::template unary<Unary::sigmoid>>},
    {"isnan", guarded<Operand::template unary<Unary::isnan>>},
    {"isfinite", guarded<Operand::template unary<Unary::isfinite>>},
    {"plus", guarded<Operand::template binary<Binary::add>>},
    {"times", guarded<Operand::template binary<Binary::multiply>>},
    {"pow", guarded<Operand::template binary<Binary::power>>},
    {"eq", guarded<Operand::template binary<Binary::eq>>},
    {"ne", guarded<Operand::template binary<Binary::ne>>},
    {"lt", guarded<Operand::template binary<Binary::lt>>},
    {"le", guarded<Operand::template binary<Binary::le>>},
    {"gt", guarded<Operand::template binary<Binary::gt>>},
    {"ge", guarded<Operand::template binary<Binary::ge>>},
    {"max", guarded<Operand::template binary<Binary::maximum>>},
    {"min", guarded<Operand::template binary<Binary::minimum>>},
    {"clamp", guarded<Operand::clamp>},
};
// clang-format on

}  // namespace causeway::lua
