-- grad(f, params): reverse mode. While f runs, the parameters are traced values: they stand for a tensor or a number,
-- and every call of the library that gets one is seen here before it is made (lua/bind/trace.cpp). It is made with what
-- the traced values stand for, and noted on a tape with the rule of its derivative; the tape is then read backwards.
local causeway = ...
local raise, noun, record, recording = causeway._raise, causeway._noun, causeway._record, causeway._recording
local new_traced, node_of, storage = causeway._traced, causeway._traced_node, causeway._storage
local alike = causeway._alike
local pack, unpack, insert = table.pack, table.unpack, table.insert

-- What lua/lib/gradient_*.lua fill; all keys are names of functions, operators as in names_of_operators.
--   rules      name -> function(y, ...): of y = name(...), for each argument a function(g, key) or nil. It returns what
--              arrives at the argument when g, of the shape of y, arrives at y; key is the place in an argument that is
--              a list. The result may be of another type, and a number or a tensor that broadcasting makes as long;
--              true after it says that it is not to be summed any more
--   squares    name -> the rule, as in rules, where both arguments are one traced value
--   each       name -> true: element by element with broadcasting: the rule takes a g that is to be broadcast, and what
--              it returns is summed where y is longer than the argument
--   lazy       name -> true: the rule takes a g that is to be broadcast
--   calls      name -> function(f, inputs, ...): the same for calls with several results or named arguments
--   constant   name -> true: the result has no derivative, or it is 0 and the result is no number to compute with
--   lists      name -> true: an argument of the rule may be a list of traced values
--   refused    name -> why there is no rule
--   writes     name -> true: it changes its first argument (beside those whose names end with an underscore)
--   seen       name -> true: it only looks, at traced values and parameters too
local known = {}
for _, of in ipairs({ "rules", "squares", "each", "lazy", "calls", "constant", "lists", "refused", "writes",
  "seen" }) do known[of] = {} end
causeway._gradients = known

-- ── Names of functions ──

local names_of_operators = { __add = "A + B", __sub = "A - B", __mul = "A * B", __div = "A / B", __unm = "-A",
  __pow = "A ^ B", __call = "A(i, j)", __len = "#A", __eq = "A == B", __lt = "A < B", __le = "A <= B",
  __tostring = "tostring", __index = "A.name", __newindex = "A[i] = x" }

--- name -> function: what A.name finds for a type of tensors.
function known.methods(class)
  local _, methods = debug.getupvalue(class.__index, 1)
  return methods
end

local name_of  -- function -> name

-- Made when it is first needed: all files of the library have then been read. Kept only when it is whole, as memory may
-- run out on the way.
local function name_functions()
  local names = {}
  for _, type_name in ipairs({ "Tensor", "GpuTensor" }) do
    local class = causeway._metatable(type_name)
    for key, name in pairs(class and names_of_operators or {}) do
      if class[key] then names[class[key]] = name end
    end
    for name, f in pairs(class and known.methods(class) or {}) do names[f] = name end
  end
  for name, f in pairs(causeway) do
    if type(f) == "function" and (not names[f] or name:sub(1, 1) ~= "_") then names[f] = name end
  end
  name_of = names
end

-- ── Values ──

local is_tensor_class = {}
for _, type_name in ipairs({ "Tensor", "GpuTensor" }) do
  local class = causeway._metatable(type_name)
  if class then is_tensor_class[class] = type_name end
end

-- "Tensor", "GpuTensor" or nil.
local function tensor_class(x)
  return type(x) == "userdata" and is_tensor_class[debug.getmetatable(x)] or nil
end

--- A tensor like x, in the type it is computed in, with all elements equal to the value; of a number the value.
local function filled(x, value)
  if type(x) == "number" then return value end
  local wide = causeway.eltype(x) == "Float64"
  if tensor_class(x) == "GpuTensor" then return causeway.fill(value, { causeway.size(x) }):gpu() end
  return causeway.fill(causeway.similar(x, wide and "Float64" or "Float32"), value)
end
known.filled = filled

-- Gradients are lazy: a number or a shorter tensor stands for the one that broadcasting to the value makes of it. This
-- one has all elements.
local function full(g, value)
  if type(value) == "number" or alike(g, value) then return g end
  if type(g) == "number" then return filled(value, g) end
  local shape, same = { causeway.size(value) }, causeway.ndims(g) == causeway.ndims(value)
  for k, n in ipairs(shape) do same = same and causeway.size(g, k) == n end
  return same and g or filled(value, 0) + g
end
known.full = full

-- What of g arrives at x, summed over what broadcasting has repeated: g is the gradient of y, which broadcasting made
-- as long as it is; without y a gradient of x, with further dimensions in front.
local function fitted(g, x, y)
  if type(g) == "number" then
    if y == nil or type(y) == "number" then return g end
    return g * (causeway.length(y) / (type(x) == "number" and 1 or math.max(1, causeway.length(x))))
  end
  if alike(g, x, y) then return g end
  local shape = type(x) == "number" and {} or { causeway.size(x) }
  local came, whole = { causeway.size(g) }, y == nil and shape or { causeway.size(y) }
  local repeated = 1
  for k = 1, math.max(#came, #whole) do  -- from the right
    local at = #came + 1 - k
    local n = came[at] or 1
    if (shape[#shape + 1 - k] or 1) == 1 then
      if n ~= 1 then g = causeway.sum(g, at)
      elseif y ~= nil then repeated = repeated * (whole[#whole + 1 - k] or 1) end
    end
  end
  if repeated ~= 1 then g = g * repeated end
  if #shape == 0 then return causeway.sum(g) end
  if #came > #shape then g = g:reshape({ table.unpack({ causeway.size(g) }, #came - #shape + 1) }) end
  local element = causeway.eltype(x) == "Float64" and "f64" or "f32"
  return g[element](g)
end
known.fitted = fitted

-- The GPU has no sum of two tensors.
local function added(a, b)
  if a == nil then return b end
  if tensor_class(a) ~= "GpuTensor" and tensor_class(b) ~= "GpuTensor" then return a + b end
  local function here(g) return type(g) == "number" and g or g:cpu() end
  return (here(a) + here(b)):gpu()
end

-- ── The tape ──

-- Of the call of grad that runs, in order: {outputs = {nodes}, inputs = {{node =, place =, key =}}, back = function}. A
-- node is {value =, gradient =, tape =}. `used` has every tensor that the tape relies on by its storage, so that no
-- other one gets the same, `own` the names of the parameters by theirs.
local tape

local function note_used(x)
  local place = storage(x)
  if place then tape.used[place] = x end
end

local function traced(value)
  note_used(value)
  return new_traced({ value = value, tape = tape })
end

-- The traced values among the arguments, and in the tables among these; `plain` gets what they stand for. nil where
-- there is none.
local function inputs_among(args, plain)
  local inputs
  local function note(node, place, key)
    if node.tape ~= tape then raise("grad: a value traced by an earlier call of grad, expected those of this one") end
    inputs = inputs or {}
    inputs[#inputs + 1] = { node = node, place = place, key = key }
    return node.value
  end
  for i = 1, args.n do
    local value = args[i]
    local node = node_of(value)
    plain[i] = value
    if node then
      plain[i] = note(node, i)
    elseif type(value) == "table" then
      local copy
      for key, entry in next, value do
        local inside = node_of(entry)
        if inside then
          if not copy then
            copy = {}
            for k, v in next, value do copy[k] = v end
          end
          copy[key] = note(inside, i, key)
        end
      end
      plain[i] = copy or value
    end
  end
  return inputs
end

-- A parameter itself, or a tensor that the tape relies on, where it must not be.
local function check_constants(name, args)
  local writes = known.writes[name] or name:sub(-1) == "_" and name:sub(1, 1) ~= "_"
  if writes and tape.used[storage(args[1]) or false] then
    raise(name .. ": a Tensor that grad needs as it is, expected one that nothing recorded has used: write into a copy")
  end
  if known.constant[name] or name == "copy" then return end
  local function check(value)
    local own = tape.own[storage(value) or false]
    if own then
      raise(string.format("%s: got %s itself, expected what the function of grad got in its place "
        .. "(a constant is a copy of it)", name, own))
    end
  end
  for i = 1, args.n do
    check(args[i])
    if type(args[i]) == "table" then
      for _, entry in next, args[i] do check(entry) end
    end
  end
end

local function refuse(name)
  local why = known.refused[name] or name:find("_$") and known.refused.set
  if not why and name:sub(1, 1) == "_" then why = "a function of the library that shows or keeps numbers" end
  raise(string.format("%s: grad has no rule for it%s; detach(x) takes x as a constant", name:gsub("^_", ""),
    why and ": " .. why or ""))
end

-- Of a rule of one result: what is put on the tape for its derivatives, which are those of its arguments by place.
local function by_place(name, inputs, y, args)
  local rule = known.rules[name]
  if known.squares[name] and inputs[2] and inputs[1].node == inputs[2].node then
    rule, inputs[2] = known.squares[name], nil
  end
  local derivatives = { rule(y, unpack(args, 1, args.n)) }
  for _, input in ipairs(inputs) do
    if not derivatives[input.place] or input.key ~= nil and not known.lists[name] then
      raise(string.format("%s: argument %d: grad has no rule for a traced value %s; detach(x) takes x as a constant",
        name, input.place, input.key == nil and "there" or "in a table there"))
    end
  end
  local scales = name == "A * B" and (type(args[1]) == "number" or type(args[2]) == "number")
  local each = known.each[name] or scales
  local lazy = each or known.lazy[name]
  return function(gradients, input)
    local g, is_fitted = derivatives[input.place](lazy and gradients[1] or full(gradients[1], y), input.key)
    return is_fitted and g or fitted(g, input.node.value, each and y or nil)
  end
end

-- Makes the call with what the traced values stand for.
local function recorded_call(name, f, inputs, plain)
  local call = known.calls[name]
  if not call and not known.rules[name] or known.writes[name] and tensor_class(plain[1]) then refuse(name) end
  local results, back
  if call then
    results, back = call(f, inputs, unpack(plain, 1, plain.n))
  else
    results = { (f(unpack(plain, 1, plain.n))) }
    back = by_place(name, inputs, results[1], plain)
  end
  for i = 1, plain.n do
    note_used(plain[i])
    if type(plain[i]) == "table" then
      for _, entry in next, plain[i] do note_used(entry) end
    end
  end
  local outputs, values = {}, {}
  for i, result in ipairs(results) do
    values[i] = traced(result)
    outputs[i] = node_of(values[i])
  end
  insert(tape, { outputs = outputs, inputs = inputs, back = back })
  return values
end

-- Whether a traced value is in the table, or in one inside it.
local function has_traced(x)
  if not causeway._is_plain(x) then return false end
  for _, entry in next, x do
    if node_of(entry) or has_traced(entry) then return true end
  end
  return false
end

-- What every call goes through while f runs: false for one that has nothing to do with the tape.
local function seen_call(f, ...)
  local name = name_of[f] or "a function of the library"
  if known.seen[name] then return false end
  local args = pack(...)
  if name == "-A" then args.n = 1 end  -- Lua gives the operand twice
  local plain = { n = args.n }
  local inputs = inputs_among(args, plain)
  if not inputs then
    if name == "scan" and has_traced(args[1]) then refuse(name) end  -- in its table of inputs
    check_constants(name, args)
    return false
  end
  if known.constant[name] then return true, f(unpack(plain, 1, plain.n)) end
  return true, unpack(recorded_call(name, f, inputs, plain))
end
causeway._record_with(seen_call)

-- From the value back to the parameters. The tape is given up on the way, and with it the memory of what it held.
local function run_backwards(root)
  for place in pairs(tape.used) do tape.used[place] = true end
  root.gradient = filled(root.value, 1)
  for i = #tape, 1, -1 do
    local step = tape[i]
    tape[i] = nil
    local gradients, any = {}, false
    for k, node in ipairs(step.outputs) do
      gradients[k], node.gradient = node.gradient, nil
      any = any or gradients[k] ~= nil
    end
    for _, input in ipairs(any and step.inputs or {}) do
      local node = input.node
      local g = step.back(gradients, input)
      node.gradient = added(node.gradient, g)
    end
  end
end

-- ── What f gets and what it returns ──

-- The traced values in place of the tensors and numbers of params; `leaves` gets {node =, name =} for each of them, the
-- same tensor the same one.
local function traced_params(x, name, leaves, inside)
  if type(x) == "number" or tensor_class(x) then
    local element = tensor_class(x) and causeway.eltype(x)
    if element and element ~= "Float32" and element ~= "Float64" then
      raise(string.format("grad: %s: %s, expected Float32 or Float64: types of 16 bits are for storage", name,
        noun(x)))
    end
    local place = storage(x)
    local value = place and leaves[x] or traced(x)
    if place then leaves[x], tape.own[place] = value, name end
    leaves[#leaves + 1] = node_of(value)
    return value
  end
  if node_of(x) then raise("grad: " .. name .. ": a value that is traced already, expected detach(x)") end
  if type(x) ~= "table" then
    raise(string.format("grad: %s: %s, expected a Tensor, a number or a table of them", name, noun(x)))
  end
  if inside[x] then raise("grad: " .. name .. ": a table that is inside itself, expected a tree of tables") end
  inside[x] = true
  local copy = {}
  for key, entry in next, x do
    copy[key] = traced_params(entry, causeway._path(name, key), leaves, inside)
  end
  inside[x] = nil
  return copy
end

-- The gradients in the form of the traced parameters, no two of which share their elements, neither with each other nor
-- with a tensor of the user's.
local function gradients_of(x, taken)
  local node = node_of(x)
  if node then
    local g = full(node.gradient or 0, node.value)
    local place = storage(g)
    if not place then return g end
    if taken[place] then g = g:copy() end
    taken[storage(g)] = true
    return g
  end
  local copy = {}
  for key, entry in next, x do copy[key] = gradients_of(entry, taken) end
  return copy
end

--- What a traced value stands for, as a constant; anything else as it is. In a table, of everything that it holds.
function causeway.detach(x)
  local node = node_of(x)
  if node then return node.value end
  if not causeway._is_plain(x) then return x end
  local copy = {}
  for key, entry in next, x do copy[key] = node_of(entry) and node_of(entry).value or entry end
  return copy
end

local function scalar_node(value)
  local node = node_of(value)
  local plain = node and node.value or value
  local one = type(plain) == "number" or tensor_class(plain) and causeway.length(plain) == 1
  if not one then
    raise(string.format("grad: f returned %s, expected one number, such as the sum or the mean of it",
      noun(plain)))
  end
  if not node then
    raise("grad: f returned " .. noun(plain) .. " that does not depend on the parameters, expected one that is "
      .. "made of the argument of f")
  end
  return node, type(plain) == "number" and plain or causeway.sum(plain)
end

--- The derivatives of the number f(params, ...) with respect to every tensor and number in params, in the form of
--- params; then the number, and what else f returned.
function causeway.grad(f, params, ...)
  if type(f) ~= "function" and not (type(f) == "table" and (getmetatable(f) or {}).__call) then
    raise("grad: f: expected a function, as in grad(function(x) return sum(pow(x, 2)) end, x), got " .. noun(f))
  end
  if recording() then
    raise("grad: called inside of a function whose gradient is computed, expected a call of its own: there are no "
      .. "second derivatives")
  end
  if not name_of then name_functions() end
  tape = { used = {}, own = {} }
  local leaves = {}
  local arguments = traced_params(params, "params", leaves, {})
  tape.whole = node_of(arguments)
  if #leaves == 0 then raise("grad: params: no Tensor in it, expected a Tensor, a number or a table of them") end
  local results = pack(record(f, arguments, ...))
  local root, value = scalar_node(results[1])
  run_backwards(root)
  local gradients = gradients_of(arguments, tape.used)
  tape = nil
  for i = 2, results.n do results[i] = causeway.detach(results[i]) end
  if type(gradients) == "table" then causeway._printable(gradients) end
  return gradients, value, unpack(results, 2, results.n)
end

-- ── Traced values ──

local class = causeway._traced_metatable()
local of_tensor = causeway._metatable("Tensor")
for _, key in ipairs({ "__add", "__sub", "__mul", "__div", "__unm", "__call", "__len", "__eq", "__newindex" }) do
  class[key] = of_tensor[key]
end

-- Operators that tensors refuse and numbers have.
local function on_numbers(key, f)
  class[key] = function(a, b)
    local x, y = causeway.detach(a), causeway.detach(b)
    if type(x) ~= "number" or type(y) ~= "number" then return of_tensor[key](x, y) end
    return f(a, b)
  end
end
on_numbers("__pow", causeway.pow)
on_numbers("__mod", function() raise("%: grad has no rule for it, x - floor(x / b) * b is the same and has one") end)
on_numbers("__idiv", function() raise("//: grad has no rule for it, floor(x / b) is the same and has one") end)
on_numbers("__lt", function(a, b) return causeway.detach(a) < causeway.detach(b) end)
on_numbers("__le", function(a, b) return causeway.detach(a) <= causeway.detach(b) end)

class.__name = "traced value"
class.__metatable = "traced value"

local methods_of_class = {}
for metatable in pairs(is_tensor_class) do methods_of_class[metatable] = known.methods(metatable) end

function class.__index(x, key)
  local value = node_of(x).value
  local methods = type(value) ~= "number" and methods_of_class[debug.getmetatable(value)] or {}
  if methods[key] then return methods[key] end
  local whole = tape and node_of(x) == tape.whole and type(key) == "string" and not causeway._no_method(key, {})
  local names = {}
  for name in pairs(methods) do names[#names + 1] = name end
  if whole and (#key < 3 or causeway._closest(key, names) == "") then
    raise(string.format('grad: params: %s, which has no "%s", expected a table of tensors under their names, as in '
      .. "grad(f, {%s = %s})", noun(value), key, key, key))
  end
  if type(value) == "number" then raise('a traced number has no method "' .. tostring(key) .. '"') end
  return value[key]
end

function class.__tostring(x) return tostring(node_of(x).value) end

function class.__concat(a, b)
  local function text(x) return node_of(x) and tostring(x) or x end
  return text(a) .. text(b)
end
