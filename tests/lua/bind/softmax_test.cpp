// softmax_attention, its gradients and its energy as a person types them.
#include "lua/bind/gpu.hpp"  // gpu_text
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

// Inputs of two heads of keys with two queries each: 20 queries on 25 positions, d = 5, d_v = 3.
const char* const inputs = R"(
  seed(3)
  q, k, v, G = randn(2, 4, 20, 5), randn(2, 2, 25, 5), randn(2, 2, 25, 3), randn(2, 4, 20, 3)
  function near(a, b) return maximum(abs(a - b)) <= 1e-5 end
  function shape(A) return table.concat({A:size()}, ' ') end
)";

}  // namespace

TEST_CASE("softmax_attention returns the output and, asked for, the log-sum-exp", "[lua][softmax]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    CHECK(lua("return select('#', softmax_attention(q, k, v)), shape(softmax_attention(q, k, v))") == "1 2 4 20 3");
    CHECK(lua("O, lse = softmax_attention(q, k, v, {return_lse = true}) return shape(O), shape(lse), O:eltype(), "
              "lse:eltype()") == "2 4 20 3 2 4 20 Float32 Float32");
    CHECK(lua("return near(O, softmax_attention(q, k, v, {method = 'standard'})), near(O, softmax_attention{q = q, k = "
              "k, v = v, scale = 1 / sqrt(5), causal = true})") == "true true");
    CHECK(lua("return near(O, softmax_attention(q, k, v, {causal = false}))") == "false");
    CHECK(lua("a, b = softmax_attention(f16(q), f16(k), f16(v), {return_lse = true}) return a:eltype(), b:eltype()") ==
          "Float16 Float32");
    // Weights 1/4 and 3/4: scores 0 and log 3.
    CHECK(lua("x = tensor({0, 1}, 'f64'):reshape(2, 1) y = tensor({0, 8}, 'f64'):reshape(2, 1) "
              "o, l = softmax_attention(tensor({math.log(3)}, 'f64'):reshape(1, 1), x, y, {return_lse = true}) return "
              "math.abs(o(1, 1) - 6) < 1e-14, math.abs(l(1) - math.log(4)) < 1e-15") == "true true");
}

TEST_CASE("softmax_attention_grad returns dq, dk and dv", "[lua][softmax]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    CHECK(lua("g = softmax_attention_grad(q, k, v, G) return shape(g.dq), shape(g.dk), shape(g.dv)") ==
          "2 4 20 5 2 2 25 5 2 2 25 3");
    CHECK(lua("s = softmax_attention_grad{q = q, k = k, v = v, dO = G, method = 'standard'} return near(g.dq, s.dq), "
              "near(g.dk, s.dk), near(g.dv, s.dv)") == "true true true");
    CHECK(lua("O, lse = softmax_attention(q, k, v, {return_lse = true}) s = softmax_attention_grad(q, k, v, G, {O = O, "
              "lse = lse}) return near(g.dq, s.dq), near(g.dk, s.dk), near(g.dv, s.dv)") == "true true true");
    // The output of one query on one key is v: its gradient goes there alone.
    CHECK(lua("one = tensor({2.0}, 'f64'):reshape(1, 1) r = softmax_attention_grad(one, one, one, one) return r.dq(1, "
              "1), r.dk(1, 1), r.dv(1, 1)") == "0.0 0.0 2.0");
}

TEST_CASE("the gradient of the energy is attention", "[lua][softmax]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    CHECK(lua("F, total = energy(q, k, v) return shape(F), math.abs(total - sum(F)) < 1e-3") == "2 4 20 true");
    CHECK(lua("O, lse = softmax_attention(q, k, v, {return_lse = true}) return near(F, lse), near(energy_grad(q, k, "
              "v), O)") == "true true");
    CHECK(lua("q, k, v = f64(q), f64(k), f64(v) z = randn(2, 4, 20, 3) z = f64(z) e = zeros(2, 4, 20, 3, 'f64') "
              "e:set(1e-5, 1, 3, 7, 2) "
              "local _, above = energy(q, k, v, z + e) local _, below = energy{q = q, k = k, v = v, zeta = z - e} "
              "return math.abs((above - below) / 2e-5 - energy_grad(q, k, v, z)(1, 3, 7, 2)) < 1e-6") == "true");
    // Two equally likely values 0 and 2: variance 1.
    CHECK(lua("H = energy_hessian(zeros(1, 2, 'f64'), zeros(2, 2, 'f64'), tensor({0, 2}, 'f64'):reshape(2, 1)) return "
              "shape(H), H(1, 1)") == "1 1 1.0");
}

TEST_CASE("softmax attention and energy name what they cannot use", "[lua][softmax]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    CHECK(lua("softmax_attention(q, k)") == "user:1: v: expected a Tensor, got nothing");
    CHECK(lua("softmax_attention(q, k, v, {casual = true})") ==
          "user:1: softmax_attention: unknown option \"casual\" (did you mean \"causal\"?)");
    CHECK(lua("softmax_attention(q, k, v, {causal = 1})") == "user:1: causal: expected true or false, got a number");
    CHECK(lua("softmax_attention(q, k, v, {method = 'standart'})") ==
          "user:1: method: \"standart\", expected one of \"flash\", \"standard\" (did you mean \"standard\"?)");
    CHECK(lua("softmax_attention(k, q, q)") == "user:1: q: heads 2, expected a multiple of the 4 of k and v");
    CHECK(lua("softmax_attention(q, k, v, {scale = 1/0})") == "user:1: scale: inf, expected a finite number");
    CHECK(lua("softmax_attention_grad(q, k, v)") == "user:1: dO: expected a Tensor, got nothing");
    CHECK(lua("softmax_attention_grad(q, k, v, v)") == "user:1: dO: 2×2×25×3, expected 2×4×20×3 like the output");
    CHECK(lua("softmax_attention_grad(q, k, v, G, {lse = G})") ==
          "user:1: O: missing, lse was given and the gradient needs both or neither");
    CHECK(lua("softmax_attention_grad(q, k, v, G, {O = G})") ==
          "user:1: lse: missing, O was given and the gradient needs both or neither");
    CHECK(lua("softmax_attention_grad(q, k, v, G, {O = G, lse = G})") == "user:1: lse: 2×4×20×3, expected 2×4×20");
    CHECK(lua("energy(q, k, v, 1)") == "user:1: zeta: expected a Tensor, got a number");
    CHECK(lua("energy(q, k, v, q)") == "user:1: zeta: 2×4×20×5, expected 2×4×20×3");
    CHECK(lua("energy_grad(q, k, v, f64(G))") == "user:1: zeta: Float64, expected Float32 like q");
    CHECK(lua("energy_hessian(q, k, v)") == "user:1: q: length 20, expected 1, one query");
    CHECK(lua("energy(q, k, v, nil, {method = 'flash'})").find("user:1: energy: unknown option \"method\"") == 0);
    CHECK(lua("opcount(function() return q * 2 end)") ==
          "user:1: opcount: nothing that f called is counted, expected causal_linear_attention, linear_attention or "
          "softmax_attention in it");
    CHECK(lua("opcount(function() energy(q, k, v) end)") ==
          "user:1: opcount: energy is not counted, expected softmax_attention");
    CHECK(lua("softmax_attention(q, k, v, {device = 'gpu'})") ==
          "user:1: device: \"gpu\" cannot be used, " + causeway::lua::gpu_text());
}

// A pair of a query and a key: d + 1 + d_v multiplies, d + d_v + 2 adds, an exponential; a query: d_v divisions.
TEST_CASE("opcount counts softmax_attention", "[lua][softmax]") {
    Shell lua;
    lua("x, y = randn(10, 3), randn(10, 4) "
        "function count(options) local c = opcount(function() softmax_attention(x, x, y, options) end) return "
        "c.multiplies, c.adds, c.exponentials, c.divisions end");
    CHECK(lua("return count{method = 'standard'}") == "440 495 55 40");
    CHECK(lua("return count{causal = false}") == "800 900 100 40");
}

TEST_CASE("options of softmax attention are offered by Tab", "[lua][softmax]") {
    Shell lua;
    CHECK(lua("return table.concat(causeway._options.softmax_attention.method, ' ')") == "flash standard");
    // What is offered is what the functions take.
    CHECK(lua("local x = randn(1, 1) "
              "for _, f in ipairs{'softmax_attention', 'softmax_attention_grad', 'energy', 'energy_grad', "
              "'energy_hessian'} do "
              "  for name in pairs(causeway._options[f]) do "
              "    local arguments = f == 'softmax_attention' and {x, x, x} or {x, x, x, x} "
              "    arguments[#arguments + 1] = {[name] = print} "
              "    local ok, e = pcall(_G[f], table.unpack(arguments)) "
              "    if ok or e:find('unknown option') then return f, name end "
              "  end "
              "end "
              "return 'all'") == "all");
}
