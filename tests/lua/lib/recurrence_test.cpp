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
    // A vector beside q [N, d] has one number a channel, or one a token where it is as long.
    CHECK(
        lua("local q, k, v, c, s = q:reshape(N, d), k:reshape(N, d), v:reshape(N, dv), f64(rand(d)), f64(rand(N)) "
            "local f = recurrence{a = function(x) return x.c end} local o = recurrence{a = c:reshape(1, d)}(q, k, v) "
            "local p = recurrence{a = s:reshape(N, 1)}(q, k, v) return relative_error((f(q, k, v, {c = c})), o) == 0, "
            "relative_error((f(q, k, v, {c = s})), p) == 0") == "true true");
    CHECK(lua("local rule, S = recurrence{a = 0.5}, f64(ones(1, 1, d, dv)) local function at(x) return "
              "copy(x(':', ':', {1, 2}, ':')) end local o = rule:step(at(q), at(k), at(v), S) "
              "return relative_error(o, (rule:step{q = at(q), k = at(k), v = at(v), state = S})) == 0") == "true");
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

TEST_CASE("rules of the literature in types for storage, and with options of other types", "[lua][recurrence]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    lua(R"(
      K, V, B = cat(k, kappa, 3), cat(v, -v, 3), cat(beta, beta, 3)
      calls = {
        comba = function(T, U)
          return comba(T(q), T(k), T(v), { log_decay = U(g), beta = U(beta), correction = 0.1 })
        end,
        gated_delta_2 = function(T, U) return gated_delta_2(T(q), T(k), T(v), { log_decay = U(gates), erase = U(erase),
          write = U(write) }) end,
        delta_product = function(T, U) return delta_product(T(q), T(K), T(V), { beta = U(B), log_decay = U(g) }) end,
      }
      function off(name, T, U)
        local o = calls[name](T, U)
        return o:eltype() .. " " .. tostring(relative_error(f64(o), (calls[name](f64, f64))) < 2e-2)
      end)");
    for (const std::string name : {"comba", "gated_delta_2", "delta_product"}) {
        INFO(name);
        CHECK(lua("return off('" + name + "', f16, f16)") == "Float16 true");
        CHECK(lua("return off('" + name + "', bf16, bf16)") == "BFloat16 true");
        CHECK(lua("return off('" + name + "', f32, f64)") == "Float32 true");
    }
}

TEST_CASE("tokens of packed sequences are counted in each", "[lua][recurrence]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    CHECK(lua("local t recurrence{a = function(x) t = x.t return 0.5 end}(q, k, v, {cu_seqlens = {0, 3, 45}}) "
              "return t(1, 1, 3, 1), t(1, 1, 4, 1), t(1, 1, 45, 1)") == "3.0 1.0 42.0");
    // The offsets of delta_product are those of q's tokens.
    CHECK(lua(R"(
      local n, K, V, B = 2, cat(k, kappa, 3), cat(v, -v, 3), cat(beta, beta, 3)
      local function part(x, from, to)
        return copy(x:ndims() == 4 and x(":", ":", { from, to }, ":") or x(":", ":", { from, to }))
      end
      local o, S = delta_product(q, K, V, { beta = B, log_decay = g, cu_seqlens = { 0, 10, 45 } })
      local p, T = delta_product(part(q, 11, 45), part(K, 21, 90), part(V, 21, 90), { beta = part(B, 21, 90),
        log_decay = part(g, 11, 45) })
      return relative_error(part(o, 11, 45), p) < 1e-12, relative_error(S({ 2, 2 }, ":", ":", ":"), T) < 1e-12)") ==
          "true true");
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
              "return opcount(rule, q, k, v, {mode = 'recurrent'}).multiplies == 5 * N * d * dv, "
              "opcount(function() rule(q, k, v, {mode = 'recurrent'}) end).multiplies == 5 * N * d * dv") ==
          "true true");
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
    CHECK(lua("return relative_error((rwkv7{r = q, k = k, v = v, log_decay = gates, kappa = kappa, rate = rate}), "
              "(rwkv7(q, k, v, {log_decay = gates, kappa = kappa, rate = rate}))) == 0") == "true");
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
          "user:1: mine: scael: given, but no function of the rule reads it (did you mean \"scale\"?)");
    CHECK(lua("recurrence{a = 1}(q, k)") == "user:1: recurrence: v: missing, expected a Tensor");
    CHECK(lua("recurrence{a = function() end}(q, k, v)") ==
          "user:1: recurrence: a: the function returned nothing, expected a Tensor or a number");
    CHECK(lua("recurrence{u = zeros(3), w = k}(q, k, v)") ==
          "user:1: recurrence: u: 3, expected 1×1×45×6 or what broadcasting makes of it");
    CHECK(lua("delta_product(q, f64(randn(1, 1, 50, d)), v, {beta = beta})") ==
          "user:1: delta_product: k: length 50, expected a multiple of the 45 tokens of q");
    CHECK(lua("rwkv7(q, k, v, {log_decay = gates, kappa = kappa})") ==
          "user:1: rwkv7: rate: missing, expected a Tensor");
    CHECK(lua("rwkv7{r = q, q = q, k = k, v = v, log_decay = gates, kappa = kappa, rate = rate}") ==
          "user:1: rwkv7: r: given beside q, expected one of them");
    // An input in another order, or of other tokens, is named with what is expected.
    CHECK(lua("h = f64(randn(1, 2, 45, d)) b = f64(rand(1, 45, 2)) comba(h, h, h, {log_decay = -f64(rand(1, 2, 45)), "
              "beta "
              "= b})") == "user:1: comba: beta: 1×45×2, expected 1×2×45");
    CHECK(lua("comba(h, h, h, {log_decay = -b, beta = b, layout = 'bhnd'})").find(": 1×45×2, expected 1×2×45") !=
          std::string::npos);
    CHECK(lua("rwkv7(h, h, h, {log_decay = -f64(rand(1, 2, 45, 7)), kappa = h, rate = h})") ==
          "user:1: rwkv7: log_decay: 1×2×45×7, expected 1×2×45 or 1×2×45×6");
    CHECK(lua("comba(q, f64(randn(1, 1, 44, d)), v, {log_decay = g, beta = beta})") ==
          "user:1: comba: k: length 44, expected 45 like q");
    CHECK(lua("delta_product(h, cat(h, h, 3), cat(h, h, 3), {beta = f64(rand(1, 90, 2))})") ==
          "user:1: delta_product: beta: 1×90×2, expected 1×2×90");
    CHECK(lua("delta_product(h, cat(h, h, 3), cat(h, h, 3), {beta = f64(rand(1, 2, 90)), log_decay = -f64(rand(1, 2, "
              "90))})") == "user:1: delta_product: log_decay: 1×2×90, expected 1×2×45 or 1×2×45×6");
    CHECK(lua("mine = recurrence{name = 'mine', u = function(x) return times(x.b, x.k) end, w = function(x) return x.k "
              "end} mine(h, h, h, {b = b})") == "user:1: mine: b: 1×45×2, expected 1×2×45, one number a token");
    CHECK(lua("mine(h, h, h, {b = f64(rand(1, 45, 2, 1))})") ==
          "user:1: mine: u: times: shapes 1×45×2×1 and 1×2×45×6 do not match: dimension 3 is 2 and 45");
    CHECK(lua("return error_kind(select(2, pcall(mine, h, h, h, {b = f64(rand(1, 45, 2, 1))})))") == "bad argument");
    CHECK(lua("mine(h, h, h, {b = f64(rand(1, 2, 45)), chunk_size = 3})") ==
          "user:1: mine: chunk_size: given, but no function of the rule reads it (it is called \"chunk\" here, see "
          "?chunk)");
    CHECK(lua("comba(h, h, h, {log_decay = -b, beta = b, feedbak = 1})") ==
          "user:1: comba: unknown option \"feedbak\" (did you mean \"feedback\"?)");
    CHECK(lua("recurrence{v = v}(q, k, v + 1)") ==
          "user:1: recurrence: v: given, but no function of the rule reads it");
    // As many tokens as channels: what a vector has is told by a second dimension alone.
    lua("function part(x) local s = f64(randn(6, 6)) / 9 return recurrence{a = x}(s, s, s, {c = f64(rand(6))}) end");
    for (const std::string given : {"function(x) return x.c end", "f64(rand(6))"}) {
        CHECK(lua("part(" + given + ")")
                  .find(": 6, expected 6×1 for one number a token or 1×6 for one a channel, of which there are as "
                        "many") != std::string::npos);
    }
    CHECK(
        lua("return (recurrence{a = f64(rand(1, 6))}(f64(randn(6, 6)), f64(randn(6, 6)), f64(randn(6, 6)))):size()") ==
        "6 6");
    CHECK(lua("delta_product(q, cat(k, k, 3), cat(v, v, 3), {beta = cat(beta, beta, 3), cu_seqlens = {0, 10, 30}})") ==
          "user:1: delta_product: cu_seqlens: 30 as its last offset, expected 45, the tokens of q");
}
