// recurrence{...}, and the rules of the literature made by it, against plain loops over tokens in Float64.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

// One head of N tokens, and the loop: step(S, t, row) gives the next state from S [d, dv] and row(X, t) a row of X as a
// matrix [1, width]; `read` is what reads it.
const char* const inputs = R"(
  seed(6)
  N, d, dv = 45, 6, 4
  local function drawn(...) return f64(randn(1, 1, ...)) end
  local function unit(x) return x / sqrt(sum(pow(x, 2), 4)) end
  q, k, v = drawn(N, d), unit(drawn(N, d)), drawn(N, dv)
  kappa = unit(drawn(N, d))
  g, gates = -f64(rand(1, 1, N)), -f64(rand(1, 1, N, d))
  beta, rate, erase, write = f64(rand(1, 1, N)), f64(rand(1, 1, N, d)), f64(rand(1, 1, N, d)), f64(rand(1, 1, N, dv))
  one = zeros(d, d):f64()
  for i = 1, d do one:set(1, i, i) end
  function row(X, t) return copy(X:reshape(X:size(3), #X // X:size(3))({t, t}, ":")) end
  function diag_of(x) return times(one, x:reshape(1, d)) end
  function loop(step, read)
    local S, out = zeros(d, dv):f64(), zeros(1, 1, N, dv):f64()
    for t = 1, N do
      S = step(S, t)
      local o = (read and read(t) or row(q, t)) * S
      for j = 1, dv do out:set(o(1, j), 1, 1, t, j) end
    end
    return out, S
  end
  function near(o, S, O, last)
    return relative_error(o, O) <= 1e-12 and relative_error(S:reshape(d, dv), last) <= 1e-12
  end
  function agrees(f, step, read)
    local o, S = f()
    return near(o, S, loop(step, read))
  end
)";

}  // namespace

TEST_CASE("a rule is called as linear_attention is", "[lua][recurrence]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    lua(R"(rule = recurrence {
      a = function(x) return exp(x.gates) end,
      u = function(x) return times(x.b, x.k) end,
      w = function(x) return x.q end,
      v = function(x) return times(x.v, sin(x.t)) end }
      function step(S, t) return (diag_of(exp(row(gates, t))) - beta(1, 1, t) * (row(k, t):t() * row(q, t))) * S
        + row(k, t):t() * (math.sin(t) * row(v, t)) end
      q = q / sqrt(sum(pow(q, 2), 4)))");
    CHECK(lua("return agrees(function() return rule(q, k, v, {gates = gates, b = beta}) end, step)") == "true");
    CHECK(lua("return agrees(function() return rule{q = q, k = k, v = v, gates = gates, b = beta, chunk = 7} end, "
              "step)") == "true");
    CHECK(lua("return agrees(function() return rule(q, k, v, {gates = gates, b = beta, mode = 'recurrent'}) end, "
              "step)") == "true");
    // Parts as tensors and numbers; then q, k and v may be parts too.
    CHECK(lua("r = recurrence{a = exp(gates), u = times(k, beta:reshape(1, 1, N, 1)), w = q, v = times(v, "
              "sin(f64(range(1, N)):reshape(N, 1))), q = q, k = k} return agrees(function() return r{} end, step)") ==
          "true");
    CHECK(lua("return agrees(function() return recurrence{a = 0.9}(q, k, v) end, function(S, t) return 0.9 * S + "
              "row(k, t):t() * row(v, t) end)") == "true");
    CHECK(lua("c = f64(rand(d)) return agrees(function() return recurrence{a = c}(q, k, v) end, function(S, t) "
              "return diag_of(c) * S + row(k, t):t() * row(v, t) end)") == "true");
    // One token after the other.
    CHECK(lua(R"(
      local want, S = rule(q, k, v, { gates = gates, b = beta }), zeros(1, 1, d, dv):f64()
      for t = 1, N do
        local function at(x) return copy(x(":", ":", {t, t}, ":")) end
        local o
        o, S = rule:step(at(q), at(k), at(v), S, { gates = at(gates), b = copy(beta(":", ":", {t, t})),
          t = f64(fill(t, 1, 1, 1, 1)) })
        if relative_error(o, at(want)) > 1e-12 then return t end
      end
      return "all")") == "all");
}

TEST_CASE("heads, layouts and types of a rule", "[lua][recurrence]") {
    Shell lua;
    CHECK(lua(R"(
      seed(2)
      local q, k, v, b = randn(2, 8, 30, 4), randn(2, 2, 30, 4) / 3, randn(2, 4, 30, 5), rand(2, 4, 30)
      local rule = recurrence { a = function(x) return 1 - x.b / 2 end, u = function(x) return x.k end,
        w = function(x) return x.k end }
      local function turned(x) return permutedims(x, 1, 3, 2, 4) end
      local o, S = rule(q, k, v, { b = b })
      local p, T = rule(turned(q), turned(k), turned(v), { b = permutedims(b, 1, 3, 2), layout = "bnhd" })
      local h = rule(f16(q), f16(k), f16(v), { b = f16(b) })
      return table.concat({ o:size() }, " "), relative_error(turned(p), o) < 1e-6, relative_error(T, S) < 1e-6,
        h:eltype(), relative_error(f32(h), o) < 1e-2)") == "2 8 30 5 true true Float16 true");
}

TEST_CASE("grad goes through a rule and its functions", "[lua][recurrence]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    CHECK(lua(R"(
      q = q / sqrt(sum(pow(q, 2), 4))
      local rule = recurrence { a = function(x) return sigmoid(x.f) end, u = function(x) return times(x.b, x.k) end,
        w = function(x) return x.q end }
      local D = f64(randn(1, 1, N, dv))
      local function value(p)
        return sum(times((rule(p.q, p.k, p.v, { f = p.f, b = p.b })), D))
      end
      local p = { q = q, k = k, v = v, f = gates, b = beta }
      local g = grad(value, p)
      for name, x in pairs(p) do
        for _, i in ipairs { 1, 7, 40 } do
          local flat = copy(x):reshape(#x)
          local function at(e)
            local moved = copy(flat)
            moved:set(flat(i) + e, i)
            local other = {}
            for n, y in pairs(p) do other[n] = n == name and moved:reshape({ x:size() }) or y end
            return value(other)
          end
          local slope = (at(1e-5) - at(-1e-5)) / 2e-5
          if math.abs(slope - g[name]:reshape(#x)(i)) > 1e-7 * (1 + math.abs(slope)) then return name .. i end
        end
      end
      return "right")") == "right");
}

TEST_CASE("opcount counts the recurrence of a rule", "[lua][recurrence]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    // In 'recurrent': a, what w reads, what is taken out, what is added, what q reads.
    CHECK(lua("local rule = recurrence{a = 0.5, u = kappa, w = kappa} "
              "return opcount(function() rule(q, k, v, {mode = 'recurrent'}) end).multiplies == 5 * N * d * dv") ==
          "true");
}

TEST_CASE("rules of the literature are their recurrences", "[lua][recurrence]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    // S ← (I - k (b ⊙ k)ᵀ) diag(e^g) S + k (w ⊙ v)ᵀ
    CHECK(lua("return agrees(function() return gated_delta_2(q, k, v, {log_decay = gates, erase = erase, write = "
              "write}) end, function(S, t) return (one - row(k, t):t() * times(row(erase, t), row(k, t))) * "
              "(diag_of(exp(row(gates, t))) * S) + row(k, t):t() * times(row(write, t), row(v, t)) end)") == "true");
    // With both gates equal it is the gated delta rule.
    CHECK(lua("local o, S = gated_delta_2(q, k, v, {log_decay = gates, erase = beta, write = beta}) "
              "local p, T = linear_attention(q, k, v, {update = 'gated_delta', log_decay = gates, beta = beta}) "
              "return relative_error(o, p) < 1e-12 and relative_error(S, T) < 1e-12") == "true");
    // S ← (α - b β k kᵀ) S + β k vᵀ, read by q - d k
    CHECK(lua("return agrees(function() return comba(q, k, v, {log_decay = g, beta = beta, feedback = 0.8, correction "
              "= 0.1}) end, function(S, t) return math.exp(g(1, 1, t)) * S - (0.8 * beta(1, 1, t)) * (row(k, t):t() * "
              "(row(k, t) * S)) + beta(1, 1, t) * (row(k, t):t() * row(v, t)) end, function(t) return row(q, t) - 0.1 "
              "* row(k, t) end)") == "true");
    // S ← S (diag(w) - κᵀ (a ⊙ κ)) + vᵀ k with S [dv, dk], as printed: its transpose
    CHECK(lua("return agrees(function() return rwkv7(q, k, v, {log_decay = gates, kappa = kappa, rate = rate}) end, "
              "function(S, t) local printed = S:t() * (diag_of(exp(row(gates, t))) - row(kappa, t):t() * "
              "times(row(rate, t), row(kappa, t))) + row(v, t):t() * row(k, t) return copy(printed:t()) end)") ==
          "true");
    // Three steps a token, the gate before the first of them.
    lua(R"(
      n = 3
      K = f64(randn(1, 1, n * N, d))
      K, V, B = K / sqrt(sum(pow(K, 2), 4)), f64(randn(1, 1, n * N, dv)), 2 * f64(rand(1, 1, n * N))
      function steps(S, t)
        for i = n * (t - 1) + 1, n * t do
          S = S - B(1, 1, i) * (row(K, i):t() * (row(K, i) * S)) + B(1, 1, i) * (row(K, i):t() * row(V, i))
        end
        return S
      end)");
    CHECK(lua("return agrees(function() return delta_product(q, K, V, {beta = B}) end, steps)") == "true");
    CHECK(lua("return agrees(function() return delta_product(q, K, V, {beta = B, log_decay = g}) end, function(S, t) "
              "return steps(math.exp(g(1, 1, t)) * S, t) end)") == "true");
    CHECK(lua("return agrees(function() return delta_product{q = q, k = K, v = V, beta = B, log_decay = gates, chunk = "
              "10} end, function(S, t) return steps(diag_of(exp(row(gates, t))) * S, t) end)") == "true");
    CHECK(lua("local x = grad(function(B) return sum((delta_product(q, K, V, {beta = B, log_decay = g}))) end, B) "
              "return norm(x) > 0") == "true");
}

TEST_CASE("what is wrong with a rule is said in one sentence", "[lua][recurrence][errors]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    CHECK(lua("recurrence(3)") == "user:1: recurrence: a number, expected one table, as in recurrence{u = f, w = g}");
    CHECK(lua("recurrence{b = 3}") == "user:1: recurrence: b: no part of a rule, expected a, u, w, k, v, q or name");
    CHECK(lua("recurrence{u = 'k', w = k}") ==
          "user:1: recurrence: u: a string, expected a function, a Tensor or a number");
    CHECK(lua("recurrence{w = k}") == "user:1: recurrence: u: missing, but w is given, expected both or none");
    CHECK(lua("recurrence{a = function(x) return x.f end}(q, k, v)") ==
          "user:1: recurrence: a: x.f is not given, expected it in the call: rule(q, k, v, {f = ...})");
    CHECK(lua("recurrence{a = 1, name = 'mine'}(q, k, v, {scael = 2})") ==
          "user:1: mine: scael: given, but no function of the rule reads it");
    CHECK(lua("recurrence{a = 1}(q, k)") == "user:1: recurrence: v: missing, expected a Tensor");
    CHECK(lua("recurrence{a = function() end}(q, k, v)") ==
          "user:1: recurrence: a: the function returned nothing, expected a Tensor or a number");
    CHECK(lua("recurrence{u = zeros(3), w = k}(q, k, v)") ==
          "user:1: recurrence: u: 3, expected 1×1×45×6 or what broadcasting makes of it");
    CHECK(lua("delta_product(q, f64(randn(1, 1, 50, d)), v, {beta = beta})") ==
          "user:1: delta_product: k: length 50, expected a multiple of the 45 tokens of q");
    CHECK(lua("rwkv7(q, k, v, {log_decay = gates, kappa = kappa})") ==
          "user:1: rwkv7: u: x.rate is not given, expected it in the call: rule(q, k, v, {rate = ...})");
}
