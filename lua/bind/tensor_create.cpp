// Making tensors: filled, random, from tables, converted; and back to tables.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "core/base/pieces.hpp"
#include "core/base/text.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/visit.hpp"
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

template <int Value>
int filled(lua_State* L) {
    const Wanted wanted = check_dims(L, 1, Value == 0 ? "zeros" : "ones");
    return push_one(L, Tensor::full(wanted.type.value_or(DType::f32), wanted.shape, Value));
}

// fill(value, dims...) makes a tensor; fill(A, value) writes into one.
int fill(lua_State* L) {
    if (is_tensor(L, 1)) {
        Tensor& a = check_tensor(L, 1, "fill");
        const double value = check_number(L, 2, "fill: value");
        visit(a.dtype(), [&](auto zero) {
            using T = decltype(zero);
            in_pieces(a.size(), [&](Index first, Index last) {
                std::fill(a.data<T>() + first, a.data<T>() + last, static_cast<T>(value));
            });
        });
        lua_settop(L, 1);
        return 1;
    }
    const double value = check_number(L, 1, "fill: value");
    const Wanted wanted = check_dims(L, 2, "fill");
    return push_one(L, Tensor::full(wanted.type.value_or(DType::f32), wanted.shape, value));
}

int rand(lua_State* L) {
    const Wanted wanted = check_dims(L, 1, "rand");
    return push_one(L, random::uniform(wanted.type.value_or(DType::f32), wanted.shape));
}

int randn(lua_State* L) {
    const Wanted wanted = check_dims(L, 1, "randn");
    return push_one(L, random::normal(wanted.type.value_or(DType::f32), wanted.shape));
}

int randperm(lua_State* L) {
    const Tensor order = random::permutation(check_integer(L, 1, "randperm: n"));
    return push_one(L, order.to(optional_dtype(L, 2, "randperm").value_or(order.dtype())));
}

// math.random follows seed, so that a script that seeds once draws the same numbers again whichever of both it asks.
void seed_lua(lua_State* L, Index n) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, LUA_MATHLIBNAME);
    if (lua_getfield(L, -1, "randomseed") == LUA_TFUNCTION) {
        lua_pushinteger(L, static_cast<lua_Integer>(n));
        lua_call(L, 1, 0);
    } else {
        lua_pop(L, 1);  // the script took it away
    }
    lua_pop(L, 2);
}

int seed(lua_State* L) {
    if (lua_gettop(L) == 0) {
        lua_pushinteger(L, static_cast<lua_Integer>(random::seed()));
        return 1;
    }
    const Index n = check_integer(L, 1, "seed: n");
    random::set_seed(static_cast<std::uint64_t>(n));
    seed_lua(L, n);
    return 0;
}

// How many numbers of a range fit: the last one may miss its mark by rounding.
Index range_length(double first, double last, double step) {
    if (!std::isfinite(step) || step == 0) fail("range: step: ", step, ", expected a number other than 0");
    const double steps = std::floor((last - first) / step * (1 + 4 * std::numeric_limits<double>::epsilon()));
    if (steps > 9e15) fail("range: from ", first, " to ", last, " in steps of ", step, " is too long");
    return steps < 0 ? 0 : static_cast<Index>(steps) + 1;
}

// A third number is a length in Julia and NumPy's linspace, a step in Python and NumPy's arange: it must say which.
[[noreturn]] void refuse_third_number(double number) {
    const bool whole = number == std::floor(number) && number >= 0;
    if (!whole) fail("range: ", number, " as the third argument, expected {step = ", number, "}");
    fail("range: ", number, " as the third argument, expected {step = ", number, "} or {length = ", number, "}");
}

// range(first, last[, {step =, length =, dtype =}][, dtype])
int range(lua_State* L) {
    if (lua_gettop(L) == 1) fail("range: one argument, expected the first and the last number, as in range(1, 5)");
    const double first = check_number(L, 1, "range: first"), last = check_number(L, 2, "range: last");
    if (!(std::isfinite(first) && std::isfinite(last)))
        fail("range: from ", first, " to ", last, ", expected finite ends");
    if (lua_type(L, 3) == LUA_TNUMBER) refuse_third_number(lua_tonumber(L, 3));
    const bool described = lua_istable(L, 3);
    const Options options(L, described ? 3 : lua_gettop(L) + 1, "range", {"step", "length", "dtype"});
    if (options.has("step") && options.has("length")) fail("range: step and length, expected one of them");
    std::optional<DType> type = optional_dtype(L, described || lua_isnil(L, 3) ? 4 : 3, "range");
    if (!type && options.push("dtype") != LUA_TNIL) type = optional_dtype(L, -1, "range");
    double step = options.number("step", 1);
    Index n = 0;
    if (options.has("length")) {
        n = options.integer("length", 0);
        if (n < 0) fail("range: length: ", n, ", expected at least 0");
        step = n > 1 ? (last - first) / static_cast<double>(n - 1) : 0;
    } else {
        n = range_length(first, last, step);
    }
    Tensor out(type.value_or(DType::f32), Shape{n});
    visit(out.dtype(), [&](auto zero) {
        using T = decltype(zero);
        in_pieces(n, [&](Index from, Index to) {
            for (Index i = from; i < to; ++i) out.data<T>()[i] = static_cast<T>(first + static_cast<double>(i) * step);
        });
        if (options.has("length") && n > 1) out.data<T>()[n - 1] = static_cast<T>(last);
    });
    return push_one(L, std::move(out));
}

// Rows with a method column, {{N = 128, time = 0.5}, ...}, are told from lists of numbers: how a column is had.
void refuse_rows(lua_State* L) {
    const int top = lua_gettop(L);
    if (!lua_istable(L, 1) || luaL_getmetafield(L, 1, "__has_columns") == LUA_TNIL) return;
    std::set<std::string> columns;
    if (lua_rawgeti(L, 1, 1) == LUA_TTABLE) {
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            if (lua_type(L, -2) == LUA_TSTRING && lua_type(L, -1) == LUA_TNUMBER) columns.insert(text_at(L, -2));
        }
    }
    lua_settop(L, top);
    if (columns.empty()) return;
    const auto column = [](const std::string& name) { return "rows:column(" + in_quotes(name) + ")"; };
    const std::string first = column(*columns.begin()), last = column(*columns.rbegin());
    fail("tensor: rows of named columns, expected numbers: tensor(", first, ") is one column",
         columns.size() > 1 ? ", tensor{" + first + ", " + last + "}:t() are two" : "");
}

// tensor(table[, dtype]), tensor{..., dtype = name}, tensor(A[, dtype])
int tensor(lua_State* L) {
    if (lua_type(L, 1) == LUA_TNUMBER && lua_type(L, 2) == LUA_TNUMBER)
        fail("tensor: numbers, expected a table of numbers, as in tensor{1, 2, 3}");
    refuse_rows(L);
    const auto wanted = optional_dtype(L, 2, "tensor");
    if (is_tensor(L, 1)) {
        const Tensor& a = check_tensor(L, 1, "tensor");
        return push_one(L, a.to(wanted.value_or(a.dtype())).copy());
    }
    if (!lua_istable(L, 1))
        fail("tensor: expected a table of numbers, as in tensor{{1, 2}, {3, 4}}, got ",
             lua_isnoneornil(L, 1) ? "nothing" : "a " + type_name(L, 1));
    lua_getfield(L, 1, "dtype");
    const auto inside = lua_isnil(L, -1) ? std::nullopt : optional_dtype(L, -1, "tensor");
    return push_one(L, from_table(L, 1, wanted.value_or(inside.value_or(DType::f32)), "tensor"));
}

// similar(A[, dims...][, dtype])
int similar(lua_State* L) {
    const Tensor& a = check_tensor(L, 1, "similar");
    const Wanted wanted = check_wanted(L, 2, "similar");
    return push_one(L, Tensor(wanted.type.value_or(a.dtype()), wanted.shape.ndim() > 0 ? wanted.shape : a.shape()));
}

int copy(lua_State* L) {
    refuse_more(L, 1, "copy");
    return push_one(L, check_tensor(L, 1, "copy").copy());
}

template <DType Type>
int convert(lua_State* L) {
    constexpr const char* function = Type == DType::f64    ? "f64"
                                     : Type == DType::f16  ? "f16"
                                     : Type == DType::bf16 ? "bf16"
                                                           : "f32";
    if (lua_type(L, 1) == LUA_TNUMBER) {
        lua_pushnumber(L, Tensor::full(Type, Shape{}, lua_tonumber(L, 1)).get(0));
        return 1;
    }
    if (lua_istable(L, 1)) return push_one(L, from_table(L, 1, Type, function));
    return push_one(L, check_tensor(L, 1, function).to(Type));
}

void push_nested(lua_State* L, const Tensor& a, int depth, Index& next) {
    const Index n = a.shape()[depth];
    lua_createtable(L, static_cast<int>(std::min<Index>(n, 1 << 26)), 0);
    for (Index i = 1; i <= n; ++i) {
        if (depth + 1 == a.ndim()) {
            lua_pushnumber(L, a.get(next++));
        } else {
            push_nested(L, a, depth + 1, next);
        }
        lua_rawseti(L, -2, i);
    }
}

int totable(lua_State* L) {
    const Tensor& a = check_tensor(L, 1, "totable");
    if (a.ndim() == 0) {
        lua_pushnumber(L, a.get(0));
        return 1;
    }
    luaL_checkstack(L, Shape::max_ndim + 2, "nested table");
    Index next = 0;
    push_nested(L, a, 0, next);
    return 1;
}

}  // namespace

void add_tensor_construction(lua_State* L) {
    add_functions(L, {{"zeros", guarded<filled<0>>},
                      {"ones", guarded<filled<1>>},
                      {"rand", guarded<rand>},
                      {"randn", guarded<randn>},
                      {"randperm", guarded<randperm>},
                      {"range", guarded<range>},
                      {"seed", guarded<seed>},
                      {"tensor", guarded<tensor>}});
    add_functions_and_methods(L, {{"fill", guarded<fill>},
                                  {"similar", guarded<similar>},
                                  {"copy", guarded<copy>},
                                  {"f32", guarded<convert<DType::f32>>},
                                  {"f64", guarded<convert<DType::f64>>},
                                  {"f16", guarded<convert<DType::f16>>},
                                  {"bf16", guarded<convert<DType::bf16>>},
                                  {"totable", guarded<totable>}});
}

}  // namespace causeway::lua
