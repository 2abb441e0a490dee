-- methods(): the registry as a table to look at.
local causeway = ...

local Methods = { __name = "Methods" }
causeway._only_fields(Methods, { what = "a list of methods", fields = "", list = true })

--- The list as a table to show.
function Methods:table()
  local function mark(flag) return flag and "✓" or "–" end
  local rows = {}
  for i, m in ipairs(self) do
    rows[i] = {
      name = m.name, short = m.short or "", source = m.source or "written in Lua", time = m.time or "",
      memory = m.memory or "",
      block = m.block or "–", decay = mark(m.decay), normalize = mark(m.normalize), state = mark(m.state),
      prefix = mark(m.prefix), cpu = "✓",
      gpu = mark(table.concat(m.device, " "):find("gpu")),
    }
  end
  return causeway.text_table(rows, {
    columns = {
      "name", "short", "source", "time", "memory", { key = "block", align = "right" },
      { key = "decay", title = "γ" }, { key = "normalize", title = "÷" }, { key = "state", title = "U" },
      { key = "prefix", title = "=" }, "cpu", "gpu",
    },
    title = "Causal linear attention: O = (B Cᵀ ⊙ M) V",
    note = "γ: decay, ÷: division by row sums, U: a state can be given and returned; "
      .. "=: no later token, other length or other sequence changes a bit (deterministic = \"prefix\"); block: default "
      .. "length on the CPU; "
      .. "memory in scalars of a head beside inputs and output: N the length, r and d the widths, b, t, Br and Bc "
      .. "lengths of a block, a base case and a tile",
  })
end

causeway._as_table(Methods)

--- Prints every method of causal linear attention and returns the list, as method_list() does.
function causeway.methods(...)
  if select("#", ...) > 0 then
    local given = (...)
    if given == nil then
      causeway._raise("methods: is a function, which shows them; for _, m in ipairs(method_list()) do ... end goes "
        .. "through them")
    end
    local told = type(given) == "string" and given or causeway._noun(given)
    causeway._raise("methods: " .. told .. ", expected nothing: it lists all of them, and ?NAME is the page of one")
  end
  local list = setmetatable(causeway.method_list(), Methods)
  causeway._show(list)
  return list
end

-- ---- what a method written in Lua makes of an option that register_method was told nothing of ----

-- Inputs of four tokens, positive and with different rows.
local function small_inputs()
  local x = causeway.range(1, 8):reshape(1, 1, 4, 2) / 8
  return x, x + 1, x
end

-- Runs the function on small inputs; what it raises is returned but for a stop by the user.
local function tried(forward, given)
  local B, C, V = small_inputs()
  local options = { normalize = false, scale = 1 }
  for name, value in pairs(given) do options[name] = value end
  local good, result = pcall(forward, B, C, V, options)
  if not good then causeway._pass_on(result) end
  return good, result
end

-- Sets known[feature] of the features: whether runs of the function without the option and with it differ. One that
-- fails is taken to support them.
local function try(forward, features, known)
  local good, plain = tried(forward, {})
  if not good then
    causeway._note("register_method: forward fails on four tokens, so it is taken to support "
      .. table.concat(features, " and ") .. " unless told otherwise: " .. causeway._without_position(tostring(plain)))
  end
  for _, feature in ipairs(features) do
    local runs, given
    if good then runs, given = tried(forward, { [feature] = feature == "decay" and { 0.5 } or true }) end
    local compared, equal = pcall(function() return causeway.all(causeway.eq(plain, given)) end)
    known[feature] = not (runs and compared and equal)
  end
end

local function features_of(forward)
  local info, known, unknown = debug.getinfo(forward, "Su"), {}, {}
  for _, feature in ipairs({ "decay", "normalize" }) do
    if info.what == "C" then
      known[feature] = true
    elseif info.nparams < 4 and not info.isvararg then
      known[feature] = false
    elseif string.dump(forward, true):find(feature, 1, true) then
      known[feature] = true
    else
      unknown[#unknown + 1] = feature
    end
  end
  if #unknown > 0 then try(forward, unknown, known) end
  return known
end

local known_of = setmetatable({}, { __mode = "k" })

--- Whether the function of a method, forward(B, C, V, options), makes anything of the option `feature`, "decay" or
--- "normalize". One without a fourth parameter cannot; one that names the option does; any other, which may hand the
--- options on, is tried.
function causeway._takes(forward, feature)
  if not known_of[forward] then known_of[forward] = features_of(forward) end
  return known_of[forward][feature]
end

-- What Tab completes.
local built_in = {}
for i, m in ipairs(causeway.method_list()) do built_in[i] = m.name end
causeway._options.benchmark_method[1], causeway._options.benchmark_method.methods = built_in, built_in
causeway._options.cost = { built_in, N = true, r = true, d = true, block = true, normalize = true, decay = true }
causeway._options.crossover = { r = true, d = true, block = true, normalize = true, tiles = { "dense", "triangular" } }
