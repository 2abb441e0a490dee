// What stands around linear attention as a person types it, and recorded by grad.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

TEST_CASE("short convolutions, norms and gates in Lua", "[lua][around]") {
    Shell lua;
    lua("x, w = randn(2, 10, 4), randn(4, 3)");
    CHECK(lua("y, S = short_convolution(x, w) return size(y, 2), size(S)") == "10 2 2 4");
    CHECK(lua("a, S = short_convolution(x(':', {1, 6}, ':'), w) "
              "b = short_convolution{x = x(':', {7, 10}, ':'), weight = w, state = S} return cat(a, b, 2) == y") ==
          "true");
    CHECK(lua("z = x(1) * 1 v = short_convolution(z, w, {activation = 'silu', bias = ones(4)}) "
              "u = short_convolution(z, w) + 1 return maximum(abs(v - times(u, sigmoid(u)))) < 1e-5") == "true");
    CHECK(lua("return maximum(abs(l2norm(x, {eps = 0}) - x / sqrt(sum(pow(x, 2), 3)))) < 1e-5") == "true");
    CHECK(lua("g, m = randn(2, 10, 4), rand(4) r = x / sqrt(mean(pow(x, 2), 3) + 1e-6) "
              "a = rms_norm(x, {weight = m, gate = g}) b = rms_norm(x, {gate = g, activation = 'sigmoid'}) "
              "return maximum(abs(a - times(times(r, m), times(g, sigmoid(g))))) < 1e-5, "
              "maximum(abs(b - times(r, sigmoid(g)))) < 1e-5") == "true true");
    CHECK(lua("a, A = randn(1, 4, 10), randn(4) g = decay_gate(a, A, {dt_bias = ones(4)}) "
              "want = times(-exp(A):reshape(4, 1), log(1 + exp(a + 1))) return maximum(abs(g - want)) < 1e-5") ==
          "true");
    CHECK(lua("g = decay_gate(a, A, {lower_bound = -2}) return minimum(g) >= -2, maximum(g) <= 0") == "true true");
    CHECK(lua("short_convolution(x, ones(3, 3))") ==
          "user:1: weight: 3×3, expected 4×taps, a row for each channel of x");
    CHECK(lua("rms_norm(x, {wieght = m})") == "user:1: rms_norm: unknown option \"wieght\" (did you mean \"weight\"?)");
    CHECK(lua("opcount(l2norm, x)")
              .ends_with("opcount: l2norm is not counted, expected calls of attention alone: it is "
                         "to stand outside of what is counted"));
}

TEST_CASE("grad records short convolutions, norms and gates", "[lua][around][grad]") {
    Shell lua;
    // The gradient of each input, against central differences.
    lua(R"(
      seed(4)
      function worst(f, params)
        local g, off = grad(f, params), 0
        for name, x in pairs(params) do
          for i = 1, length(x) do
            local step, flat = 1e-5, {}
            local function at(d)
              local moved = {}
              for key, value in pairs(params) do moved[key] = value end
              moved[name] = x:copy():reshape(length(x)):set(x:reshape(length(x))(i) + d, i):reshape(size(x))
              return f(moved)
            end
            off = math.max(off, math.abs((at(step) - at(-step)) / (2 * step) - g[name]:reshape(length(x))(i)))
          end
        end
        return off
      end
      d = function(...) return f64(randn(...)) end
      G, T = d(1, 5, 3), d(1, 2, 3))");
    CHECK(lua("return worst(function(p) local y, S = short_convolution(p.x, p.w, {bias = p.b, state = p.s, "
              "activation = 'silu'}) return sum(times(y, G)) + sum(times(S, T)) end, "
              "{x = d(1, 5, 3), w = d(3, 3), b = d(3), s = d(1, 2, 3)}) < 1e-7") == "true");
    CHECK(lua("return worst(function(p) return sum(times(l2norm(p.x), G)) end, {x = d(1, 5, 3)}) < 1e-7") == "true");
    CHECK(lua("return worst(function(p) return sum(times(rms_norm(p.x, {weight = p.w, gate = p.g}), G)) end, "
              "{x = d(1, 5, 3), w = d(3), g = d(1, 5, 3)}) < 1e-7") == "true");
    CHECK(lua("return worst(function(p) return sum(times(decay_gate(p.a, p.A, {dt_bias = p.b}), G)) end, "
              "{a = d(1, 5, 3), A = d(5), b = d(5)}) < 1e-7") == "true");
    // The whole layer: convolution, lengths, gates, rule, norm.
    CHECK(
        lua("return worst(function(p) local q = l2norm((short_convolution(p.x, p.w, {activation = 'silu'})))"
            ":reshape(1, 1, 5, 3) "
            "local o = linear_attention(q, q, p.x:reshape(1, 1, 5, 3), {update = 'gated_delta', "
            "log_decay = decay_gate(p.a, p.A), beta = sigmoid(p.a)}) "
            "return sum(times(rms_norm(o), G)) end, {x = d(1, 5, 3), w = d(3, 3), a = d(1, 1, 5), A = d(1)}) < 1e-7") ==
        "true");
}
