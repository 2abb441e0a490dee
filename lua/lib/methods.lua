-- methods(): the registry as a table to look at.
local causeway = ...

local Methods = { __name = "Methods" }
Methods.__index = Methods

--- The list as a table to show.
function Methods:table()
  local function mark(flag) return flag and "✓" or "–" end
  local rows = {}
  for i, m in ipairs(self) do
    rows[i] = {
      name = m.name, short = m.short or "", source = m.source or "written in Lua", time = m.time or "",
      memory = m.memory or "",
      block = m.block or "–", decay = mark(m.decay), normalize = mark(m.normalize), state = mark(m.state), cpu = "✓",
      gpu = mark(table.concat(m.device, " "):find("gpu")),
    }
  end
  return causeway.text_table(rows, {
    columns = {
      "name", "short", "source", "time", "memory", { key = "block", align = "right" },
      { key = "decay", title = "γ" }, { key = "normalize", title = "÷" }, { key = "state", title = "U" }, "cpu", "gpu",
    },
    title = "Causal linear attention: O = (B Cᵀ ⊙ M) V",
    note = "γ: decay, ÷: division by row sums, U: a state can be given and returned; block: default length on the CPU",
  })
end

causeway._as_table(Methods)

--- Prints every method of causal linear attention and returns the list, as method_list() does.
function causeway.methods()
  local list = setmetatable(causeway.method_list(), Methods)
  causeway._show(list)
  return list
end

-- What Tab completes.
local built_in = {}
for i, m in ipairs(causeway.method_list()) do built_in[i] = m.name end
causeway._options.cost = { built_in, N = true, r = true, d = true, block = true, normalize = true, decay = true }
causeway._options.crossover = { r = true, d = true, block = true, normalize = true, tiles = { "dense", "triangular" } }
