// scan as a person writes it: members of the gated family against linear_attention and loops, and every refusal.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

// Inputs of two batches and three heads, [2, 3, 13, ...], gates in (0, 1), in the type of the tests; and close(a, b),
// the largest difference in units of the largest element.
const char* setting = R"(
seed(5)
function inputs(dtype)
  local x = {}
  for name, width in pairs { q = 5, k = 5, v = 7, w = 5 } do x[name] = tensor(randn(2, 3, 13, width), dtype) end
  for name, width in pairs { a = 5, b = 7 } do x[name] = tensor(rand(2, 3, 13, width), dtype) end
  for _, name in ipairs { "g", "beta", "i" } do x[name] = tensor(rand(2, 3, 13), dtype) end
  return x
end
function distance(a, b) return maximum(abs(f64(a) - f64(b))) / math.max(1, maximum(abs(b))) end
)";

// What scan and linear_attention differ by, for a step and options of the call; for outputs and states.
std::string against_attention(Shell& lua, const std::string& dtype, const std::string& step,
                              const std::string& options) {
    return lua("local x = inputs('" + dtype +
               "') x.k = x.k / pow(pow(x.k, 2):sum(4), 0.5) local o, S = scan{inputs = x, state = zeros(1, 1, 5, 7), "
               "step = function(S, x) " +
               step +
               " return x.q * S, S end} for name, a in pairs(x) do x[name] = f64(a) end "
               "local right, last = linear_attention(x.q, x.k, x.v, {mode = 'recurrent', " +
               options + "}) assert(eltype(o) == eltype(x.q) or '" + dtype + "' == 'f32') local tolerance = '" + dtype +
               "' == 'f64' and 1e-13 or 1e-5 return distance(o, right) < tolerance, distance(S, last) < tolerance");
}

}  // namespace

TEST_CASE("scan writes the updates of linear_attention", "[lua][scan]") {
    Shell lua;
    lua(setting);
    for (const char* dtype : {"f32", "f64"}) {
        CAPTURE(dtype);
        CHECK(against_attention(lua, dtype, "S = S + outer(x.k, x.v)", "update = 'linear'") == "true true");
        CHECK(against_attention(lua, dtype, "S = exp(-x.g) * S + outer(x.k, x.v)",
                                "update = 'gated', log_decay = -x.g") == "true true");
        CHECK(against_attention(lua, dtype, "S = diag(exp(-x.a)) * S + outer(x.k, x.v)",
                                "update = 'gated', log_decay = -x.a") == "true true");
        CHECK(against_attention(lua, dtype, "S = S - x.beta * outer(x.k, x.k * S) + x.beta * outer(x.k, x.v)",
                                "update = 'delta', beta = x.beta") == "true true");
        CHECK(against_attention(lua, dtype, "S = exp(-x.g) * S  S = S + outer(x.k, x.beta * (x.v - S:t() * x.k))",
                                "update = 'gated_delta', log_decay = -x.g, beta = x.beta") == "true true");
        CHECK(against_attention(lua, dtype,
                                "S = times(exp(-x.a):reshape(-1, 1), S)  S = S + outer(x.k, (x.v - x.k * S) * x.beta)",
                                "update = 'gated_delta', log_decay = -x.a, beta = x.beta") == "true true");
    }
}

TEST_CASE("scan carries what linear_attention has not: gates on both sides, momentum, vectors, reverse",
          "[lua][scan]") {
    Shell lua;
    lua(setting);
    // The same step on tensors, all heads of one token at a time.
    lua(R"(function by_hand(x, first, step, backwards)
  local S, out = first, {}
  for i = 1, 13 do
    local t = backwards and 14 - i or i
    local token = {}
    for name, a in pairs(x) do
      local w = ndims(a) == 4 and size(a, 4) or 1
      token[name] = a(":", ":", {t, t}):reshape(2, 3, w, 1)
    end
    out[t], S = step(S, token)
    out[t] = out[t]:reshape(2, 3, 1, size(out[t], 4))
  end
  return cat(out, 3), S
end)");
    for (const char* dtype : {"f32", "f64"}) {
        CAPTURE(dtype);
        lua(std::string("x = inputs('") + dtype +
            "') y = {} for name, a in pairs(x) do y[name] = f64(a) end tolerance = '" + dtype +
            "' == 'f64' and 1e-13 or 2e-6");
        for (const char* reverse : {"true", "false"}) {
            CHECK(lua(std::string("o, S = scan{inputs = x, state = zeros(2, 3, 5, 7), reverse = ") + reverse +
                      R"(, step = function(S, x)
  S = diag(x.a) * S * diag(x.b) + outer(x.k, x.v)
  return x.q * S, S
end}
right, last = by_hand(y, zeros(2, 3, 5, 7, 'f64'), function(S, x)
  S = times(times(x.a, S), x.b:t()) + x.k * x.v:t()
  return x.q:t() * S, S
end, )" + reverse + R"()
return distance(o, right) < tolerance, distance(S, last) < tolerance, eltype(o))") ==
                  (std::string(dtype) == "f32" ? "true true Float32" : "true true Float64"));
        }
        // A state and its momentum, which both write; the output reads the sum.
        CHECK(
            lua(R"(o, z = scan{inputs = x, state = {S = zeros(1, 1, 5, 7), M = zeros(1, 3, 5, 7)}, step = function(s, x)
  local M = 0.9 * s.M + outer(x.k, x.v)
  local S = s.S - x.i * M
  return x.q * (S + M), {S = S, M = M}
end}
right, last = by_hand(y, {zeros(2, 3, 5, 7, 'f64'), zeros(2, 3, 5, 7, 'f64')}, function(s, x)
  local M = 0.9 * s[2] + x.k * x.v:t()
  local S = s[1] - times(x.i, M)
  return x.q:t() * (S + M), {S, M}
end)
return distance(o, right) < tolerance, distance(z.S, last[1]) < tolerance, distance(z.M, last[2]) < tolerance)") ==
            "true true true");
        // A vector state with gates made of the state itself, and a constant from outside.
        CHECK(lua(R"(W = tensor(randn(5, 5), ')" + std::string(dtype) + R"(')
o, z = scan{inputs = {x = x.k, b = x.i}, state = zeros(1, 1, 5), step = function(z, x)
  local f = sigmoid(W * z + x.x)
  z = times(f, z) + times(1 - f, tanh(x.x)) * x.b
  return {z = z, n = norm(z)}, z
end}
W64 = f64(W)
right, last = by_hand({x = y.k, b = y.i}, zeros(2, 3, 5, 1, 'f64'), function(z, x)
  local f = sigmoid(W64 * z + x.x)
  z = times(f, z) + times(times(1 - f, tanh(x.x)), x.b)
  return z:reshape(2, 3, 1, 5), z
end)
norms = sqrt(pow(right, 2):sum(4)):reshape(2, 3, 13)
return distance(o.z, right) < tolerance, distance(z, last:reshape(2, 3, 5)) < tolerance,
  distance(o.n, norms) < tolerance)") == "true true true");
    }
}

TEST_CASE("scan has a running maximum: softmax attention of one query a head", "[lua][scan]") {
    Shell lua;
    CHECK(lua(R"(seed(3)
local q, k, v = randn(2, 3, 1, 4, "f64") * 30, randn(2, 3, 20, 4, "f64"), randn(2, 3, 20, 5, "f64")
local o = scan{inputs = {q = q, k = k, v = v}, state = {m = -1/0, l = 0, o = zeros(1, 1, 5)}, step = function(s, x)
  local score = dot(x.q, x.k) / 2
  local m = max(s.m, score)
  local keep, new = exp(s.m - m), exp(score - m)
  local l, o = keep * s.l + new, keep * s.o + new * x.v
  return o / l, {m = m, l = l, o = o}
end}
local worst = 0
for n = 1, 20 do
  local right = softmax_attention(q, k(":", ":", {1, n}), v(":", ":", {1, n}))
  worst = math.max(worst, maximum(abs(o(":", ":", {n, n}) - right)))
end
return worst < 1e-13)") == "true");
}

TEST_CASE("scan takes tensors without heads, numbers as states, and both layouts", "[lua][scan]") {
    Shell lua;
    CHECK(lua("local o, s = scan{inputs = {x = tensor{1, 2, 3}}, state = 10, step = function(s, x) s = s + x.x return "
              "s, s "
              "end} return o(1), o(3), s, size(o)") == "11.0 16.0 16.0 3");
    CHECK(lua("local o, s = scan{inputs = {x = ones(2, 3, 4, 5)}, state = 0, step = function(s, x) return nil, s + "
              "sum(x.x) "
              "end} return o, s(2, 3), size(s)") == "nil 20.0 2 3");
    CHECK(
        lua("local o = scan{inputs = {x = ones(2, 4, 3, 5)}, layout = 'bnhd', state = 0, step = function(s, x) s = s + "
            "1 return s, s end} return o(1, 4, 3), size(o)") == "4.0 2 4 3");
    CHECK(lua("local o = scan{inputs = {x = tensor{1, 2, 3}, w = tensor{10}}, state = 0, step = function(s, x) return "
              "x.x * "
              "x.w, s end} return o(3)") == "30.0");
    CHECK(lua("local n scan{inputs = {x = ones(4, 5)}, state = ones(2, 3), step = function(S, x) n = {#S, ndims(x.x), "
              "size(S, 2), tostring(S), S:size()} return nil, S end} return table.unpack(n)") ==
          "6 1 3 2×3 value inside scan 2 3");
    CHECK(lua("local A = ones(2) scan{inputs = {x = ones(4)}, state = 0, step = function(s, x) A:add_(1) return nil, s "
              "end} "
              "return A(1), exp(0), (A + A)(1)") == "2.0 1.0 4.0");
    // A tensor from outside is taken as it is when the step is recorded.
    CHECK(lua("local A = ones(2) local o = scan{inputs = {x = ones(3)}, state = 0, step = function(s, x) local y = x.x "
              "* A "
              "A:fill_(7) return y, s end} return o(1, 1)") == "1.0");
    CHECK(
        lua("local A = tensor{1, 2} local o = scan{inputs = {x = ones(3, 2)}, state = 0, step = function(s, x) return "
            "times(A, A:plus(x.x)) - A, s end} return o(1, 2)") == "4.0");
}

TEST_CASE("what a step may not do is said in a sentence, at its line", "[lua][scan]") {
    Shell lua;
    lua("x, S = ones(1, 2, 4, 3), zeros(1, 2, 3, 3)");
    const auto refuses = [&](const std::string& step, const std::string& message) {
        CHECK(lua("scan{inputs = {x = x}, state = S, step = function(S, x) " + step + " end}") == "user:1: " + message);
    };
    refuses("return x.x * S",
            "scan: step: returned 1 value, expected two: the output of the token (or nil) and the new state");
    refuses("return S, x.x * S",
            "scan: step: the output is 3×3, expected a number or a vector; A:reshape(-1) makes it one");
    refuses("return nil, x.x * S",
            "scan: step: the new state is 3, expected 3×3 as before; a step returns the output first, then the state");
    refuses("return x.y, S", "scan: step: no input \"y\", expected one of x");
    refuses("return x.xs, S", "scan: step: no input \"xs\", expected one of x (did you mean \"x\"?)");
    refuses(
        "return x.x * x.x, S",
        "*: shapes 3 and 3: a product of two vectors is dot(A, B), outer(A, B) or, element by element, times(A, B)");
    refuses("return x.x + ones(4), S", "+: shapes 3 and 4 do not match: dimension 1 is 3 and 4");
    refuses("return outer(S, x.x), S", "outer: a: a value of shape 3×3, expected a vector");
    refuses("return sum(x.x, 2), S", "sum: dim: 2, expected a number from 1 to 1 for a value of shape 3");
    refuses(
        "if x.x < 1 then return nil, S end",
        "a value inside scan has no one truth: a step is recorded once for all tokens; lt(A, B), eq(A, B) ... give 1 "
        "or 0 for each");
    refuses("return S(1, 1), S",
            "elements of a value inside scan are not reached one by one; dot(A, e) with a constant vector e takes one");
    refuses("return S ^ 2, S", "a value inside scan has no operator ^: pow(A, x) is the power of each element");
    refuses("return S:add_(1), S",
            "a value inside scan has no method \"add_\"; what works on it lists ?scan, and it is not changed in place");
    refuses("return cumsum(x.x), S", "cumsum: expected a Tensor, got a value inside scan");
    refuses("return zeros(2):add_(x.x), S", "add_: B: expected a Tensor, got a value inside scan");
    refuses(
        "return x.x + zeros(1, 1, 3), S",
        "scan: step: a 1×1×3 Tensor{Float32} from outside, expected at most 2 dimensions: what differs between heads "
        "belongs into the inputs, with one token, [1, heads, 1, d]");
    refuses("return scan{inputs = {x = ones(3)}, state = 0, step = function(s, x) return s, s end}",
            "scan: inside the step of another one, expected one after the other");
    refuses("error('mine')", "mine");
    CHECK(lua("exp(1) return exp(tensor{0})(1)") == "1.0");
    CHECK(lua("local kept scan{inputs = {x = x}, state = S, step = function(S, x) kept = x.x return nil, S end} return "
              "kept "
              "+ 1") ==
          "user:1: a value inside scan outlived its step: only what the step returns is known afterwards");
    CHECK(lua("local kept scan{inputs = {x = x}, state = S, step = function(S, x) kept = x.x return nil, S end} "
              "scan{inputs "
              "= {x = x}, state = S, step = function(S, x) return kept, S end}")
              .find("a value of another scan, expected one of this step") != std::string::npos);
    CHECK(lua("scan{inputs = {x = x}, state = {S = S}, step = function(s, x) return nil, {T = s.S} end}") ==
          "user:1: scan: step: the new state S: expected a Tensor, got nothing");
    CHECK(lua("scan{inputs = {x = x}, state = {S = S}, step = function(s, x) return nil, {S = s.S, T = s.S} end}") ==
          "user:1: scan: step: the new state has 2 names, expected the 1 of the state");
    CHECK(lua("scan{inputs = {x = x}, state = {S = S}, step = function(s, x) return nil, s.S end}")
              .find("scan: step: the new state is a value inside scan, expected a table with the names of the state") !=
          std::string::npos);
}

TEST_CASE("a time limit stops a scan, and the session goes on", "[lua][scan]") {
    Shell lua;
    lua("function sum_up(n) local _, s = scan{inputs = {x = ones(n)}, state = 0, step = function(s, x) return nil, s + "
        "x.x "
        "end} return s end");
    CHECK(lua("local ok, message = pcall(causeway._with_timeout, 0.01, function() while true do sum_up(3e6) end end) "
              "return ok, error_kind(message), sum_up(3)") == "false timeout 3.0");
    CHECK(lua("opcount(function() sum_up(3) end)")
              .find("opcount: scan is not counted, expected linear_attention, for the updates that it has") !=
          std::string::npos);
}

TEST_CASE("arguments of scan that are none are said", "[lua][scan]") {
    Shell lua;
    lua("x, S = ones(1, 2, 4, 3), zeros(1, 2, 3, 3) function f(S, x) return nil, S end");
    const auto refuses = [&](const std::string& arguments, const std::string& message) {
        CHECK(lua("scan" + arguments) == "user:1: scan: " + message);
    };
    refuses("(f, S, {x = x})",
            "expected one table, as in scan{step = function(S, x) ... return o, S end, state = S, "
            "inputs = {q = q}}");
    refuses("{inputs = {x = x}, state = S}", "step: nothing, expected a function");
    refuses("{inputs = x, state = S, step = f}", "inputs: a Tensor, expected a table, as in {q = q, k = k}");
    refuses("{state = S, step = f}", "inputs: nothing, expected a table, as in {q = q, k = k}");
    refuses("{inputs = {}, state = S, step = f}",
            "inputs: none, expected at least one Tensor: the tokens are what they are");
    refuses("{inputs = {x}, state = S, step = f}",
            "inputs: a key that is a number, expected names, as in {q = q, k = k}");
    refuses("{inputs = {x = 1}, state = S, step = f}", "inputs: x: expected a Tensor, got a number");
    refuses("{inputs = {x = x}, step = f}", "state: nothing, expected a Tensor, a number, or a table of them by name");
    refuses("{inputs = {x = x}, state = 'S', step = f}", "state: expected a Tensor, got a string");
    refuses("{inputs = {x = x}, state = S, step = f, revers = true}",
            "unknown option \"revers\" (did you mean \"reverse\"?)");
    refuses("{inputs = {x = x:bf16()}, state = S, step = f}",
            "inputs: x is a 1×2×4×3 Tensor{BFloat16}, expected Float32 or Float64: A:f32() converts it");
}
