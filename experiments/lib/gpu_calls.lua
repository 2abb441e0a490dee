-- Calls for a benchmark on a GPU, of the gated family, the general rule, softmax attention and factors of low rank:
-- {make = function(N) -> f, bytes that are read and written once, FLOP; check = function() -> error, bound}; a check
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
-- The greatest relative difference, by norms, of results by name; NaN where there is one.
function calls.worst(got, want, names)
  local most = 0
  for _, name in ipairs(names) do
    local err = norm(on_cpu(got[name]) - want[name]) / norm(want[name])
    if err ~= err then return err end
    most = math.max(most, err)
  end
  return most
end

-- ── From what a call is: c ──
-- heads, type; options(heads, N), whose tensors are inputs too; run({q, k, v}, options), of a gradient {q, k, v, dO},
-- -> results by name; names, those that are compared; bound; flop(heads, N); mode, of the definition
local checked_tokens = 1000
local function call_of(c)
  local function inputs(h, N)
    local x = { gpu_randn(1, h, N, d, c.type):scaled(unit), gpu_randn(1, h, N, d, c.type):scaled(unit),
      gpu_randn(1, h, N, d, c.type) }
    if c.gradient then x[4] = gpu_randn(1, h, N, d, c.type) end
    return x, c.options(h, N)
  end
  -- All inputs, then the outputs: as large as v, of a gradient as q, k, v and the tensors among the options.
  local function moved(x, given)
    local list = { table.unpack(x) }
    local function append(tensors) for _, t in pairs(tensors) do list[#list + 1] = t end end
    local own = {}
    for _, t in pairs(given) do
      if type(t) == "userdata" then own[#own + 1] = t end
    end
    append(own)
    append(c.gradient and { x[1], x[2], x[3] } or { x[3] })
    if c.gradient then append(own) end
    return list
  end
  local function exactly(x, given)
    local tensors, out = {}, { mode = c.mode }
    for i, t in ipairs(x) do tensors[i] = on_cpu(t) end
    for key, value in pairs(given) do out[key] = type(value) == "userdata" and on_cpu(value) or value end
    out.deterministic = nil -- the definition's bits hang on nothing
    return tensors, out
  end
  return {
    make = function(N)
      local x, given = inputs(c.heads, N)
      return function() return c.run(x, given) end, calls.bytes(moved(x, given)), c.flop(c.heads, N)
    end,
    check = function()
      local x, given = inputs(c.checked_heads or 4, checked_tokens)
      return calls.worst(c.run(x, given), c.run(exactly(x, given)), c.names), c.bound
    end,
  }
end

-- ── The gated family ──
local function is_gated(update) return update == "gated" or update == "gated_delta" end
local function is_delta(update) return update == "delta" or update == "gated_delta" end
-- Gates of -0.075 in the mean, a head's or with `channels` a channel's; β.
local function family_options(shape)
  return function(h, N)
    local given = { update = shape.update, cu_seqlens = shape.texts and {} or nil, deterministic = shape.deterministic }
    for i = 0, shape.texts or -1 do given.cu_seqlens[i + 1] = N * i // shape.texts end
    if is_gated(shape.update) then
      local gates = shape.channels and rand(1, h, N, d, "f32") or rand(1, h, N, "f32")
      given.log_decay = (gates * -0.15):gpu()
    end
    if is_delta(shape.update) then given.beta = rand(1, h, N, "f32"):gpu() end
    return given
  end
end

-- linear_attention. shape: update, channels, type ("bf16"), texts (packed), deterministic, checked_heads (4).
function calls.forward(shape)
  local element = shape.type or "bf16"
  return call_of { heads = 32, type = element, options = family_options(shape), mode = "recurrent",
    checked_heads = shape.checked_heads, names = { "O" }, bound = element == "f32" and 1e-5 or 6e-3,
    run = function(x, given) return { O = (linear_attention(x[1], x[2], x[3], given)) } end,
    flop = function(h, N) return h * N * (is_delta(shape.update) and 6 or 4) * d * d end }
end

-- linear_attention_grad, everything computed again from q, k and v: products with a state, Kᵀ V forwards and D Sᵀ,
-- V Eᵀ, K E and Qᵀ D backwards; the delta rule's K S forwards and two more that go backwards, dX Sᵀ and Kᵀ dX.
function calls.gradient(shape)
  local element = shape.type or "bf16"
  local names = { "dq", "dk", "dv" }
  if is_gated(shape.update) then names[#names + 1] = "dlog_decay" end
  if is_delta(shape.update) then names[#names + 1] = "dbeta" end
  return call_of { heads = 32, type = element, gradient = true, options = family_options(shape), mode = "recurrent",
    names = names, bound = element == "f32" and 2e-5 or 2e-2,
    run = function(x, given) return linear_attention_grad(x[1], x[2], x[3], x[4], given) end,
    flop = function(h, N) return h * N * (is_delta(shape.update) and 16 or 10) * d * d end }
end

-- ── The general rule, S ← (diag(a) - u wᵀ) S + k vᵀ, a gate per channel ──
local function general_options(h, N)
  local function narrow() return gpu_randn(1, h, N, d, "f32"):scaled(0.3 * unit) end
  return { a = (rand(1, h, N, d, "f32") * 0.1 + 0.9):gpu(), u = narrow(), w = narrow() }
end

function calls.general(h)
  return call_of { heads = h, type = "f32", options = general_options, mode = "recurrent", names = { "O" },
    bound = 1e-5, run = function(x, given) return { O = (general_linear_attention(x[1], x[2], x[3], given)) } end,
    flop = function(heads, N) return heads * N * 8 * d * d end }
end

function calls.general_gradient(h)
  return call_of { heads = h, type = "f32", gradient = true, options = general_options,
    names = { "dq", "dk", "dv", "da", "du", "dw" }, bound = 2e-5,
    run = function(x, given) return general_linear_attention_grad(x[1], x[2], x[3], x[4], given) end,
    flop = function(heads, N) return heads * N * 20 * d * d end }
end

-- ── Causal softmax attention: two products over half of the pairs, its gradient five ──
local function causal_options() return { causal = true } end

function calls.softmax(element, h)
  return call_of { heads = h, type = element, options = causal_options, names = { "O" },
    bound = element == "f32" and 1e-5 or 6e-3,
    run = function(x, given) return { O = (softmax_attention(x[1], x[2], x[3], given)) } end,
    flop = function(heads, N) return 2 * heads * N * N * d end }
end

function calls.softmax_gradient(element, h)
  return call_of { heads = h, type = element, gradient = true, options = causal_options,
    names = { "dq", "dk", "dv" }, bound = element == "f32" and 1e-5 or 2e-2,
    run = function(x, given) return softmax_attention_grad(x[1], x[2], x[3], x[4], given) end,
    flop = function(heads, N) return 5 * heads * N * N * d end }
end

-- ── Factors of low rank, of q and of k; `operations` of a row of them ──
function calls.features(name, width, rank, operations)
  local h, given = 32, { rank = rank, seed = 1 }
  local function inputs(heads, N)
    return gpu_randn(1, heads, N, width):scaled(0.3), gpu_randn(1, heads, N, width):scaled(0.3)
  end
  local function factors(q, k)
    local B, C = lowrank(name, q, k, given)
    return { B = B, C = C }
  end
  return {
    make = function(N)
      local q, k = inputs(h, N)
      local made = factors(q, k)
      return function() return factors(q, k) end, calls.bytes({ q, k, made.B, made.C }), 2 * h * N * operations
    end,
    check = function()
      local q, k = inputs(2, 300)
      return calls.worst(factors(q, k), factors(on_cpu(q), on_cpu(k)), { "B", "C" }), 1e-5
    end,
  }
end

return calls
