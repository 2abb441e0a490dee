// Numbers for pictures: those of curves, few enough to draw, and the cells of a heatmap.
#include "lua/bind/numbers.hpp"

#include <algorithm>

#include "lua/bind/families.hpp"

namespace causeway::lua {

Buffer<double> check_numbers(lua_State* L, int index, const char* argument) {
    if (is_tensor(L, index)) {
        const Tensor& tensor = check_tensor(L, index, argument);
        Buffer<double> out(tensor.size());
        for (Index i = 0; i < out.size(); ++i) out[i] = tensor.get(i);
        return out;
    }
    if (!lua_istable(L, index))
        fail(argument, ": expected a list of numbers or a Tensor, got ",
             lua_isnoneornil(L, index) ? "nothing" : "a " + type_name(L, index),
             lua_isfunction(L, index) ? "; map(f, x) are its values, as in plot(x, map(f, x))" : "");
    Buffer<double> out(static_cast<Index>(lua_rawlen(L, index)));
    for (Index i = 0; i < out.size(); ++i) {
        if (lua_geti(L, index, i + 1) != LUA_TNUMBER)
            fail(argument, ": item ", i + 1, " is a ", type_name(L, -1), ", expected a number");
        out[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    return out;
}

namespace {

// _numbers(list or Tensor, argument name, max) -> array, how many there were. Of more than `max` numbers evenly
// spread ones are taken, the first and the last among them.
int numbers(lua_State* L) {
    const std::string argument = check_string(L, 2, "argument");
    const Buffer<double> all = check_numbers(L, 1, argument.c_str());
    const Index n = std::min(all.size(), check_integer(L, 3, "max"));
    lua_createtable(L, static_cast<int>(n), 0);
    for (Index i = 0; i < n; ++i) {
        const auto at = n < all.size()
                            ? static_cast<Index>(static_cast<double>(i) * static_cast<double>(all.size() - 1) /
                                                 static_cast<double>(n - 1))
                            : i;
        lua_pushnumber(L, all[at]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushinteger(L, all.size());
    return 2;
}

// _cells(A, rows, columns) -> means over the cells of a grid of at most rows × columns laid over the matrix, row by
// row; the rows and columns of the grid; the rows and columns of A. A may have leading dimensions of 1.
int cells(lua_State* L) {
    const Tensor& a = check_tensor(L, 1, "A");
    if (a.ndim() < 2 || a.size() != a.shape().back(1) * a.shape().back(0))
        fail("A: ", a.summary(), ", expected one matrix, such as A(1, 1)");
    const Index height = a.shape().back(1), width = a.shape().back(0);
    if (a.size() == 0) fail("A: ", a.summary(), ", expected at least one element");
    const Index rows = std::min(height, check_integer(L, 2, "rows")),
                columns = std::min(width, check_integer(L, 3, "columns"));
    lua_createtable(L, static_cast<int>(rows * columns), 0);
    for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < columns; ++j) {
            const Index top = i * height / rows, bottom = (i + 1) * height / rows;
            const Index left = j * width / columns, right = (j + 1) * width / columns;
            double sum = 0;
            for (Index y = top; y < bottom; ++y) {
                for (Index x = left; x < right; ++x) sum += a.get(y * width + x);
            }
            lua_pushnumber(L, sum / static_cast<double>((bottom - top) * (right - left)));
            lua_rawseti(L, -2, i * columns + j + 1);
        }
    }
    for (const Index n : {rows, columns, height, width}) lua_pushinteger(L, n);
    return 5;
}

}  // namespace

void open_numbers(lua_State* L) { add_functions(L, {{"_numbers", guarded<numbers>}, {"_cells", guarded<cells>}}); }

}  // namespace causeway::lua
