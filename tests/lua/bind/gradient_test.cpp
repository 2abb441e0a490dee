// Gradients as a person calls them: values by hand, what is returned when, and the sentences of refused calls.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

bool ends_with(const std::string& text, const std::string& end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

TEST_CASE("causal_linear_attention_grad returns a table of what the call has", "[lua][gradient]") {
    Shell lua;
    lua("function t(...) return tensor({...}, 'f64'):reshape(select('#', ...), 1) end "
        "function keys(t) local out = {} for k in pairs(t) do out[#out + 1] = k end table.sort(out) return "
        "table.concat(out, ' ') end");
    // O_1 = b c v.
    CHECK(lua("local g = causal_linear_attention_grad(t(2), t(3), t(5), t(7)) return g.dB(1, 1), g.dC(1, 1), g.dV(1, "
              "1), g.dq == g.dB, g.dk == g.dC, g.dv == g.dV") == "105.0 70.0 42.0 true true true");
    // O_2 = b_2 (γ c_1 v_1 + c_2 v_2) with everything 1 but γ and dO_2 = 3: dγ = 3.
    CHECK(lua("local one = t(1, 1) local g = causal_linear_attention_grad(one, one, one, t(0, 3), {decay = 0.5}) "
              "return g.dB(2, 1), g.dC(1, 1), g.dC(2, 1), g.dV(1, 1), math.type(g.ddecay), math.abs(g.ddecay - 3) < "
              "1e-12") == "4.5 1.5 3.0 1.5 float true");
    CHECK(lua("return keys(causal_linear_attention_grad(t(1), t(1), t(1), t(1)))") == "dB dC dV dk dq dv");
    lua("x = f64(randn(2, 3, 10, 4)) s = zeros(2, 3, 4, 4, 'f64')");
    CHECK(lua("local g = causal_linear_attention_grad(x, x, x, x, {decay = {0.5, 0.6, 1}, state = s}) "
              "return keys(g), eltype(g.ddecay), #g.ddecay, size(g.dstate)") ==
          "dB dC dV ddecay dk dq dstate dv Float64 3 2 3 4 4");
    CHECK(lua("local g = causal_linear_attention_grad(x, x, x, x, {state = s}) return keys(g), size(g.dstate)") ==
          "dB dC dV dk dq dstate dv 2 3 4 4");
    CHECK(lua("local g = causal_linear_attention_grad(x, x, x, x, {decay = fill(0.5, 3), normalize = true, block = 3}) "
              "return keys(g), size(g.ddecay)") == "dB dC dV ddecay dk dq dv 3");
    CHECK(lua("return keys(causal_linear_attention_grad(x, x, x, x, {decay = 0.5, ddecay = false}))") ==
          "dB dC dV dk dq dv");
    CHECK(
        lua("local a = causal_linear_attention_grad(x, x, x, x, {scale = 2, method = 'fleet'}) local b = "
            "causal_linear_attention_grad{q = x, k = x, v = x, dO = x, scale = 2} return maximum(abs(a.dB - b.dB))") ==
        "0.0");
}

TEST_CASE("linear_attention_grad returns a table of what the update has", "[lua][gradient]") {
    Shell lua;
    lua("function keys(t) local out = {} for k in pairs(t) do out[#out + 1] = k end table.sort(out) return "
        "table.concat(out, ' ') end");
    lua("q, k, v, G, g, b = randn(1, 4, 10, 3), randn(1, 2, 10, 3), randn(1, 2, 10, 5), randn(1, 4, 10, 5), -rand(1, "
        "2, 10, 3), rand(1, 2, 10)");
    CHECK(lua("return keys(linear_attention_grad(q, k, v, G))") == "dB dC dV dk dq dstate dv");
    CHECK(lua("return keys(linear_attention_grad(q, k, v, G, {update = 'delta', beta = b}))") ==
          "dB dC dV dbeta dk dq dstate dv");
    CHECK(lua("r = linear_attention_grad(q, k, v, G, {update = 'gated_delta', log_decay = g, beta = b, chunk = 4, "
              "scale = 0.5}) return keys(r), size(r.dlog_decay)") ==
          "dB dC dV dbeta dk dlog_decay dq dstate dv 1 2 10 3");
    CHECK(lua("local w = linear_attention_grad{q = q, k = k, v = v, dO = G, update = 'gated_delta', log_decay = g, "
              "beta = b, mode = 'recurrent', scale = 0.5} "
              "for name, x in pairs(r) do if norm(x - w[name]) > 1e-5 * norm(w[name]) then return name end end return "
              "'all agree'") == "all agree");
    // What arrives at the final state of no token at all is the gradient of the first one.
    CHECK(lua("local n = zeros(1, 1, 0, 2) local d = ones(1, 1, 2, 2) return norm(linear_attention_grad(n, n, n, n, "
              "{dstate = d}).dstate - d)") == "0.0");
}

TEST_CASE("gradients say in one sentence what does not fit", "[lua][gradient]") {
    Shell lua;
    lua("x = ones(1, 2, 6, 3)");
    const auto refused = [&](const std::string& code, const std::string& message) {
        CAPTURE(code);
        const std::string got = lua("return " + code);
        CAPTURE(got);
        CHECK(ends_with(got, message));
    };
    refused("causal_linear_attention_grad(x, x, x)", "dO: expected a Tensor, got nothing");
    refused("causal_linear_attention_grad(x, x, x, ones(1, 2, 6, 4))", "dO: 1×2×6×4, expected 1×2×6×3 like V");
    refused("causal_linear_attention_grad(x, x, x, x, {decoy = 1})",
            "causal_linear_attention_grad: unknown option \"decoy\" (did you mean \"decay\"?)");
    refused("causal_linear_attention_grad(x, x, x, x, {decay = 'a'})",
            "decay: expected a number, a list of numbers or a Tensor, got a string");
    refused("causal_linear_attention_grad(x, x, x, x, {decay = {}})",
            "decay: no values, expected a number in (0, 1] or one per head");
    refused("causal_linear_attention_grad(x, x, x, x, {block = 0})", "block: 0, expected 1 or more");
    refused("linear_attention_grad(x, x, x, 1)", "dO: expected a Tensor, got a number");
    refused("linear_attention_grad(x, x, x, x, {update = 'gated'})", "log_decay: missing, update = \"gated\" needs it");
    refused("linear_attention_grad(x, x, x, x, {update = 'gatd'})", "(did you mean \"gated\"?)");
    refused("linear_attention_grad(x, x, x, x, {dstate = ones(3)})",
            "dstate: 3, expected 1×2×3×3 like the final state");
    refused("linear_attention_grad(x, x, x, x, {dstate = 3})", "dstate: expected a Tensor, got a number");
}
