// Reductions: f(A) is a number, f(A, dim) a tensor in which that dimension has length 1; f(A, {dim, ...}) several.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/text.hpp"  // number_text
#include "core/tensor/elementwise.hpp"
#include "core/tensor/reduce.hpp"
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

constexpr const char* reduction_names[] = {"sum", "prod", "maximum", "minimum", "mean", "std"};

// f(A, {1, 2}): over each of the dimensions in the list at 2, one after the other.
Tensor reduced_over(lua_State* L, Reduction op, const Tensor& a, const char* function) {
    const auto n = static_cast<lua_Integer>(lua_rawlen(L, 2));
    if (n == 0) check_dim(L, 2, a, function);  // which refuses it
    std::vector<int> done;
    Tensor out = a;
    for (lua_Integer i = 1; i <= n; ++i) {
        lua_rawgeti(L, 2, i);
        const int dim = check_dim(L, -1, a, function);
        lua_pop(L, 1);
        if (std::find(done.begin(), done.end(), dim) != done.end())
            fail(function, ": dim: ", dim + 1, " stands twice in the list, expected each dimension once");
        done.push_back(dim);
        out = reduce(op, out, dim);
    }
    return out;
}

// Throws Error where what stands for the dimension is another operand, as in NumPy's maximum(A, 0).
void refuse_operand(lua_State* L, const Tensor& a, const char* function) {
    const double dim = lua_type(L, 2) == LUA_TNUMBER ? lua_tonumber(L, 2) : 1, size = std::abs(dim);
    if (!is_tensor(L, 2) && size >= 1 && size <= a.ndim()) return;
    const std::string came = is_tensor(L, 2) ? "a Tensor" : number_text(dim);
    fail(function, ": dim: ", came, ", expected a number from 1 to ", a.ndim(), "; element by element it is ",
         std::string(function, 3), "(A, B), and of a call with two results ", function, "((f(x))) takes the first");
}

template <Reduction Op>
int reduction(lua_State* L) {
    constexpr const char* function = reduction_names[static_cast<int>(Op)];
    const Tensor a = check_operand(L, 1, function);
    const std::string several = sentence("several dimensions stand in a list, as in ", function, "(A, {1, 2})");
    refuse_parameter(L, 3, function, Op == Reduction::deviation ? "it is always with n - 1" : several.c_str());
    if (lua_isboolean(L, 3) && !lua_toboolean(L, 3))
        fail(function, ": argument 3: false, expected none: the dimension stays, of length 1; reshape drops it");
    if constexpr (Op == Reduction::maximum || Op == Reduction::minimum) refuse_operand(L, a, function);
    if (Op != Reduction::deviation && lua_istable(L, 2)) return push_one(L, reduced_over(L, Op, a, function));
    if (!lua_isnoneornil(L, 2)) return push_one(L, reduce(Op, a, check_dim(L, 2, a, function)));
    lua_pushnumber(L, reduce(Op, a));
    return 1;
}

// argmax(A): position in row-major order, from 1; argmax(A, dim): positions along the dimension.
template <Extreme Which>
int extreme(lua_State* L) {
    constexpr const char* function = Which == Extreme::maximum ? "argmax" : "argmin";
    const Tensor a = check_operand(L, 1, function);
    if (!lua_isnoneornil(L, 2))
        return push_one(L, apply(Binary::add, find(Which, a, check_dim(L, 2, a, function)), scalar(1, DType::f64)));
    lua_pushinteger(L, find(Which, a) + 1);
    return 1;
}

int median(lua_State* L) {
    const Tensor a = check_operand(L, 1, "median");
    if (!lua_isnoneornil(L, 2)) return push_one(L, quantile(a, 0.5, check_dim(L, 2, a, "median")));
    lua_pushnumber(L, quantile(a, 0.5));
    return 1;
}

// quantile(A, p[, dim]); for a table of p, a Tensor{Float64} of the quantiles of all elements.
int quantiles(lua_State* L) {
    const Tensor a = check_operand(L, 1, "quantile");
    if (lua_istable(L, 2) || is_tensor(L, 2)) {
        refuse_parameter(L, 3, "quantile", "several shares are taken of all elements; along a dimension give one");
        Tensor result = check_operand(L, 2, "quantile: p").to(DType::f64).copy();
        for (Index i = 0; i < result.size(); ++i) result.set(i, quantile(a, result.get(i)));
        return push_one(L, std::move(result));
    }
    const double p = check_number(L, 2, "quantile: p");
    if (!lua_isnoneornil(L, 3)) return push_one(L, quantile(a, p, check_dim(L, 3, a, "quantile")));
    lua_pushnumber(L, quantile(a, p));
    return 1;
}

constexpr const char* running_names[] = {"cumsum", "cumprod", "cummax", "cummin"};

// cumsum(A, dim) and the like; the dimension may be left out where there is only one.
template <Reduction Op>
int running(lua_State* L) {
    constexpr const char* function = running_names[static_cast<int>(Op)];
    const Tensor a = check_operand(L, 1, function);
    return push_one(L, cumulate(Op, a, lua_isnoneornil(L, 2) && a.ndim() == 1 ? 0 : check_dim(L, 2, a, function)));
}

int frobenius(lua_State* L) {
    refuse_parameter(L, 2, "norm", "the norm is of all elements; along a dimension it is sqrt(sum(pow(A, 2), 1))");
    lua_pushnumber(L, norm(check_operand(L, 1, "norm")));
    return 1;
}

int inner_product(lua_State* L) {
    refuse_more(L, 2, "dot");
    lua_pushnumber(L, dot(check_operand(L, 1, "dot: A"), check_operand(L, 2, "dot: B")));
    return 1;
}

// 1 or 0 along a dimension; of nothing any is 0 and all is 1.
template <bool Any>
Tensor some_along(const Tensor& a, int dim) {
    const Tensor zero = scalar(0, a.dtype());
    const Tensor count = reduce(Reduction::sum, apply(Any ? Binary::ne : Binary::eq, a, zero), dim);
    return apply(Any ? Binary::ne : Binary::eq, count, scalar(0, count.dtype()));
}

// any(A), any(A, dim), any(f, A), any(A, f): whether an element, or f of it, is neither 0 nor false; all(...) likewise
// of every one.
template <bool Any>
int some(lua_State* L) {
    constexpr const char* function = Any ? "any" : "all";
    const int f = lua_isfunction(L, 1) ? 1 : lua_isfunction(L, 2) ? 2 : 0;
    const Tensor a = check_operand(L, f == 1 ? 2 : 1, function);
    if (f == 0) {
        if (!lua_isnoneornil(L, 2)) return push_one(L, some_along<Any>(a, check_dim(L, 2, a, function)));
        lua_pushboolean(L, Any ? any(a) : all(a));
        return 1;
    }
    bool found = false;
    for (Index i = 0; i < a.size() && !found; ++i) {
        lua_pushvalue(L, f);
        lua_pushnumber(L, a.get(i));
        lua_call(L, 1, 1);
        const bool holds = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) != 0 : lua_toboolean(L, -1) != 0;
        lua_pop(L, 1);
        found = holds == Any;
    }
    lua_pushboolean(L, found == Any);
    return 1;
}

}  // namespace

void add_tensor_reductions(lua_State* L) {
    add_functions_and_methods(L, {{"sum", guarded<reduction<Reduction::sum>>},
                                  {"prod", guarded<reduction<Reduction::prod>>},
                                  {"maximum", guarded<reduction<Reduction::maximum>>},
                                  {"minimum", guarded<reduction<Reduction::minimum>>},
                                  {"mean", guarded<reduction<Reduction::mean>>},
                                  {"std", guarded<reduction<Reduction::deviation>>},
                                  {"argmax", guarded<extreme<Extreme::maximum>>},
                                  {"argmin", guarded<extreme<Extreme::minimum>>},
                                  {"median", guarded<median>},
                                  {"quantile", guarded<quantiles>},
                                  {"cumsum", guarded<running<Reduction::sum>>},
                                  {"cumprod", guarded<running<Reduction::prod>>},
                                  {"cummax", guarded<running<Reduction::maximum>>},
                                  {"cummin", guarded<running<Reduction::minimum>>},
                                  {"norm", guarded<frobenius>},
                                  {"dot", guarded<inner_product>},
                                  {"any", guarded<some<true>>},
                                  {"all", guarded<some<false>>}});
}

}  // namespace causeway::lua
