#include "lua/shell/complete.hpp"

#include <memory>

#include "lua/bind/bind.hpp"
#include "lua/shell/state.hpp"
#include "tests/catch.hpp"

using namespace causeway::lua;

namespace {

using Words = std::vector<std::string>;

struct Fixture {
    std::unique_ptr<lua_State, void (*)(lua_State*)> state{new_state(), lua_close};

    explicit Fixture(const std::string& code = "") {
        REQUIRE(luaL_dostring(
                    state.get(),
                    ("causeway._options.fetch = {colour = {'red', 'green', 'grey'}, count = true, {'first', 'fifth'}}\n"
                     "function causeway.fetch() end\n" +
                     code)
                        .c_str()) == LUA_OK);
    }
    Words words(const std::string& text) { return complete(state.get(), text).words; }
};

}  // namespace

TEST_CASE("options and their choices are offered inside calls", "[lua][complete]") {
    Fixture shell;
    CHECK(shell.words("fetch(1, {c") == Words{"colour", "count"});
    CHECK(shell.words("fetch{c") == Words{"colour", "count"});
    CHECK(shell.words("fetch{") == Words{"colour", "count"});
    CHECK(shell.words("fetch{count = 1, col") == Words{"colour"});
    CHECK(shell.words("x = causeway.fetch({1, 2}, {colour = 'gr") == Words{"green", "grey"});
    CHECK(shell.words("fetch(q, {colour=\"") == Words{"green", "grey", "red"});
    CHECK(shell.words("fetch(\"fi") == Words{"fifth", "first"});
    CHECK(shell.words("fetch(0, \"fi") == Words{});
    CHECK(shell.words("fetch({nested = {c")[0] != "colour");
    CHECK(shell.words("fetch{1}:c") == Words{});
    CHECK(shell.words("fetch{colour = {'gr") == Words{"green", "grey"});
    CHECK(shell.words("fetch(1, {colour = {'red', \"g") == Words{"green", "grey"});
    CHECK(shell.words("fetch{colour = {{'gr") == Words{});
    CHECK(shell.words("colour = {'gr") == Words{});
    CHECK(shell.words("benchmark_update{modes = {'ch") == Words{"chunkwise"});
    CHECK(shell.words("benchmark_method{methods = {'fleet', 'fleet-") == Words{"fleet-untiled"});
    CHECK(shell.words("benchmark_method('causal-") == Words{"causal-dot-product"});
    CHECK(complete(shell.state.get(), "fetch(1, {c").begin == 10);
}

TEST_CASE("completion calls nothing", "[lua][complete]") {
    Fixture shell(
        "trap = setmetatable({inside = {leaf = 1}}, {__index = function() error('called') end})\n"
        "child = setmetatable({own = 1}, {__index = {inherited = 2}})");
    CHECK(shell.words("trap.ins") == Words{"inside"});
    CHECK(shell.words("trap.inside.l") == Words{"leaf"});
    CHECK(shell.words("trap.missing.x") == Words{});
    CHECK(shell.words("child.") == Words{"inherited", "own"});
}

TEST_CASE("no text before the cursor confuses completion", "[lua][complete]") {
    Fixture shell;
    const std::string texts[] = {
        "causal_linear_attention(q, {method = 'x', [\"a\"] = {1, 2; 3}}, f(g{h}, [[long]] .. 'x\\'y') ) .. "
        "a.b.c:d(1)[2].e -- note",
        ")}] ,;= . : :: ..= a..b . c : d {{{ (( [",
        "?\"x",
        ";ls '/tm",
        "@time math.fl",
        "\xff\xfe\x00\x01 x.\xc3",
        "::::",
        "....",
        "local function f(...) return select('#', ...) end",
    };
    for (const std::string& text : texts) {
        for (std::size_t n = 0; n <= text.size(); ++n) {
            const Completion found = complete(shell.state.get(), text.substr(0, n));
            CHECK(found.begin <= n);
        }
    }
}

TEST_CASE("what shows itself as a table completes its forms", "[lua][complete]") {
    Fixture shell(
        "t = text_table({{a = 1}})\n"
        "r = sweep{grid = {N = {1}}, run = function() return 1 end}\n"
        "b = benchmark_method('fleet', {lengths = {4}, heads = 1, rank = 2, repeats = 1, show = false})\n"
        "e = lowrank_error(ones(2, 2), ones(2, 2), ones(2, 2), ones(2, 2))");
    for (const std::string name : {"t", "r", "b", "e"}) {
        CAPTURE(name);
        CHECK(shell.words(name + ":mark") == Words{"markdown"});
        CHECK(shell.words(name + ":lat") == Words{"latex"});
    }
}
