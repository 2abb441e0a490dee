-- Updates and modes of linear_attention beside each other, each compared with the recurrence before it is timed.
local causeway = ...

local raise, noun = causeway._raise, causeway._noun

local call = "benchmark_update"
local updates = causeway._call_option("linear_attention", "update").choices
local modes = causeway._call_option("linear_attention", "mode").choices
local layouts = causeway._options.benchmark_method.layout
local usual_lengths = { 128, 512, 2048 }

causeway._options.benchmark_update = {
  updates, updates = updates, modes = modes, lengths = true, batch = true, heads = true, rank = true, dim = true,
  gate = { "head", "channel" }, chunk = true, dtype = causeway._options.benchmark_method.dtype, repeats = true,
  timeout = true, seed = true, show = true, inputs = true, layout = layouts,
}

-- What an update takes beside q, k and v.
local function takes_gate(update) return update:find("gated", 1, true) ~= nil end
local function takes_beta(update) return update:find("delta", 1, true) ~= nil end

-- A list of names, or one name, all known.
local function checked_names(argument, given, known)
  local names = type(given) == "string" and { given } or given
  if type(names) ~= "table" or #names == 0 then
    raise(string.format("%s: %s: expected names such as {\"%s\"}, got %s", call, argument, known[#known],
      type(names) == "table" and "none" or noun(names)))
  end
  for i, name in ipairs(names) do
    if type(name) ~= "string" then
      raise(string.format("%s: %s: item %d is %s, expected a name", call, argument, i, noun(name)))
    end
    causeway._check_names(call .. ": " .. argument, { [name] = true }, known)
  end
  return names
end

-- The update that comes first in the call, where one does.
local function checked_update(update)
  if causeway._forward_of_rule(update) or type(update) == "function" then
    raise(call .. ": update: " .. noun(update) .. "; a rule of yours is timed by benchmark_method(rule, options)")
  end
  for _, method in ipairs(causeway.method_list()) do
    if update == method.name or update == method.short then
      raise(string.format('%s: update: "%s" is a method of causal linear attention: benchmark_method("%s") times it',
        call, update, method.name))
    end
  end
  return checked_names("update", update, updates)
end

-- Tensors {q, k, v, log_decay =, beta =} of the user's, with what they say of sizes.
local function checked_inputs(options)
  local inputs = options.inputs
  if type(inputs) ~= "table" then
    raise(call .. ": inputs: expected tensors, {q, k, v, log_decay =, beta =}, got " .. noun(inputs))
  end
  local own = { log_decay = inputs.log_decay, beta = inputs.beta }
  for i, name in ipairs({ "q", "k", "v" }) do
    local X = inputs[i] or inputs[name]
    local is_tensor = causeway._is_tensor(X)
    if not is_tensor or causeway.ndims(X) < 2 or X:device() ~= "cpu" then
      raise(string.format("%s: inputs: %s is %s, expected a tensor on the CPU, [batch, heads, N, width]", call, name,
        is_tensor and (X:device() == "cpu" and "a tensor of one dimension" or "a tensor on a GPU") or noun(X)))
    end
    own[name], own.dtype = X, own.dtype or causeway.eltype(X)
  end
  local dims = causeway.ndims(own.v)
  local behind_heads = options.layout == "bnhd" and dims > 2
  own.axis = behind_heads and dims - 2 or dims - 1
  own.tokens, own.batch = causeway.size(own.v, own.axis), dims > 3 and causeway.size(own.v, 1) or 1
  for _, name in ipairs({ "q", "k", "log_decay", "beta" }) do
    local X = own[name]
    local counts_tokens = type(X) == "userdata" and causeway.ndims(X) >= own.axis
    if counts_tokens and causeway.size(X, own.axis) ~= own.tokens then
      raise(string.format("%s: inputs: %s is %s and v %s, expected as many tokens", call, name, noun(X), noun(own.v)))
    end
  end
  own.heads = dims > 2 and causeway.size(own.v, behind_heads and dims - 1 or dims - 2) or 1
  own.rank, own.dim = causeway.size(own.k, causeway.ndims(own.k)), causeway.size(own.v, dims)
  return own
end

-- Those of the updates whose inputs are there.
local function possible(own)
  local list = {}
  for _, update in ipairs(updates) do
    local gate_is_there = not takes_gate(update) or own.log_decay ~= nil
    local beta_is_there = not takes_beta(update) or own.beta ~= nil
    if gate_is_there and beta_is_there then list[#list + 1] = update end
  end
  return list
end

local function checked_options(update, options)
  for _, name in ipairs({ "log_decay", "beta" }) do
    if type(options) == "table" and options[name] ~= nil then
      raise(string.format("%s: %s: given beside inputs, expected among them: inputs = {q, k, v, %s = %s}", call, name,
        name, name))
    end
  end
  causeway._check_options(call, options)
  if options.layout ~= nil and options.inputs == nil then
    raise(call .. ": layout: given without inputs, expected beside tensors of yours: inputs = {q, k, v}")
  end
  causeway._check_word(call .. ": layout", options.layout, layouts)
  causeway._check_word(call .. ": gate", options.gate, { "head", "channel" })
  if update ~= nil and options.updates ~= nil then
    raise(call .. ": updates: given beside the update that comes first, expected one of the two")
  end
  local own = options.inputs ~= nil and checked_inputs(options) or nil
  if own and options.gate ~= nil then raise(call .. ": gate: given beside inputs, whose log_decay says it") end
  local given = causeway._benchmark_options(call, options, own, usual_lengths)
  given.layout, given.chunk, given.gate = options.layout, options.chunk, options.gate or "head"
  given.updates = update ~= nil and checked_update(update)
    or options.updates ~= nil and checked_names("updates", options.updates, updates)
    or own and possible(own) or updates
  given.modes = options.modes ~= nil and checked_names("modes", options.modes, modes) or modes
  for _, one in ipairs(own and given.updates or {}) do
    for name, takes in pairs({ log_decay = takes_gate, beta = takes_beta }) do
      if takes(one) and own[name] == nil then
        raise(string.format('%s: inputs: "%s" takes %s too: inputs = {q, k, v, %s = %s}', call, one, name, name, name))
      end
    end
  end
  return given
end

-- Each update in each mode.
local function candidates(given)
  local list = {}
  for _, update in ipairs(given.updates) do
    for _, mode in ipairs(given.modes) do
      list[#list + 1] = { name = update .. ", " .. mode, update = update, mode = mode,
        forward = function(q, k, v, options) return (causeway.linear_attention(q, k, v, options)) end }
    end
  end
  return list
end

-- {q, k, v, log_decay, beta} of N tokens.
local function inputs_of(given, N)
  local own, inputs = given.own, {}
  if own then
    for _, name in ipairs({ "q", "k", "v", "log_decay", "beta" }) do
      local X = own[name]
      local counts_tokens = type(X) == "userdata" and causeway.ndims(X) >= own.axis
      inputs[name] = counts_tokens and causeway._first_tokens(X, N, own.axis) or X
    end
    return inputs
  end
  local input = causeway._benchmark_inputs(given, N)
  local function as_it_is(X) return X end
  inputs.q, inputs.k = input(as_it_is, given.rank), input(causeway.l2norm, given.rank)
  inputs.v = input(as_it_is, given.dim)
  -- Gates near 1, as those of Yang et al. 2023.
  local function gate(X) return causeway.log(causeway.sigmoid(X)) / 16 end
  if given.gate == "channel" then inputs.log_decay = input(gate, given.rank) else inputs.log_decay = input(gate) end
  inputs.beta = input(causeway.sigmoid)
  return inputs
end

local function options_of(given, inputs, update, mode)
  return { update = update, mode = mode, chunk = given.chunk, layout = given.layout,
    log_decay = takes_gate(update) and inputs.log_decay or nil, beta = takes_beta(update) and inputs.beta or nil }
end

local function wide(X) return type(X) == "userdata" and causeway.f64(X) or X end

-- Candidate -> {arguments, reference}, the recurrence in Float64.
local function prepare(given, N, list)
  local inputs, of, references = inputs_of(given, N), {}, {}
  local precise = {}
  for name, X in pairs(inputs) do precise[name] = wide(X) end
  for _, update in ipairs(given.updates) do
    references[update] = (causeway.linear_attention(precise.q, precise.k, precise.v,
      options_of(given, precise, update, "recurrent")))
  end
  for _, candidate in ipairs(list) do
    local options = options_of(given, inputs, candidate.update, candidate.mode)
    of[candidate] = { arguments = { inputs.q, inputs.k, inputs.v, options }, reference = references[candidate.update] }
  end
  return of
end

--- Times updates of linear_attention in its modes over lengths; see lua/help/measure.lua.
function causeway.benchmark_update(update, options)
  if type(update) == "userdata" or type(update) == "table" and type(update[1]) == "userdata" then
    raise(call .. ": update: " .. noun(update) .. "; tensors of yours are inputs: benchmark_update{inputs = {q, k, v, "
      .. "log_decay = g, beta = beta}}")
  end
  if options == nil and causeway._is_plain(update) then update, options = nil, update end
  options = options or {}
  local given = checked_options(update, options)
  return causeway._run_benchmark(given, candidates(given), prepare, {
    keys = { "update", "mode" }, by_definition = true, compared = "the recurrence in Float64",
    setting = given.own and "with their own gates" or given.gate == "channel" and "a gate per key channel"
      or "a gate per head",
  }, options.show)
end
