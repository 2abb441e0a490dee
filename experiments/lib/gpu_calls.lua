-- Calls for a benchmark on a GPU, of the gated family, the general rule, softmax attention and what is around them:
-- {make = function(N) -> f, bytes that are read and written once, FLOP}, {check = function() -> error, bound}; a check
-- compares with the definition in Float64 on the CPU. One batch, widths of 128.
local calls = {}
local d = 128
local unit = 1 / math.sqrt(d)
local bytes_of = { Float32 = 4, BFloat16 = 2, Float16 = 2 }

function calls.bytes(tensors)
  local sum = 0
  for _, x in ipairs(tensors) do sum = sum + length(x) * bytes_of[eltype(x)] end
  return sum
end

local function on_cpu(x) return f64(x:cpu()) end
-- The greatest relative difference, by norms, of what `want` has too.
local function worst(got, want, names)
  local most = 0
  for _, name in ipairs(names) do
    local err = norm(on_cpu(got[name]) - want[name]) / norm(want[name])
    if not (err <= most) then most = err end
  end
  return most
end
local function qkv(h, N, type)
  return gpu_randn(1, h, N, d, type):scaled(unit), gpu_randn(1, h, N, d, type):scaled(unit), gpu_randn(1, h, N, d, type)
end

-- ── The gated family ──
local function is_gated(update) return update == "gated" or update == "gated_delta" end
local function is_delta(update) return update == "delta" or update == "gated_delta" end
-- Options of a call: gates of -0.075 in the mean, a head's or with `channels` a channel's; β.
local function options_of(shape, h, N)
  local given = { update = shape.update, cu_seqlens = shape.texts and {} or nil, deterministic = shape.deterministic }
  for i = 0, shape.texts or -1 do given.cu_seqlens[i + 1] = N * i // shape.texts end
  if is_gated(shape.update) then
    local gates = shape.channels and rand(1, h, N, d, "f32") or rand(1, h, N, "f32")
    given.log_decay = (gates * -0.15):gpu()
  end
  if is_delta(shape.update) then given.beta = rand(1, h, N, "f32"):gpu() end
  return given
end
local function exactly(given)
  local out = { update = given.update, mode = "recurrent", cu_seqlens = given.cu_seqlens }
  out.log_decay, out.beta = given.log_decay and on_cpu(given.log_decay), given.beta and on_cpu(given.beta)
  return out
end
local function gate_bytes(given)
  return (given.log_decay and calls.bytes({ given.log_decay }) or 0) + (given.beta and calls.bytes({ given.beta }) or 0)
end
local checked_heads, checked_tokens = 4, 1000

-- linear_attention. shape: update, channels, type ("bf16"), heads (32), texts (packed), deterministic.
function calls.forward(shape)
  local type, h = shape.type or "bf16", shape.heads or 32
  return {
    make = function(N)
      local q, k, v = qkv(h, N, type)
      local given = options_of(shape, h, N)
      return function() return (linear_attention(q, k, v, given)) end, calls.bytes({ q, k, v, v }) + gate_bytes(given),
        h * N * (is_delta(shape.update) and 6 or 4) * d * d
    end,
    check = function()
      local q, k, v = qkv(checked_heads, checked_tokens, type)
      local given = options_of(shape, checked_heads, checked_tokens)
      local got = on_cpu(linear_attention(q, k, v, given))
      local want = linear_attention(on_cpu(q), on_cpu(k), on_cpu(v), exactly(given))
      return norm(got - want) / norm(want), type == "f32" and 1e-5 or 6e-3
    end,
  }
end

-- linear_attention_grad, everything computed again from q, k and v: products with a state, forwards 2 (the delta rule:
-- K S and Kᵀ U), backwards 3 and with it 6.
function calls.gradient(shape)
  local type, h = shape.type or "bf16", shape.heads or 32
  local names = { "dq", "dk", "dv" }
  if is_gated(shape.update) then names[#names + 1] = "dlog_decay" end
  if is_delta(shape.update) then names[#names + 1] = "dbeta" end
  return {
    make = function(N)
      local q, k, v = qkv(h, N, type)
      local dO, given = gpu_randn(1, h, N, d, type), options_of(shape, h, N)
      return function() return linear_attention_grad(q, k, v, dO, given) end,
        calls.bytes({ q, k, v, dO, q, k, v }) + 2 * gate_bytes(given),
        h * N * (is_delta(shape.update) and 16 or 10) * d * d
    end,
    check = function()
      local q, k, v = qkv(checked_heads, checked_tokens, type)
      local dO, given = gpu_randn(1, checked_heads, checked_tokens, d, type),
        options_of(shape, checked_heads, checked_tokens)
      local got = linear_attention_grad(q, k, v, dO, given)
      local want = linear_attention_grad(on_cpu(q), on_cpu(k), on_cpu(v), on_cpu(dO), exactly(given))
      return worst(got, want, names), type == "f32" and 2e-5 or 2e-2
    end,
  }
end

-- ── The general rule, S ← (diag(a) - u wᵀ) S + k vᵀ, a gate per channel ──
local function general_options(h, N)
  local function narrow() return gpu_randn(1, h, N, d, "f32"):scaled(0.3 * unit) end
  return { a = (rand(1, h, N, d, "f32") * 0.1 + 0.9):gpu(), u = narrow(), w = narrow() }
end
local function general_exactly(given) return { a = on_cpu(given.a), u = on_cpu(given.u), w = on_cpu(given.w) } end

function calls.general(h)
  return {
    make = function(N)
      local q, k, v = qkv(h, N, "f32")
      local given = general_options(h, N)
      return function() return (general_linear_attention(q, k, v, given)) end,
        calls.bytes({ q, k, v, v, given.a, given.u, given.w }), h * N * 8 * d * d
    end,
    check = function()
      local q, k, v = qkv(checked_heads, checked_tokens, "f32")
      local given = general_options(checked_heads, checked_tokens)
      local got = on_cpu(general_linear_attention(q, k, v, given))
      local exact = general_exactly(given)
      exact.mode = "recurrent"
      local want = general_linear_attention(on_cpu(q), on_cpu(k), on_cpu(v), exact)
      return norm(got - want) / norm(want), 1e-5
    end,
  }
end

function calls.general_gradient(h)
  return {
    make = function(N)
      local q, k, v = qkv(h, N, "f32")
      local dO, given = gpu_randn(1, h, N, d, "f32"), general_options(h, N)
      return function() return general_linear_attention_grad(q, k, v, dO, given) end,
        calls.bytes({ q, k, v, dO, q, k, v, given.a, given.u, given.w, given.a, given.u, given.w }), h * N * 20 * d * d
    end,
    check = function()
      local q, k, v = qkv(checked_heads, checked_tokens, "f32")
      local dO = gpu_randn(1, checked_heads, checked_tokens, d, "f32")
      local given = general_options(checked_heads, checked_tokens)
      local got = general_linear_attention_grad(q, k, v, dO, given)
      local want = general_linear_attention_grad(on_cpu(q), on_cpu(k), on_cpu(v), on_cpu(dO), general_exactly(given))
      return worst(got, want, { "dq", "dk", "dv", "da", "du", "dw" }), 2e-5
    end,
  }
end

-- ── Causal softmax attention: two products over half of the pairs, its gradient five ──
function calls.softmax(type, h)
  return {
    make = function(N)
      local q, k, v = qkv(h, N, type)
      return function() return (softmax_attention(q, k, v, { causal = true })) end, calls.bytes({ q, k, v, v }),
        2 * h * N * N * d
    end,
    check = function()
      local q, k, v = qkv(checked_heads, checked_tokens, type)
      local got = on_cpu(softmax_attention(q, k, v, { causal = true }))
      local want = softmax_attention(on_cpu(q), on_cpu(k), on_cpu(v), { causal = true })
      return norm(got - want) / norm(want), type == "f32" and 1e-5 or 6e-3
    end,
  }
end
function calls.softmax_gradient(type, h)
  return {
    make = function(N)
      local q, k, v = qkv(h, N, type)
      local dO = gpu_randn(1, h, N, d, type)
      return function() return softmax_attention_grad(q, k, v, dO, { causal = true }) end,
        calls.bytes({ q, k, v, dO, q, k, v }), 5 * h * N * N * d
    end,
    check = function()
      local q, k, v = qkv(checked_heads, checked_tokens, type)
      local dO = gpu_randn(1, checked_heads, checked_tokens, d, type)
      local got = softmax_attention_grad(q, k, v, dO, { causal = true })
      local want = softmax_attention_grad(on_cpu(q), on_cpu(k), on_cpu(v), on_cpu(dO), { causal = true })
      return worst(got, want, { "dq", "dk", "dv" }), type == "f32" and 1e-5 or 2e-2
    end,
  }
end

-- ── Factors of low rank, of q and of k; `operations` of a row of them ──
function calls.features(name, width, rank, operations)
  local h, given = 32, { rank = rank, seed = 1 }
  local function inputs(heads, N)
    return gpu_randn(1, heads, N, width):scaled(0.3), gpu_randn(1, heads, N, width):scaled(0.3)
  end
  return {
    make = function(N)
      local q, k = inputs(h, N)
      local B, C = lowrank(name, q, k, given)
      return function() return lowrank(name, q, k, given) end, calls.bytes({ q, k, B, C }), 2 * h * N * operations
    end,
    check = function()
      local q, k = inputs(2, 300)
      local B, C = lowrank(name, q, k, given)
      local want_B, want_C = lowrank(name, on_cpu(q), on_cpu(k), given)
      return math.max(norm(on_cpu(B) - want_B) / norm(want_B), norm(on_cpu(C) - want_C) / norm(want_C)), 1e-5
    end,
  }
end

return calls
