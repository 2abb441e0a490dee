-- The derivatives of the attention calls: what their own gradients, causal_linear_attention_grad and the like, return.
local causeway = ...
local raise, known = causeway._raise, causeway._gradients
local full, fitted = known.full, known.fitted

-- The arguments of a call, by position or in one table, as they are named in `names` ({name, alias}), and its options.
local function read_arguments(names, args)
  local tensors, options = {}, {}
  local named = args.n == 1 and type(args[1]) == "table"
  for key, value in pairs(named and args[1] or args[#names + 1] or {}) do options[key] = value end
  for i, name in ipairs(names) do
    tensors[i] = args[i]
    if named then
      tensors[i] = options[name[1]] == nil and options[name[2]] or options[name[1]]
      for _, key in ipairs(name) do options[key] = nil end
    end
  end
  return tensors, options
end

-- Which derivative each input has, by the names in `fields`.
local function derivative_names(call, names, fields, inputs)
  local found = {}
  for _, input in ipairs(inputs) do
    local key = input.key or (names[input.place] or {})[1]
    if not fields[key] then
      raise(string.format("%s: %s: grad has no rule for it; detach(x) takes x as a constant", call,
        key or "argument " .. input.place))
    end
    found[input], found[fields[key]] = fields[key], true
  end
  return found
end

local function table_copy(options)
  local copy = {}
  for key, value in pairs(options) do copy[key] = value end
  return copy
end

local function only_known(options, gradient)
  local kept = {}
  for key, value in pairs(options) do
    if causeway._options[gradient][key] then kept[key] = value end
  end
  return kept
end

-- Of the type of x, as the gradients want what arrives at the output.
local function typed_as(x, g)
  local short = { Float32 = "f32", Float64 = "f64", Float16 = "f16", BFloat16 = "bf16" }
  return g[short[causeway.eltype(x)]](g)
end

-- A call whose derivatives are `gradient`(tensors, dO, options). rule:
--   names    the arguments; `like`: the number of the one whose type dO has
--   fields   name of an argument or option -> name of its derivative
--   prepare  options -> those of the call as it is recorded
--   inputs   how many of the arguments the gradient takes, if not three; all: it takes every option of the call
--   adapt    changes the options of the gradient: adapt(options, gradients, results, wanted)
--   outputs  how many of the results f gets
local function attention(call, gradient, rule)
  known.calls[call] = function(f, inputs, ...)
    local last = select(#rule.names + 1, ...)
    if last ~= nil and type(last) ~= "table" then f(...) end  -- which refuses these options
    local tensors, options = read_arguments(rule.names, table.pack(...))
    local wanted = derivative_names(call, rule.names, rule.fields, inputs)
    local given = table.pack(table.unpack(tensors, 1, #rule.names))
    given[#rule.names + 1] = rule.prepare and rule.prepare(options) or options
    local results = { f(table.unpack(given, 1, #rule.names + 1)) }
    local computed
    local function back(arrived, input)
      if not computed then
        local o = rule.all and table_copy(options) or only_known(options, gradient)
        local dO = typed_as(tensors[rule.like], full(arrived[1] or 0, results[1]))
        if not rule.all then o.state = o.state or tensors[4] end  -- of a step
        if rule.adapt then rule.adapt(o, arrived, results, wanted) end
        local arguments = table.move(tensors, 1, rule.inputs or 3, 1, {})
        arguments[#arguments + 1], arguments[#arguments + 2] = dO, o
        computed = causeway[gradient](table.unpack(arguments))
      end
      local g = computed[wanted[input]]
      local of = input.node.value
      if wanted[input] == "ddecay" and type(of) ~= "number" then g = g:reshape({ causeway.size(of) }) end
      return fitted(g, of)
    end
    local shown = table.move(results, 1, rule.outputs and rule.outputs(options) or #results, 1, {})
    return shown, back
  end
end

local function refuse_in_place(options)
  if options.inplace then
    raise("inplace: true, expected false within grad, which needs the state before the call")
  end
  return options
end

attention("causal_linear_attention", "causal_linear_attention_grad", {
  names = { { "B", "q" }, { "C", "k" }, { "V", "v" } }, like = 3,
  fields = { B = "dB", q = "dB", C = "dC", k = "dC", V = "dV", v = "dV", state = "dstate", decay = "ddecay" },
  prepare = function(options)
    refuse_in_place(options)
    for _, method in ipairs(causeway._registered_methods()) do
      if method.name == options.method then
        raise(string.format('method: grad has no rule for "%s", which register_method has added: call its function',
          method.name))
      end
    end
    return options
  end,
  adapt = function(options, arrived, _, wanted)
    if arrived[2] ~= nil then
      raise("causal_linear_attention: grad has no rule for the state that it returns, linear_attention has one")
    end
    options.ddecay = wanted.ddecay or false
  end,
})

local function with_final_state(options, arrived, results)
  options.dstate = arrived[2] and full(arrived[2], results[2])
end

-- What returns more states than the last one has no rule.
local function refuse_states(options)
  refuse_in_place(options)
  for _, name in ipairs({ "checkpoint_every", "keep_states" }) do
    if options[name] then raise(name .. ": given, but grad has no rule for the states that it returns") end
  end
  return options
end

local fields_of_gates = { q = "dq", k = "dk", v = "dv", state = "dstate", log_decay = "dlog_decay", beta = "dbeta",
  A_log = "dA_log", dt_bias = "ddt_bias", norm_weight = "dnorm_weight", norm_gate = "dnorm_gate" }

attention("linear_attention", "linear_attention_grad", {
  names = { { "q" }, { "k" }, { "v" } }, like = 1, fields = fields_of_gates, prepare = refuse_states,
  adapt = with_final_state,
})

-- A step is a short sequence that starts from a state.
attention("linear_attention_step", "linear_attention_grad", {
  names = { { "q" }, { "k" }, { "v" }, { "state" } }, like = 1, fields = fields_of_gates,
  prepare = refuse_states, adapt = with_final_state,
})

local fields_of_rule = { q = "dq", k = "dk", v = "dv", state = "dstate", a = "da", u = "du", w = "dw" }

attention("general_linear_attention", "general_linear_attention_grad", {
  names = { { "q" }, { "k" }, { "v" } }, like = 1, fields = fields_of_rule, prepare = refuse_states,
  adapt = with_final_state,
})

attention("general_linear_attention_step", "general_linear_attention_grad", {
  names = { { "q" }, { "k" }, { "v" }, { "state" } }, like = 1, fields = fields_of_rule, prepare = refuse_states,
  adapt = with_final_state,
})

attention("softmax_attention", "softmax_attention_grad", {
  names = { { "q" }, { "k" }, { "v" } }, like = 1, fields = { q = "dq", k = "dk", v = "dv" },
  prepare = function(options)
    local copy = { return_lse = true }
    for key, value in pairs(options) do copy[key] = key == "return_lse" or value end
    return copy
  end,
  outputs = function(options) return options.return_lse and 2 or 1 end,
  adapt = function(options, arrived, results)
    if arrived[2] ~= nil then
      raise("softmax_attention: grad has no rule for the log-sum-exp, expected the output alone in the value")
    end
    options.O, options.lse = results[1], results[2]
  end,
})

-- What stands around linear attention.
attention("short_convolution", "_short_convolution_grad", {
  names = { { "x" }, { "weight" } }, like = 1, inputs = 2, all = true,
  fields = { x = "dx", weight = "dweight", bias = "dbias", state = "dstate" }, adapt = with_final_state,
})

attention("l2norm", "_l2norm_grad", { names = { { "x" } }, like = 1, inputs = 1, all = true, fields = { x = "dx" } })

attention("rms_norm", "_rms_norm_grad", {
  names = { { "x" } }, like = 1, inputs = 1, all = true, fields = { x = "dx", weight = "dweight", gate = "dgate" },
})

attention("decay_gate", "_decay_gate_grad", {
  names = { { "a" }, { "A_log" } }, like = 1, inputs = 2, all = true,
  fields = { a = "da", A_log = "dA_log", dt_bias = "ddt_bias" },
})

-- energy(q, k, v, zeta): its gradient with respect to the sources is attention (energy_grad).
known.calls.energy = function(f, inputs, ...)
  local names = { { "q" }, { "k" }, { "v" }, { "zeta" } }
  local tensors, options = read_arguments(names, table.pack(...))
  derivative_names("energy", names, { zeta = "dzeta" }, inputs)
  local F, total = f(tensors[1], tensors[2], tensors[3], tensors[4], options)
  return { F, total }, function(arrived)
    local shape = { causeway.size(F) }
    shape[#shape + 1] = 1
    local g = full(arrived[1] or 0, F) + (arrived[2] or 0)
    return causeway.times(causeway.energy_grad(tensors[1], tensors[2], tensors[3], tensors[4], options),
      g:reshape(shape))
  end
end
