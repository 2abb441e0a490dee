// What other libraries compute, from their arguments: tests/data/oracles holds outputs and gradients of their reference
// forms (tests/data/oracles/make.py).
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"
#include "tests/paths.hpp"

using causeway::testing::Shell;

namespace {

const char* const compare = R"(
  -- The worst relative error of output, state and gradients of a file, in a mode.
  function worst(file, mode)
    local x = load(file)
    local given, gradients = { mode = mode }, {}
    for name, value in pairs(from_fla{ q = x.q, k = x.k, v = x.v, g = x.g, beta = x.beta,
        initial_state = x.initial_state, cu_seqlens = x.cu_seqlens,
        scale = file:find("ssd") and 1 or nil }) do given[name] = value end
    local o, S = linear_attention(given)
    local off = 0
    local function compare(a, b)
      local e = relative_error(a, b)
      if not (e <= off) and off == off then off = e end  -- NaN stays
    end
    compare(o, x.o)
    compare(S, x.final_state)
    given.dO, given.dstate = x["do"], x.dht
    local d = linear_attention_grad(given)
    for of, name in pairs{ dq = "dq", dk = "dk", dv = "dv", dlog_decay = "dg", dbeta = "dbeta",
        dstate = "dinitial_state" } do
      if x[name] then compare(d[of], x[name]) end
    end
    return off
  end)";

}  // namespace

TEST_CASE("outputs, states and gradients are those of the reference forms of other libraries", "[lua][oracles]") {
    Shell lua;
    lua(compare);
    for (const std::string file : {"fla_linear", "fla_simple_gla", "fla_simple_gla_strong", "fla_gla", "fla_gla_strong",
                                   "fla_delta", "fla_gated_delta", "fla_gated_delta_strong", "fla_kda_grouped_values",
                                   "fla_kda_strong", "hf_gated_delta_grouped_values", "hf_kda", "mamba_ssd", "flashqla",
                                   "flashqla_grouped_values", "flashqla_packed"}) {
        for (const std::string mode : {"recurrent", "chunkwise", "parallel"}) {
            INFO(file << " " << mode);
            CHECK(lua("local off = worst('" + source_dir() + "/tests/data/oracles/" + file + ".safetensors', '" + mode +
                      "') return off <= 1e-5 or off") == "true");
        }
    }
}

TEST_CASE("arguments of other libraries become those of linear_attention", "[lua][convert]") {
    Shell lua;
    lua(R"(
      seed(6)
      q, k, v, g, b = randn(2, 10, 4, 3), randn(2, 10, 2, 3), randn(2, 10, 2, 5), -rand(2, 10, 2), rand(2, 10, 2)
      s = randn(2, 2, 3, 5)
      function P(x)
        if ndims(x) == 4 then return permutedims(x, 1, 3, 2, 4) end
        return permutedims(x, 1, 3, 2)
      end
      options = { update = "gated_delta", log_decay = P(g), beta = P(b), scale = 1 / math.sqrt(3), state = s }
      want, last = linear_attention(P(q), P(k), P(v), options)
      function same(given)
        local o, S = linear_attention(given)
        return maximum(abs(P(o) - want)) < 1e-5 and maximum(abs(S - last)) < 1e-5
      end)");
    CHECK(lua("return same(from_fla{q = q, k = k, v = v, g = g, beta = b, initial_state = s})") == "true");
    CHECK(lua("return same(from_fla{q = q, k = k, v = v, g = g / math.log(2), beta = b, initial_state = s:t(), "
              "gate = 'log2', state_order = 'vk'})") == "true");
    CHECK(lua("return same(from_hf{query = q, key = k, value = v, g = exp(g), gate = 'alpha', beta = b, "
              "initial_state = s})") == "true");
    CHECK(lua("return same(from_onnx{query = q:reshape(2, 10, 12), key = k:reshape(2, 10, 6), value = v:reshape(2, 10, "
              "10), decay = g, beta = b, past_state = s, q_num_heads = 4, kv_num_heads = 2})") == "true");
    CHECK(lua("x = from_flashinfer{q = q:reshape(20, 4, 3), k = k:reshape(20, 2, 3), v = v:reshape(20, 2, 5), "
              "g = exp(g):reshape(20, 2), beta = b:reshape(20, 2), initial_state = s:t(), cu_seqlens = {0, 10, 20}} "
              "o, S = linear_attention(x) o = o:reshape(2, 10, 4, 5) "
              "return maximum(abs(P(o) - want)) < 1e-5, maximum(abs(S - last)) < 1e-5") == "true true");
    // What is left out: no gate and no β, the scale, lengths of one.
    CHECK(lua("x = from_fla{q = q, k = k, v = v} return x.update, x.scale == 1 / math.sqrt(3), x.layout") ==
          "linear true bnhd");
    CHECK(lua("return from_fla{q = q, k = k, v = v, beta = b}.update, from_fla{q = q, k = k, v = v, gk = g}.update") ==
          "delta gated");
    CHECK(lua("x = from_hf{query = q, key = k, value = v, g = g, beta = b, use_qk_l2norm_in_kernel = true} "
              "y = {} for name, value in pairs(x) do y[name] = value end y.q, y.k, y.qk_l2norm = l2norm(x.q), "
              "l2norm(x.k) "
              "return x.qk_l2norm, y.qk_l2norm, all(eq(linear_attention(x), linear_attention(y)))") == "true nil true");
    CHECK(lua("x = from_onnx{query = q:reshape(2, 10, 12), key = k:reshape(2, 10, 6), value = v:reshape(2, 10, 10), "
              "decay = randn(2, 10, 6), q_num_heads = 4, kv_num_heads = 2, update_rule = 'gated', scale = 2} "
              "return x.update, x.scale, size(x.log_decay)") == "gated 2 2 10 2 3");

    // Gates of a projection and the sigmoid of β within the call.
    CHECK(lua("function near(x, y) return relative_error((linear_attention(x)), (linear_attention(y))) < 1e-6 end "
              "A, bias, wide = randn(2), randn(2), randn(6) G = randn(2, 10, 2, 3) "
              "made = decay_gate(P(g), A, {dt_bias = bias}) "
              "return near(from_fla{q = q, k = k, v = v, g = g, beta = g, use_gate_in_kernel = true, A_log = A, "
              "dt_bias = bias, use_beta_sigmoid_in_kernel = true}, from_fla{q = q, k = k, v = v, g = P(made), "
              "beta = sigmoid(g)})") == "true");
    CHECK(lua("made = decay_gate(P(G), A, {dt_bias = wide:reshape(2, 3), lower_bound = -5}) "
              "return near(from_fla{q = q, k = k, v = v, g = G, use_gate_in_kernel = true, A_log = A, dt_bias = wide, "
              "safe_gate = true, lower_bound = -5}, from_fla{q = q, k = k, v = v, g = P(made)})") == "true");
    CHECK(lua("from_fla{q = q, k = k, v = v, g = g, A_log = A}") ==
          "user:1: from_fla: A_log: given, expected it beside use_gate_in_kernel = true");
    CHECK(lua("from_fla{q = q, k = k, v = v, g = g, use_gate_in_kernel = true}") ==
          "user:1: from_fla: A_log: expected a Tensor, got nothing");
    CHECK(lua("from_fla{q = q, k = k, v = v, use_gate_in_kernel = true, A_log = A}") ==
          "user:1: from_fla: g: nothing, expected the projection that use_gate_in_kernel makes gates of");
    CHECK(lua("from_fla{q = q, k = k, v = v, g = g, use_gate_in_kernel = true, A_log = A, safe_gate = true}") ==
          "user:1: from_fla: lower_bound: nothing, expected a number below 0 beside safe_gate");
    CHECK(lua("from_fla{q = q, k = k}") == "user:1: from_fla: v: expected a Tensor, got nothing");
    CHECK(lua("from_fla{q = q, k = k, v = v, g = g, gk = g}") ==
          "user:1: from_fla: gk: given beside g, expected one gate");
    CHECK(lua("from_fla{q = q, k = k, v = v, gate = 'ln'}") ==
          "user:1: from_fla: gate: ln, expected one of \"alpha\", \"log\", \"log2\"");
    CHECK(lua("from_fla{q = q, k = k, v = v, gates = g}") ==
          "user:1: from_fla: unknown option \"gates\" (did you mean \"gate\"?)");
    CHECK(lua("from_onnx{query = q, key = k, value = v, q_num_heads = 4, kv_num_heads = 2}") ==
          "user:1: from_onnx: query: 2×10×4×3, expected [batch, length, heads × width] of 4 heads");

    // What is not a gate or a β of FlashInfer is ones; transformers' functions need both.
    CHECK(lua("p, r, u = q:reshape(20, 4, 3), k:reshape(20, 2, 3), v:reshape(20, 2, 5) "
              "a, c = from_flashinfer{q = p, k = r, v = u, g = exp(g):reshape(20, 2)}, "
              "from_flashinfer{q = p, k = r, v = u, g = exp(g):reshape(20, 2), beta = ones(20, 2)} "
              "return a.update, relative_error((linear_attention(a)), (linear_attention(c))) == 0, "
              "from_flashinfer{q = p, k = r, v = u}.update") == "gated_delta true delta");
    CHECK(lua("from_hf{query = q, key = k, value = v, g = g}") ==
          "user:1: from_hf: beta: expected a Tensor, got nothing");
    CHECK(lua("from_hf{query = q, key = k, value = v}") == "user:1: from_hf: g: expected a Tensor, got nothing");

    CHECK(lua("from_fla()") == "user:1: from_fla: nothing, expected one table, as in from_fla{q = q, k = k, v = v}");
    CHECK(lua("from_onnx()") ==
          "user:1: from_onnx: nothing, expected one table, as in from_onnx{query = x, key = x, value = x, ...}");
    CHECK(lua("from_fla{q = 3, k = k, v = v}") == "user:1: from_fla: q: a number, expected a Tensor");
    CHECK(lua("from_fla{q = q, k = k, v = v, scale = 'x'}") == "user:1: from_fla: scale: a string, expected a number");
    CHECK(lua("return from_fla{q = q, k = k, v = v, output_final_state = true}.update") == "linear");
    CHECK(lua("from_onnx{query = q, key = k, value = v, q_num_heads = 0, kv_num_heads = 2}") ==
          "user:1: from_onnx: q_num_heads: 0, expected a whole number from 1");
}
