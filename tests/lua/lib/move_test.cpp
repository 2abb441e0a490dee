// The functions of Lua that have others in their place, beside what they were.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using namespace causeway;
using testing::Shell;

TEST_CASE("table.move is that of Lua, in pieces too, and can be stopped", "[lua][move]") {
    Shell lua;
    // Beside a loop: forwards, backwards over itself, to another table, more than a piece of 2^10.
    CHECK(
        lua("local n = 5 * (1 << 10) + 7 for _, t in ipairs{1, 4, n, 2 * n} do for _, other in ipairs{false, true} do "
            "local a, b = {}, {} for i = 1, n do a[i] = i end local into = other and {} or nil "
            "local got = table.move(a, 2, n, t, into) if got ~= (into or a) then return 'another table' end "
            "for i = 2, n do if got[t + i - 2] ~= i then return t, other, i end end end end return 'same'") == "same");
    CHECK(lua("return #table.move({1, 2, 3}, 1, 3, 1, {})") == "3");
    CHECK(lua("return #table.move({1, 2, 3}, 3, 1, 1, {})") == "0");
    CHECK(contains(lua("table.move({}, 1, math.maxinteger, 2)"), "#4 to 'move' (destination wrap around)"));
    CHECK(contains(lua("table.move({}, math.mininteger, math.maxinteger, 2)"),
                   "#3 to 'move' (too many elements to move)"));
    CHECK(lua("return error_kind(select(2, pcall(causeway._with_timeout, 0.05, function() table.move({}, 1, 1e15, 2) "
              "end)))") == "timeout");
}
