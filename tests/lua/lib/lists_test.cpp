// The functions of `table` that have others in their place, beside what they were.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using namespace causeway;
using testing::Shell;

TEST_CASE("table.move is that of Lua, in pieces too, and can be stopped", "[lua][lists]") {
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
    CHECK(contains(lua("table.move(5, 1, 5000, 1)"), "bad argument #1 to 'move' (table expected, got number)"));
    CHECK(contains(lua("table.move({}, 1, 5000, 1, 5)"), "bad argument #5 to 'move' (table expected, got number)"));
}

TEST_CASE("table.insert, remove and sort are those of Lua on long lists, and can be stopped", "[lua][lists]") {
    Shell lua;
    CHECK(lua("local n, a = 5000, {} for i = 1, n do a[i] = i end table.insert(a, 3, 'x') "
              "if #a ~= n + 1 or a[2] ~= 2 or a[3] ~= 'x' then return 'wrong' end "
              "for i = 3, n do if a[i + 1] ~= i then return i end end "
              "if table.remove(a, 3) ~= 'x' or #a ~= n then return 'wrong' end "
              "for i = 1, n do if a[i] ~= i then return i end end return 'same'") == "same");
    CHECK(lua("for _, n in ipairs{5000, 200000} do local a = {} for i = 1, n do a[i] = i * 7919 % 200003 end "
              "table.sort(a) for i = 2, #a do if a[i - 1] > a[i] then return n, i end end end return 'sorted'") ==
          "sorted");
    CHECK(contains(lua("local a = {} for i = 1, 5000 do a[i] = i end table.insert(a, 1, 2, 3)"),
                   "wrong number of arguments to 'insert'"));
    CHECK(contains(lua("local a = {} for i = 1, 5000 do a[i] = i end table.insert(a, 0, 2)"),
                   "bad argument #2 to 'insert' (position out of bounds)"));
    for (const std::string n : {"5000", "200000"})
        CHECK(lua("local a = {} for i = 1, " + n + " do a[i] = i end a[9] = 'x' return select(2, pcall(table.sort, a))")
                  .starts_with("attempt to compare "));
    const std::string endless = "local a = setmetatable({}, {__len = function() return 1 << 60 end}) ";
    for (const std::string call : {"table.insert(a, 1, 1)", "table.remove(a, 1)"})
        CHECK(lua(endless + "return error_kind(select(2, pcall(causeway._with_timeout, 0.05, function() " + call +
                  " end)))") == "timeout");
    CHECK(lua("local a = {} for i = 1, 3e6 do a[i] = i * 7919 % 3000017 end "
              "return error_kind(select(2, pcall(causeway._with_timeout, 0.05, table.sort, a)))") == "timeout");
}
