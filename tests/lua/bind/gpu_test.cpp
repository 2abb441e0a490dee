// Tensors on the GPU in the shell: what is said where there is none, and that every call runs where its tensors are.
#include "lua/bind/gpu.hpp"

#include <algorithm>

#include "core/calls/description.hpp"
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"
#include "tests/paths.hpp"

using causeway::testing::Shell;

namespace {

bool on_gpu() {
    std::string why;
    if (causeway::lua::gpu_available(&why)) return true;
    causeway::test::skip("tests of the GPU", why);
    return false;
}

const char* const gpu_inputs = R"(
  seed(3)
  N = 100
  q, k, v = randn(2, 4, N, 24), randn(2, 4, N, 24), randn(2, 4, N, 16)
  k = k / sqrt(sum(pow(k, 2), 4))
  G = randn(2, 4, N, 16)
  g, beta = -rand(2, 4, N, 'f32'), rand(2, 4, N, 'f32')
  decay = {1, 0.9, 0.5, 0.99}
  function near(a, b) return norm(a - b) <= 1e-4 * norm(b) end
  function both(f, ...)
    local there = {}
    for i, x in ipairs{...} do there[i] = x:gpu() end
    return f(table.unpack(there)), f(...)
  end
)";

}  // namespace

TEST_CASE("Without a GPU, asking for one says why and loses nothing", "[lua][gpu]") {
    if (causeway::lua::gpu_available()) return;
    Shell lua;
    const std::string why = causeway::lua::gpu_text();
    CHECK(lua("x = randn(3, 4) return x:gpu()") == "user:1: gpu: " + why);
    CHECK(lua("return x:cpu() == x, x:device()") == "true cpu");
    CHECK(lua("return causal_linear_attention(randn(5, 2), randn(5, 2), randn(5, 2), {device = 'gpu'})") ==
          "user:1: device: \"gpu\" cannot be used, " + why);
    CHECK(
        lua("return causal_linear_attention(randn(5, 2), randn(5, 2), randn(5, 2), {device = 'tpu'})").find("device") !=
        std::string::npos);
    CHECK(lua("return has_gpu()").find("false ") == 0);
    CHECK(lua("return gpu_time(function() end)").find("gpu_time: no GPU: ") != std::string::npos);
    CHECK(lua("return size(causal_linear_attention(randn(5, 2), randn(5, 2), randn(5, 2), {device = 'cpu', precision = "
              "'tf32'}))") == "5 2");
    CHECK(lua("return causal_linear_attention(randn(5, 2), randn(5, 2), randn(5, 2), {precision = 'f8'})")
              .find("precision") != std::string::npos);
}

#ifdef CAUSEWAY_GPU
TEST_CASE("A call has the GPU among its devices where it runs there", "[lua][gpu]") {
    for (const auto& call : causeway::calls::descriptions()) {
        const auto* device = call.option("device");
        if (!device) continue;
        CAPTURE(call.name);
        const auto devices = device->choices();
        const bool named = std::find(devices.begin(), devices.end(), "gpu") != devices.end();
        CHECK(named == (causeway::lua::gpu_call(call.name.c_str()) != nullptr));
    }
}
#endif

TEST_CASE("Tensors go to the GPU and come back the same", "[lua][gpu]") {
    if (!on_gpu()) return;
    Shell lua;
    CHECK(lua("x = randn(3, 4) y = x:gpu() return y:device(), y:cpu() == x, table.concat({y:size()}, ' '), y:eltype(), "
              "#y, length(y), y:gpu() == y") == "gpu true 3 4 Float32 12 12 true");
    CHECK(lua("return y:bf16():cpu() == bf16(x), y:f16():cpu() == f16(x), y:bf16():f32():cpu() == f32(bf16(x)), "
              "y:reshape(4, 3):cpu() == x:reshape(4, 3)") == "true true true true");
    CHECK(lua("return zeros(0, 3):gpu():cpu():size()") == "0 3");
    CHECK(lua("return f64(x):gpu()").find("Float64") != std::string::npos);
    CHECK(lua("return y(1, 2)").find("A:cpu()") != std::string::npos);
    CHECK(lua("return y:sin()").find("has no method \"sin\"") != std::string::npos);
    CHECK(lua("return sum(y)").find("Tensor on the GPU") != std::string::npos);
    CHECK(lua("return gpu_randn(1e6, 1e6)").find("bytes of device memory") != std::string::npos);
    CHECK(lua("return y:cpu() == x") == "true");
    CHECK(lua("return y == y:copy(), y == y:scaled(2), y == y:f16(), y:reshape(-1, 1) == y:reshape(':', 1), select(2, "
              "size(y:reshape(1, -1))) == #y") == "true false false true true");
    CHECK(lua("local r = sweep{grid = {N = {1e9, 10}}, run = function(p) gpu_randn(1, 32, p.N, 128) return {x = 1} "
              "end} return r[1].status, r[2].status") == "OOM ok");
}

TEST_CASE("Every attention call runs where its tensors are", "[lua][gpu]") {
    if (!on_gpu()) return;
    Shell lua;
    REQUIRE(lua(gpu_inputs) == "");
    CHECK(lua("a, b = both(function(q, k, v) return (causal_linear_attention(q, k, v, {decay = decay})) end, q, k, v) "
              "return a:device(), near(a:cpu(), b)") == "gpu true");
    CHECK(lua("for _, m in ipairs(method_list()) do if m.device[2] then "
              "  a, b = both(function(q, k, v) return (causal_linear_attention(q, k, v, {decay = decay, method = "
              "m.name})) end, q, k, v) "
              "  if not near(a:cpu(), b) then return m.name end "
              "  if m.state then "
              "    a, s = causal_linear_attention(q:gpu(), k:gpu(), v:gpu(), {decay = decay, method = m.name, "
              "return_state = true}) "
              "    b, t = causal_linear_attention(q, k, v, {decay = decay, method = m.name, return_state = true}) "
              "    if not near(s:cpu(), t) then return m.name .. ' state' end "
              "    a = causal_linear_attention(q:gpu(), k:gpu(), v:gpu(), {decay = decay, method = m.name, state = s}) "
              "    b = causal_linear_attention(q, k, v, {decay = decay, method = m.name, state = t}) "
              "    if not near(a:cpu(), b) then return m.name .. ' resumed' end "
              "  end "
              "end end return 'all'") == "all");
    CHECK(lua("for _, m in ipairs{'auto', 'block-based', 'recursion', 'hybrid', 'outer-product-blockwise'} do for _, b "
              "in ipairs{1, 10, 1000} do "
              "  a, c = both(function(q, k, v) return (causal_linear_attention(q, k, v, {decay = decay, method = m, "
              "block = b})) end, q, k, v) "
              "  if not near(a:cpu(), c) then return m, b end end end return 'same'") == "same");
    CHECK(lua("return causal_linear_attention(q:gpu(), k:gpu(), v:gpu(), {method = 'LA', block = 32})")
              .find("block: 32, expected 64, the block that lightning-attention-2") != std::string::npos);
    CHECK(lua("return causal_linear_attention(q:gpu(), k:gpu(), v:gpu(), {method = 'outer-product', block = 32})")
              .find("block: the method \"outer-product\" has none") != std::string::npos);
    CHECK(lua("return causal_linear_attention_grad(q:gpu(), k:gpu(), v:gpu(), G:gpu(), {block = 32})")
              .find("block: given, but on the GPU the chunks") != std::string::npos);
    CHECK(lua("p, r = exp(q), exp(k) a, s = causal_linear_attention(p:gpu(), r:gpu(), v:gpu(), {normalize = true, "
              "return_state = true}) "
              "b, t = causal_linear_attention(p, r, v, {normalize = true, return_state = true}) return near(a:cpu(), "
              "b), near(s:cpu(), t)") == "true true");
    CHECK(lua("return near(causal_linear_attention(q, k, v, {decay = decay, scale = 0.5, device = 'gpu'}), "
              "causal_linear_attention(q, k, v, {decay = decay, scale = 0.5}))") == "true");
    CHECK(lua("return causal_linear_attention(q:gpu(), k:gpu(), v:gpu(), {device = 'cpu'}):device()") == "gpu");
    CHECK(lua("register_method{name = 'mine', forward = function(B, C, V) return V end}") == "");
    CHECK(lua("return causal_linear_attention(q, k, v, {method = 'mine', device = 'gpu'})")
              .find("method: \"mine\" is written in Lua, expected tensors on the CPU") != std::string::npos);
    CHECK(lua("return causal_linear_attention(q:gpu(), k, v)").find("device: argument 2 has a Tensor on the CPU") !=
          std::string::npos);
    for (const char* options : {"{}", "{update = 'gated', log_decay = g}", "{update = 'delta', beta = beta}",
                                "{update = 'gated_delta', log_decay = g, beta = beta}"}) {
        CAPTURE(options);
        CHECK(lua(std::string("o = ") + options +
                  " o.device = 'gpu' a, s = linear_attention(q, k, v, o) o.device = 'cpu' b, t = linear_attention(q, "
                  "k, v, o) return near(a, b), near(s, t)") == "true true");
        CHECK(lua(std::string("o = ") + options +
                  " a = linear_attention(q, k, v, o) o.device = 'gpu' o.deterministic = 'prefix' "
                  "return near(linear_attention(q, k, v, o), a)") == "true");
        CHECK(lua(std::string("o = ") + options +
                  " o.mode = 'parallel' o.device = 'gpu' a, s = linear_attention(q, k, v, o) o.device = 'cpu' b, t = "
                  "linear_attention(q, k, v, o) "
                  "return near(a, b), near(s, t)") == "true true");
        CHECK(lua(std::string("o = ") + options +
                  " o.device = 'gpu' x = linear_attention_grad(q, k, v, G, o) o.device = 'cpu' y = "
                  "linear_attention_grad(q, k, v, G, o) "
                  "for key, value in pairs(y) do if not near(x[key], value) and norm(value) > 0 then return key end "
                  "end return 'same'") == "same");
    }
    for (const char* options : {"{}", "{a = exp(g)}", "{u = k / 2, w = k}", "{a = exp(-abs(q)), u = k / 2, w = k}"}) {
        for (const char* mode : {"chunkwise", "recurrent"}) {
            CAPTURE(options, mode);
            CHECK(lua(std::string("o = ") + options + " o.mode = '" + mode +
                      "' o.device = 'gpu' a, s = general_linear_attention(q, k, v, o) o.device = 'cpu' b, t = "
                      "general_linear_attention(q, k, v, o) return near(a, b), near(s, t)") == "true true");
        }
    }
    CHECK(lua("o = {log_decay = g, beta = beta} b, t = comba(q, k, v, o) o.device = 'gpu' a, s = comba(q, k, v, o) "
              "return near(a, b), near(s, t)") == "true true");
    CHECK(lua("o = {u = k / 2, w = k} S = zeros(2, 4, 24, 16):gpu() for key, x in pairs(o) do o[key] = x:gpu() end "
              "a, s = general_linear_attention(q:gpu(), k:gpu(), v:gpu(), {u = o.u, w = o.w, state = S}) "
              "b, t = general_linear_attention(q, k, v, {u = k / 2, w = k}) "
              "return a:device(), near(a:cpu(), b), near(s:cpu(), t)") == "gpu true true");
    CHECK(lua("o = {a = exp(-abs(q)), u = k / 2, w = k} y = general_linear_attention_grad(q, k, v, G, o) "
              "o.device = 'gpu' x = general_linear_attention_grad(q, k, v, G, o) "
              "for key, value in pairs(y) do if not near(x[key], value) then return key end end return 'same'") ==
          "same");
    CHECK(lua("return general_linear_attention(q, k, v, {mode = 'parallel', device = 'gpu'})")
              .find("mode: \"parallel\" does not run on the GPU by the general rule") != std::string::npos);
    CHECK(
        lua("x, w = randn(2, 9, 5), randn(5, 3) a, s = short_convolution(x, w, {activation = 'silu', device = 'gpu'}) "
            "b, t = short_convolution(x, w, {activation = 'silu'}) m = {weight = rand(16), gate = v} "
            "return near(a, b), near(s, t), near(l2norm(k:gpu()):cpu(), l2norm(k)), "
            "near(rms_norm{x = v, weight = m.weight, gate = v, device = 'gpu'}, rms_norm(v, m)), "
            "near(decay_gate(g:gpu(), zeros(4):gpu()):cpu(), decay_gate(g, zeros(4)))") == "true true true true true");
    CHECK(lua("f = function(x, w, there) y = short_convolution(there(x), there(w), {activation = 'silu'}) "
              "return mean(pow(l2norm(y):cpu(), 3)) end "
              "a = grad(function(x) return f(x, w, function(A) return A:gpu() end) end, x) "
              "b = grad(function(x) return f(x, w, function(A) return A end) end, x) return near(a, b)") == "true");
    CHECK(lua("for _, o in ipairs{{}, {decay = decay}, {decay = 0.9}, {normalize = true}, {decay = decay, normalize = "
              "true, scale = 2}} do "
              "  local p, r = exp(q), exp(k) "
              "  o.device = 'gpu' x = causal_linear_attention_grad(p, r, v, G, o) o.device = 'cpu' y = "
              "causal_linear_attention_grad(p, r, v, G, o) "
              "  for i, value in pairs(y) do if type(value) == 'number' then if math.abs(x[i] - value) > 1e-3 * "
              "math.abs(value) then return i end "
              "    elseif not near(f32(x[i]), f32(value)) then return i end end "
              "end return 'same'") == "same");
    CHECK(lua("a, l = softmax_attention(q:gpu(), k:gpu(), v:gpu(), {return_lse = true}) b, m = softmax_attention(q, k, "
              "v, {return_lse = true}) return near(a:cpu(), b), near(l:cpu(), m)") == "true true");
    CHECK(lua("o = {device = 'gpu'} x = softmax_attention_grad(q, k, v, G, o) y = softmax_attention_grad(q, k, v, G) "
              "for key, value in pairs(y) do if not near(x[key], value) then return key end end return 'same'") ==
          "same");
    CHECK(lua("for _, name in ipairs{'favor+', 'rfa', 'taylor', 'hedgehog'} do "
              "  local B, C = lowrank(name, q, k, {seed = 1}) local D, E = lowrank(name, q:gpu(), k:gpu(), {seed = 1}) "
              "  if not (near(D:cpu(), B) and near(E:cpu(), C)) then return name end end return 'same'") == "same");
    CHECK(lua("return lowrank('nystrom', q:gpu(), k:gpu())").find("nystrom does not run on the GPU") !=
          std::string::npos);
    CHECK(lua("t = function(A) return A(':', ':', {1, 1}, ':') end S = randn(2, 4, 24, 16) "
              "o = {update = 'gated_delta', log_decay = g(':', ':', {1, 1}), beta = beta(':', ':', {1, 1})} b, u = "
              "linear_attention_step(t(q), t(k), t(v), S, o) "
              "o.device = 'gpu' a, s = linear_attention_step(t(q), t(k), t(v), S, o) return near(a, b), near(s, u)") ==
          "true true");
    CHECK(lua("o = {a = exp(g(':', ':', {1, 1})), u = t(k) / 2, w = t(k)} "
              "b, u = general_linear_attention_step(t(q), t(k), t(v), S, o) o.device = 'gpu' "
              "a, s = general_linear_attention_step(t(q), t(k), t(v), S, o) return near(a, b), near(s, u)") ==
          "true true");
    CHECK(lua("S = randn(2, 4, 24, 16) linear_attention_step(t(q), t(k), t(v), S, {inplace = true, device = 'gpu'})")
              .find("inplace: true, but the state would be copied to the gpu") != std::string::npos);
    CHECK(lua("S = S:gpu() old = S:copy() linear_attention_step(t(q), t(k), t(v), S, {inplace = true, device = 'gpu'}) "
              "return S == old") == "false");
    CHECK(lua("grads = causal_linear_attention_grad(q:gpu(), k:gpu(), v:gpu(), G:gpu(), {decay = decay, device = "
              "'cpu'}) return grads.dB:device(), type(grads.ddecay) == 'number' or grads.ddecay:device()") ==
          "gpu cpu");
    CHECK(lua("return linear_attention(q:gpu(), k:gpu(), v:gpu(), {update = 'gated', log_decay = beta:gpu()})")
              .find("log_decay: a number above 0") != std::string::npos);
    CHECK(lua("return linear_attention(q:gpu(), k:gpu(), v:gpu(), {update = 'gated', log_decay = (-abs(q)):gpu(), mode "
              "= 'parallel'})")
              .find("with a gate per key channel") != std::string::npos);
    CHECK(lua("return linear_attention(q:gpu(), k:gpu(), v:gpu(), {mode = 'parallel', deterministic = 'prefix'})")
              .find("\"parallel\" does not run on the GPU with deterministic = \"prefix\"") != std::string::npos);
    CHECK(lua("return linear_attention_grad(q:gpu(), k:gpu(), v:gpu(), G:gpu(), {deterministic = 'prefix'})")
              .find("deterministic: \"prefix\" does not run on the GPU") != std::string::npos);
    CHECK(lua("return linear_attention_grad(q:gpu(), k:gpu(), v:gpu(), G:gpu(), {mode = 'parallel'})")
              .find("\"parallel\" does not run on the GPU for the gradient") != std::string::npos);
    CHECK(lua("return opcount(causal_linear_attention, q:gpu(), k:gpu(), v:gpu())").find("opcount") !=
          std::string::npos);
}

TEST_CASE("Pools of states on the GPU: slots, 8 bits, steps that keep states, and gradients", "[lua][gpu]") {
    if (!on_gpu()) return;
    Shell lua;
    REQUIRE(lua(gpu_inputs) == "");
    CHECK(lua("P = randn(5, 4, 24, 16) pool = state_pool(P:gpu()) same = state_pool(P) slots = {5, 2} "
              "return tostring(pool):find('gpu StatePool', 1, true) ~= nil, pool:bytes() == same:bytes(), "
              "norm(pool:states():cpu() - same:states()) == 0") == "true true true");
    for (const char* call : {"linear_attention", "general_linear_attention", "causal_linear_attention"}) {
        CAPTURE(call);
        lua(std::string("f = ") + call + " before = same:states(slots)");
        CHECK(lua("a, b = f(q:gpu(), k:gpu(), v:gpu(), {state = pool, state_indices = slots, inplace = true}), "
                  "f(q, k, v, {state = same, state_indices = slots, inplace = true}) "
                  "return near(a:cpu(), b), near(pool:states(slots):cpu(), same:states(slots)), "
                  "norm(same:states(slots) - before) > 0, norm(pool:states{1}:cpu() - same:states{1}) == 0") ==
              "true true true true");
    }
    CHECK(
        lua("t = function(A) return A(':', ':', {1, 3}, ':') end g3 = function(A) return A:gpu() end "
            "a, s, kept = general_linear_attention_step(g3(t(q)), g3(t(k)), g3(t(v)), pool, {state_indices = slots, "
            "keep_states = true}) "
            "b, u, want = general_linear_attention_step(t(q), t(k), t(v), same, {state_indices = slots, keep_states = "
            "true}) return near(a:cpu(), b), near(s:cpu(), u), #kept, near(kept[2]:cpu(), want[2])") ==
        "true true 3 true");
    CHECK(lua("return linear_attention(q:gpu(), k:gpu(), v:gpu(), {state = same, state_indices = slots})")
              .find("state: expected a Tensor on the GPU, got a Tensor on the CPU") != std::string::npos);
    for (const char* call :
         {"linear_attention_grad", "general_linear_attention_grad", "causal_linear_attention_grad"}) {
        CAPTURE(call);
        CHECK(lua(std::string("f = ") + call +
                  " o = {state = P, state_indices = {4, 4}} y = f(q, k, v, G, o) o.device = 'gpu' "
                  "x = f(q, k, v, G, o) for key, value in pairs(y) do if not near(x[key], value) then return key end "
                  "end return 'same'") == "same");
    }
    // Heads of q that are neither those of k nor of v.
    CHECK(lua("q2, k2, v2 = randn(1, 4, N, 24), randn(1, 2, N, 24), randn(1, 8, N, 16) k2 = k2 / sqrt(sum(pow(k2, 2), "
              "4)) o = {update = 'delta', beta = rand(1, 8, N)} a, s = linear_attention(q2, k2, v2, o) "
              "o.device = 'gpu' b, u = linear_attention(q2, k2, v2, o) return near(b, a), near(u, s)") == "true true");
}

TEST_CASE("Gradients of Lua code with calls on the GPU are those of the CPU", "[lua][gpu]") {
    if (!on_gpu()) return;
    Shell lua;
    REQUIRE(lua(gpu_inputs) == "");
    REQUIRE(lua(R"(
      params = {q = q, k = k, v = v, g = g, beta = beta}
      function there(x) return x:gpu() end
      function here(x) return x end
      function on_gpu_too() local p = {} for name, x in pairs(params) do p[name] = x:gpu() end return p end
      -- The names whose gradients differ: from parameters of the CPU that are moved, and from those of the GPU.
      function differ(f)
        local wrong, expected = {}, grad(function(p) return f(p, here) end, params)
        local moved = grad(function(p) return f(p, there) end, params)
        local stayed = grad(function(p) return f(p, here) end, on_gpu_too())
        for name, x in pairs(expected) do
          if norm(x) == 0 then goto continue end
          if not near(moved[name], x) then wrong[#wrong + 1] = name .. " moved" end
          if stayed[name]:device() ~= "gpu" or not near(stayed[name]:cpu(), x) then wrong[#wrong + 1] = name end
          ::continue::
        end
        table.sort(wrong)
        return table.concat(wrong, ", ")
      end
    )") == "");
    for (const char* call :
         {"causal_linear_attention(m(p.q), m(p.k), m(p.v), {decay = decay})",
          "linear_attention(m(p.q), m(p.k), m(p.v), {update = 'gated', log_decay = m(p.g)})",
          "linear_attention(m(p.q), m(p.k), m(p.v), {update = 'gated_delta', log_decay = m(p.g), "
          "beta = m(p.beta)})",
          "softmax_attention(m(p.q), m(p.k), m(p.v), {causal = true})", "softmax_attention(m(p.q), m(p.q), m(p.v))"}) {
        CAPTURE(call);
        CHECK(lua(std::string("return differ(function(p, m) local o = ") + call +
                  " return sum(pow(o:cpu(), 2)) + sum(pow(p.q:cpu(), 2)) end)") == "");
    }
}

TEST_CASE("models on the GPU run what Lua puts in the place of their attention", "[lua][gpu][gpu-model]") {
    if (!on_gpu()) return;
    Shell lua;
    lua.set("path", source_dir() + "/experiments/data/tiny-llama");
    REQUIRE(lua(R"(
      cpu, gpu = model(path), model(path, {device = "gpu", type = "f32"})
      ids = {}
      for i = 1, 90 do ids[i] = i * i % 256 end
      function off()
        local a, b = cpu:logits(ids), gpu:logits(ids)
        return norm(a - b) / norm(a)
      end
      function both(t) cpu:attention(t) gpu:attention(t) end
    )") == "");
    CHECK(lua("return off() < 1e-3") == "true");
    CHECK(lua(R"(
      places = {}
      both{layers = {1}, with = function(q, k, v, scale)
        places[#places + 1] = q:device()
        return softmax_attention(q, k, v, {scale = scale})
      end}
      return off() < 1e-3, table.concat(places, " ")
    )") == "true cpu gpu");
    CHECK(lua("a, b = cpu:generate(ids, {tokens = 8}), gpu:generate(ids, {tokens = 8}) return a == b") == "true");
    CHECK(lua(R"(gpu:attention{layers = {1}, with = function(q, k, v) kept = q return v:cpu() end} gpu:logits(ids))")
              .find("with: the function returned a Tensor") != std::string::npos);
    CHECK(lua("gpu:reset() collectgarbage() return kept:device(), norm(kept:cpu()) > 0") == "gpu true");
    CHECK(lua("both{layers = {2}, with = 'fleet', options = {rank = 16}} return off() < 1e-3") == "true");
    CHECK(lua("both{layers = {2}, with = 'nystrom', options = {rank = 16}} return off() < 1e-3, "
              "gpu:layers()[2].settings:match('on the CPU')") == "true on the CPU");
    CHECK(lua(R"(
      cpu:reset() gpu:reset()
      local what = "q,k,v,scores,output,hidden"
      local a, b = cpu:capture(ids, {layer = 2, what = what}), gpu:capture(ids, {layer = 2, what = what})
      for name in what:gmatch("%a+") do
        if not (norm(a[name] - b[name]) <= 1e-3 * norm(a[name])) then return name end
      end
      return "all"
    )") == "all");
    // Gated delta nets with softmax attention between them.
    CHECK(lua(R"(
      local made = {arch = "qwen3_next", size = "tiny", weights = "random", type = "f32"}
      cpu = model(made)
      made.device = "gpu"
      gpu = model(made)
      if not (off() < 1e-3) then return "prefill" end
      return cpu:generate(ids, {tokens = 20}) == gpu:generate(ids, {tokens = 20}) and "same" or "decoding"
    )") == "same");
}
