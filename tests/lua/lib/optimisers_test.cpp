// Adam and gradient descent against their formulas, and the sentences of what they refuse.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

TEST_CASE("adam follows its formula", "[lua][optimisers]") {
    Shell lua;
    // The formula element by element in Lua's own numbers, with a decay of the weights and a rate that changes.
    CHECK(lua(R"(
        seed(3)
        local b1, b2, eps, decay = 0.8, 0.95, 1e-6, 0.1
        local p = {w = randn(2, 3, "f64"), deeper = {randn(2, "f64"), 0.7}}
        local opt = adam{p, lr = 0.05, betas = {b1, b2}, eps = eps, weight_decay = decay}
        local function flat(t) return cat(t.w:reshape(6), t.deeper[1], tensor({t.deeper[2]}, "f64"), 1):totable() end
        local x, m, v, worst = flat(p), {}, {}, 0
        for t = 1, 4 do
          local g = {w = randn(2, 3, "f64"), deeper = {randn(2, "f64"), randn(1, "f64")(1)}}
          opt.lr = 0.05 / t
          opt:step(g)
          for i, gi in ipairs(flat(g)) do
            m[i], v[i] = b1 * (m[i] or 0) + (1 - b1) * gi, b2 * (v[i] or 0) + (1 - b2) * gi ^ 2
            x[i] = x[i] * (1 - opt.lr * decay)
              - opt.lr * (m[i] / (1 - b1 ^ t)) / (math.sqrt(v[i] / (1 - b2 ^ t)) + eps)
            worst = math.max(worst, math.abs(x[i] - flat(p)[i]))
          end
        end
        return worst < 1e-14, opt.steps, tostring(opt))") == "true 4 adam: 9 parameters, lr = 0.01250, 4 steps");
    // The first step goes by the rate, whatever the gradient's length; Float32 stays.
    CHECK(lua("p = {ones(2)} adam{p}:step{tensor{1e-3, -1e3}} return eltype(p[1]), math.abs(p[1](1) - 0.999) < 1e-5, "
              "math.abs(p[1](2) - 1.001) < 1e-5") == "Float32 true true");
}

TEST_CASE("an optimiser that is called with two arguments says how it is called", "[lua][optimisers]") {
    Shell lua;
    CHECK(lua("adam({ones(2)}, {lr = 0.1})") ==
          "user:1: adam: a table as a second argument, expected one table, as in adam{params, lr = 0.01}");
    CHECK(lua("sgd(ones(2), 0.1)") ==
          "user:1: sgd: a number as a second argument, expected one table, as in sgd{params, lr = 0.01}");
}

TEST_CASE("sgd follows its formula", "[lua][optimisers]") {
    Shell lua;
    CHECK(lua("p = {x = 1, y = tensor({2, -2}, 'f64')} sgd{p, lr = 0.5}:step{x = 4, y = tensor({1, 2}, 'f64')} return "
              "p.x, p.y == tensor({1.5, -3}, 'f64')") == "-1.0 true");
    // u = 0.5 u + g + 0.1 w by hand: u1 = 1.1, w1 = 0.89, u2 = 0.55 + 1 + 0.089, w2 = w1 - 0.1 u2.
    CHECK(lua("p = {1} local opt = sgd{p, lr = 0.1, momentum = 0.5, weight_decay = 0.1} opt:step{1} local first = p[1] "
              "opt:step{1} return math.abs(first - 0.89) < 1e-15, math.abs(p[1] - 0.7261) < 1e-15") == "true true");
}

TEST_CASE("optimisers: what is replaced, and what stays", "[lua][optimisers]") {
    Shell lua;
    // The tensors of before are as they were; one that stands in two places stays one.
    CHECK(lua("w = ones(2) p = {a = w, b = {w}} sgd{p, lr = 1}:step{a = ones(2), b = {ones(2)}} return w == ones(2), "
              "p.a == zeros(2), rawequal(p.a, p.b[1])") == "true true true");
    // A step that is refused changes nothing.
    CHECK(lua("p = {a = 1, b = 2} opt = sgd{p, lr = 1} return pcall(opt.step, opt, {a = 1}), p.a, p.b, opt.steps") ==
          "false 1 2 0");
    CHECK(lua("p = {x = tensor{3, -2}} local opt = adam{p, lr = 0.1} for _ = 1, 200 do opt:step((grad(function(p) "
              "return dot(p.x, p.x) end, p))) end return norm(p.x) < 1e-2") == "true");
}

TEST_CASE("optimisers: sentences", "[lua][optimisers]") {
    Shell lua;
    const auto refused = [&](const std::string& code, const std::string& sentence) {
        INFO(code);
        CHECK(lua(code) == "user:1: " + sentence);
    };
    refused(
        "adam(ones(2))",
        "adam: params: got a 2-element Tensor{Float32}, expected a table of Tensors, as in adam{{W = W}, lr = 0.01}");
    refused("sgd{ones(2), lr = 1}",
            "sgd: params: got a 2-element Tensor{Float32}, expected a table of Tensors, as in sgd{{W = W}, lr = 0.01}");
    refused("adam({W = ones(2)})",
            "adam: params: names without a table around them, expected adam{p, lr = 0.01} with a table of Tensors p");
    refused("adam()", "adam: params: got nothing, expected a table of Tensors, as in adam{{W = W}, lr = 0.01}");
    refused("adam{{1}, {2}}", "adam: a second table of parameters, expected one that holds them all");
    refused("adam{{1}, beta = 1}", "adam: unknown option \"beta\" (did you mean \"betas\"?)");
    refused("adam{{1}, learning_rate = 1}",
            "adam: unknown option \"learning_rate\" (it is called \"lr\" here, see ?lr)");
    refused(
        "adam{{1}}:zero_grad()",
        "an optimiser has no \"zero_grad\": every call of grad gives new gradients, there is nothing to set to zero");
    refused("return adam{{1}}.state",
            "an optimiser has no \"state\": its moments are not to be read; the parameters are opt.params, the steps "
            "taken opt.steps");
    refused("adam{{1}}:stepp()", "an optimiser has no \"stepp\", expected step, params, lr or steps");
    refused("adam{{1}, lr = -1}", "adam: lr: -1, expected a number from 0");
    refused("adam{{1}, betas = {0.9, 1}}", "adam: betas[2]: 1, expected a number from 0 to below 1");
    refused("adam{{1}, betas = 0.9}", "adam: betas: got a number, expected two numbers, as in {0.9, 0.999}");
    refused("sgd{{1}, momentum = 1}", "sgd: momentum: 1, expected a number from 0 to below 1");
    refused("opt = sgd{{w = ones(2)}} opt:step(3)", "step: got a number, expected the table that grad returns");
    refused("opt.step({w = ones(2)})", "step: called with a dot, expected a colon: opt:step(gradients)");
    refused("opt:step{}", "step: grads.w: got nothing, expected one like the parameter, a 2-element Tensor{Float32}");
    refused("opt:step{w = ones(3)}",
            "step: grads.w: got a 3-element Tensor{Float32}, expected one like the parameter, a 2-element "
            "Tensor{Float32}");
    refused("sgd{{w = {1}}}:step{w = 1}", "step: grads.w: got a number, expected a table");
    refused("opt.lr = 'x' opt:step{w = ones(2)}", "lr: x, expected a number from 0");
}
