// linear_attention and linear_attention_step as a person types them.
#include "lua/bind/gpu.hpp"  // gpu_text
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

// Inputs of two heads of keys with two queries each: N tokens, d_k = 5, d_v = 3.
const char* const gated_inputs = R"(
  seed(3)
  N = 20
  q, k, v = randn(2, 4, N, 5), randn(2, 2, N, 5), randn(2, 2, N, 3)
  k = k / sqrt(sum(pow(k, 2), 4))
  g, beta = -rand(2, 2, N), rand(2, 2, N)
  function near(a, b) return maximum(abs(a - b)) <= 1e-5 end
  function token(A, t) return A:reshape(2, A:size(2), N, #A // (2 * A:size(2) * N))(":", ":", { t, t }, ":") end
  function gate(A, t) return token(A, t):reshape(2, 2, 1) end
)";

}  // namespace

TEST_CASE("a delta rule whose state outgrows any use says so once", "[lua][gated]") {
    Shell lua;
    lua("notes = {} causeway._note = function(text) notes[#notes + 1] = text end k = randn(1, 2, 200, 16) b = ones(1, "
        "2, "
        "200) u = l2norm(k)");
    lua("linear_attention(u, u, u, {update = 'delta', beta = b}) linear_attention(k, k, k)");
    lua("bad = u:copy() bad:set(0 / 0, 1, 1, 3, 2) linear_attention(u, bad, u, {update = 'delta', beta = b})");
    CHECK(lua("return #notes") == "0");
    // What came in so large, or as no number, is no growth.
    for (const char* given : {"state = fill(1e20, 1, 2, 16, 16)", "state = fill(0 / 0, 1, 2, 16, 16)",
                              "beta = fill(0 / 0, 1, 2, 200)", "inplace = true, state = fill(1e20, 1, 2, 16, 16)"}) {
        CAPTURE(given);
        const std::string options = std::string("{update = 'delta', beta = b, ") + given + "}";
        CHECK(lua("linear_attention(u, u, u, " + options + ") return #notes") == "0");
    }
    lua("for i = 1, 2 do linear_attention(k, k, k, {update = 'delta', beta = b}) end");
    CHECK(lua("return #notes, notes[1]") ==
          "1 linear_attention: the state has grown past 1e+15: update = \"delta\" is meant for keys of length 1, "
          "l2norm(k), and beta from 0 to 2");
}

TEST_CASE("linear_attention returns the output and the state, the same in every mode", "[lua][gated]") {
    Shell lua;
    REQUIRE(lua(gated_inputs) == "");
    CHECK(lua("O, S = linear_attention(q, k, v) return O:eltype(), S:eltype(), table.concat({O:size()}, ' '), "
              "table.concat({S:size()}, ' ')") == "Float32 Float32 2 4 20 3 2 2 5 3");
    CHECK(lua("a, s = linear_attention(q, k, v, {update = 'gated_delta', log_decay = g, beta = beta, mode = "
              "'recurrent', scale = 0.5}) "
              "for _, mode in ipairs{'chunkwise', 'parallel'} do "
              "  b, t = linear_attention(q, k, v, {update = 'gated_delta', log_decay = g, beta = beta, mode = mode, "
              "chunk = 8, scale = 0.5}) "
              "  if not (near(a, b) and near(s, t)) then return mode end "
              "end "
              "b, t = linear_attention{q = q, k = k, v = v, update = 'gated_delta', log_decay = g, beta = beta, scale "
              "= 0.5} "
              "return near(a, b) and near(s, t)") == "true");
    CHECK(lua("return near(linear_attention(q(':', {1, 2}), k, v), causal_linear_attention(q(':', {1, 2}), k, v, "
              "{method = 'vanilla'}))") == "true");
    CHECK(lua("a, s = linear_attention(f64(q), f64(k), f64(v), {update = 'delta', beta = f64(beta)}) return "
              "a:eltype(), s:eltype()") == "Float64 Float64");
    CHECK(lua("a, s = linear_attention(f16(q), f16(k), f16(v)) return a:eltype(), s:eltype()") == "Float16 Float32");
}

TEST_CASE("a token of three dimensions beside a state of four is refused with its shape", "[lua][gated]") {
    Shell lua;
    CHECK(lua("x = randn(2, 4, 8) linear_attention_step(x, x, x, zeros(2, 4, 8, 8))") ==
          "user:1: q: 2×4×8 is read as [heads, tokens, d_k], expected [batch, heads, tokens, d_k] beside a state of "
          "2×4×8×8: one token is 2×4×1×8");
    CHECK(lua("x = randn(1, 4, 8) linear_attention_step(x, x, x, zeros(1, 4, 8, 8))")
              .find("user:1: q: 1×4×8 is read as [heads, tokens, d_k]") == 0);
    CHECK(lua("x = randn(1, 4, 8) return size((linear_attention_step(x, x, x, zeros(1, 1, 8, 8))))") == "1 4 8");
}

TEST_CASE("log_decay and beta given as numbers hold for all tokens and heads", "[lua][gated]") {
    Shell lua;
    REQUIRE(lua(gated_inputs) == "");
    lua("g, beta = fill(-0.1, 2, 2, N), fill(0.5, 2, 2, N) "
        "tensors, numbers = {update = 'gated_delta', log_decay = g, beta = beta}, "
        "{update = 'gated_delta', log_decay = -0.1, beta = 0.5}");
    CHECK(lua("o, S = linear_attention(q, k, v, tensors) p, T = linear_attention(q, k, v, numbers) "
              "return o == p, S == T, numbers.beta") == "true true 0.5");
    CHECK(lua("return (linear_attention{q = q, k = k, v = v, update = 'gated', log_decay = -0.1}) == "
              "(linear_attention(q, k, v, {update = 'gated', log_decay = g}))") == "true");
    CHECK(lua("return (linear_attention(f64(q), f64(k), f64(v), {update = 'delta', beta = 0.1})) == "
              "(linear_attention(f64(q), f64(k), f64(v), {update = 'delta', beta = fill(0.1, 2, 2, N, 'f64')}))") ==
          "true");
    CHECK(lua("local function first(A) return A(':', ':', {1, 1}, ':') end numbers.chunk = nil "
              "return (linear_attention_step(first(q), first(k), first(v), S, numbers)) == "
              "(linear_attention_step(first(q), first(k), first(v), S, {update = 'gated_delta', "
              "log_decay = fill(-0.1, 2, 2, 1), beta = fill(0.5, 2, 2, 1)}))") == "true");
    CHECK(
        lua("return linear_attention_grad(q, k, v, o, tensors).dk == linear_attention_grad(q, k, v, o, numbers).dk") ==
        "true");
    // The derivative of a number is one too: the sum of those of its elements.
    CHECK(lua("local function loss(p) return sum((linear_attention(q, k, v, {update = 'gated', log_decay = p.g}))) end "
              "local one, all = grad(loss, {g = -0.1}).g, sum((grad(loss, {g = g}).g)) "
              "return math.abs(one - all) < 1e-4 * math.abs(all)") == "true");
    CHECK(lua("linear_attention(q, k, v, {update = 'gated', log_decay = 0.1})").find("log_decay: 0.1") !=
          std::string::npos);
    // A list has one a head.
    CHECK(lua("local g = fill(-0.1, 2, 2, N) for b = 1, 2 do for t = 1, N do g:set(-0.3, b, 2, t) end end "
              "return (linear_attention(q, k, v, {update = 'gated', log_decay = {-0.1, -0.3}})) == "
              "(linear_attention(q, k, v, {update = 'gated', log_decay = g}))") == "true");
    CHECK(lua("linear_attention(q, k, v, {update = 'gated', log_decay = {-1, -2, -3}})") ==
          "user:1: log_decay: a list of 3, expected 2 numbers, one a head, a number for all, or a Tensor 2×2×20");
    CHECK(lua("linear_attention(q, k, v, {decay = 0.9})") ==
          "user:1: linear_attention: unknown option \"decay\" (a decay γ of all tokens is update = \"gated\", "
          "log_decay = math.log(γ))");
    CHECK(lua("linear_attention(q, k, v, {update = 'gated', log_decay = 'a'})") ==
          "user:1: log_decay: expected a Tensor, got a string");
}

TEST_CASE("steps in Lua continue a prompt", "[lua][gated]") {
    Shell lua;
    REQUIRE(lua(gated_inputs) == "");
    lua(R"(
      options = { update = "gated_delta", log_decay = g, beta = beta }
      whole, last = linear_attention(q, k, v, options)
      function run(inplace)
        local S = zeros(2, 2, 5, 3)
        local given, wrong = S, 0
        for t = 1, N do
          local o
          o, S = linear_attention_step(token(q, t), token(k, t), token(v, t), S,
            { update = "gated_delta", log_decay = gate(g, t), beta = gate(beta, t), inplace = inplace })
          if not near(o, token(whole, t)) then wrong = wrong + 1 end
        end
        return wrong, near(S, last), maximum(abs(given)) == 0
      end)");
    CHECK(lua("return run(false)") == "0 true true");
    CHECK(lua("return run(true)") == "0 true false");
    CHECK(lua("S = randn(2, 2, 5, 3) before = copy(S) "
              "x = {q = token(q, 1), k = token(k, 1), v = token(v, 1), state = S} "
              "o, T = linear_attention_step(x) "
              "same = S == before "
              "x.inplace = true p, U = linear_attention_step(x) "
              "return same, U == T, S == T, o == p") == "true true true true");
    CHECK(lua("o, T = linear_attention_step(f16(token(q, 1)), f16(token(k, 1)), f16(token(v, 1)), f16(zeros(2, 2, 5, "
              "3))) return o:eltype(), T:eltype()") == "Float16 Float32");
}

TEST_CASE("a pool of states in Lua counts its slots from 1", "[lua][gated]") {
    Shell lua;
    REQUIRE(lua(gated_inputs) == "");
    lua("S = randn(2, 2, 5, 3) pool = fill(0 / 0, 4, 2, 5, 3) pool:set(S(1), 4) pool:set(S(2), 2) "
        "before = pool:copy() o, T = linear_attention(q, k, v, {state = S})");
    CHECK(lua("p, U = linear_attention(q, k, v, {state = pool, state_indices = {4, 2}}) return p == o, U == T, "
              "pool(4) == S(1), any(isnan(pool(1)))") == "true true true true");
    CHECK(lua("p, U = linear_attention(q, k, v, {state = pool, state_indices = {4, 2}, inplace = true}) "
              "return p == o, U(4) == T(1), pool(2) == T(2), all(isnan(pool(3)))") == "true true true true");
    CHECK(lua("a, A = linear_attention_step(token(q, 1), token(k, 1), token(v, 1), pool, {state_indices = {4, 2}}) "
              "return size(A)") == "2 2 5 3");
    CHECK(lua("b, B = linear_attention_step(token(q, 1), token(k, 1), token(v, 1), pool, {state_indices = {4, 2}, "
              "inplace = true}) return a == b, pool(4) == A(1), B(2) == A(2)") == "true true true");
    CHECK(lua("g = grad(function(s) return sum((linear_attention(q, k, v, {state = s, state_indices = {3, 3}}))) end, "
              "zeros(4, 2, 5, 3)) return sum(abs(g(1))) == 0, sum(abs(g(3))) > 0") == "true true");
    CHECK(lua("c = linear_attention(q(1), k(1), v(1), {cu_seqlens = {0, N}, state = bf16(S(1):reshape(1, 2, 5, 3)), "
              "state_indices = {1}}) return size(c)") == "4 20 3");
    CHECK(lua("return select(2, causal_linear_attention(k, k, v, {method = 'fleet', state = S, state_indices = {2, 1}, "
              "inplace = true, return_state = true})) == S") == "true");
}

TEST_CASE("linear_attention and its step name what they cannot use", "[lua][gated]") {
    Shell lua;
    REQUIRE(lua(gated_inputs) == "");
    lua("one = {token(q, 1), token(k, 1), token(v, 1), zeros(2, 2, 5, 3)} function step(options) return "
        "linear_attention_step(one[1], one[2], one[3], one[4], options) end");
    const std::string choices = "expected one of \"linear\", \"gated\", \"delta\", \"gated_delta\"";
    CHECK(lua("linear_attention(q, k, v, {update = 'gated-delta'})") ==
          "user:1: update: \"gated-delta\", " + choices + " (did you mean \"gated_delta\"?)");
    CHECK(lua("linear_attention(q, k, v, {update = 'gla'})") ==
          "user:1: update: \"gla\", " + choices + " (it is called \"gated\" here, see ?gla)");
    CHECK(lua("linear_attention(q, k, v, {update = 'DeltaProduct'})") ==
          "user:1: update: \"DeltaProduct\", " + choices +
              " (it is a call of its own: delta_product(...), see ?delta_product)");
    CHECK(lua("linear_attention(q, k, v, {update = 'comba'})") ==
          "user:1: update: \"comba\", " + choices + " (it is a call of its own: comba(...), see ?comba)");
    CHECK(lua("linear_attention(q, k, v, {update = 'rwkv7'})").find("rwkv7(...)") != std::string::npos);
    CHECK(lua("linear_attention(q, k, v, {update = 'gdn2'})").find("gated_delta_2(...)") != std::string::npos);
    CHECK(lua("linear_attention(q, k, v, {update = 'titans'})") ==
          "user:1: update: \"titans\", " + choices + " (it is not here; ?titans says what is nearest)");
    CHECK(lua("linear_attention(q, k, v, {update = 'retnet'})") ==
          "user:1: update: \"retnet\", " + choices + " (see ?retnet)");
    CHECK(lua("linear_attention(q, k, v, {update = 'gated', g = g})") ==
          "user:1: linear_attention: unknown option \"g\" (it is called \"log_decay\" here, see ?log_decay)");
    CHECK(lua("linear_attention(q, k, v, {initial_state = g})") ==
          "user:1: linear_attention: unknown option \"initial_state\" (it is called \"state\" here, see ?state)");
    CHECK(lua("step{update = 'gate'}") == "user:1: update: \"gate\", " + choices + " (did you mean \"gated\"?)");
    CHECK(lua("linear_attention(q, k, v, {mode = 'chunk'})") ==
          "user:1: mode: \"chunk\", expected one of \"recurrent\", \"chunkwise\", \"parallel\" (did you mean "
          "\"chunkwise\"?)");
    CHECK(lua("linear_attention(q, k, v, {logdecay = g})") ==
          "user:1: linear_attention: unknown option \"logdecay\" (did you mean \"log_decay\"?)");
    CHECK(lua("linear_attention{q = q, k = k, v = v, betta = g}") ==
          "user:1: linear_attention: unknown option \"betta\" (did you mean \"beta\"?)");
    CHECK(lua("step{in_place = true}") ==
          "user:1: linear_attention_step: unknown option \"in_place\" (did you mean \"inplace\"?)");
    CHECK(lua("linear_attention(q, k)") == "user:1: v: expected a Tensor, got nothing");
    CHECK(lua("linear_attention{q = q, k = k}") == "user:1: v: expected a Tensor, got nothing");
    CHECK(lua("linear_attention(q, k, v, {update = 'delta', beta = true})") ==
          "user:1: beta: expected a Tensor, got a boolean");
    CHECK(lua("linear_attention(q, k, v, {update = 'gated'})") ==
          "user:1: log_decay: missing, update = \"gated\" needs it");
    CHECK(lua("linear_attention(q, k, v, {chunk = 0})") == "user:1: chunk: 0, expected 1 or more");
    CHECK(lua("linear_attention(q, k, v, {state = zeros(2, 2, 3, 5)})") == "user:1: state: 2×2×3×5, expected 2×2×5×3");
    CHECK(lua("linear_attention_step(q, k, v, zeros(2, 2, 5, 3))") ==
          "user:1: q: length 20, expected 1 to 16 tokens in a step");
    CHECK(lua("linear_attention_step(one[1], one[2], one[3])") == "user:1: state: expected a Tensor, got nothing");
    CHECK(lua("linear_attention_step(one[1], one[2], one[3], zeros(5, 3))") == "user:1: state: 5×3, expected 2×2×5×3");
    CHECK(lua("linear_attention_step(one[1], one[2], one[3], f64(one[4]), {inplace = true})") ==
          "user:1: state: Float64, expected Float32");
    CHECK(lua("step{state_indices = {1, 3}}") ==
          "user:1: state_indices: a slot outside the pool in place 2, expected one of its 2");
    CHECK(lua("step{state_indices = {0, 1}}") ==
          "user:1: state_indices: a slot outside the pool in place 1, expected one of its 2");
    CHECK(lua("linear_attention(q, k, v, {inplace = true})") ==
          "user:1: inplace: true, but no state is given, expected one to write to");
    CHECK(lua("step{inplace = 1}") == "user:1: inplace: expected true or false, got a number");
    CHECK(lua("linear_attention(zeros(5), k, v)")
              .find("user:1: q: a 5-element Tensor{Float32}, expected [batch, heads, length, width]") == 0);
    CHECK(lua("linear_attention_step(zeros(5), one[2], one[3], one[4])")
              .find("user:1: q: a 5-element Tensor{Float32}, expected [batch, heads, length, width]") == 0);
    const std::string gpu = "user:1: device: \"gpu\" cannot be used, " + causeway::lua::gpu_text();
    CHECK(lua("linear_attention(q, k, v, {device = 'gpu'})") == gpu);
    CHECK(lua("step{device = 'gpu'}") == gpu);
    CHECK(lua("step{device = 'tpu'}").find("user:1: device: ") == 0);
}

// A token: d_k·d_v multiply-adds to write and to read, with the gates d_k·d_v multiplies and an exponential, with the
// delta rule d_k·d_v multiply-adds and for each of the d_v channels a difference and a product with β.
TEST_CASE("opcount counts linear_attention", "[lua][gated]") {
    Shell lua;
    lua("x, y = randn(10, 3), randn(10, 4) "
        "function count(options) local c = opcount(function() linear_attention(x, x, y, options) end) return "
        "c.multiplies, c.adds, c.exponentials, c.divisions end");
    CHECK(lua("return count{mode = 'recurrent'}") == "240 240 0 0");
    CHECK(lua("return count{mode = 'recurrent', update = 'gated', log_decay = -rand(10)}") == "360 240 10 0");
    CHECK(lua("return count{mode = 'recurrent', update = 'delta', beta = rand(10)}") == "400 400 0 0");
    CHECK(lua("return count{mode = 'recurrent', update = 'gated_delta', log_decay = -rand(10, 3), beta = rand(10)}") ==
          "520 400 30 0");
    CHECK(lua("return opcount(function() linear_attention(x, x, y, {mode = 'recurrent'}) linear_attention(x, x, y, "
              "{mode = 'recurrent'}) end).multiplies") == "480");
    CHECK(lua("opcount(function() linear_attention_step(x({1, 1}), x({1, 1}), y({1, 1}), zeros(3, 4)) end)") ==
          "user:1: opcount: linear_attention_step is not counted, expected linear_attention, with mode = \"recurrent\" "
          "for the same operations");
}

TEST_CASE("options of linear_attention are offered by Tab", "[lua][gated]") {
    Shell lua;
    CHECK(lua("return table.concat(causeway._options.linear_attention.update, ' '), "
              "table.concat(causeway._options.linear_attention.mode, ' ')") ==
          "linear gated delta gated_delta recurrent chunkwise parallel");
    // What is offered is what the functions take.
    CHECK(lua("for name in pairs(causeway._options.linear_attention) do "
              "  local ok, e = pcall(linear_attention, randn(1, 1), randn(1, 1), randn(1, 1), {[name] = print}) "
              "  if ok or e:find('unknown option') then return name end "
              "end "
              "for name in pairs(causeway._options.linear_attention_step) do "
              "  local ok, e = pcall(linear_attention_step, randn(1, 1), randn(1, 1), randn(1, 1), zeros(1, 1), "
              "{[name] = print}) "
              "  if ok or e:find('unknown option') then return name end "
              "end "
              "return 'all'") == "all");
}
