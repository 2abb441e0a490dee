// Gradients of Lua code: every rule against central differences in Float64, what has no rule, and the sentences.
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

// A shell with check(f, params): the derivatives of f against central differences, as text: "right", or what is wrong.
// The step 1e-5 leaves relative errors of 1e-10 of the difference itself.
class Checked : public Shell {
public:
    Checked() {
        (*this)(R"(
            seed(7)
            function R(...) return f64(randn(...)) end
            function P(...) return f64(rand(...)) + 0.5 end
            local function slope(f, params, get, set)
              local h, at = 1e-5, get()
              set(at + h) local above = f(params)
              set(at - h) local below = f(params)
              set(at)
              if type(above) ~= "number" then above, below = sum(above), sum(below) end
              return (above - below) / (2 * h)
            end
            local function compare(f, params, holder, key, g, worst)
              local x = holder[key]
              if type(x) == "table" then
                for k in pairs(x) do worst = compare(f, params, x, k, g[k], worst) end
                return worst
              end
              local slopes, got = {}, {}
              if type(x) == "number" then
                slopes[1] = slope(f, params, function() return holder[key] end, function(v) holder[key] = v end)
                got[1] = g
              else
                local flat, flat_g = x:reshape(-1), g:reshape(-1)
                for i = 1, #x do
                  slopes[i] = slope(f, params, function() return flat(i) end, function(v) flat:set(v, i) end)
                  got[i] = flat_g(i)
                end
                local same = eltype(g) == eltype(x) and ndims(g) == ndims(x)
                for k = 1, ndims(x) do same = same and size(x, k) == size(g, k) end
                if not same then error("the gradient is " .. tostring(g)) end
              end
              for i, s in ipairs(slopes) do
                local err = math.abs(s - got[i]) / math.max(1, math.abs(s))
                if not (err <= worst) then worst = err end
              end
              return worst
            end
            function check(f, params)
              local holder = {params}
              local g, value = grad(function(p) return f(p) end, params)
              if type(value) ~= "number" then return "the value is a " .. type(value) end
              local worst = compare(function() return f(holder[1]) end, params, holder, 1, g, 0)
              return worst < 1e-6 and "right" or "relative error " .. worst
            end
            -- A number of a tensor in which every element has a weight of its own.
            function weighed(x)
              local w = sin(range(1, length(x), "f64") * 1.7):reshape({size(x)})
              return sum(times(x, w))
            end)");
    }
};

struct Case {
    std::string f, params;
};

void all_right(const std::vector<Case>& cases) {
    Checked lua;
    for (const auto& [f, params] : cases) {
        INFO(f << "  of  " << params);
        CHECK(lua("return check(function(x) return " + f + " end, " + params + ")") == "right");
    }
}

}  // namespace

TEST_CASE("grad: operators with broadcasting agree with central differences", "[lua][grad]") {
    const char* shapes[][2] = {{"R(2, 3)", "P(2, 3)"}, {"R(2, 3)", "P(3)"},       {"R(3)", "P(2, 3)"},
                               {"R(2, 1)", "P(1, 3)"}, {"R(2, 1, 3)", "P(4, 1)"}, {"R(2, 3)", "1.5"},
                               {"0.7", "P(2, 3)"},     {"R(1)", "P(2, 3, 2, 2)"}, {"R(5, 1, 1, 1)", "P(3, 1)"},
                               {"R(1, 1)", "P(1)"}};
    std::vector<Case> cases;
    for (const auto& [a, b] : shapes) {
        const std::string both = std::string("{") + a + ", " + b + "}";
        for (const char* f : {"x[1] + x[2]", "x[1] - x[2]", "x[1] / x[2]", "times(x[1], x[2])", "plus(x[1], x[2])",
                              "-x[1] / x[2] / x[2]", "pow(x[2], x[1])", "max(x[1], x[2])", "min(x[1], x[2])",
                              "times(x[1] + x[2], x[1] + x[2])"})
            cases.push_back({std::string("weighed(") + f + ")", both});
        // What arrives has to be broadcast too.
        cases.push_back({"sum(x[1] + x[2])", both});
        cases.push_back({"sum(times(x[1], x[1]) / x[2])", both});
    }
    all_right(cases);
    all_right({{"x ^ 3 + 2 ^ x - (-x) / 3", "1.3"},
               {"weighed(2 - x / 3 + 4 / x)", "P(2, 3)"},
               {"weighed(x * 3 + 2 * x)", "R(2, 3)"},
               {"weighed(x[1] * x[2])", "{R(2, 3), 0.3}"},
               {"weighed(pow(x, 0) + pow(x, 2) + pow(2, x))", "tensor({{0, -1, 2}}, 'f64')"},
               {"weighed(times(x, {{1, 2, 3}, {4, 5, 6}}))", "R(2, 3)"},
               {"x * detach(3 * x)", "0"},
               {"times(x[1], x[2]) + pow(x[2], x[1]) - x[1] / x[2]", "{3, 3}"}});
}

TEST_CASE("grad: functions of each element agree with central differences", "[lua][grad]") {
    std::vector<Case> cases;
    for (const char* f : {"abs", "sign", "exp", "sin", "cos", "tanh", "floor", "ceil", "round", "relu", "elu",
                          "sigmoid", "softmax", "copy", "f64", "tensor"}) {
        cases.push_back({std::string("weighed(") + f + "(x))", "R(3, 4)"});
        cases.push_back({std::string("sum(times(") + f + "(x), x))", "R(2, 1, 3, 1)"});
    }
    for (const char* f : {"log", "sqrt"}) cases.push_back({std::string("weighed(") + f + "(x))", "P(3, 4)"});
    for (const char* f : {"abs", "exp", "log", "sqrt", "sin", "cos", "tanh", "relu", "elu", "sigmoid", "sign"})
        cases.push_back({std::string(f) + "(x)", "1.3"});
    cases.push_back({"weighed(clamp(x, -0.5, 0.7))", "R(3, 4)"});
    cases.push_back({"weighed(softmax(x * 300))", "R(3, 4)"});
    cases.push_back({"clamp(x, 0, 2)", "1.3"});
    cases.push_back({"weighed(where(gt(x, 0), exp(x), times(x, x)))", "R(3, 4)"});
    cases.push_back({"weighed(where({{1}, {0}}, x, 2))", "R(3)"});
    cases.push_back({"sum(where({1, 0, 1}, x, 3 * x))", "1.3"});
    cases.push_back({"weighed(exp(x):log():sqrt():times(x))", "P(3, 4)"});
    all_right(cases);
}

TEST_CASE("grad: products of matrices and vectors agree with central differences", "[lua][grad]") {
    const char* shapes[][2] = {{"R(2, 3)", "R(3, 4)"},    {"R(3)", "R(3, 4)"},
                               {"R(2, 3)", "R(3)"},       {"R(2, 5, 2, 3)", "R(3, 4)"},
                               {"R(2, 3)", "R(5, 3, 4)"}, {"R(2, 1, 2, 3)", "R(5, 3, 1)"},
                               {"R(3)", "R(2, 2, 3, 4)"}, {"R(2, 2, 4, 3)", "R(3)"},
                               {"R(1, 1)", "R(1, 1)"},    {"R(2, 2, 2, 3)", "R(2, 2, 3, 2)"}};
    std::vector<Case> cases;
    for (const auto& [a, b] : shapes) cases.push_back({"weighed(x[1] * x[2])", std::string("{") + a + ", " + b + "}"});
    cases.push_back({"weighed(x * {{1}, {2}, {3}})", "R(2, 3)"});
    cases.push_back({"weighed(x * x)", "R(3, 3)"});
    cases.push_back({"sum(x * x:t())", "R(2, 3, 4)"});
    all_right(cases);
}

TEST_CASE("grad: reductions agree with central differences", "[lua][grad]") {
    std::vector<Case> cases;
    for (const char* f : {"sum", "mean", "maximum", "minimum", "prod", "std"}) {
        cases.push_back({std::string(f) + "(x) * 2", "R(3, 4)"});
        for (const char* dim : {"1", "2", "3"})
            cases.push_back({std::string("weighed(exp(") + f + "(x, " + dim + ")))", "R(3, 2, 4)"});
        cases.push_back({std::string("sum(times(x, ") + f + "(x, 2)))", "R(3, 4)"});
    }
    cases.push_back({"weighed(prod(x, 2))", "tensor({{0, 2, 3}, {0, 0, 4}, {5, 6, 7}}, 'f64')"});
    cases.push_back({"prod(x)", "tensor({0, 2, 3}, 'f64')"});
    cases.push_back({"norm(x)", "R(2, 3)"});
    cases.push_back({"dot(x[1], x[2])", "{R(2, 3), R(2, 3)}"});
    cases.push_back({"dot(x, x)", "R(2, 3)"});
    cases.push_back({"dot(x, {1, 2})", "R(2)"});
    for (const char* dim : {"1", "2", "3"})
        cases.push_back({std::string("weighed(cumsum(x, ") + dim + "))", "R(3, 2, 4)"});
    cases.push_back({"weighed(cumsum(x))", "R(5)"});
    for (const char* dim : {"1", "2", "3"})
        cases.push_back({std::string("weighed(cumprod(x, ") + dim + "))", "R(3, 2, 4)"});
    cases.push_back({"weighed(cumprod(x, 2))", "tensor({{0, 2, 3}, {2, 0, 0}, {5, 6, 0}}, 'f64')"});
    all_right(cases);
}

TEST_CASE("grad: arrangement, parts and linear algebra agree with central differences", "[lua][grad]") {
    all_right({{"weighed(reshape(x, 4, 3))", "R(2, 3, 2)"},
               {"weighed(x:reshape(-1))", "R(2, 3, 2)"},
               {"weighed(times(x:permutedims(3, 1, 2), x:permutedims({3, 1, 2})))", "R(2, 3, 4)"},
               {"weighed(permutedims(x)) + weighed(x:t())", "R(2, 3)"},
               {"weighed(permutedims(x))", "R(3)"},
               {"weighed(x:permutedims(2, 4, 1, 3):t())", "R(2, 3, 1, 4)"},
               {"x(2, 3) * x(1, 1) + weighed(x(2)) + weighed(x(':', 2))", "R(2, 3)"},
               {"weighed(x(':', {2, 3}, 1, {1, 0})) + weighed(x({2, 2}, 1))", "R(2, 3, 2, 2)"},
               {"weighed(cat(x[1], x[2], x[1], 1))", "{R(2, 3), R(1, 3)}"},
               {"weighed(cat({x[1], zeros(2, 2), x[2]}, 2))", "{R(2, 3), R(2, 1)}"},
               {"weighed(fill(x, 2, 3, 'f64'))", "0.5"},
               {"tr(x * x)", "R(3, 3)"},
               {"weighed(diag(x[1])) + weighed(diag(x[2]))", "{R(3), R(3, 2)}"},
               {"weighed(outer(x[1], x[2]))", "{R(3), R(2)}"},
               {"weighed(outer(x[1], x[2]))", "{R(2, 1, 3), R(5, 2)}"},
               {"weighed(outer(x, {1, 2}))", "R(3)"},
               {"weighed(einsum('bhnd,bhmd->bhnm', x[1], x[2]))", "{R(2, 1, 3, 2), R(2, 1, 4, 2)}"},
               {"weighed(einsum('ij,jk,ik->k', x[1], x[2], x[3]))", "{R(2, 3), R(3, 4), R(2, 4)}"},
               {"weighed(einsum('ij, k -> ki', x[1], x[2]))", "{R(2, 3), R(4)}"},
               {"weighed(einsum('ij,jk', x[1], x[2]))", "{R(2, 3), R(3, 2)}"},
               {"einsum('ij,ij->', x, x) + 2 * einsum('ij->', x)", "R(2, 3)"},
               {"weighed(inv(x))", "tensor({{2, 1, 0}, {0.5, 3, 1}, {0, -1, 4}}, 'f64')"},
               {"weighed(svdvals(x)) + opnorm(x)", "R(3, 4)"},
               {"weighed(cholesky(x * x:t()))", "tensor({{2, 1, 0}, {0.5, 3, 1}, {0, -1, 4}}, 'f64')"}});
}

TEST_CASE("grad: the attention calls agree with central differences", "[lua][grad]") {
    std::vector<Case> cases;
    const std::string qkv = "{q = R(1, 2, 5, 3), k = R(1, 2, 5, 3), v = R(1, 2, 5, 2)";
    for (const char* o : {"{}", "{decay = 0.9, scale = 0.5}", "{method = 'fleet'}",
                          "{block = 2, method = 'block-based'}", "{decay = {0.8, 0.9}}"})
        cases.push_back({std::string("weighed(causal_linear_attention(x.q, x.k, x.v, ") + o + "))", qkv + "}"});
    cases.push_back({"weighed(causal_linear_attention{q = x.q, k = x.k, v = x.v, decay = x.decay, state = x.S})",
                     qkv + ", decay = 0.8, S = R(1, 2, 3, 2)}"});
    cases.push_back({"weighed(causal_linear_attention(x.q, x.k, x.v, {decay = x.decay}))",
                     qkv + ", decay = tensor({{0.8, 0.6}}, 'f64')}"});
    cases.push_back({"weighed(causal_linear_attention(exp(x.q), exp(x.k), x.v, {normalize = true}))", qkv + "}"});
    cases.push_back({"weighed(causal_linear_attention(x, x, x))", "R(4, 3)"});
    cases.push_back({"weighed(causal_linear_attention(x.q, x.k, x.v, {layout = 'bnhd'}))", qkv + "}"});
    for (const char* mode : {"recurrent", "chunkwise", "parallel"}) {
        const std::string options = std::string(", mode = '") + mode + "', chunk = 2, scale = 0.5";
        cases.push_back(
            {"weighed((linear_attention(x.q, x.k, x.v, {update = 'gated_delta', log_decay = -exp(x.g), "
             "beta = sigmoid(x.b), state = x.S" +
                 options + "})))",
             qkv + ", g = R(1, 2, 5), b = R(1, 2, 5), S = R(1, 2, 3, 2)}"});
    }
    // Both results, a gate per channel, and grouped heads.
    cases.push_back(
        {"(function() local o, S = linear_attention(x.q, x.k, x.v, {update = 'gated', log_decay = -exp(x.g)}) return "
         "weighed(o) + weighed(S) end)()",
         "{q = R(1, 2, 5, 3), k = R(1, 1, 5, 3), v = R(1, 1, 5, 2), g = R(1, 1, 5, 3)}"});
    cases.push_back(
        {"(function() local _, S = linear_attention(x.q, x.k, x.v, {update = 'delta', beta = x.b}) return "
         "sum(S) end)()",
         qkv + ", b = P(1, 2, 5)}"});
    cases.push_back(
        {"(function() local S = x.S for t = 1, 3 do local o o, S = linear_attention_step(x.q(':', ':', {t, "
         "t}), x.k(':', ':', {t, t}), x.v(':', ':', {t, t}), S, {update = 'gated', log_decay = -exp(x.g(':', "
         "':', {t, t}))}) end return weighed(S) end)()",
         qkv + ", S = R(1, 2, 3, 2), g = R(1, 2, 5)}"});
    // Gates of a projection and a gated norm within the call.
    cases.push_back(
        {"(function() local o, S = linear_attention(x.q, x.k, x.v, {update = 'gated_delta', log_decay = x.g, A_log = "
         "x.A, "
         "dt_bias = x.c, beta = sigmoid(x.b), norm_weight = x.w, norm_gate = x.z, norm_eps = 0.1}) return weighed(o) + "
         "weighed(S) end)()",
         qkv + ", g = R(1, 2, 5, 3), b = R(1, 2, 5), A = R(2), c = R(2, 3), w = R(2), z = R(1, 2, 5, 2)}"});
    cases.push_back(
        {"weighed((linear_attention(x.q, x.k, x.v, {update = 'gated', log_decay = x.g, A_log = x.A, lower_bound = -2, "
         "norm_gate = x.z, norm_activation = 'sigmoid', layout = 'bnhd'})))",
         qkv + ", g = R(1, 2, 5), A = R(5), z = R(1, 2, 5, 2)}"});
    for (const char* o : {"{}", "{causal = false, scale = 2}", "{method = 'standard'}"})
        cases.push_back({std::string("weighed(softmax_attention(x.q, x.k, x.v, ") + o + "))", qkv + "}"});
    cases.push_back({"weighed((softmax_attention{q = x.q, k = x.k, v = x.v, return_lse = true}))", qkv + "}"});
    cases.push_back({"(function() local F, total = energy(q, q, q, x) return weighed(F) + 2 * total end)()",
                     "(function() q = R(2, 5, 3) return R(2, 5, 3) end)()"});
    all_right(cases);
}

TEST_CASE("grad: a model of several layers agrees with central differences", "[lua][grad]") {
    Checked lua;
    CHECK(lua(R"(
        local X, answer = R(2 * 6, 4), eq(tensor({{1}, {2}, {3}, {1}, {2}, {3}, {2}, {1}, {3}, {2}, {1}, {3}}),
          tensor{1, 2, 3})
        local function split(x) return x:reshape(2, 6, 2, x:size(2) // 2):permutedims(1, 3, 2, 4) end
        local function unit(x) return x / sqrt(sum(times(x, x), 4) + 1e-6) end
        return check(function(p)
          local x = X * p.embed
          local layer = {update = "gated_delta", chunk = 4,
            log_decay = log(sigmoid(split(x * p.gate) + 4)):reshape(2, 2, 6),
            beta = sigmoid(split(x * p.beta)):reshape(2, 2, 6)}
          local o = linear_attention(unit(split(x * p.q)), unit(split(x * p.k)), split(x * p.v), layer)
          local y = (x + o:permutedims(1, 3, 2, 4):reshape(12, 6) * p.out) * p.classes[1] + p.classes[2]
          return -mean(log(sum(times(softmax(y), answer), 2)))
        end, {embed = R(4, 5), gate = R(5, 2), beta = R(5, 2), q = R(5, 6), k = R(5, 6), v = R(5, 6), out = R(6, 5),
          classes = {R(5, 3), R(3)}}))") == "right");
}

TEST_CASE("grad: conventions where there is no derivative", "[lua][grad]") {
    Shell lua;
    const auto at = [&](const char* f, const char* x) {
        return lua(std::string("local g = grad(function(x) return sum(") + f + ") end, tensor(" + x +
                   ", 'f64')) local t = {} for i = 1, #g do t[i] = g:reshape(-1)(i) end return table.concat(t, ' ')");
    };
    CHECK(at("maximum(x, 1)", "{3, 1, 3}") == "0.5 0.0 0.5");
    CHECK(at("minimum(x, 2)", "{{1, 1, 1, 1}}") == "0.25 0.25 0.25 0.25");
    CHECK(at("max(x, 1) + min(x, {0, 2, 2})", "{0, 1, 2}") == "0.5 1.5 1.5");
    // Of a place that is named several times all that arrives is added.
    CHECK(at("times(x({{3, 1, 3, 3}}), {1, 2, 3, 4})", "{5, 6, 7}") == "2.0 0.0 8.0");
    CHECK(at("times(x({{2, 2}}, {{1, 1}}), {{1, 2}, {3, 4}})", "{{5, 6}, {7, 8}}") == "0.0 0.0 10.0 0.0");
    CHECK(at("pow(x(gt(x, 1)), 2)", "{{0, 2}, {3, 1}}") == "0.0 4.0 6.0 0.0");
    CHECK(at("pow(x(2, tensor{1, 0}), 2) + x(1, 2)", "{{0, 2}, {3, 1}}") == "0.0 1.0 6.0 0.0");
    CHECK(at("abs(x)", "{-2, 0, 2}") == "-1.0 0.0 1.0");
    CHECK(at("relu(x)", "{-2, 0, 2}") == "0.0 0.0 1.0");
    CHECK(at("clamp(x, -1, 1)", "{-2, -1, 0, 1, 2}") == "0.0 1.0 1.0 1.0 0.0");
    CHECK(at("where(gt(x, 0), x, -math.huge)", "{-2, 3}") == "0.0 1.0");
    CHECK(at("where(lt(x, 0), 0, 2 * x)", "{-2, 0/0, 3}") == "0.0 2.0 2.0");
    CHECK(at("sqrt(x)", "{0, 4}") == "inf 0.25");
    CHECK(at("std(x, 1)", "{2, 2, 2}") == "0.0 0.0 0.0");
    CHECK(at("pow(x, 0) + pow(x, 1) + pow(x, 2)", "{0, 2}") == "1.0 5.0");
    CHECK(lua("return grad(norm, zeros(2, 'f64')) == zeros(2, 'f64'), grad(function(x) return pow(0, x) end, 2.5), "
              "grad(maximum, tensor({3, 1, 3}, 'f64')) == tensor({0.5, 0, 0.5}, 'f64')") == "true 0.0 true");
}

TEST_CASE("grad: forms of params, types, further arguments and results", "[lua][grad]") {
    Shell lua;
    CHECK(lua("return grad(function(x) return x ^ 2 end, 3)") == "6.0 9.0");
    CHECK(
        lua("local g, v, a, b = grad(function(p, k, t) return k * p.w[1], p.w[1], {p.w[1], 'x', t} end, {w = {2}}, 5, "
            "'t') return g.w[1], v, a, b[1], b[2], b[3]") == "5.0 10.0 2 2 x t");
    // Of what has no part in the value it is zero; nothing is changed.
    CHECK(lua("p = {a = ones(2), b = {ones(3, 'f64'), 1.5}} local g = grad(function(x) return sum(x.a) end, p) return "
              "eltype(g.a), g.b[1] == zeros(3, 'f64'), g.b[2], p.a == ones(2)") == "Float32 true 0 true");
    CHECK(lua("return grad(function(x) return sum(f64(f32(x))) end, tensor({0.5, 0.25}, 'f64')) == ones(2, 'f64')") ==
          "true");
    // Float32 stays, beside constants of Float64; what is stored in 16 bits passes.
    CHECK(lua("local g, v = grad(function(x) return sum(times(bf16(x), tensor({1, 2}, 'f64'))) end, ones(2)) return "
              "eltype(g), g(1), g(2), v") == "Float32 1.0 2.0 3.0");
    // One tensor in two places is one parameter; the gradients share no elements.
    CHECK(lua("local w = ones(2) local g = grad(function(p) return dot(p[1], p[2]) end, {w, w}) g[1]:fill(0) return "
              "g[2](1), w(1)") == "2.0 1.0");
    CHECK(
        lua("local c = tensor{1, 2} local g = grad(function(p) return sum(times(p.a + p.b, c)) end, {a = ones(2), b = "
            "ones(2)}) g.a:fill(0) return g.b(2), c(2)") == "2.0 2.0");
    // A value of one element; comparisons, sizes and the logarithm of what is seen.
    CHECK(lua("return grad(function(x) return x(1, {1, 1}) end, ones(2, 2))(1, 1)") == "1.0");
    CHECK(lua("return grad(function(x) if x < 3 and x <= 2 and not (x > 5) then return x * 10 end return x end, 2)") ==
          "10.0 20.0");
    CHECK(lua("return (grad(function(x) return tensor{2} < x end, tensor{3}))") ==
          "user:1: Tensors are compared element by element with lt(A, B), le(A, B), gt(A, B) and ge(A, B)");
    CHECK(lua("return grad(function(x) s = 'at ' .. x(1) .. ', ' .. tostring(x:size(1)) .. #x .. x:eltype() return "
              "x:sum() end, ones(2))(1), s") == "1.0 at 1.0, 22Float32");
    CHECK(lua("return grad(function(x) return sum(times(gt(x, 1), x)) end, tensor({0, 2}))") ==
          lua("return tensor{0, 1}, 2.0"));
    CHECK(lua("return grad(function(x) return sum(times(x:mean({1, 2}), x:sum{1, 2})) end, ones(2, 2))(1, 1)") ==
          "2.0");
    CHECK(
        lua("local function f(dim) return grad(function(x) return sum(times(cat(x, {{3, 4}}, 1):cumprod(dim), "
            "tensor{{1, 2}, {3, 4}, {5, 6}})) end, tensor{{1, 2}, {3, 4}}) end return f(-1) == f(2), f(-2) == f(1)") ==
        "true true");
    CHECK(lua("return grad(function(x) return x:permutedims(-1, 1)(2, 1) end, tensor{{1, 2}, {3, 4}})(1, 2)") == "1.0");
    CHECK(lua("return grad(function(x) return detach(x) * x end, 3)") == "3.0 9.0");
    CHECK(lua("return detach(3), detach{1, 2}[2]") == "3 2");
    CHECK(lua("return grad(function(x) local c = zeros(2) c:set(3, 1) c:fill(2) return dot(c, x) end, ones(2))(1)") ==
          "2.0");
    CHECK(lua("return grad(sum, zeros(0, 3)) == zeros(0, 3)") == "true");
    CHECK(lua("return grad(setmetatable({}, {__call = function(_, x) return 2 * x end}), 4)") == "2.0 8.0");
}

TEST_CASE("grad: print shows gradients as the prompt does", "[lua][grad]") {
    Shell lua;
    lua("g = grad(function(p) return p.w * p.w + p.deep.b * 4.0 end, {w = 3.0, deep = {b = 1.0}})");
    CHECK(lua("return tostring(g)") == "{deep = {b = 4.0}, w = 6.0}");
    CHECK(lua("return causeway._literal(g), causeway._literal({g = g})") ==
          "{deep = {b = 4.0}, w = 6.0} {g = {deep = {b = 4.0}, w = 6.0}}");
    CHECK(lua("x = randn(1, 1, 3, 2) return tostring(linear_attention_grad(x, x, x, x)):match('^{\\n  dB = 1×1×3×2 "
              "Tensor{Float32}') ~= nil") == "true");
    CHECK(lua("return tostring(linear_attention_grad(x, x, x, x, {layout = 'bnhd'})):match('^{') ~= nil") == "true");
    CHECK(lua("return tostring(cost('fleet', {N = 8, r = 2})):match('^{adds = %d+') ~= nil") == "true");
    // They are tables as any other to what takes lists and tables.
    CHECK(lua("local g = grad(function(p) return p[1] * p[1] + p[2] end, {2.0, 1.0}) "
              "return plot(g) ~= nil, detach(g)[1], #g") == "true 4.0 2");
}

TEST_CASE("grad: what it refuses, it refuses in a sentence", "[lua][grad]") {
    Shell lua;
    lua("W = ones(2)");
    const auto refused = [&](const std::string& call, const std::string& sentence) {
        INFO(call);
        CHECK(lua("return (" + call + ")") == "user:1: " + sentence);
    };
    const auto of_two = [&](const std::string& f, const std::string& sentence) {
        refused("grad(function(x) return " + f + " end, W)", sentence);
    };
    refused("grad(3, W)",
            "grad: f: expected a function, as in grad(function(x) return sum(pow(x, 2)) end, x), got a "
            "number");
    refused("grad(sum)", "grad: params: nothing, expected a Tensor, a number or a table of them");
    refused("grad(sum, {})", "grad: params: no Tensor in it, expected a Tensor, a number or a table of them");
    refused("grad(sum, {w = {W, 'x'}})", "grad: params.w[2]: a string, expected a Tensor, a number or a table of them");
    refused(
        "grad(sum, bf16(W))",
        "grad: params: a 2-element Tensor{BFloat16}, expected Float32 or Float64: types of 16 bits are for storage");
    CHECK(lua("local t = {} t.t = t return (grad(sum, t))") ==
          "user:1: grad: params.t: a table that is inside itself, expected a tree of tables");
    refused(
        "grad(function(p) return sum(p.q) end, W)",
        "grad: params: a 2-element Tensor{Float32}, which has no \"q\", expected a table of tensors under their names, "
        "as in grad(f, {q = q})");
    of_two("x", "grad: f returned a 2-element Tensor{Float32}, expected one number, such as the sum or the mean of it");
    refused("grad(function() end, W)",
            "grad: f returned nothing, expected one number, such as the sum or the mean of it");
    of_two(
        "3",
        "grad: f returned a number that does not depend on the parameters, expected one that is made of the argument "
        "of f");
    of_two("sum(W)",
           "sum: got params itself, expected what the function of grad got in its place (a constant is a copy of it)");
    of_two("dot(copy(W), x) + sum({W, 2})",
           "sum: got params itself, expected what the function of grad got in its place (a constant is a copy of it)");
    of_two("x:fill(3):sum()",
           "fill: grad has no rule for it: what is written into a tensor is not recorded, parts are joined with cat; "
           "detach(x) takes x as a constant");
    CHECK(lua("return W == ones(2)") == "true");
    of_two("zeros(2):set(x(1), 1)",
           "set: grad has no rule for it: what is written into a tensor is not recorded, parts are joined with cat; "
           "detach(x) takes x as a constant");
    of_two("(function() x[1] = 0 return sum(x) end)()",
           "A[i] = x: grad has no rule for it: what is written into a tensor is not recorded, parts are joined with "
           "cat; detach(x) takes x as a constant");
    of_two("x(1) % 2", "%: grad has no rule for it, x - floor(x / b) * b is the same and has one");
    of_two("x(1) // 2", "//: grad has no rule for it, floor(x / b) is the same and has one");
    CHECK(lua("return grad(function(x) return x(1) - floor(x(1) / 2) * 2 end, W) == tensor{1, 0}") == "true");
    of_two("sum(scan{inputs = {x = x}, state = 0, step = function(s, y) return y.x, s end})",
           "scan: grad has no rule for it: recurrence has one; detach(x) takes x as a constant");
    CHECK(lua("return grad(function(x) local c = zeros(2) local y = dot(c, x) c:fill(1) return y end, W)") ==
          "user:1: fill: a Tensor that grad needs as it is, expected one that nothing recorded has used: write into a "
          "copy");
    of_two("W:reshape(2, 1):fill(1)",
           "reshape: got params itself, expected what the function of grad got in its place (a constant is a copy of "
           "it)");
    of_two("x:median()",
           "median: grad has no rule for it: it depends on one or two elements alone; detach(x) takes x as a constant");
    of_two("tensor{x(1), 2}",
           "tensor: argument 1: grad has no rule for a traced value in a table there; detach(x) takes x as a constant");
    of_two("einsum('ii->i', outer(x, x)):sum()", "einsum: ii: grad has no rule for a diagonal");
    of_two("sum(x, x(1))",
           "sum: argument 2: grad has no rule for a traced value there; detach(x) takes x as a constant");
    of_two("tensor{{x(1)}}", "tensor: element [1][1]: expected a number, got a value traced by grad");
    of_two("x:sizee()", "Tensor has no method \"sizee\" (did you mean \"size\"?)");
    of_two("x(1):exp()", "a traced number has no method \"exp\"");
    of_two("x ^ 2", "a Tensor has no operator ^: pow(A, x) is the power of each element");
    of_two("grad(sum, W)",
           "grad: called inside of a function whose gradient is computed, expected a call of its own: there are no "
           "second derivatives");
    of_two("map(function(e) return e end, x)",
           "map: grad has no rule for it: it does not see into a function of numbers, which exp, times, pow and the "
           "others replace; detach(x) takes x as a constant");
    of_two("summary(x)",
           "summary: grad has no rule for it: a function of the library that shows or keeps numbers; detach(x) takes x "
           "as a constant");
    // A failure leaves nothing behind, and a value that was kept is no tensor.
    CHECK(lua("grad(function(x) kept = x return sum(x) end, W) return pcall(sum, kept)") ==
          "false user:1: sum: expected a Tensor, got a value traced by grad");
    CHECK(lua("return grad(function(x) return sum(x) + sum(kept) end, W)") ==
          "user:1: grad: a value traced by an earlier call of grad, expected those of this one");
    CHECK(lua("return grad(function(x) local ok = pcall(median, x) return sum(x) end, W) == ones(2), exp(0)") ==
          "true 1.0");
}

TEST_CASE("grad: what the attention calls refuse", "[lua][grad]") {
    Shell lua;
    lua("q = randn(4, 3)");
    const auto refused = [&](const std::string& f, const std::string& sentence) {
        INFO(f);
        CHECK(lua("return (grad(function(x) return " + f + " end, randn(4, 3)))") == "user:1: " + sentence);
    };
    refused("sum(causal_linear_attention(x, q, q, {scale = x(1, 1)}))",
            "causal_linear_attention: scale: grad has no rule for it; detach(x) takes x as a constant");
    refused("sum(select(2, causal_linear_attention(x, q, q, {return_state = true, method = 'block-based'})))",
            "causal_linear_attention: grad has no rule for the state that it returns, linear_attention has one");
    refused("sum(select(2, softmax_attention(x, q, q, {return_lse = true})))",
            "softmax_attention: grad has no rule for the log-sum-exp, expected the output alone in the value");
    refused("sum(energy(x, q, q))", "energy: q: grad has no rule for it; detach(x) takes x as a constant");
    refused("sum(lowrank('favor+', x, q, {rank = 4}))",
            "lowrank: grad has no rule for it; detach(x) takes x as a constant");
    refused("sum(linear_attention_step(x({1, 1}), q({1, 1}), q({1, 1}), zeros(3, 3), {inplace = true}))",
            "inplace: true, expected false within grad, which needs the state before the call");
    lua("register_method{name = 'mine', forward = function(B, C, V) return V end}");
    refused("sum(causal_linear_attention(x, q, q, {method = 'mine'}))",
            "method: grad has no rule for \"mine\", which register_method has added: call its function");
}

TEST_CASE("grad: every method of tensors has a rule, is constant, or is refused with a reason", "[lua][grad]") {
    Shell lua;
    // A new function goes into one of the tables of lua/lib/gradient_rules.lua. cpu and device of a tensor on the CPU
    // return what they get, and need none.
    CHECK(lua("local known, missing = causeway._gradients, {} "
              "for name in pairs(known.methods(causeway._metatable('Tensor'))) do "
              "  local told = known.rules[name] or known.calls[name] or known.constant[name] or known.refused[name] "
              "  if not told and name ~= 'cpu' and name ~= 'device' and name:sub(-1) ~= '_' then missing[#missing + 1] "
              "= name end "
              "end table.sort(missing) return table.concat(missing, ' ')") == "");
    // Every other function of the library, in C++, is refused by its name where it has no rule.
    CHECK(lua("local known, wrong = causeway._gradients, {} "
              "for name, f in pairs(causeway) do "
              "  local of_library = type(f) == 'function' and debug.getinfo(f, 'S').what == 'C' "
              "    and name:sub(1, 1) ~= '_' "
              "  local told = known.rules[name] or known.calls[name] or known.constant[name] or known.seen[name] "
              "  if of_library and not told then "
              "    local _, message = pcall(grad, function(x) return f(x) end, ones(2)) "
              "    if message ~= nil and not tostring(message):find(name .. ': grad has no rule for it', 1, true) then "
              "      wrong[#wrong + 1] = name .. ' ' .. tostring(message) end "
              "  end "
              "end table.sort(wrong) return table.concat(wrong, ' | ')") == "");
    // No rule for a name that is none.
    CHECK(lua("local known, none = causeway._gradients, {} "
              "for _, of in ipairs{'rules', 'calls', 'constant', 'refused', 'each', 'lazy'} do "
              "  for name in pairs(known[of]) do "
              "    if name:find('^[%w_]+$') and not causeway[name] and name ~= 'set' and name ~= 't' and name ~= 'cpu' "
              "      and name ~= 'gpu' and name ~= 'device' and name ~= 'scaled' then none[#none + 1] = name end "
              "  end end return table.concat(none, ' ')") == "");
}
