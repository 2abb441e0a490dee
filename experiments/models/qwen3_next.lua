-- A layer of Qwen3-Next from its weights file, written with the functions of the shell: short convolution, norms, gates
-- and the gated delta rule, in one prefill and token by token, beside the model that model() reads from the same file;
-- and the model's logits beside those that transformers gave.
--
--   causeway experiments/models/qwen3_next.lua       a second
--
--   --model FOLDER     of a Qwen3-Next (config.json, model.safetensors); by itself a small one of random weights, with
--                      the logits of transformers for a text (tests/data/oracles/make.py)
--   --layer 1          one with linear attention, counted from 1
--   --tokens 70        of the text, random ids where the folder has no logits
--   --seed 1
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local small = here .. "/../../tests/data/oracles/qwen3_next"
local options = dofile(here .. "/../lib/arguments.lua")(arg, { model = small, layer = 1, tokens = 70, seed = 1 },
  { layer = { 1 }, tokens = { 1 }, seed = { 0 } })

local m = model(options.model)
local config = load(options.model .. "/config.json")
local weights = load(options.model .. "/model.safetensors")
local function weight(name)
  return weights[("model.layers.%d.%s.weight"):format(options.layer - 1, name)]
end
if not weight("linear_attn.in_proj_qkvz") then
  error(("--layer: %d has no linear attention"):format(options.layer), 0)
end

-- ── The layer ──

local keys, values, d_k, d_v = config.linear_num_key_heads, config.linear_num_value_heads, config.linear_key_head_dim,
  config.linear_value_head_dim
local shared, eps = values // keys, config.rms_norm_eps

local function silu(x) return times(x, sigmoid(x)) end
-- The file has weights less by one, but for the norm of the heads.
local function normed(x, name) return rms_norm(x, { weight = weight(name) + 1, eps = eps }) end
-- [N, heads · width] as [1, heads, N, width].
local function heads(x, n) return permutedims(x:reshape(1, size(x, 1), n, size(x, 2) // n), 1, 3, 2, 4) end
-- Columns first ... last of each of the groups that the rows consist of.
local function columns(x, groups, first, last)
  local n = size(x, 1)
  return copy(x:reshape(n, groups, size(x, 2) // groups)(":", ":", { first, last })):reshape(n,
    groups * (last - first + 1))
end

-- The rows x [N, width] behind those that `state` comes from; the rows that the layer hands on, and its state.
local function layer(x, state)
  local n, h = size(x, 1), normed(x, "input_layernorm")
  -- By key head: its query, its key, and of each of its value heads the value, and then the gate.
  local qkvz, ba = h * weight("linear_attn.in_proj_qkvz"):t(), h * weight("linear_attn.in_proj_ba"):t()
  local wide = shared * d_v
  local qkv = cat(columns(qkvz, keys, 1, d_k), columns(qkvz, keys, d_k + 1, 2 * d_k), 2)
  qkv = cat(qkv, columns(qkvz, keys, 2 * d_k + 1, 2 * d_k + wide), 2)
  local z = columns(qkvz, keys, 2 * d_k + wide + 1, 2 * d_k + 2 * wide)
  local taps = weight("linear_attn.conv1d")
  local mixed, inputs = short_convolution(qkv:reshape(1, n, size(qkv, 2)), taps:reshape(size(taps, 1), size(taps, 3)),
    { activation = "silu", state = state.inputs })
  mixed = mixed:reshape(n, size(qkv, 2))
  local q, k = heads(columns(mixed, 1, 1, keys * d_k), keys), heads(columns(mixed, 1, keys * d_k + 1, 2 * keys * d_k),
    keys)
  local v = heads(columns(mixed, 1, 2 * keys * d_k + 1, size(mixed, 2)), values)
  local parameters = ("model.layers.%d.linear_attn."):format(options.layer - 1)
  local o, memory = linear_attention(l2norm(q), l2norm(k), v, { update = "gated_delta", scale = 1 / math.sqrt(d_k),
    beta = sigmoid(columns(ba, keys, 1, shared):t():reshape(1, values, n)), state = state.memory,
    log_decay = decay_gate(columns(ba, keys, shared + 1, 2 * shared):t():reshape(1, values, n),
      weights[parameters .. "A_log"], { dt_bias = weights[parameters .. "dt_bias"] }) })
  o = rms_norm(o, { weight = weight("linear_attn.norm"), gate = heads(z, values), eps = eps })
  x = x + permutedims(o, 1, 3, 2, 4):reshape(n, values * d_v) * weight("linear_attn.out_proj"):t()
  h = normed(x, "post_attention_layernorm")
  local gated = times(silu(h * weight("mlp.gate_proj"):t()), h * weight("mlp.up_proj"):t())
  return x + gated * weight("mlp.down_proj"):t(), { inputs = inputs, memory = memory }
end

-- ── Its outputs, and those of the model ──

local expected = options.model == small and load(small .. "/expected.safetensors")
local ids = {}
math.randomseed(options.seed)
for i = 1, options.tokens do
  ids[i] = expected and i <= #expected.ids and expected.ids(i) // 1 | 0 or math.random(0, config.vocab_size - 1)
end
local x
if options.layer == 1 then
  local places = {}
  for i, id in ipairs(ids) do places[i] = id + 1 end
  x = weights["model.embed_tokens.weight"]({ places }, ":")
else
  x = m:capture { text = ids, layer = options.layer - 1, what = "hidden" }.hidden:reshape(#ids, config.hidden_size)
end
local want = m:capture { text = ids, layer = options.layer, what = "hidden" }.hidden:reshape(#ids, config.hidden_size)
local start = clock()
local at_once = layer(x, {})
local prefill = clock() - start
start = clock()
local steps, state
for t = 1, #ids do
  local y
  y, state = layer(copy(x({ t, t }, ":")), state or {})
  steps = steps and cat(steps, y, 1) or y
end
local by_token = clock() - start
local function off(a, b) return maximum(abs(a - b)) / maximum(abs(b)) end
print(("layer %d of %d, %d tokens, %d heads of keys and %d of values"):format(options.layer, config.num_hidden_layers,
  #ids, keys, values))
print(("  one prefill     off the model's by %.1e, %.2f ms"):format(off(at_once, want), 1e3 * prefill))
print(("  token by token  off the model's by %.1e, %.2f ms"):format(off(steps, want), 1e3 * by_token))
if expected and #ids <= #expected.ids then
  local logits = m:logits(ids)
  local rows = { 1, #ids }
  print(("  the model's logits are off those of transformers by %.1e (its prefill), %.1e (token by token)"):format(
    off(logits, expected.prefill(rows, ":")), off(logits, expected.steps(rows, ":"))))
end
