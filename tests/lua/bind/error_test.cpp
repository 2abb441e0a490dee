// Errors in Lua: strings as ever, with a kind beside them that does not depend on their words.
#include "core/base/interrupt.hpp"
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using namespace causeway;
using testing::Shell;

TEST_CASE("error_kind tells the kind of an error that pcall returned", "[errors][lua]") {
    Shell lua;
    const auto kind = [&](const std::string& call) { return lua("return error_kind(select(2, pcall(" + call + ")))"); };
    CHECK(kind("zeros, 'a'") == "bad argument");
    CHECK(kind("zeros, 2^22, 2^22") == "out of memory");
    CHECK(kind("error, 'not enough memory', 0") == "out of memory");  // what Lua itself raises where it has none
    CHECK(kind("load, dir .. 'missing.npy'") == "I/O");
    write_bytes(lua.path("cut.json"), "[1,");
    CHECK(kind("load, dir .. 'cut.json'") == "I/O");
    CHECK(kind("json_decode, '[1,'") == "bad argument");
    lua("save(dir .. 'cut.npy', randn(10))");
    std::filesystem::resize_file(lua.path("cut.npy"), 150);
    CHECK(kind("load, dir .. 'cut.npy'") == "I/O");
    if (lua("return (has_gpu())") == "false") {
        for (const std::string call : {"gpu_randn, 3", "gpu_time, print", "function() randn(3):gpu() end"})
            CHECK(kind(call) == "system");
    }
    CHECK(kind("causeway._with_timeout, 0.01, function() while true do end end") == "timeout");
    CHECK(kind("causeway._with_timeout, 0.01, function() while true do randn(100, 100) end end") == "timeout");
    interrupt::request();
    CHECK(
        kind("function() local x = randn(200, 200) return causal_linear_attention(x, x, x, {method = 'fleet'}) end") ==
        "interrupted");
    interrupt::clear();
}

TEST_CASE("the words of an error decide nothing, and it is a string like any", "[errors][lua]") {
    Shell lua;
    CHECK(lua("return error_kind(select(2, pcall(error, 'out of memory')))") == "nil");
    CHECK(lua("return error_kind(select(2, pcall(error, 'interrupted: the time limit was reached', 0)))") == "nil");
    CHECK(lua("return error_kind(nil), error_kind({}), error_kind(3)") == "nil nil nil");
    CHECK(lua("ok, e = pcall(function() zeros(2^22, 2^22) end) return type(e), e:sub(1, 7), #('x' .. e) - #e") ==
          "string user:1: 1");
    // Passed on as it is it keeps its kind; made into another message it has none.
    CHECK(lua("return error_kind(select(2, pcall(error, e, 0))), error_kind('in f: ' .. e)") == "out of memory nil");
    CHECK(lua("local co = coroutine.create(function() zeros(2^22, 2^22) end) "
              "return error_kind(select(2, coroutine.resume(co)))") == "out of memory");
    // Many other errors later it is still known.
    CHECK(lua("for i = 1, 60 do pcall(zeros, 'x', i, 'message ' .. i) pcall(sweep, {['x' .. i] = 1}) end "
              "return error_kind(e)") == "out of memory");
    CHECK(lua("for i = 1, 200 do pcall(sweep, {['x' .. i] = 1}) end return error_kind(e)") == "nil");
}

TEST_CASE("sweep and benchmark_method tell OOM and timeout by kind", "[errors][lua]") {
    Shell lua;
    CHECK(lua("sweep{grid = {N = {1}}, run = function() error('out of memory') end}") ==
          "user:1: out of memory (sweep at N = 1)");
    CHECK(lua("return sweep{grid = {N = {1}}, run = function() zeros(2^22, 2^22) end}[1].status") == "OOM");
    CHECK(lua("return sweep{grid = {N = {1}}, timeout = 0.01, run = function() while true do end end}[1].status") ==
          "timeout");
    CHECK(lua("ok, e = pcall(sweep, {grid = {N = {1}}, run = function() load(dir .. 'missing.npy') end}) "
              "return e:match('%(sweep.*'), error_kind(e)") == "(sweep at N = 1) I/O");
}
