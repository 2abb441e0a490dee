// coroutine.wrap, which has another function in its place.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using namespace causeway;
using testing::Shell;

TEST_CASE("coroutine.wrap is that of Lua, but its errors keep their kind", "[lua][coroutines]") {
    Shell lua;
    const auto failed = [&](const std::string& body) {
        return lua("local ok, e = pcall(function() " + body + " end) return e");
    };
    CHECK(lua("local w = coroutine.wrap(function(a, b) local c = coroutine.yield(a + b, nil) return c, nil end) "
              "return w(1, 2), select('#', w(7))") == "3 2");
    CHECK(lua("local n = 0 for i in coroutine.wrap(function() for i = 1, 5 do coroutine.yield(i) end end) do n = n + i "
              "end return n") == "15");
    CHECK(lua("local w = coroutine.wrap(function() return load('/no/such.csv') end) local _, e = pcall(w) "
              "return error_kind(e)") == "I/O");
    CHECK(lua("local w = coroutine.wrap(function() while true do end end) "
              "return error_kind(select(2, pcall(causeway._with_timeout, 0.05, w)))") == "timeout");
    // As Lua's own has them: errors of code with the position of the caller before theirs, others as they are.
    CHECK(failed("coroutine.wrap(function() error('x', 0) end)()") == "user:1: x");
    CHECK(lua("local _, e = pcall(coroutine.wrap(function() error({n = 5}) end)) return e.n") == "5");
    CHECK(failed("local w = coroutine.wrap(function() end) w() w()") == "user:1: cannot resume dead coroutine");
    CHECK(failed("local w w = coroutine.wrap(function() w() end) w()") ==
          "user:1: user:1: cannot resume non-suspended coroutine");
    CHECK(failed("coroutine.wrap(3)") == "user:1: bad argument #1 to 'wrap' (function expected, got number)");
    CHECK(failed("coroutine.wrap()") == "user:1: bad argument #1 to 'wrap' (function expected, got no value)");
    // What is to be closed is, and an error of that comes in the place of the first one.
    CHECK(
        lua("local seen local function close(_, e) seen = e end "
            "pcall(coroutine.wrap(function() local x <close> = setmetatable({}, {__close = close}) error('a', 0) end)) "
            "return seen") == "a");
    CHECK(lua("local function close() error(nil) end return select('#', pcall(coroutine.wrap(function() "
              "local x <close> = setmetatable({}, {__close = close}) error('a', 0) end))), "
              "(select(2, pcall(coroutine.wrap(function() "
              "local x <close> = setmetatable({}, {__close = close}) error('a', 0) end))))") == "2 nil");
    CHECK(failed("local function close() error('b', 0) end coroutine.wrap(function() "
                 "local x <close> = setmetatable({}, {__close = close}) error('a', 0) end)()") == "user:1: b");
}
