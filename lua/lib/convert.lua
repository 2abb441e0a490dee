-- The arguments of other libraries' linear attention as those of linear_attention: from_fla, from_flashinfer, from_onnx
-- and from_hf take a table with the names that they have there and return the table that linear_attention takes.
local causeway = ...
local raise, noun = causeway._raise, causeway._noun

local gates = { log = true, alpha = true, log2 = true }
local orders = { kv = true, vk = true }

-- How a library writes what others write otherwise: `gate` is the logarithm of the decay, the decay itself or its
-- logarithm to base 2, `state` [.., K, V] or [.., V, K].
local function convention(options, call, name, known, default)
  local given = options[name]
  if given == nil then return default end
  if known[given] then return given end
  local list = {}
  for key in pairs(known) do list[#list + 1] = '"' .. key .. '"' end
  table.sort(list)
  raise(string.format("%s: %s: %s, expected one of %s", call, name, tostring(given), table.concat(list, ", ")))
end

local function log_decay(g, gate)
  if gate == "alpha" then return causeway.log(g) end
  return gate == "log2" and g * math.log(2) or g
end

local function update_of(g, beta)
  if beta then return g and "gated_delta" or "delta" end
  return g and "gated" or "linear"
end

-- A field that may be left out.
local function checked(given, name, call, kind, expected)
  local value = given[name]
  if value ~= nil and type(value) ~= kind then
    raise(string.format("%s: %s: %s, expected %s", call, name, noun(value), expected))
  end
  return value
end

local function optional(given, name, call) return checked(given, name, call, "userdata", "a Tensor") end

local function needed(given, name, call)
  if given[name] == nil then raise(string.format("%s: %s: expected a Tensor, got nothing", call, name)) end
  return optional(given, name, call)
end

local function check_table(given, call, example)
  if type(given) ~= "table" then
    raise(string.format("%s: %s, expected one table, as in %s%s", call, noun(given), call, example))
  end
  causeway._check_options(call, given)
end

-- Of a call with the tensors under these names: {q =, k =, v =, g =, beta =, state =}; conventions as above.
local function converted(call, given, names, defaults)
  check_table(given, call, string.format("{%s = q, %s = k, %s = v}", names.q, names.k, names.v))
  local q, k, v = needed(given, names.q, call), needed(given, names.k, call), needed(given, names.v, call)
  local g, beta = optional(given, names.g, call), optional(given, names.beta, call)
  local state, scale = optional(given, names.state, call), checked(given, "scale", call, "number", "a number")
  -- The state is returned in either case, behind the output.
  checked(given, "output_final_state", call, "boolean", "true or false")
  local gate = convention(given, call, "gate", gates, defaults.gate)
  if convention(given, call, "state_order", orders, defaults.state) == "vk" and state then state = state:t() end
  return {
    q = q, k = k, v = v, update = update_of(g, beta), log_decay = g and log_decay(g, gate), beta = beta, state = state,
    scale = scale or 1 / math.sqrt(causeway.size(q, causeway.ndims(q))), cu_seqlens = given.cu_seqlens,
    layout = "bnhd", qk_l2norm = checked(given, "use_qk_l2norm_in_kernel", call, "boolean", "true or false"),
  }
end

local function names(list)
  local out = {}
  for name in list:gmatch("%S+") do out[name] = true end
  return out
end

local conventions = "output_final_state use_qk_l2norm_in_kernel gate state_order"
causeway._options.from_fla = names("q k v g gk beta scale initial_state cu_seqlens use_gate_in_kernel A_log dt_bias "
  .. "lower_bound safe_gate use_beta_sigmoid_in_kernel " .. conventions)
causeway._options.from_flashinfer = names("q k v g beta scale initial_state cu_seqlens "
  .. conventions)
causeway._options.from_hf = names("query key value g beta initial_state scale " .. conventions)
causeway._options.from_onnx = names("query key value past_state decay beta q_num_heads kv_num_heads update_rule scale")

-- The options that fla's calls make gates of a projection with: A_log [H], dt_bias [H], of a gate per key channel
-- [H K], and a bound that safe_gate asks for.
local function gates_in_kernel(given, g)
  local function bool(name) return checked(given, name, "from_fla", "boolean", "true or false") end
  local within, safe = bool("use_gate_in_kernel"), bool("safe_gate")
  if not within then
    for _, name in ipairs({ "A_log", "dt_bias", "lower_bound" }) do
      if given[name] ~= nil then
        raise(string.format("from_fla: %s: given, expected it beside use_gate_in_kernel = true", name))
      end
    end
    return nil
  end
  if not g then raise("from_fla: g: nothing, expected the projection that use_gate_in_kernel makes gates of") end
  local bias, bound = optional(given, "dt_bias", "from_fla"), checked(given, "lower_bound", "from_fla", "number",
    "a number below 0")
  if safe and not bound then raise("from_fla: lower_bound: nothing, expected a number below 0 beside safe_gate") end
  if bias and causeway.ndims(g) == 4 then bias = bias:reshape(causeway.size(g, 3), causeway.size(g, 4)) end
  return { log_decay = g, A_log = needed(given, "A_log", "from_fla"), dt_bias = bias, lower_bound = bound }
end

--- Of fla's chunk_* and fused_recurrent_* calls: [B, T, H, D], log gates g [B, T, H] or [B, T, H, K] (gk), states
--- [N, H, K, V], a scale of 1/sqrt(K) where none is given.
function causeway.from_fla(given)
  if type(given) == "table" and given.g and given.gk then
    raise("from_fla: gk: given beside g, expected one gate")
  end
  local gate_name = type(given) == "table" and given.gk and "gk" or "g"
  local out = converted("from_fla", given, { q = "q", k = "k", v = "v", g = gate_name, beta = "beta",
    state = "initial_state" }, { gate = "log", state = "kv" })
  for name, value in pairs(gates_in_kernel(given, given[gate_name]) or {}) do out[name] = value end
  if checked(given, "use_beta_sigmoid_in_kernel", "from_fla", "boolean", "true or false") and out.beta then
    out.beta = causeway.sigmoid(out.beta)
  end
  return out
end

-- β = 1 for every token of v [tokens, H, V] and for the heads of the gate, where there is one: [tokens, H].
local function ones_of(v, g)
  local like = g or v
  local beta = causeway.ones(causeway.size(like, 1), causeway.size(like, 2))
  return v:device() == "gpu" and beta:gpu() or beta
end

--- Of flashinfer's chunk_gated_delta_rule: packed [tokens, H, D], the decay itself as gate [tokens, H], states
--- [N, H, V, K]. Its rule is the gated delta rule with beta, too, of ones where it is not given.
function causeway.from_flashinfer(given)
  local out = converted("from_flashinfer", given, { q = "q", k = "k", v = "v", g = "g", beta = "beta",
    state = "initial_state" }, { gate = "alpha", state = "vk" })
  if out.beta == nil then out.beta, out.update = ones_of(out.v, out.log_decay), update_of(out.log_decay, true) end
  for _, name in ipairs({ "q", "k", "v", "log_decay", "beta" }) do
    local x = out[name]
    if x then out[name] = x:reshape(1, causeway.size(x)) end
  end
  return out
end

--- Of transformers' torch_chunk_gated_delta_rule and torch_recurrent_gated_delta_rule: fla's conventions, other names.
function causeway.from_hf(given)
  local out = converted("from_hf", given, { q = "query", k = "key", v = "value", g = "g", beta = "beta",
    state = "initial_state" }, { gate = "log", state = "kv" })
  for _, name in ipairs({ "g", "beta" }) do needed(given, name, "from_hf") end
  return out
end

-- A number of heads among the attributes of the ONNX operator.
local function heads_of(given, name)
  local heads = given[name]
  if math.type(heads) ~= "integer" or heads < 1 then
    local got = type(heads) == "number" and tostring(heads) or noun(heads)
    raise(string.format("from_onnx: %s: %s, expected a whole number from 1", name, got))
  end
  return heads
end

--- Of the ONNX operator LinearAttention: [B, T, H D], gates in logarithms [B, T, H] or [B, T, H K], a scale of 0 for
--- 1/sqrt(K), "gated_delta" where no rule is named.
function causeway.from_onnx(given)
  check_table(given, "from_onnx", "{query = x, key = x, value = x, ...}")
  local query, key, value = needed(given, "query", "from_onnx"), needed(given, "key", "from_onnx"),
    needed(given, "value", "from_onnx")
  local h_q, h = heads_of(given, "q_num_heads"), heads_of(given, "kv_num_heads")
  local function unpacked(x, heads, name)
    local b, n, width = causeway.size(x)
    if causeway.ndims(x) ~= 3 or width % heads ~= 0 then
      local shape = table.concat({ causeway.size(x) }, "×")
      raise(string.format("from_onnx: %s: %s, expected [batch, length, heads × width] of %d heads", name, shape, heads))
    end
    return x:reshape(b, n, heads, width // heads)
  end
  local q = unpacked(query, h_q, "query")
  local scale, decay = checked(given, "scale", "from_onnx", "number", "a number") or 0,
    optional(given, "decay", "from_onnx")
  local width = causeway.size(q, 4)
  if decay and (causeway.ndims(decay) ~= 3 or causeway.size(decay, 3) ~= h) then decay = unpacked(decay, h, "decay") end
  return {
    q = q, k = unpacked(key, h, "key"), v = unpacked(value, h, "value"), log_decay = decay,
    beta = optional(given, "beta", "from_onnx"),
    update = given.update_rule or "gated_delta", scale = scale == 0 and 1 / math.sqrt(width) or scale,
    state = optional(given, "past_state", "from_onnx"), layout = "bnhd",
  }
end
