// Elements and parts: A(i, j, ...) reads, A:set(value, i, j, ...) writes. An index is a number, ":", a range {from,
// to}, places one by one {{1, 3, 5}}, or a mask of 0 and 1; a mask of the shape of A chooses among all elements.
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "core/tensor/places.hpp"
#include "core/tensor/rearrange.hpp"
#include "core/tensor/walk.hpp"  // contiguous_strides
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

// What the indices of a call choose.
struct Selection {
    Box box;
    std::array<std::optional<std::vector<Index>>, Shape::max_ndim>
        places;           // from 0; such a dimension is whole in the box
    bool listed = false;  // one of them is given
    bool element = true;  // every dimension has a whole number as index
    Index flat = 0;       // position of the element, or of the first one
};

std::string index_text(lua_State* L, int index) {
    if (lua_type(L, index) == LUA_TSTRING) return sentence("\"", lua_tostring(L, index), "\"");
    const std::string came = type_name(L, index);
    return came == "nil" ? "nothing" : "a " + came;
}

// "1, 3, 5", the first numbers of the list at `index`; "" where one of them is none.
std::string first_numbers(lua_State* L, int index) {
    std::string text;
    for (lua_Integer i = 1; i <= 3; ++i) {
        if (lua_rawgeti(L, index, i) != LUA_TNUMBER) return lua_pop(L, 1), "";
        text += (i > 1 ? ", " : "") + text_at(L, -1);
        lua_pop(L, 1);
    }
    return lua_rawlen(L, index) > 3 ? text + ", ..." : text;
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
    const auto length = lua_rawlen(L, index);
    if (length != 2) {
        const std::string places = length > 2 ? first_numbers(L, index) : "";
        fail("index ", k + 1, ": expected a range {from, to}, got a table of ", length,
             length == 1 ? " entry" : " entries", "; places one by one are a list in a list: {{",
             places.empty() ? "1, 3, 5" : places, "}}");
    }
    const Index from = entry(1), to = entry(2);
    if (from >= 1 && to < 0 && n + to + 1 >= from - 1)
        fail("index ", k + 1, ": {", from, ", ", to, "}, expected a range from 1 to ", n,
             ": nothing is counted from the end, so it is {", from, ", ", n + to + 1, "}");
    if (from >= 1 && from <= n && to >= 1 && to < from - 1)
        fail("index ", k + 1, ": {", from, ", ", to, "}, expected a range from 1 to ", n, ": backwards it is {range(",
             from, ", ", to, ", {step = -1})}");
    if (from < 1 || to > n || to < from - 1)
        fail("index ", k + 1, ": {", from, ", ", to, "}, expected a range from 1 to ", n);
    selection.box.first[static_cast<std::size_t>(k)] = from - 1;
    selection.box.count[static_cast<std::size_t>(k)] = to - from + 1;
}

// A place of the dimension counted from 0, of what is given counted from 1.
Index check_place(Index place, int k, Index n) {
    if (place < 1 || place > n) {
        if (n == 0) fail("index ", k + 1, ": ", place, ", but the dimension is empty");
        fail("index ", k + 1, ": ", place, ", expected 1 to ", n);
    }
    return place - 1;
}

// Whether the table at `index` is {{1, 3, 5}} or {p} with a Tensor p: places one by one.
bool holds_places(lua_State* L, int index) {
    if (lua_rawlen(L, index) != 1) return false;
    lua_rawgeti(L, index, 1);
    const bool holds = lua_istable(L, -1) || is_tensor(L, -1);
    lua_pop(L, 1);
    return holds;
}

// The length of a vector, as which count those that a reduction leaves, n×1; -1 of others.
Index vector_length(const Tensor& a) {
    int longer = 0;
    for (int i = 0; i < a.ndim(); ++i) longer += a.shape()[i] != 1;
    return a.ndim() > 0 && longer <= 1 ? a.size() : -1;
}

std::vector<Index> read_places(lua_State* L, int index, int k, Index n) {
    const std::string argument = sentence("index ", k + 1, ": places");
    lua_rawgeti(L, index, 1);
    const Tensor given = check_operand(L, lua_gettop(L), argument.c_str());
    lua_pop(L, 1);
    if (vector_length(given) < 0)
        fail(argument, ": a ", given.summary(), ", expected a vector or a list of whole numbers");
    std::vector<Index> places;
    for (Index i = 0; i < given.size(); ++i) {
        const double place = given.get(i);
        if (place != std::floor(place) || std::abs(place) > 1e15)
            fail(argument, ": ", place, ", expected whole numbers");
        places.push_back(check_place(static_cast<Index>(place), k, n));
    }
    return places;
}

// The places where the mask, of 0 and 1, is 1.
std::vector<Index> read_mask(const Tensor& mask, int k) {
    std::vector<Index> places;
    for (Index i = 0; i < mask.size(); ++i) {
        const double x = mask.get(i);
        if (x != 0 && x != 1)
            fail("index ", k + 1, ": a Tensor with ", x != x ? "NaN" : sentence(x),
                 " in it, expected a mask of 0 and 1, as gt(A, 0) gives it; places stand in a list: A({p})");
        if (x == 1) places.push_back(i);
    }
    return places;
}

// One index for one dimension.
void read_index(lua_State* L, int index, int k, Index n, Selection& selection) {
    const auto i = static_cast<std::size_t>(k);
    if (lua_type(L, index) == LUA_TNUMBER) {
        const std::string argument = sentence("index ", k + 1);
        selection.box.first[i] = check_place(check_integer(L, index, argument.c_str()), k, n);
        selection.box.count[i] = 1;
        selection.box.drop[i] = true;
        return;
    }
    selection.element = false;
    selection.box.count[i] = n;
    if (is_tensor(L, index)) {
        const Tensor& mask = check_tensor(L, index, "index");
        if (vector_length(mask) != n)
            fail("index ", k + 1, ": a ", mask.summary(), ", expected a mask of ", n,
                 " elements, 0 and 1; places stand in a list: A({p})");
        selection.places[i] = read_mask(mask, k);
    } else if (lua_istable(L, index) && holds_places(L, index)) {
        selection.places[i] = read_places(L, index, k, n);
    } else if (lua_istable(L, index)) {
        read_range(L, index, k, n, selection);
    } else {
        fail("index ", k + 1, ": expected a number, \":\" or {from, to}, got ", index_text(L, index));
    }
    selection.listed = selection.listed || selection.places[i].has_value();
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
        if (k >= given || (lua_type(L, index) == LUA_TSTRING && std::string_view(lua_tostring(L, index)) == ":")) {
            selection.box.count[i] = a.shape()[k];
            selection.element = false;
        } else {
            read_index(L, index, k, a.shape()[k], selection);
        }
        selection.flat += selection.box.first[i] * strides[i];
    }
    return selection;
}

// A tensor, which shares the elements of the one asked, and what is chosen of it.
struct Choice {
    Tensor of;
    Selection what;
};

// By the indices at first, first + 1, ... on the stack. One mask of the shape of `a` chooses among the elements as they
// lie, as that of a vector of them.
Choice check_choice(lua_State* L, int first, const Tensor& a) {
    const bool of_all = lua_gettop(L) == first && a.ndim() > 1 && is_tensor(L, first) &&
                        check_tensor(L, first, "index").shape() == a.shape();
    if (!of_all) return {a, check_selection(L, first, a)};
    Choice choice{a.reshape({a.size()}), {}};
    choice.what.box.count[0] = a.size();
    choice.what.places[0] = read_mask(check_tensor(L, first, "index"), 0);
    choice.what.listed = true, choice.what.element = false;
    return choice;
}

// What the selection chooses of `a`: a copy.
Tensor chosen(const Tensor& a, const Selection& selection) {
    if (!selection.listed) return part(a, selection.box);
    Box box = selection.box;
    box.drop = {};
    Tensor out = part(a, box);
    Box kept = selection.box;  // of the result, whose dimensions are then dropped
    for (int k = 0; k < a.ndim(); ++k) {
        const auto i = static_cast<std::size_t>(k);
        if (!selection.places[i]) continue;
        out = take(out, k, *selection.places[i]);
        kept.count[i] = out.shape()[k];
    }
    return out.reshape(part_shape(out, kept));
}

// Writes the value, broadcast, to what the selection chooses. With `add` the tensor is zeros, and the values of a place
// that is chosen several times are added, where else the last one stays.
void write(Tensor& a, Selection selection, const Tensor& value, bool add = false) {
    for (int k = 0; k < a.ndim(); ++k) {
        const auto i = static_cast<std::size_t>(k);
        if (!selection.places[i]) continue;
        const std::vector<Index> places = *selection.places[i];
        selection.places[i].reset();
        Tensor slices = take(a, k, places);
        selection.box.count[i] = slices.shape()[k];
        write(slices, selection, value, add);
        if (add) add_slices(a, k, places, slices);
        else put(a, k, places, slices);
        return;
    }
    assign(a, selection.box, value);
}

// The number or Tensor at 2, which is to be written into `a`.
Tensor check_value(lua_State* L, const Tensor& a) {
    if (lua_type(L, 2) == LUA_TNUMBER) return Tensor::full(a.dtype(), Shape{}, lua_tonumber(L, 2));
    return check_operand(L, 2, "set: value");
}

// A:set(value, i, j, ...); returns A.
int set(lua_State* L) {
    Tensor& a = check_tensor(L, 1, "set");
    if (!is_tensor(L, 2) && lua_type(L, 2) != LUA_TNUMBER && !lua_istable(L, 2)) {
        fail("set: value: expected a number or a Tensor, got ", index_text(L, 2), "; the order is A:set(value, i, j)");
    }
    Choice choice = check_choice(L, 3, a);
    if (choice.what.element && lua_type(L, 2) == LUA_TNUMBER) choice.of.set(choice.what.flat, lua_tonumber(L, 2));
    else write(choice.of, choice.what, check_value(L, a));
    lua_settop(L, 1);
    return 1;
}

// _add_part(A, value, i, j, ...): writes the value to the part of A, which is zeros, and returns A; values of a place
// that is named several times are added. It is what the derivative of A(i, j, ...) makes of what arrives.
int add_part(lua_State* L) {
    const Tensor& a = check_tensor(L, 1, "A");
    Choice choice = check_choice(L, 3, a);
    write(choice.of, choice.what, check_value(L, a), true);
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
    const Choice choice = check_choice(L, 2, a);
    if (choice.what.element) return lua_pushnumber(L, choice.of.get(choice.what.flat)), 1;
    return push_one(L, chosen(choice.of, choice.what));
}

void add_tensor_indexing(lua_State* L) {
    add_methods(L, {{"set", guarded<set>}});
    add_functions(L, {{"_add_part", guarded<add_part>}});
}

}  // namespace causeway::lua
