// Elements and parts: A(i, j, ...) reads, A:set(value, i, j, ...) writes.
#include "core/tensor/rearrange.hpp"
#include "core/tensor/walk.hpp"  // contiguous_strides
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

struct Selection {
    Box box;
    bool element = true;  // every dimension has a whole number as index
    Index flat = 0;       // position of the element, or of the first one
};

std::string index_text(lua_State* L, int index) {
    if (lua_type(L, index) == LUA_TSTRING) return sentence("\"", lua_tostring(L, index), "\"");
    const std::string came = type_name(L, index);
    return came == "nil" ? "nothing" : "a " + came;
}

// {from, to}, counted from 1, both included; to = from - 1 is the empty range.
void read_range(lua_State* L, int index, int k, Index n, Selection& selection) {
    const auto entry = [&](int i) {
        const std::string argument = sentence("index ", k + 1, ": ", i == 1 ? "from" : "to");
        lua_rawgeti(L, index, i);
        const Index value = check_integer(L, -1, argument.c_str());
        lua_pop(L, 1);
        return value;
    };
    if (lua_rawlen(L, index) > 2)
        fail("index ", k + 1, ": expected a range {from, to}, got a table of ", lua_rawlen(L, index),
             " entries; places one by one are joined: cat(x({1, 1}), x({3, 3}), x({5, 5}), 1)");
    if (lua_rawlen(L, index) != 2)
        fail("index ", k + 1, ": expected a range {from, to}, got a table of ", lua_rawlen(L, index), " entries");
    const Index from = entry(1), to = entry(2);
    if (from >= 1 && to < 0 && n + to + 1 >= from - 1)
        fail("index ", k + 1, ": {", from, ", ", to, "}, expected a range from 1 to ", n,
             ": nothing is counted from the end, so it is {", from, ", ", n + to + 1, "}");
    if (from < 1 || to > n || to < from - 1)
        fail("index ", k + 1, ": {", from, ", ", to, "}, expected a range from 1 to ", n);
    selection.box.first[static_cast<std::size_t>(k)] = from - 1;
    selection.box.count[static_cast<std::size_t>(k)] = to - from + 1;
}

// The indices at first, first + 1, ... on the stack.
Selection check_selection(lua_State* L, int first, const Tensor& a) {
    const int given = lua_gettop(L) - first + 1;
    if (given > a.ndim())
        fail("a ", a.summary(), " has ", a.ndim(), a.ndim() == 1 ? " dimension" : " dimensions", ", got ", given,
             " indices");
    const auto strides = contiguous_strides(a.shape());
    Selection selection;
    for (int k = 0; k < a.ndim(); ++k) {
        const auto i = static_cast<std::size_t>(k);
        const int index = first + k;
        const Index n = a.shape()[k];
        const bool whole =
            k >= given || (lua_type(L, index) == LUA_TSTRING && std::string_view(lua_tostring(L, index)) == ":");
        if (whole) {
            selection.box.count[i] = n;
            selection.element = false;
        } else if (lua_type(L, index) == LUA_TNUMBER) {
            const std::string argument = sentence("index ", k + 1);
            const Index position = check_integer(L, index, argument.c_str());
            if (position < 1 || position > n) {
                if (n == 0) fail(argument, ": ", position, ", but the dimension is empty");
                fail(argument, ": ", position, ", expected 1 to ", n);
            }
            selection.box.first[i] = position - 1;
            selection.box.count[i] = 1;
            selection.box.drop[i] = true;
        } else if (lua_istable(L, index)) {
            read_range(L, index, k, n, selection);
            selection.element = false;
        } else {
            fail("index ", k + 1, ": expected a number, \":\" or {from, to}, got ", index_text(L, index));
        }
        selection.flat += selection.box.first[i] * strides[i];
    }
    return selection;
}

// A:set(value, i, j, ...); returns A.
int set(lua_State* L) {
    Tensor& a = check_tensor(L, 1, "set");
    if (!is_tensor(L, 2) && lua_type(L, 2) != LUA_TNUMBER && !lua_istable(L, 2)) {
        fail("set: value: expected a number or a Tensor, got ", index_text(L, 2), "; the order is A:set(value, i, j)");
    }
    const Selection selection = check_selection(L, 3, a);
    const bool number = lua_type(L, 2) == LUA_TNUMBER;
    if (number && selection.element) {
        a.set(selection.flat, lua_tonumber(L, 2));
    } else {
        assign(a, selection.box,
               number ? Tensor::full(a.dtype(), Shape{}, lua_tonumber(L, 2)) : check_operand(L, 2, "set: value"));
    }
    lua_settop(L, 1);
    return 1;
}

}  // namespace

int tensor_call(lua_State* L) {
    lua_Debug here;
    if (lua_getstack(L, 0, &here) && lua_getinfo(L, "n", &here) && here.name &&
        here.name == std::string_view("for iterator"))
        fail("for: a Tensor, expected an iterator: a loop is for i = 1, 10 do, or for i, x in ipairs(A:totable()) do");
    const Tensor& a = check_tensor(L, 1, "A(...)");
    const Selection selection = check_selection(L, 2, a);
    if (selection.element) {
        lua_pushnumber(L, a.get(selection.flat));
    } else {
        push(L, part(a, selection.box));
    }
    return 1;
}

void add_tensor_indexing(lua_State* L) { add_methods(L, {{"set", guarded<set>}}); }

}  // namespace causeway::lua
