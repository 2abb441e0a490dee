-- adam and sgd: they put new parameters in the place of the old ones, in the table that they were given.
local causeway = ...
local raise, noun, sqrt, times = causeway._raise, causeway._noun, causeway.sqrt, causeway.times

-- A number of the options: from `least`, and below `below` where that is given.
local function check_number(name, value, least, below)
  local fits = type(value) == "number" and value >= least and value < (below or math.huge)
  if fits then return value end
  raise(string.format("%s: %s, expected a number from %s%s", name, tostring(value), least,
    below and " to below " .. below or ""))
end

local function check_form(x, g, path)
  local same = type(x) == type(g)
  if same and type(x) == "userdata" then
    local dims, other = { causeway.size(x) }, { causeway.size(g) }
    same = #dims == #other
    for k, n in ipairs(dims) do same = same and other[k] == n end
  end
  if not same then
    raise(string.format("step: %s: got %s, expected one like the parameter, %s", path, noun(g), noun(x)))
  end
end

-- Calls visit(table, key, gradient, path) for every tensor and number among the parameters.
local function each_parameter(params, grads, path, visit)
  for key, x in next, params do
    local g, at = grads[key], causeway._path(path, key)
    if type(x) == "table" then
      if type(g) ~= "table" then raise(string.format("step: %s: got %s, expected a table", at, noun(g))) end
      each_parameter(x, g, at, visit)
    else
      check_form(x, g, at)
      visit(params, key, g)
    end
  end
end

-- What optimisers of other libraries have, and what is done here instead.
local elsewhere = {
  zero_grad = "every call of grad gives new gradients, there is nothing to set to zero",
  param_groups = "the parameters are opt.params, the learning rate is opt.lr",
  state = "its moments are not to be read; the parameters are opt.params, the steps taken opt.steps",
  state_dict = "the parameters are opt.params, a table that save writes",
}

local Optimiser = setmetatable({}, { __index = function(_, key)
  raise(string.format('an optimiser has no "%s"%s', tostring(key), elsewhere[key] and ": " .. elsewhere[key]
    or ", expected step, params, lr or steps"))
end })
Optimiser.__index = Optimiser
causeway._note_class(Optimiser, "an optimiser", "opt")
Optimiser.__not_saved = "an optimiser, expected its parameters: save(\"params.safetensors\", opt.params); its moments "
  .. "are kept in no file (?save)"

--- One step against the gradients, which have the form of the parameters (what grad returns).
function Optimiser:step(grads)
  if getmetatable(self) ~= Optimiser then raise("step: called with a dot, expected a colon: opt:step(gradients)") end
  check_number("lr", self.lr, 0)
  if type(grads) ~= "table" then raise("step: got " .. noun(grads) .. ", expected the table that grad returns") end
  local found = {}
  each_parameter(self.params, grads, "grads", function(holder, key, g)
    found[#found + 1] = { holder = holder, key = key, g = g }
  end)
  self.steps = self.steps + 1
  local replaced = {}  -- a tensor that stands in several places stays one
  for _, place in ipairs(found) do
    local x = place.holder[place.key]
    local of = self.moments[place.holder] or {}
    self.moments[place.holder] = of
    of[place.key] = of[place.key] or {}
    local new = replaced[x] or self:update(x, place.g, of[place.key])
    if type(x) == "userdata" then replaced[x] = new end
    place.holder[place.key] = new
  end
end

function Optimiser:__tostring()
  local count = 0
  local function add(params)
    for _, x in pairs(params) do
      if type(x) == "table" then add(x) else count = count + (type(x) == "number" and 1 or #x) end
    end
  end
  add(self.params)
  return string.format("%s: %d parameter%s, lr = %s, %d step%s", self.name, count, count == 1 and "" or "s",
    causeway.number_text(self.lr), self.steps, self.steps == 1 and "" or "s")
end

function Optimiser:__rich() return { text = tostring(self) } end

-- An optimiser from {params, option = value}: `defaults` has the numbers that it takes. more: whatever stands behind
-- that one table.
local function optimiser(name, given, more, defaults, update)
  if more ~= nil then
    raise(string.format("%s: %s as a second argument, expected one table, as in %s{params, lr = 0.01}", name,
      noun(more), name))
  end
  if type(given) ~= "table" or type(given[1]) ~= "table" then
    local came = type(given) == "table" and given[1] or given
    if causeway._is_plain(came) and next(came) ~= nil then -- adam(p), p a table of tensors
      raise(string.format("%s: params: names without a table around them, expected %s{p, lr = 0.01} with a table of "
        .. "Tensors p", name, name))
    end
    raise(string.format("%s: params: got %s, expected a table of Tensors, as in %s{{W = W}, lr = 0.01}", name,
      noun(came), name))
  end
  local options = {}
  for key, value in pairs(given) do
    if key ~= 1 then options[key] = value end
  end
  if options[2] ~= nil then raise(name .. ": a second table of parameters, expected one that holds them all") end
  causeway._check_options(name, options)
  local self = { name = name, params = given[1], steps = 0, moments = {}, update = update }
  for key, value in pairs(defaults) do self[key] = options[key] == nil and value or options[key] end
  return setmetatable(self, Optimiser)
end

-- Kingma and Ba 2015; the weights decay apart from the gradient, as in AdamW (Loshchilov and Hutter 2019).
local function adam_update(self, x, g, moment)
  local b1, b2 = self.betas[1], self.betas[2]
  local first, second = g * (1 - b1), times(g, g) * (1 - b2)
  moment.first = moment.first and moment.first * b1 + first or first
  moment.second = moment.second and moment.second * b2 + second or second
  local rate, share = self.lr / (1 - b1 ^ self.steps), 1 - b2 ^ self.steps
  if self.weight_decay > 0 then x = x * (1 - self.lr * self.weight_decay) end
  return x - moment.first * rate / (sqrt(moment.second / share) + self.eps)
end

local function sgd_update(self, x, g, moment)
  if self.weight_decay > 0 then g = g + x * self.weight_decay end
  if self.momentum > 0 then
    moment.velocity = moment.velocity and moment.velocity * self.momentum + g or g
    g = moment.velocity
  end
  return x - g * self.lr
end

--- Adam on the parameters in options[1].
function causeway.adam(options, more)
  local self = optimiser("adam", options, more,
    { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0 }, adam_update)
  if type(self.betas) ~= "table" or #self.betas ~= 2 then
    raise("adam: betas: got " .. noun(self.betas) .. ", expected two numbers, as in {0.9, 0.999}")
  end
  for i, beta in ipairs(self.betas) do check_number("adam: betas[" .. i .. "]", beta, 0, 1) end
  for _, key in ipairs({ "lr", "eps", "weight_decay" }) do check_number("adam: " .. key, self[key], 0) end
  return self
end

--- Gradient descent on the parameters in options[1].
function causeway.sgd(options, more)
  local self = optimiser("sgd", options, more, { lr = 1e-2, momentum = 0, weight_decay = 0 }, sgd_update)
  check_number("sgd: momentum", self.momentum, 0, 1)
  for _, key in ipairs({ "lr", "weight_decay" }) do check_number("sgd: " .. key, self[key], 0) end
  return self
end

causeway._options.adam = { lr = true, betas = true, eps = true, weight_decay = true }
causeway._options.sgd = { lr = true, momentum = true, weight_decay = true }
