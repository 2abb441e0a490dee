// What the attention family adds to the shell beyond the call itself: costs, crossovers, decays.
#include "tests/lua/shell.hpp"

#include "lua/shell/complete.hpp"
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"

using causeway::testing::Shell;

TEST_CASE("cost gives what opcount counts, for every method", "[lua][cost]") {
    Shell lua;
    CHECK(lua("local x = abs(randn(1, 1, 29, 3)) + 0.1 local wrong = {} "
              "for _, m in ipairs(method_list()) do for _, normalize in ipairs{false, true} do "
              "  local block = m.block and 5 or nil "
              "  local n = opcount(function() causal_linear_attention(x, x, x, {method = m.name, normalize = "
              "normalize, block = block}) end) "
              "  local c = cost(m.name, {N = 29, r = 3, block = block, normalize = normalize}) "
              "  if c.multiplies ~= n.multiplies or c.adds ~= n.adds or c.divisions ~= n.divisions then wrong[#wrong + "
              "1] = m.name end "
              "end end return #method_list() >= 12, table.concat(wrong, ' ')") == "true ");
    CHECK(lua("local c = cost('Hybrid', {N = 1024, r = 128, d = 128}) return c.adds == 4 * 1024 * 128^2, c.memory == 2 "
              "* 128^2") == "true true");
    CHECK(lua("return cost('outer-product', {N = 10, r = 2, d = 3}).memory, cost('inner-product', {N = 10, r = 2, d = "
              "3, decay = true}).multiplies") == "60 330");
}

TEST_CASE("crossover: n > 2d dense, 3d triangular", "[lua][cost]") {
    Shell lua;
    CHECK(lua("return crossover{r = 128, d = 128}, crossover{r = 128, d = 128, tiles = 'triangular'}, crossover{r = "
              "128, normalize = true, block = 128}") == "257 385 257");
    CHECK(lua("crossover{d = 8}") == "user:1: crossover: r: expected a number, got nothing");
    CHECK(lua("crossover{r = 8, tiles = 'square'}") ==
          "user:1: tiles: \"square\", expected one of \"dense\", \"triangular\"");
}

TEST_CASE("a cost that cannot be given is told", "[lua][cost]") {
    Shell lua;
    CHECK(lua("cost('fleat', {N = 1, r = 1})") ==
          "user:1: method: no method is named \"fleat\" (did you mean \"fleet\"?)");
    CHECK(lua("causal_linear_attention(ones(2, 2), ones(2, 2), ones(2, 2), {method = 'transnormer'})") ==
          "user:1: method: no method is named \"transnormer\" (it is called \"lightning-attention-2\" here, see "
          "?transnormer)");
    CHECK(lua("causal_linear_attention(ones(2, 2), ones(2, 2), ones(2, 2), {method = 'quick'})")
              .starts_with("user:1: method: no method is named \"quick\", expected one of \"auto\", \"vanilla\", "));
    CHECK(lua("causal_linear_attention(ones(2, 2), ones(2, 2), ones(2, 2), {decay = 0 / 0})") ==
          "user:1: decay: nan, expected a number in (0, 1]");
    CHECK(lua("cost('fleet', 100, 32, 16)") ==
          "user:1: cost: options: a number, expected sizes by their names: cost(\"fleet\", {N = 100, r = 32, d = 16})");
    CHECK(lua("cost('fleet', 100)").ends_with("cost(\"fleet\", {N = 100, r = 128, d = 128})"));
    CHECK(lua("cost('fleet', {N = 1})") == "user:1: cost: r: expected a number, got nothing");
    CHECK(lua("cost('fleet', {N = 1, blok = 1})") == "user:1: cost: unknown option \"blok\" (did you mean \"block\"?)");
    CHECK(lua("causal_linear_attention(ones(2, 2), ones(2, 2), ones(2, 2), {gamma = 1})") ==
          "user:1: causal_linear_attention: unknown option \"gamma\" (it is called \"decay\" here, see ?gamma)");
    CHECK(lua("causal_linear_attention(ones(2, 2), ones(2, 2), ones(2, 2), {method = 'flash'})") ==
          "user:1: method: no method is named \"flash\" (it computes softmax attention: softmax_attention(q, k, v, "
          "{method = \"flash\"}))");
    CHECK(
        lua("causal_linear_attention(ones(2, 2), ones(2, 2), ones(2, 2), {method = 'delta'})") ==
        "user:1: method: no method is named \"delta\" (it is an update: linear_attention(q, k, v, {update = \"delta\", "
        "...}))");
    CHECK(lua("cost('fleet', {N = 0, r = 1})") == "user:1: N: 0, expected a number from 1 to 1099511627776");
    CHECK(lua("cost('fleet', {N = 1, r = 1, block = 0})") == "user:1: block: 0, expected 1 or more");
    CHECK(lua("cost('vanilla', {N = 1, r = 1, block = 2})") == "user:1: block: the method \"vanilla\" has none");
    CHECK(lua("register_method{name = 'mine', forward = function() end} cost('mine', {N = 1, r = 1})") ==
          "user:1: cost: the method \"mine\" is written in Lua, only built-in methods have a closed form");
}

TEST_CASE("a method written in Lua supports what its function makes something of", "[lua][register]") {
    Shell lua;
    lua("q = randn(1, 2, 6, 3) function of(name) for _, m in ipairs(method_list()) do if m.name == name then return m "
        "end "
        "end end function call(name, o) o.method = name return causal_linear_attention(q, q, q, o) end");
    const auto supported = [&](const std::string& fields) {
        return lua("register_method{name = 'mine' .. #method_list(), " + fields +
                   "} local list = method_list() return list[#list].decay, list[#list].normalize");
    };
    CHECK(supported("forward = function(B, C, V) return V end") == "false false");
    CHECK(supported("forward = function(B, C, V) return V end, decay = true") == "true false");
    CHECK(supported("forward = function(B, C, V, o) return o.decay and V * 2 or V end") == "true false");
    CHECK(supported("forward = function(B, C, V, o) return V end") == "false false");
    // The options as a whole are handed on.
    CHECK(supported("forward = function(B, C, V, o) return causal_linear_attention(B, C, V, o) end") == "true true");
    CHECK(supported("forward = function(...) return causal_linear_attention(...) end") == "true true");
    CHECK(supported("forward = causal_linear_attention") == "true true");
    CHECK(supported("forward = function(B, C, V, o) error('large inputs alone') end") == "true true");

    lua("register_method{name = 'plain', forward = function(B, C, V) return V end}");
    CHECK(lua("call('plain', {decay = 0.5})") ==
          "user:1: decay: the method \"plain\" does not support it: its forward makes nothing of options.decay "
          "(?register_method)");
    CHECK(lua("call('plain', {normalize = true})").find("user:1: normalize: the method \"plain\" does not") == 0);
    CHECK(lua("return call('plain', {decay = 1}) == q, call('plain', {}) == q") == "true true");
    lua("register_method{name = 'declared', decay = false, forward = function(B, C, V, o) return V end}");
    CHECK(lua("call('declared', {decay = 0.5})") ==
          "user:1: decay: the method \"declared\" was registered with decay = false (?register_method)");
}

TEST_CASE("what register_method and methods cannot use is told", "[lua][register]") {
    Shell lua;
    CHECK(lua("register_method{name = 'mine', forward = print, description = 'a text'}")
              .starts_with(
                  "user:1: register_method: unknown option \"description\", expected one of name, forward, short, "
                  "source, time, memory, decay, normalize"));
    CHECK(lua("methods('fleet')") ==
          "user:1: methods: fleet, expected nothing: it lists all of them, and ?NAME is the page of one");
    CHECK(lua("for m in methods do print(m) end") ==
          "user:1: methods: is a function, which shows them; for _, m in ipairs(method_list()) do ... end goes through "
          "them");
    const auto output = causeway::testing::run_program(
        {"-e", "register_method{name = 'mine', forward = function(B, C, V, o) error('too short') end}"});
    CHECK(output.status == 0);  // said at once, not when the list is first looked at
    CHECK(output.err.find("note: register_method: forward fails on four tokens, so it is taken to support") == 0);
    CHECK(output.err.find("decay and normalize unless told otherwise") != std::string::npos);
    CHECK(output.err.find("too short") != std::string::npos);
}

TEST_CASE("a method that is registered again is said to take the place of the first", "[lua][register]") {
    const std::string method = "register_method{name = 'mine', forward = function(B, C, V) return V end}";
    const std::string note = "note: register_method: \"mine\" takes the place of the method registered before by";
    CHECK(causeway::testing::run_program({"-e", method}).err == "");
    const auto output = causeway::testing::run_program({"-e", method, "-e", method});
    CHECK(output.status == 0);
    CHECK(output.err.starts_with(note));
}

TEST_CASE("chosen_method names the method that a call runs by", "[lua][chosen]") {
    Shell lua;
    lua("x = randn(1, 2, 64, 8)");
    CHECK(lua("local name = chosen_method(x, x, x) for _, m in ipairs(method_list()) do if m.name == name then return "
              "m.auto end end") == "true");
    CHECK(lua("return chosen_method(x, x, x) == chosen_method{q = x, k = x, v = x}") == "true");
    CHECK(lua("return chosen_method(x, x, x, {method = 'FA'})") == "fleet");
    CHECK(lua("register_method{name = 'mine', forward = function(B, C, V) return V end} "
              "return chosen_method(x, x, x, {method = 'mine'})") == "mine");
    CHECK(lua("chosen_method(x, x)").find("user:1: ") == 0);
    CHECK(lua("y = permutedims(x, 1, 3, 2, 4) "
              "return chosen_method(y, y, y, {layout = 'bnhd'}) == chosen_method(x, x, x)") == "true");
    CHECK(lua("return chosen_method(x, x, x, {state = zeros(1, 2, 8, 8), state_indices = {1}, inplace = true, "
              "method = 'row-based'})") == "row-based");
    CHECK(lua("chosen_method(x, x, x, {cu_seqlens = {0, 64}})") ==
          "user:1: cu_seqlens: given, expected one sequence: of packed ones each runs by the method of its length");
    CHECK(lua("chosen_method(x, x, x, {method = 'fleat'})").find("(did you mean \"fleet\"?)") != std::string::npos);
}

TEST_CASE("methods and options of cost are completed", "[lua][cost][complete]") {
    const std::unique_ptr<lua_State, void (*)(lua_State*)> L{causeway::lua::new_state(), lua_close};
    const auto words = [&](const std::string& text) { return causeway::lua::complete(L.get(), text).words; };
    using Words = std::vector<std::string>;
    CHECK(words("cost(\"outer") == Words{"outer-product", "outer-product-blockwise"});
    CHECK(words("cost('fleet', {bl") == Words{"block"});
    CHECK(words("crossover{tiles = \"d") == Words{"dense"});
    CHECK(words("causal_linear_attention(q, k, v, {method = 'hy") == Words{"hybrid"});
}

TEST_CASE("a number of heads out of range is told with the range", "[lua][decay]") {
    Shell lua;
    for (const char* f : {"alibi_slopes", "retnet_decay"}) {
        CHECK(lua(std::string(f) + "(2000000)") == "user:1: h: 2000000, expected a number of heads from 1 to 1048576");
        CHECK(lua(std::string(f) + "(0)") == "user:1: h: 0, expected a number of heads from 1 to 1048576");
    }
}

TEST_CASE("a method written in Lua has no gradient of its own, which is said of it", "[lua][attention]") {
    Shell lua;
    lua("register_method{name = 'mine', forward = function(B, C, V) return V end} q = ones(1, 1, 4, 2)");
    CHECK(lua("causal_linear_attention_grad(q, q, q, q, {method = 'mine'})") ==
          "user:1: method: \"mine\" is written in Lua and has no gradient of its own, grad(f, ...) differentiates it "
          "(?grad)");
}

TEST_CASE("rows whose weights cancel under normalize are noted once", "[lua][attention]") {
    using causeway::testing::contains, causeway::testing::run_program, causeway::testing::squeezed;
    const std::string inputs = "seed(1) x = randn(1, 2, 50, 4) v = randn(1, 2, 50, 4) ";
    const auto err = [&](const std::string& code) { return squeezed(run_program({"-e", inputs + code}).err); };
    const std::string once =
        err("for i = 1, 2 do causal_linear_attention(x, randn(1, 2, 50, 4), v, {normalize = true}) end");
    CAPTURE(once);
    CHECK(contains(once, "note: causal_linear_attention: normalize divides by the sum of a row's weights"));
    CHECK(once.find("note: ") == once.rfind("note: "));
    // A later entry is told of its own rows.
    const std::string entry = "causal_linear_attention(x, randn(1, 2, 50, 4), v, {normalize = true});";
    const std::string twice = squeezed(run_program({"-e", inputs, "-e", entry, "-e", entry}).err);
    CHECK(twice.find("note: ") != twice.rfind("note: "));
    CHECK(err("causal_linear_attention(exp(x), exp(x), v, {normalize = true})") == "");
    CHECK(err("causal_linear_attention(x, x, v)") == "");
    CHECK(err("B, C = lowrank('favor+', x, x) causal_linear_attention(B, C, v, {normalize = true, decay = 0.9})") ==
          "");
    CHECK(err("B, C = lowrank('taylor', x, x) causal_linear_attention(B, C, v, {normalize = true})") == "");
    CHECK(contains(err("causal_linear_attention(exp(x), zeros(1, 2, 50, 4), v, {normalize = true})"),
                   "100 of 100 sums are 0"));
    // A method of Lua's too.
    CHECK(contains(err("register_method{name = 'mine', normalize = true, forward = function(B, C, V, o) return V end} "
                       "causal_linear_attention(exp(x), -exp(x), v, {method = 'mine', normalize = true})"),
                   "100 of 100 sums"));
}
