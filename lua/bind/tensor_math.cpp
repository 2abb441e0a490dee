// Functions and operators on each element, on tensors and on plain numbers; the matrix product; map.
#include <cmath>

#include "core/base/interrupt.hpp"
#include "core/tensor/elementwise.hpp"
#include "core/tensor/matmul.hpp"
#include "core/tensor/reduce.hpp"
#include "lua/bind/elementwise.hpp"
#include "lua/bind/notes.hpp"
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

bool is_number(lua_State* L, int index) { return lua_type(L, index) == LUA_TNUMBER; }

// A whole number stays one where the operation keeps it so.
void push_number_like(lua_State* L, int source, double value) {
    if (lua_isinteger(L, source) && value == std::floor(value) && std::abs(value) < 9e15) {
        lua_pushinteger(L, static_cast<lua_Integer>(value));
    } else {
        lua_pushnumber(L, value);
    }
}

// The operand at `index`; a number or a list of numbers takes the type of the other operand, where that is a tensor.
Tensor operand(lua_State* L, int index, int other, const char* operation) {
    const DType type = is_tensor(L, other) ? check_tensor(L, other, operation).dtype() : DType::f64;
    if (is_number(L, index)) return scalar(lua_tonumber(L, index), type);
    const Tensor given = check_operand(L, index, operation);
    return is_tensor(L, index) || !is_tensor(L, other) ? given : given.to(type);
}

// The functions of lua/bind/elementwise.hpp.
struct TensorElements {
    template <Unary Op>
    static int unary(lua_State* L) {
        if constexpr (Op == Unary::log)
            refuse_parameter(L, 2, "log", "it is the natural logarithm (that of base b is log(x) / log(b))");
        if constexpr (Op != Unary::negate) refuse_more(L, 1, name(Op));  // Lua gives the operand of - twice
        if (is_number(L, 1)) {
            constexpr bool keeps_integers = Op == Unary::abs || Op == Unary::sign || Op == Unary::floor ||
                                            Op == Unary::ceil || Op == Unary::round || Op == Unary::relu;
            const double value = apply(Op, lua_tonumber(L, 1));
            if (Op == Unary::isnan || Op == Unary::isfinite) lua_pushboolean(L, value != 0);
            else if (keeps_integers) push_number_like(L, 1, value);
            else lua_pushnumber(L, value);
        } else {
            push(L, apply(Op, check_operand(L, 1, name(Op))));
        }
        return 1;
    }

    template <Binary Op>
    static int binary(lua_State* L) {
        constexpr bool compares = Op == Binary::eq || Op == Binary::ne || Op == Binary::lt || Op == Binary::le ||
                                  Op == Binary::gt || Op == Binary::ge;
        constexpr bool chooses = Op == Binary::maximum || Op == Binary::minimum;
        refuse_more(L, 2, name(Op));
        if (chooses && lua_isnoneornil(L, 2))
            fail(name(Op), ": one argument, expected two: ", name(Op), "(A, B) takes element by element, ", name(Op),
                 "imum(A) of all elements");
        if (is_number(L, 1) && is_number(L, 2)) {
            const double value = apply(Op, lua_tonumber(L, 1), lua_tonumber(L, 2));
            if (compares) lua_pushboolean(L, value != 0);
            else if (chooses) lua_pushvalue(L, value == lua_tonumber(L, 1) ? 1 : 2);  // whole numbers stay so
            else lua_pushnumber(L, value);
        } else {
            push(L, apply(Op, operand(L, 1, 2, name(Op)), operand(L, 2, 1, name(Op))));
        }
        return 1;
    }

    // clamp(A, low, high)
    static int clamp(lua_State* L) {
        refuse_more(L, 3, "clamp");
        const double low = check_number(L, 2, "clamp: low"), high = check_number(L, 3, "clamp: high");
        if (is_number(L, 1)) {
            const double x = lua_tonumber(L, 1);
            push_number_like(L, 1, causeway::clamp(scalar(x, DType::f64), low, high).get(0));
        } else {
            push(L, causeway::clamp(check_operand(L, 1, "clamp"), low, high));
        }
        return 1;
    }
};

// Says once that max(A, 2) of a matrix compares elements, where torch.max(A, 2) is along a dimension. Asked of whole
// numbers that may be one; 2.0 is none in Lua.
void note_on_dimension(lua_State* L, const char* function, const char* key) {
    if (!is_tensor(L, 1) || !lua_isinteger(L, 2)) return;
    const Index ndim = check_tensor(L, 1, function).ndim(), given = lua_tointeger(L, 2);
    if (ndim < 2 || given == 0 || given < -ndim || given > ndim) return;
    note_once(L, key,
              sentence(function, "(A, ", given, ") compares each element with ", given, "; along dimension ", given,
                       " it is ", function, "imum(A, ", given, ") (", given, ".0 hides this note)"));
}

// max(A, B) and min(A, B)
template <Binary Op>
int extreme_of_two(lua_State* L) {
    constexpr const char* key = Op == Binary::maximum ? "causeway.noted_max" : "causeway.noted_min";
    const int results = TensorElements::binary<Op>(L);
    note_on_dimension(L, name(Op), key);
    return results;
}

// The same as methods, which take no number: elsewhere x:max(2) is along a dimension.
template <Binary Op>
int extreme_of_tensors(lua_State* L) {
    if (lua_type(L, 2) == LUA_TNUMBER) {
        const std::string given = luaL_tolstring(L, 2, nullptr), function = name(Op);
        fail(function, ": ", given, ", expected a Tensor: x:", function, "imum(dim) is along a dimension, ", function,
             "(x, ", given, ") compares each element with ", given);
    }
    return TensorElements::binary<Op>(L);
}

bool are_results(lua_State* L, int index) {
    push_causeway(L);
    lua_getfield(L, -1, "_is_results");
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
    const bool results = lua_toboolean(L, -1) != 0;
    lua_pop(L, 2);
    return results;
}

// where(results, filter): as the method of the results of a sweep.
int rows_of_results(lua_State* L) {
    lua_getfield(L, 1, "where");
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

// where(mask, a, b); a whole mask that is true or false, as lt of two numbers gives, chooses a or b as they are.
int where(lua_State* L) {
    if (lua_istable(L, 1) && are_results(L, 1)) return rows_of_results(L);
    refuse_more(L, 3, "where");
    if (lua_isnoneornil(L, 2) || lua_isnoneornil(L, 3))
        fail(
            "where: expected where(mask, a, b), a where the mask is not 0 and b elsewhere; of a vector, the places "
            "where "
            "it is 1 are range(1, #mask)(mask)");
    const bool mask_of_one = lua_isboolean(L, 1) || is_number(L, 1);
    if (mask_of_one && is_number(L, 2) && is_number(L, 3)) {
        const bool first = lua_isboolean(L, 1) ? lua_toboolean(L, 1) != 0 : lua_tonumber(L, 1) != 0;
        lua_pushvalue(L, first ? 2 : 3);
        return 1;
    }
    const Tensor mask = lua_isboolean(L, 1) ? scalar(lua_toboolean(L, 1), DType::f32) : operand(L, 1, 1, "where: mask");
    push(L, causeway::where(mask, operand(L, 2, 3, "where"), operand(L, 3, 2, "where")));
    return 1;
}

int softmax(lua_State* L) {
    refuse_parameter(L, 2, "softmax", "it runs over the last dimension");
    push(L, causeway::softmax(check_operand(L, 1, "softmax")));
    return 1;
}

// map(f, A, ...) or A:map(f, ...): f of corresponding elements.
int map(lua_State* L) {
    const int f = lua_isfunction(L, 1) ? 1 : 2;
    if (!lua_isfunction(L, f)) fail("map: expected a function and a Tensor, as in map(f, A), got a ", type_name(L, 1));
    const int last = lua_gettop(L);
    std::vector<Tensor> operands;
    for (int i = 1; i <= last; ++i) {
        if (i != f) operands.push_back(check_operand(L, i, "map"));
    }
    if (operands.empty()) fail("map: expected a Tensor after the function");
    DType type = computing_type(operands.front().dtype());
    for (const Tensor& a : operands) {
        if (a.shape() != operands.front().shape())
            fail("map: shapes ", operands.front().shape().text(), " and ", a.shape().text(), ", expected all the same");
        type = promote(type, a.dtype());
    }
    Tensor out(type, operands.front().shape());
    luaL_checkstack(L, last, "map");
    for (Index i = 0; i < out.size(); ++i) {
        if (i % 1024 == 0) interrupt::check();
        lua_pushvalue(L, f);
        for (const Tensor& a : operands) lua_pushnumber(L, a.get(i));
        lua_call(L, static_cast<int>(operands.size()), 1);
        if (!is_number(L, -1))
            fail("map: the function returned ", lua_isnil(L, -1) ? "nothing" : "a " + type_name(L, -1), " for element ",
                 i + 1, ", expected a number");
        out.set(i, lua_tonumber(L, -1));
        lua_pop(L, 1);
    }
    push(L, std::move(out));
    return 1;
}

}  // namespace

int tensor_add(lua_State* L) { return TensorElements::binary<Binary::add>(L); }
int tensor_subtract(lua_State* L) { return TensorElements::binary<Binary::subtract>(L); }
int tensor_divide(lua_State* L) { return TensorElements::binary<Binary::divide>(L); }
int tensor_negate(lua_State* L) { return TensorElements::unary<Unary::negate>(L); }

// A * B: the matrix product, or scaling where one is a number.
int tensor_multiply(lua_State* L) {
    if (is_number(L, 1) || is_number(L, 2)) return TensorElements::binary<Binary::multiply>(L);
    push(L, matmul(operand(L, 1, 2, "*"), operand(L, 2, 1, "*")));
    return 1;
}

void add_tensor_elementwise(lua_State* L) {
    add_functions_and_methods(L, elementwise_functions<TensorElements>);
    add_functions(
        L, {{"max", guarded<extreme_of_two<Binary::maximum>>}, {"min", guarded<extreme_of_two<Binary::minimum>>}});
    add_methods(L, {{"max", guarded<extreme_of_tensors<Binary::maximum>>},
                    {"min", guarded<extreme_of_tensors<Binary::minimum>>}});
    add_functions_and_methods(L, {{"softmax", guarded<softmax>}, {"map", guarded<map>}});
    add_functions(L, {{"where", guarded<where>}});  // no method: x.where(mask, y) has another order elsewhere
}

}  // namespace causeway::lua
