// general_linear_attention, its step and its gradient as a person types them.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

const char* const general_inputs = R"(
  seed(5)
  N = 40
  q, k, v = f64(randn(2, 4, N, 5)), f64(randn(2, 2, N, 5)), f64(randn(2, 2, N, 3))
  k = k / sqrt(sum(pow(k, 2), 4))
  a, u, w = f64(rand(2, 2, N, 5)), f64(rand(2, 2, N, 5)) / 3, f64(rand(2, 2, N, 5)) / 3
  o = { a = a, u = u, w = w, scale = 0.5 }
  function with(more)
    local t = {}
    for n, x in pairs(o) do t[n] = x end
    for n, x in pairs(more) do t[n] = x end
    return t
  end
  function near(x, y) return relative_error(x, y) <= 1e-12 end
)";

}  // namespace

TEST_CASE("general_linear_attention returns the output and the state, the same in every mode", "[lua][general]") {
    Shell lua;
    REQUIRE(lua(general_inputs) == "");
    CHECK(lua("O, S = general_linear_attention(q, k, v, o) return O:eltype(), table.concat({O:size()}, ' '), "
              "table.concat({S:size()}, ' ')") == "Float64 2 4 40 3 2 2 5 3");
    CHECK(lua("for _, mode in ipairs{'recurrent', 'parallel'} do "
              "local p, s = general_linear_attention(q, k, v, with{mode = mode}) "
              "if not (near(O, p) and near(S, s)) then return mode end end return true") == "true");
    CHECK(lua("local p, s = general_linear_attention(with{q = q, k = k, v = v}) return near(O, p) and near(S, s)") ==
          "true");
    CHECK(lua("local function turned(x) return permutedims(x, 1, 3, 2, 4) end "
              "local p = general_linear_attention(turned(q), turned(k), turned(v), {a = turned(a), u = turned(u), w = "
              "turned(w), scale = 0.5, layout = 'bnhd'}) return near(turned(p), O)") == "true");
    CHECK(lua("local first, s = general_linear_attention(q, k, v, with{cu_seqlens = {0, 40}})") ==
          "user:1: cu_seqlens: given with batch 2, expected batch 1, which holds all sequences");
    CHECK(lua("general_linear_attention(q, k, v, {u = u})") ==
          "user:1: w: missing, but u is given, expected both or none");
    CHECK(lua("general_linear_attention(q, k, v, {b = u})")
              .starts_with("user:1: general_linear_attention: unknown option \"b\", expected one of a, "));
    CHECK(lua("pool = zeros(4, 2, 8, 8) x = randn(1, 2, 30, 8) "
              "local o, s, kept = general_linear_attention(x, x / 9, x, {state = pool, state_indices = {3}, inplace = "
              "true, checkpoint_every = 10, deterministic = 'prefix'}) "
              "return s == pool or rawequal(s, pool), kept, norm(pool(4, ':', ':', ':')), norm(pool(3, ':', ':', ':')) "
              "> 0")
              .find("3×2×8×8 Tensor") != std::string::npos);
    CHECK(lua("return (select(3, recurrence{}(x, x / 9, x, {checkpoint_every = 15})))").find("2×2×8×8 Tensor") !=
          std::string::npos);
    CHECK(lua("general_linear_attention(q, k, v, {device = 'gpu'})").find("device: \"gpu\"") != std::string::npos);
}

TEST_CASE("steps of the general rule in Lua continue a text", "[lua][general]") {
    Shell lua;
    REQUIRE(lua(general_inputs) == "");
    CHECK(lua(R"(
      local O, last = general_linear_attention(q, k, v, o)
      local S, outputs = zeros(2, 2, 5, 3):f64(), {}
      for t = 1, N, 8 do
        local function some(x) return copy(x(":", ":", {t, t + 7}, ":")) end
        local before = copy(S)
        local p, after = general_linear_attention_step(some(q), some(k), some(v), S,
          { a = some(a), u = some(u), w = some(w), scale = 0.5 })
        if not near(S, before) and t > 1 then return "the state was changed" end
        if not near(p, some(O)) then return "token " .. t end
        S = after
      end
      return near(S, last))") == "true");
    CHECK(lua("local S = zeros(2, 2, 5, 3) local function one(x) return f32(x(':', ':', {1, 1}, ':')) end "
              "local _, T = general_linear_attention_step(one(q), one(k), one(v), S, {inplace = true}) "
              "return norm(S) > 0, norm(S - T) == 0") == "true true");
    CHECK(lua(R"(
      local function some(x) return copy(x(":", ":", {1, 3}, ":")) end
      local pool = f64(randn(4, 2, 5, 3))
      local before = copy(pool)
      local own = cat(pool({4, 4}), pool({2, 2}), 1)
      local options = { a = some(a), u = some(u), w = some(w), scale = 0.5, keep_states = true }
      local p, last, kept = general_linear_attention_step(some(q), some(k), some(v), own, options)
      options.state_indices = {4, 2}
      local o, states = general_linear_attention_step(some(q), some(k), some(v), pool, options)
      if not (norm(o - p) == 0 and norm(states - last) == 0 and norm(pool - before) == 0) then return "a copy" end
      options.inplace = true
      local x, same, again = general_linear_attention_step(some(q), some(k), some(v), pool, options)
      return rawequal(same, pool) or same == pool, norm(pool({4, 4}) - last({1, 1})) == 0,
        norm(pool({1, 1}) - before({1, 1})) == 0, #kept, norm(again[1] - kept[1]) == 0, norm(kept[3] - last) == 0)") ==
          "true true true 3 true true");
    CHECK(lua("local pool = f64(randn(4, 2, 5, 3)) local g = general_linear_attention_grad(q, k, v, "
              "f64(randn(2, 4, N, 3)), with{state = pool, state_indices = {4, 4}}) "
              "return table.concat({g.dstate:size()}, ' '), norm(g.dstate({1, 3})), norm(g.dstate({4, 4})) > 0") ==
          "4 2 5 3 0.0 true");
    CHECK(lua("general_linear_attention_step(q, k, v, zeros(2, 2, 5, 3):f64())") ==
          "user:1: q: length 40, expected 1 to 16 tokens in a step");
    CHECK(lua("opcount(function() local function one(x) return copy(x(':', ':', {1, 1}, ':')) end "
              "general_linear_attention_step(one(q), one(k), one(v), zeros(2, 2, 5, 3):f64()) end)")
              .find("general_linear_attention_step is not counted, expected general_linear_attention") !=
          std::string::npos);
}

TEST_CASE("grad goes through the general rule and its step", "[lua][general]") {
    Shell lua;
    REQUIRE(lua(general_inputs) == "");
    CHECK(lua(R"(
      local D = f64(randn(2, 4, N, 3))
      local S = f64(randn(2, 2, 5, 3))
      local want = general_linear_attention_grad(q, k, v, D, with { state = S, dstate = S })
      local got = grad(function(p)
        local options = { a = p.a, u = p.u, w = p.w, scale = 0.5, state = p.state }
        local out, last = general_linear_attention(p.q, p.k, p.v, options)
        return sum(times(out, D)) + sum(times(last, S))
      end, { q = q, k = k, v = v, a = a, u = u, w = w, state = S })
      for name, g in pairs(got) do if not near(g, want["d" .. name]) then return name end end
      return "as they are")") == "as they are");
    CHECK(lua(R"(
      local function one(x) return copy(x(":", ":", {1, 1}, ":")) end
      local D, S = f64(randn(2, 4, 1, 3)), f64(randn(2, 2, 5, 3))
      local g = grad(function(u) return sum(times(
        (general_linear_attention_step(one(q), one(k), one(v), S, { a = one(a), u = u, w = one(w) })), D)) end, one(u))
      local options = { a = one(a), u = one(u), w = one(w), state = S }
      local want = general_linear_attention_grad(one(q), one(k), one(v), D, options)
      return near(g, want.du))") == "true");
    CHECK(lua("grad(function(u) return sum((general_linear_attention_step(q, k, v, zeros(2, 2, 5, 3), {u = u, w = w, "
              "inplace = true}))) end, u)")
              .find("inplace: true, expected false within grad, which needs the state before the call") !=
          std::string::npos);
}
