#include "lua/bind/tensor_args.hpp"

#include <cmath>
#include <vector>

#include "core/base/text.hpp"
#include "core/base/unknown_name.hpp"

namespace causeway::lua {
namespace {

// Name of a dtype option at the top of the stack (nil: none), popped.
std::optional<DType> pop_dtype(lua_State* L, const char* function) {
    std::optional<DType> type;
    if (!lua_isnil(L, -1)) {
        if (lua_type(L, -1) != LUA_TSTRING)
            fail(function, ": dtype: expected a name in quotes such as \"Float64\", got a ", type_name(L, -1));
        type = parse_dtype(text_at(L, -1), function);
    }
    lua_pop(L, 1);
    return type;
}

void add_dim(lua_State* L, int index, Shape& shape, const char* function) {
    const std::string argument = sentence(function, ": dimension ", shape.ndim() + 1);
    const Index n = check_integer(L, index, argument.c_str());
    if (n < 0) fail(argument, ": ", n, ", expected 0 or more");
    if (shape.ndim() == Shape::max_ndim) fail(function, ": expected at most ", Shape::max_ndim, " dimensions");
    shape.push_back(n);
}

// Reads a nested table depth first into a tensor whose shape its first elements give.
class TableReader {
public:
    TableReader(lua_State* L, const char* function) : L_(L), function_(function) {
        luaL_checkstack(L, 2 * Shape::max_ndim + 4, "nested table");
    }

    Tensor read(int index, DType type) {
        index = lua_absindex(L_, index);
        Tensor out(type, shape_of(index));
        Index next = 0;
        fill(index, out, 0, next, "");
        return out;
    }

private:
    Shape shape_of(int index) {
        Shape shape;
        lua_pushvalue(L_, index);
        int pushed = 1;
        while (lua_istable(L_, -1)) {
            if (shape.ndim() == Shape::max_ndim)
                fail(function_, ": expected a table nested at most ", Shape::max_ndim, " deep");
            shape.push_back(static_cast<Index>(lua_rawlen(L_, -1)));
            if (shape.back(0) == 0) refuse_names(-1);
            ++pushed;
            if (lua_rawgeti(L_, -1, 1) == LUA_TNIL) break;
        }
        lua_pop(L_, pushed);
        return shape;
    }

    // Throws Error where a table that has no numbers has names, as a row of a file.
    void refuse_names(int index) {
        index = lua_absindex(L_, index);
        lua_pushnil(L_);
        if (lua_next(L_, index) == 0) return;
        lua_pop(L_, 1);
        const std::string key = luaL_tolstring(L_, -1, nullptr);
        lua_pushvalue(L_, -2);
        lua_rawget(L_, index);
        if (is_tensor(L_, -1)) fail(function_, ": a table with the key \"", key, "\", expected a Tensor: take p.", key);
        lua_pop(L_, 1);
        fail(function_, ": a table with the key \"", key, "\", expected numbers; a column of rows is rows:column(\"",
             key, "\"), of any list {x[1].", key, ", x[2].", key, " ...} by a loop");
    }

    void fill(int index, Tensor& out, int depth, Index& next, const std::string& path) {
        const Index n = out.shape()[depth];
        const auto length = static_cast<Index>(lua_rawlen(L_, index));
        if (length != n) fail(function_, ": the table is ragged: row ", path, " has length ", length, ", expected ", n);
        const bool innermost = depth + 1 == out.ndim();
        for (Index i = 1; i <= n; ++i) {
            const int type = lua_rawgeti(L_, index, i);
            if (type != (innermost ? LUA_TNUMBER : LUA_TTABLE)) {
                const std::string came = type_name(L_, -1);
                fail(function_, ": element ", path, "[", i, "]: expected a ", innermost ? "number" : "table", ", got ",
                     came == "nil" ? "nothing" : "a " + came);
            }
            if (innermost) {
                out.set(next++, lua_tonumber(L_, -1));
            } else {
                fill(lua_gettop(L_), out, depth + 1, next, sentence(path, "[", i, "]"));
            }
            lua_pop(L_, 1);
        }
    }

    lua_State* L_;
    const char* function_;
};

}  // namespace

DType parse_dtype(const std::string& text, const char* function) {
    struct Known {
        const char* name;
        DType type;
    };
    static constexpr Known known[] = {{"Float32", DType::f32},   {"Float64", DType::f64}, {"Float16", DType::f16},
                                      {"BFloat16", DType::bf16}, {"f32", DType::f32},     {"f64", DType::f64},
                                      {"f16", DType::f16},       {"bf16", DType::bf16},   {"float32", DType::f32},
                                      {"float64", DType::f64},   {"float16", DType::f16}, {"bfloat16", DType::bf16}};
    std::vector<std::string> names;
    for (const Known& k : known) {
        if (text == k.name) return k.type;
        names.emplace_back(k.name);
    }
    throw UnknownName(
        sentence(function, ": dtype: \"", text, "\", expected \"Float32\", \"Float64\", \"Float16\" or \"BFloat16\""),
        text, names);
}

std::optional<DType> optional_dtype(lua_State* L, int index, const char* function) {
    if (lua_isnoneornil(L, index)) return std::nullopt;
    if (lua_istable(L, index)) {
        Options(L, index, function, {"dtype"}).push("dtype");
    } else {
        lua_pushvalue(L, index);
    }
    return pop_dtype(L, function);
}

Wanted check_wanted(lua_State* L, int first, const char* function) {
    Wanted wanted;
    int last = lua_gettop(L);
    // A table in front holds the dims, and may hold the type; anything but a number at the end is the type.
    if (lua_istable(L, first) && (lua_rawlen(L, first) > 0 || last > first)) {
        for (lua_Integer i = 1; i <= static_cast<lua_Integer>(lua_rawlen(L, first)); ++i) {
            lua_rawgeti(L, first, i);
            add_dim(L, -1, wanted.shape, function);
            lua_pop(L, 1);
        }
        lua_pushliteral(L, "dtype");
        lua_rawget(L, first);
        wanted.type = pop_dtype(L, function);
        ++first;
    }
    if (last >= first && lua_type(L, last) != LUA_TNUMBER) {
        if (const auto type = optional_dtype(L, last, function)) wanted.type = type;
        --last;
    }
    for (int i = first; i <= last; ++i) add_dim(L, i, wanted.shape, function);
    return wanted;
}

Wanted check_dims(lua_State* L, int first, const char* function) {
    const Wanted wanted = check_wanted(L, first, function);
    if (wanted.shape.ndim() == 0)
        fail(function, ": expected dimensions, as in ", function, first == 1 ? "(2, 3)" : "(x, 2, 3)");
    return wanted;
}

Tensor from_table(lua_State* L, int index, DType type, const char* function) {
    return TableReader(L, function).read(index, type);
}

Tensor check_operand(lua_State* L, int index, const char* function) {
    if (lua_istable(L, index)) return from_table(L, index, DType::f64, function);
    if (lua_gettop(L) == 0) fail(function, ": expected a Tensor, got nothing; as a method it is A:", function, "()");
    return check_tensor(L, index, function);
}

int check_dim(lua_State* L, int index, const Tensor& a, const char* function) {
    const std::string argument = sentence(function, ": dim");
    if (is_tensor(L, index) || is_traced(L, index))
        fail(argument, ": a ", type_name(L, index), ", expected a number; of a call with two results, ", function,
             "((f(x))) takes the first");
    if (lua_istable(L, index))
        fail(argument, ": a table, expected a number, as in ", function, index == 2 ? "(A, 1)" : "(A, p, 1)");
    const Index given = check_integer(L, index, argument.c_str());
    const Index dim = given < 0 ? given + a.ndim() + 1 : given;
    if (dim < 1 || dim > a.ndim())
        fail(argument, ": ", given, ", expected a number from 1 to ", a.ndim(), " for a ", a.summary());
    return static_cast<int>(dim) - 1;
}

void refuse_parameter(lua_State* L, int index, const char* function, const char* why) {
    if (lua_istable(L, index) && luaL_getmetafield(L, index, "__name") != LUA_TNIL) {  // the report of a call
        lua_pop(L, 1);
        return;
    }
    if (!lua_isstring(L, index) && !lua_istable(L, index)) return;
    lua_pushvalue(L, index);
    const int type = lua_type(L, -1);
    const std::string came = type == LUA_TTABLE    ? "a table"
                             : type == LUA_TSTRING ? in_quotes(lua_tostring(L, -1))
                                                   : lua_tostring(L, -1);
    lua_pop(L, 1);
    fail(function, ": argument ", index, ": ", came, ", expected none: ", why);
}

void refuse_more(lua_State* L, int max_arguments, const char* function) {
    for (int i = max_arguments + 1; i <= lua_gettop(L); ++i) {
        const bool result = lua_getmetatable(L, i) != 0;  // of a call with several
        if (result) lua_pop(L, 1);
        if (lua_isstring(L, i) || (lua_istable(L, i) && !result))
            fail(function, ": argument ", i, ": a ", type_name(L, i), ", expected ", max_arguments,
                 max_arguments == 1 ? " argument" : " arguments");
    }
}

}  // namespace causeway::lua
