-- recurrence{a =, u =, w =, k =, v =, q =}: a rule S ← (diag(a) - u wᵀ) S + k vᵀ of one's own, and the rules of the
-- literature that are one.
local causeway = ...
local raise, noun = causeway._raise, causeway._noun

local Rule = { __name = "Rule" }
causeway._only_fields(Rule, { what = "a rule", fields = "name a u w k v q" })
causeway._as_table(Rule)

-- The parts of a rule, and what each is where it is not given.
local parts = { { "a", "1" }, { "u", "none" }, { "w", "none" }, { "k", "x.k" }, { "v", "x.v" }, { "q", "x.q" } }
local is_part = {}
for _, part in ipairs(parts) do is_part[part[1]] = true end

-- The rules of the literature that are calls, each with its inputs beside q, k and v: the part whose width they may
-- have, or "" where they are one number a token.
local of_literature = {}

-- Options that a call of a rule hands on; its other fields are inputs of the token.
local handed_on = { mode = true, chunk = true, scale = true, state = true, cu_seqlens = true, layout = true,
  device = true, inplace = true, state_indices = true, checkpoint_every = true, deterministic = true,
  keep_states = true }

local option_names = {}
for name in pairs(handed_on) do option_names[#option_names + 1] = name end
table.sort(option_names)

local function is_tensor(x) return causeway._is_tensor(x) end  -- looked up anew: inside grad it is another one

--- A row for each part: a function, a Tensor or a number, or what it is by default.
function Rule:table()
  local rows = {}
  for i, part in ipairs(parts) do
    local value = self[part[1]]
    rows[i] = { part = part[1], is = value == nil and part[2] or type(value) == "number" and tostring(value)
      or noun(value) }
  end
  return causeway.text_table(rows, { columns = { "part", "is" },
    title = self.name .. ": S ← (diag(a) - u wᵀ) S + k vᵀ,  o = scale · Sᵀq" })
end

function causeway.recurrence(rule)
  if type(rule) ~= "table" then
    raise("recurrence: " .. noun(rule) .. ", expected one table, as in recurrence{u = f, w = g}")
  end
  local made = { name = rule.name or "recurrence" }
  if type(made.name) ~= "string" then raise("recurrence: name: " .. noun(made.name) .. ", expected a string") end
  for key, value in pairs(rule) do
    if not is_part[key] and key ~= "name" then
      raise("recurrence: " .. tostring(key) .. ": no part of a rule, expected a, u, w, k, v, q or name")
    end
    if is_part[key] and type(value) ~= "function" and type(value) ~= "number" and not is_tensor(value) then
      raise("recurrence: " .. key .. ": " .. noun(value) .. ", expected a function, a Tensor or a number")
    end
    made[key] = value
  end
  if (made.u == nil) ~= (made.w == nil) then
    local missing, given = "u", "w"
    if made.w == nil then missing, given = given, missing end
    raise(("recurrence: %s: missing, but %s is given, expected both or none"):format(missing, given))
  end
  return setmetatable(made, Rule)
end

-- Refuses what a rule of the literature has no use for, with the nearest of what it takes.
local function check_names(rule, options)
  if not of_literature[rule] then return end
  local known = { "q", "k", "v" }
  for name in pairs(of_literature[rule]) do known[#known + 1] = name end
  table.sort(known)
  table.move(option_names, 1, #option_names, #known + 1, known)
  local names = options and {}  -- alone: grad sees what gets its values
  for name in pairs(options or {}) do names[name] = true end
  causeway._check_options(rule.name, names, known)
end

-- The inputs of a call, by position or in one table, and the options that are handed on.
local function read(rule, q, k, v, options)
  if type(q) == "table" and k == nil and v == nil and options == nil then q, options = nil, q end
  if options ~= nil and type(options) ~= "table" then
    raise(rule.name .. ": options: " .. noun(options) .. ", expected a table")
  end
  check_names(rule, options)
  local inputs, kept = {}, {}
  for key, value in pairs(options or {}) do
    if handed_on[key] then kept[key] = value else inputs[key] = value end
  end
  inputs.q, inputs.k, inputs.v = q or inputs.q, k or inputs.k, v or inputs.v
  for _, name in ipairs({ "q", "k", "v" }) do
    if inputs[name] == nil and is_tensor(rule[name]) then inputs[name] = rule[name] end
    if not is_tensor(inputs[name]) then
      raise(("%s: %s: %s, expected a Tensor"):format(rule.name, name, inputs[name] == nil and "missing"
        or noun(inputs[name])))
    end
  end
  return inputs, kept
end

-- Zeros of the type that `like` is computed in.
local function zeros(like, shape)
  local out = causeway.zeros(shape)
  return causeway.eltype(like) == "Float64" and causeway.f64(out) or out
end

local conversions = { Float16 = "f16", BFloat16 = "bf16", Float32 = "f32", Float64 = "f64" }

-- X in the type of `like`.
local function in_type_of(like, X)
  local wanted = causeway.eltype(like)
  return causeway.eltype(X) == wanted and X or causeway[conversions[wanted]](X)
end

-- A vector beside q [N, d_k] may have one number a token or one a channel; where both have as many, only its second
-- dimension tells.
local function refuse_ambiguous(rule, name, N, width)
  if N == width and N > 1 then
    raise(("%s: %s: %d, expected %d×1 for one number a token or 1×%d for one a channel, of which there are as many")
      :format(rule.name, name, N, N, N))
  end
end

-- Whether an input has one number a token. With one head and no dimension for it, its length tells.
local function is_per_token(rule, name, value, inputs, N)
  local dims = causeway.ndims(inputs.q)
  if not is_tensor(value) or causeway.ndims(value) ~= dims - 1 then return false end
  if dims > 2 then return true end
  if causeway.size(value, 1) ~= N then return false end
  if not of_literature[rule] then
    refuse_ambiguous(rule, name, N, causeway.size(inputs.q, 2))
    if is_tensor(inputs.v) then refuse_ambiguous(rule, name, N, causeway.size(inputs.v, causeway.ndims(inputs.v))) end
  end
  return true
end

-- The numbers of N tokens, from 1, those of packed sequences from 1 in each.
local function numbers(N, offsets)
  local t = {}
  for i = 1, N do t[i] = i end
  for s = 2, type(offsets) == "table" and #offsets or 0 do
    local from, to = offsets[s - 1], offsets[s]
    if math.type(from) ~= "integer" or math.type(to) ~= "integer" then break end  -- which the call refuses
    for i = math.max(from, 0) + 1, math.min(to, N) do t[i] = i - from end
  end
  return causeway.tensor(t)
end

local function sizes_text(sizes) return table.concat(sizes, "×") end

-- Whether the first dimensions of an input are these, where 1 and fewer heads stand for all, and the last one the
-- width, where there is one to compare.
local function fits(value, lead, heads, width)
  for i, n in ipairs(lead) do
    local m = causeway.size(value, i)
    local shared = i == heads and m > 0 and n % m == 0
    if m ~= n and m ~= 1 and not shared then return false end
  end
  local own = causeway.ndims(value) > #lead and causeway.size(value, #lead + 1)
  return not own or not width or own == 1 or own == width
end

-- Refuses keys and values of another length than the queries; `place` is the dimension of tokens.
local function check_lengths(rule, inputs, place)
  for _, name in ipairs({ "k", "v" }) do
    local dims, N = causeway.ndims(inputs.q), causeway.size(inputs.q, place)
    if causeway.ndims(inputs[name]) == dims and causeway.size(inputs[name], place) ~= N then
      raise(("%s: %s: length %d, expected %d like q"):format(rule.name, name, causeway.size(inputs[name], place), N))
    end
  end
end

-- The sizes of the values without their width: batch, heads and tokens.
local function lead_of(v)
  local lead = { causeway.size(v) }
  lead[#lead] = nil
  return lead
end

-- Refuses an input whose batch, heads and tokens are not `lead`, those of the values: before a function of the rule,
-- which knows only that some shapes do not match.
local function check_input(rule, name, value, inputs, lead, heads)
  local known, ndims = of_literature[rule], is_tensor(value) and causeway.ndims(value)
  local per_token = #lead > 1 and ndims == #lead
  if not per_token and not (known and known[name] and ndims == #lead + 1) then return end
  local wide = known and known[name] ~= "" and inputs[known[name]]
  local width = wide and causeway.size(wide, causeway.ndims(wide))
  if fits(value, lead, heads, width) then return end
  local expected = sizes_text(lead)
  if width then expected = ("%s or %s×%d"):format(expected, expected, width) end
  raise(("%s: %s: %s, expected %s%s"):format(rule.name, name, sizes_text { causeway.size(value) }, expected,
    known and "" or ", one number a token"))
end

-- Of inputs [b, h, N], one number a token, [b, h, N, 1], so that they multiply rows; t has the numbers of the tokens.
local function prepare(rule, inputs, options)
  local dims = causeway.ndims(inputs.q)
  local place = options.layout == "bnhd" and dims - 2 or dims - 1
  local shape = {}
  for i = 1, dims do shape[i] = i == place and causeway.size(inputs.q, i) or 1 end
  if of_literature[rule] then check_lengths(rule, inputs, place) end
  local lead = lead_of(inputs.v)
  for name, value in pairs(inputs) do
    check_input(rule, name, value, inputs, lead, options.layout == "bnhd" and dims - 1 or dims - 2)
    if is_per_token(rule, name, value, inputs, shape[place]) then
      local sizes = { causeway.size(value) }
      sizes[#sizes + 1] = 1
      inputs[name] = value:reshape(sizes)
    end
  end
  if inputs.t == nil and shape[place] > 0 then
    inputs.t = zeros(inputs.q, shape) + numbers(shape[place], options.cu_seqlens):reshape(shape)
  end
  inputs.t = inputs.t or zeros(inputs.q, shape)
end

-- What the functions of a rule get: x.name is an input, and an error where it is not given; x(name, default) is one
-- that need not be. `seen` gets the names that were asked for.
local function token(rule, part, inputs, seen)
  return setmetatable({}, {
    __index = function(_, name)
      if inputs[name] == nil and of_literature[rule] then
        raise(("%s: %s: missing, expected a Tensor"):format(rule.name, tostring(name)))
      end
      if inputs[name] == nil then
        raise(("%s: %s: x.%s is not given, expected it in the call: rule(q, k, v, {%s = ...})"):format(rule.name, part,
          tostring(name), tostring(name)))
      end
      seen[name] = true
      return inputs[name]
    end,
    __call = function(_, name, default)
      seen[name] = true
      if inputs[name] == nil then return default end
      return inputs[name]
    end,
  })
end

-- What the function of a part returns. Its errors are those of times, exp and the like, to which the rule and the part
-- are added; those that are none of the code pass as they are.
local function named_errors(rule, part, f, x)
  local good, result = pcall(f, x)
  if good then return result end
  if type(result) ~= "string" or causeway.error_kind(result) ~= "bad argument" then error(result, 0) end
  local place, message = result:match("^([^\n]-:%d+: )(.*)$")
  message = message or result
  if message:sub(1, #rule.name + 1) == rule.name .. ":" then error(result, 0) end
  error(causeway._of_kind(("%s%s: %s: %s"):format(place or "", rule.name, part, message), "bad argument"), 0)
end

-- A part for the tokens of the call: what its function returns, or what was given.
local function value_of(rule, part, inputs, seen)
  local value = rule[part]
  if type(value) ~= "function" then return value end
  value = named_errors(rule, part, value, token(rule, part, inputs, seen))
  if type(value) ~= "number" and not is_tensor(value) then
    raise(("%s: %s: the function returned %s, expected a Tensor or a number"):format(rule.name, part, noun(value)))
  end
  return value
end

local function same_sizes(a, b)
  local same = #a == #b
  for i, n in ipairs(a) do same = same and n == b[i] end
  return same
end

-- The value as [.., N, width] with the leading dimensions of `shape`, whose heads it may have fewer of.
local function spread(rule, part, value, shape, heads, like)
  if type(value) == "number" then return zeros(like, shape) + value end
  local sizes, full = { causeway.size(value) }, table.move(shape, 1, #shape, 1, {})
  local shares = #sizes == #shape and heads > 0 and shape[heads] % math.max(sizes[heads], 1) == 0
  if shares then full[heads] = sizes[heads] end
  if same_sizes(sizes, full) then return value end
  for i = 1, #sizes do
    local n, wanted = sizes[#sizes + 1 - i], full[#full + 1 - i]
    if n ~= wanted and n ~= 1 then
      raise(("%s: %s: %s, expected %s or what broadcasting makes of it"):format(rule.name, part,
        sizes_text(sizes), sizes_text(shape)))
    end
  end
  return zeros(like, full) + value
end

-- q, k, v and the options of general_linear_attention.
local function arguments(rule, inputs, options)
  local seen = { t = true }
  for _, name in ipairs({ "q", "k", "v" }) do
    seen[name] = not is_tensor(rule[name]) or rawequal(inputs[name], rule[name])
  end
  prepare(rule, inputs, options)
  local given = {}
  for _, part in ipairs(parts) do given[part[1]] = value_of(rule, part[1], inputs, seen) end
  for name in pairs(inputs) do
    if not seen[name] then
      local meant = causeway._known_here(tostring(name), handed_on)
      if not meant then
        local near = causeway._closest(tostring(name), option_names)
        meant = near ~= "" and ('did you mean "%s"?'):format(near)
      end
      raise(("%s: %s: given, but no function of the rule reads it%s"):format(rule.name, tostring(name),
        meant and " (" .. meant .. ")" or ""))
    end
  end
  for _, part in ipairs({ "q", "k", "v" }) do
    if type(given[part]) == "number" then
      raise(("%s: %s: a number, expected a Tensor"):format(rule.name, part))
    end
    -- Arithmetic on types that are for storage gives Float32.
    if given[part] then given[part] = in_type_of(inputs.q, given[part]) end
  end
  local q, k, v = given.q or inputs.q, given.k or inputs.k, given.v or inputs.v
  -- As u and w are: the dimensions of v, the width of k.
  local shape = { causeway.size(v) }
  local dims, per_token = #shape, table.move(shape, 1, #shape - 1, 1, {})
  local heads = options.layout == "bnhd" and dims - 1 or dims - 2
  shape[dims] = causeway.size(k, causeway.ndims(k))
  local a = given.a
  if is_tensor(a) then
    if same_sizes({ causeway.size(a) }, per_token) then  -- one number a token
      if dims == 2 then refuse_ambiguous(rule, "a", per_token[1], shape[dims]) end
      options.a = a
    else
      local wide = causeway.size(a, causeway.ndims(a)) ~= 1 or shape[dims] == 1
      local expected = table.move(shape, 1, dims, 1, {})
      expected[dims] = wide and shape[dims] or 1
      a = spread(rule, "a", a, expected, heads, q)
      local sizes = { causeway.size(a) }
      sizes[dims] = nil
      options.a = wide and a or a:reshape(sizes)
    end
  elseif a ~= nil then
    options.a = zeros(q, per_token) + a
  end
  if given.u ~= nil then
    options.u = spread(rule, "u", given.u, shape, heads, q)
    options.w = spread(rule, "w", given.w, shape, heads, q)
  end
  return q, k, v, options
end

--- rule(q, k, v, options), or with everything in one table.
function Rule:__call(q, k, v, options)
  return causeway.general_linear_attention(arguments(self, read(self, q, k, v, options)))
end

--- Of a rule the function(q, k, v) that gives its output alone; nil of anything else.
function causeway._forward_of_rule(rule)
  if getmetatable(rule) ~= Rule then return nil end
  return function(q, k, v) return (rule(q, k, v)) end
end

--- rule:step(q, k, v, state, options): one token, or up to 16.
function Rule:step(q, k, v, state, options)
  local queries, keys, values, given = arguments(self, read(self, q, k, v, options))
  if state == nil then state, given.state = given.state, nil end
  return causeway.general_linear_attention_step(queries, keys, values, state, given)
end

-- ── Rules of the literature ──

local exp, times = causeway.exp, causeway.times

local gated_delta_2 = causeway.recurrence { name = "gated_delta_2",
  a = function(x) return exp(x.log_decay) end,
  u = function(x) return x.k end,
  w = function(x) return times(exp(x.log_decay), times(x.erase, x.k)) end,
  v = function(x) return times(x.write, x.v) end }

function causeway.gated_delta_2(...) return gated_delta_2(...) end

local comba = causeway.recurrence { name = "comba",
  a = function(x) return exp(x.log_decay) end,
  u = function(x) return times(times(x("feedback", 1), x.beta), x.k) end,
  w = function(x) return x.k end,
  k = function(x) return times(x.beta, x.k) end,
  q = function(x) return x.q - times(x("correction", 0), x.k) end }

function causeway.comba(...) return comba(...) end

local rwkv7 = causeway.recurrence { name = "rwkv7",
  a = function(x) return exp(x.log_decay) end,
  u = function(x) return times(x.rate, x.kappa) end,
  w = function(x) return x.kappa end }

function causeway.rwkv7(q, k, v, options)
  if type(q) == "table" and k == nil and v == nil and options == nil and q.r ~= nil then
    if q.q ~= nil then raise("rwkv7: r: given beside q, expected one of them") end
    local given = {}
    for name, value in pairs(q) do given[name == "r" and "q" or name] = value end
    q = given
  end
  return rwkv7(q, k, v, options)
end

-- A token's n steps are tokens of their own, of which the first has the gate and the last the query.
local steps_of_delta_product = causeway.recurrence { name = "delta_product",
  a = function(x) return exp(x.log_decay) end,
  u = function(x) return times(x.beta, x.k) end,
  w = function(x) return times(exp(x.log_decay), x.k) end,
  k = function(x) return times(x.beta, x.k) end }

of_literature[gated_delta_2] = { log_decay = "k", erase = "k", write = "v" }
of_literature[comba] = { log_decay = "", beta = "", feedback = "", correction = "" }
of_literature[rwkv7] = { log_decay = "k", kappa = "k", rate = "k" }
of_literature[steps_of_delta_product] = { log_decay = "k", beta = "" }

-- Offsets of sequences of N tokens, as those of n steps a token.
local function offsets_of_steps(offsets, N, n)
  if type(offsets) ~= "table" then return offsets end
  local out = {}
  for i, offset in ipairs(offsets) do out[i] = type(offset) == "number" and n * offset or offset end
  if #out > 0 and offsets[#offsets] ~= N then
    raise(("delta_product: cu_seqlens: %s as its last offset, expected %d, the tokens of q")
      :format(tostring(offsets[#offsets]), N))
  end
  return out
end

function causeway.delta_product(q, k, v, options)
  local inputs, given = read(steps_of_delta_product, q, k, v, options)
  q, k = inputs.q, inputs.k
  if given.layout == "bnhd" then
    raise('delta_product: layout: "bnhd", expected "bhnd", of which permutedims(q, 1, 3, 2, 4) makes q')
  end
  local dims = causeway.ndims(q)
  local N, steps = causeway.size(q, dims - 1), causeway.size(k, causeway.ndims(k) - 1)
  local n = N > 0 and steps // N or 1
  if n < 1 or n * N ~= steps then
    raise(("delta_product: k: length %d, expected a multiple of the %d tokens of q"):format(steps, N))
  end
  -- X [.., N, width] with zeros for the other steps of a token, before it or behind it: [.., n N, width].
  local function among_steps(X, before)
    if n == 1 then return X end
    local sizes = { causeway.size(X) }
    local width = sizes[#sizes]
    sizes[#sizes] = (n - 1) * width
    local others = in_type_of(X, zeros(X, sizes))
    sizes[#sizes - 1], sizes[#sizes] = steps, width
    return causeway.cat(before and others or X, before and X or others, #sizes):reshape(sizes)
  end
  local gates, lead = inputs.log_decay, lead_of(inputs.v)
  if gates ~= nil and #lead == dims - 1 then
    lead[#lead] = N
    check_input(steps_of_delta_product, "log_decay", gates, inputs, lead, dims - 2)
  end
  if gates == nil then
    gates = zeros(q, { steps, 1 })
  else
    if causeway.ndims(gates) == dims - 1 then
      local sizes = { causeway.size(gates) }
      sizes[#sizes + 1] = 1
      gates = gates:reshape(sizes)
    end
    gates = among_steps(gates, false)
  end
  inputs.q, inputs.log_decay = among_steps(q, true), gates
  given.cu_seqlens = offsets_of_steps(given.cu_seqlens, N, n)
  for key, value in pairs(given) do inputs[key] = value end
  local o, state = steps_of_delta_product(inputs)
  local sizes = { causeway.size(o) }
  local width = sizes[dims]
  sizes[dims - 1], sizes[dims] = N, n * width
  local parts_of_o = {}
  for i = 1, dims do parts_of_o[i] = i == dims and { (n - 1) * width + 1, n * width } or ":" end
  return o:reshape(sizes)(table.unpack(parts_of_o)), state
end
