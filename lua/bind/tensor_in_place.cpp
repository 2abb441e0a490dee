// Methods that write their results into the tensor they are called on, and return it: A:add_(B), A:exp_().
#include "core/tensor/elementwise.hpp"
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

// What the methods are called, by the operation.
constexpr const char* unary_names[] = {"neg_",  "abs_",   "sign_", "exp_",   "log_",  "sqrt_", "sin_",    "cos_",
                                       "tanh_", "floor_", "ceil_", "round_", "relu_", "elu_",  "sigmoid_"};
constexpr const char* binary_names[] = {"add_", "sub_", "times_", "div_", "pow_", "eq_", "ne_",
                                        "lt_",  "le_",  "gt_",    "ge_",  "max_", "min_"};

// A, which is the result.
int itself(lua_State* L) {
    lua_settop(L, 1);
    return 1;
}

Tensor second_operand(lua_State* L, const Tensor& a, const char* function) {
    const std::string argument = sentence(function, ": B");
    if (lua_type(L, 2) == LUA_TNUMBER) return scalar(lua_tonumber(L, 2), a.dtype());
    return check_operand(L, 2, argument.c_str());
}

template <Unary Op>
int unary_in_place(lua_State* L) {
    constexpr const char* function = unary_names[static_cast<int>(Op)];
    refuse_more(L, 1, function);
    apply_to(check_tensor(L, 1, function), Op);
    return itself(L);
}

template <Binary Op>
int binary_in_place(lua_State* L) {
    constexpr const char* function = binary_names[static_cast<int>(Op)];
    refuse_more(L, 2, function);
    Tensor& a = check_tensor(L, 1, function);
    apply_to(a, Op, second_operand(L, a, function), function);
    return itself(L);
}

// A:add_(B, factor), A:sub_(B, factor): A = A ± factor B
template <int Sign>
int add_in_place(lua_State* L) {
    constexpr const char* function = Sign > 0 ? "add_" : "sub_";
    refuse_more(L, 3, function);
    Tensor& a = check_tensor(L, 1, function);
    const Tensor b = second_operand(L, a, function);
    const std::string argument = sentence(function, ": factor");
    const double factor = lua_isnoneornil(L, 3) ? 1 : check_number(L, 3, argument.c_str());
    if (factor == 1) apply_to(a, Sign > 0 ? Binary::add : Binary::subtract, b, function);
    else add_to(a, b, Sign * factor, function);
    return itself(L);
}

int clamp_in_place(lua_State* L) {
    refuse_more(L, 3, "clamp_");
    clamp_to(check_tensor(L, 1, "clamp_"), check_number(L, 2, "clamp_: low"), check_number(L, 3, "clamp_: high"));
    return itself(L);
}

int fill_in_place(lua_State* L) {
    refuse_more(L, 2, "fill_");
    Tensor& a = check_tensor(L, 1, "fill_");
    copy_to(a, scalar(check_number(L, 2, "fill_: value"), DType::f64), "fill_");
    return itself(L);
}

// A:copy_(B): the elements of B, broadcast and converted
int copy_in_place(lua_State* L) {
    refuse_more(L, 2, "copy_");
    Tensor& a = check_tensor(L, 1, "copy_");
    copy_to(a, second_operand(L, a, "copy_"), "copy_");
    return itself(L);
}

}  // namespace

void add_tensor_in_place(lua_State* L) {
    // One entry a line, so that a new one is a line of its own.
    // clang-format off
    add_methods(L, {
        {"neg_", guarded<unary_in_place<Unary::negate>>},
        {"abs_", guarded<unary_in_place<Unary::abs>>},
        {"sign_", guarded<unary_in_place<Unary::sign>>},
        {"exp_", guarded<unary_in_place<Unary::exp>>},
        {"log_", guarded<unary_in_place<Unary::log>>},
        {"sqrt_", guarded<unary_in_place<Unary::sqrt>>},
        {"sin_", guarded<unary_in_place<Unary::sin>>},
        {"cos_", guarded<unary_in_place<Unary::cos>>},
        {"tanh_", guarded<unary_in_place<Unary::tanh>>},
        {"floor_", guarded<unary_in_place<Unary::floor>>},
        {"ceil_", guarded<unary_in_place<Unary::ceil>>},
        {"round_", guarded<unary_in_place<Unary::round>>},
        {"relu_", guarded<unary_in_place<Unary::relu>>},
        {"elu_", guarded<unary_in_place<Unary::elu>>},
        {"sigmoid_", guarded<unary_in_place<Unary::sigmoid>>},
        {"add_", guarded<add_in_place<1>>},
        {"sub_", guarded<add_in_place<-1>>},
        {"times_", guarded<binary_in_place<Binary::multiply>>},
        {"div_", guarded<binary_in_place<Binary::divide>>},
        {"pow_", guarded<binary_in_place<Binary::power>>},
        {"max_", guarded<binary_in_place<Binary::maximum>>},
        {"min_", guarded<binary_in_place<Binary::minimum>>},
        {"clamp_", guarded<clamp_in_place>},
        {"fill_", guarded<fill_in_place>},
        {"copy_", guarded<copy_in_place>},
    });
    // clang-format on
}

}  // namespace causeway::lua
