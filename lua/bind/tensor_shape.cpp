// What a tensor is like, and its elements in another arrangement.
#include <cmath>
#include <optional>

#include "core/tensor/rearrange.hpp"
#include "lua/bind/gpu.hpp"
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

int eltype(lua_State* L) {
    lua_pushstring(L, name(check_form(L, 1, "eltype").dtype()));
    return 1;
}

// size(A): all dims, as several values; size(A, k): one.
int size(lua_State* L) {
    const Tensor a = check_form(L, 1, "size");
    if (!lua_isnoneornil(L, 2)) {
        lua_pushinteger(L, a.shape()[check_dim(L, 2, a, "size")]);
        return 1;
    }
    for (int i = 0; i < a.ndim(); ++i) lua_pushinteger(L, a.shape()[i]);
    return a.ndim();
}

int length(lua_State* L) {
    lua_pushinteger(L, check_form(L, 1, "length").size());
    return 1;
}

int ndims(lua_State* L) {
    lua_pushinteger(L, check_form(L, 1, "ndims").ndim());
    return 1;
}

// -1 or ":" in place of one dimension: what the others leave. An empty shape where none is given so.
Shape completed(lua_State* L, const Tensor& a) {
    const bool listed = lua_istable(L, 2);
    const int n = listed ? static_cast<int>(lua_rawlen(L, 2)) : lua_gettop(L) - 1;
    int open = 0;
    Shape shape;
    double known = 1;
    for (int i = 1; i <= n && n <= Shape::max_ndim; ++i) {
        if (listed) lua_rawgeti(L, 2, i);
        else lua_pushvalue(L, 1 + i);
        const bool here = lua_type(L, -1) == LUA_TNUMBER
                              ? lua_tonumber(L, -1) == -1
                              : lua_type(L, -1) == LUA_TSTRING && lua_tostring(L, -1) == std::string(":");
        if (here && open) fail("reshape: dimensions ", open, " and ", i, " are both left open, expected one at most");
        if (here) open = i;
        const double dim = here ? 1 : lua_tonumber(L, -1);  // 0 for what is no number
        lua_pop(L, 1);
        known *= dim >= 1 && dim == std::floor(dim) ? dim : 0;
        shape.push_back(known > 0 && dim < 9e15 ? static_cast<Index>(dim) : 0);
    }
    if (!open) return {};
    if (known < 1 || known > 9e15 || a.size() % static_cast<Index>(known) != 0) {
        fail("reshape: dimension ", open, " is left open, but the others do not divide the ", a.size(),
             " elements of a ", a.summary());
    }
    shape[open - 1] = a.size() / static_cast<Index>(known);
    return shape;
}

int reshape(lua_State* L) {
    const Tensor& a = check_tensor(L, 1, "reshape");
    return push_one(L, a.reshape(check_new_shape(L, a)));
}

// permutedims(A, 3, 1, 2), permutedims(A, {3, 1, 2}); without an order: of a matrix the transpose, of a vector a row.
int permutedims(lua_State* L) {
    const Tensor& a = check_tensor(L, 1, "permutedims");
    if (lua_gettop(L) == 1) {
        if (a.ndim() == 1) return push_one(L, a.copy().reshape(Shape{1, a.size()}));
        if (a.ndim() == 2) return push_one(L, transpose(a));
    }
    const bool listed = lua_istable(L, 2);
    const auto given = listed ? static_cast<int>(lua_rawlen(L, 2)) : lua_gettop(L) - 1;
    if (given != a.ndim())
        fail("permutedims: expected an order of the ", a.ndim(), " dimensions of a ", a.summary(), ", got ", given,
             " numbers");
    std::vector<int> order;
    std::array<bool, Shape::max_ndim> used{};
    for (int i = 0; i < a.ndim(); ++i) {
        if (listed) lua_rawgeti(L, 2, i + 1);
        else lua_pushvalue(L, 2 + i);
        const int dim = check_dim(L, -1, a, "permutedims");
        lua_pop(L, 1);
        if (used[static_cast<std::size_t>(dim)])
            fail("permutedims: dimension ", dim + 1, " is named twice, expected each once");
        used[static_cast<std::size_t>(dim)] = true;
        order.push_back(dim);
    }
    return push_one(L, permute(a, order));
}

int t(lua_State* L) { return push_one(L, transpose(check_tensor(L, 1, "t"))); }

// cat(A, B, ..., dim) or cat({A, B, ...}, dim); beside a Tensor a part may be a list of numbers.
int cat(lua_State* L) {
    std::vector<Tensor> parts;
    const int last = lua_gettop(L);
    const bool listed = lua_istable(L, 1) && last == 2;
    if (lua_type(L, last) != LUA_TNUMBER)
        fail("cat: expected the dimension as the last argument, as in cat(A, B, 1), got ",
             last == 0 ? "nothing" : "a " + type_name(L, last));
    const auto n = listed ? static_cast<lua_Integer>(lua_rawlen(L, 1)) : last - 1;
    const auto push_part = [&](lua_Integer i) {
        if (listed) lua_rawgeti(L, 1, i);
        else lua_pushvalue(L, static_cast<int>(i));
    };
    std::optional<DType> type;  // that of the lists: of the first Tensor
    for (lua_Integer i = 1; i <= n && !type; ++i) {
        push_part(i);
        if (is_tensor(L, -1)) type = check_tensor(L, -1, "cat").dtype();
        lua_pop(L, 1);
    }
    for (lua_Integer i = 1; i <= n; ++i) {
        push_part(i);
        const bool list = type && lua_istable(L, -1);
        const std::string argument = sentence("cat: argument ", i);
        parts.push_back(list ? from_table(L, -1, *type, argument.c_str()) : check_tensor(L, -1, argument.c_str()));
        lua_pop(L, 1);
    }
    if (parts.empty()) fail("cat: expected at least one Tensor");
    return push_one(L, concatenate(parts, check_dim(L, last, parts.front(), "cat")));
}

}  // namespace

Shape check_new_shape(lua_State* L, const Tensor& a) {
    if (const Shape shape = completed(L, a); shape.ndim() > 0) return shape;
    const Wanted wanted = check_dims(L, 2, "reshape");
    if (wanted.type) fail("reshape: expected dimensions only, the element type stays ", name(a.dtype()));
    return wanted.shape;
}

void add_tensor_shapes(lua_State* L) {
    add_functions_and_methods(L, {{"eltype", guarded<eltype>},
                                  {"size", guarded<size>},
                                  {"length", guarded<length>},
                                  {"ndims", guarded<ndims>},
                                  {"reshape", guarded<reshape>},
                                  {"permutedims", guarded<permutedims>},
                                  {"t", guarded<t>},
                                  {"cat", guarded<cat>}});
}

}  // namespace causeway::lua
