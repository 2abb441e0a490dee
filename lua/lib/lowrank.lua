-- lowrank_methods(): the registry of factorisations as a table to look at; and what Tab completes in their calls.
local causeway = ...

local Methods = { __name = "Methods" }

local function as_table(list)
  local rows = {}
  for i, m in ipairs(list) do
    rows[i] = {
      name = m.name, source = m.source, formula = m.formula, time = m.time, rank = m.rank,
      default = m.default_rank or "–",
      future = m.future and "✓" or "–", seeded = m.seeded and "✓" or "–",
    }
  end
  return causeway.text_table(rows, {
    columns = {
      "name", "formula", "source", "time", "rank", { key = "default", align = "right" },
      { key = "future", title = "→" }, { key = "seeded", title = "⚄" },
    },
    title = "Low-rank factors: B Cᵀ ≈ exp(scale q kᵀ)",
    note = "→: a row may depend on later tokens, which is for prompts only; ⚄: random, the same for the same seed; "
      .. "default: of the rank",
  })
end

function Methods.__tostring(list) return as_table(list):text() end

function Methods.__rich(list)
  local shown = as_table(list)
  return { text = shown:text(), html = shown:html() }
end

--- Prints every factorisation and returns the list, as lowrank_method_list() does.
function causeway.lowrank_methods()
  local list = setmetatable(causeway.lowrank_method_list(), Methods)
  causeway._show(list)
  return list
end

-- Beside what all of them take (core/calls/lowrank.cpp), Tab completes their names and what each takes of its own.
local names, options = {}, causeway._options.lowrank
for i, m in ipairs(causeway.lowrank_method_list()) do
  names[i] = m.name
  for _, option in ipairs(m.options) do options[option.name] = true end
end
options[1] = names
