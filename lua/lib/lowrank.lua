-- lowrank_methods(): the registry of factorisations as a table to look at; and what Tab completes in their calls.
local causeway = ...

local Methods = { __name = "Methods" }
Methods.__index = Methods

--- The list as a table to show.
function Methods:table()
  local rows = {}
  for i, m in ipairs(self) do
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

causeway._as_table(Methods)

--- Prints every factorisation and returns the list, as lowrank_method_list() does.
function causeway.lowrank_methods()
  local list = setmetatable(causeway.lowrank_method_list(), Methods)
  causeway._show(list)
  return list
end

-- What lowrank_error returns: a table as any other, which can also be had as one of rows and columns.
local Report = { __name = "LowRankError" }
Report.__index = Report

--- A row for each norm, of all heads and, where there are several, of each of them.
function Report:table()
  local rows, several = {}, #self.heads > 1
  local function add(head, of)
    for _, name in ipairs({ "frobenius", "operator", "output" }) do
      local norms = of[name]
      if norms then
        rows[#rows + 1] = { head = head, error = name, unmasked = norms.unmasked, masked = norms.masked,
          relative = norms.relative, relative_masked = norms.relative_masked, ratio = norms.ratio, bound = norms.bound }
      end
    end
  end
  add("all", self)
  for i, head in ipairs(several and self.heads or {}) do add(tostring(i), head) end
  local columns = { "error", "unmasked", "relative" }
  if several then table.insert(columns, 1, "head") end
  if self.frobenius.masked then
    for _, name in ipairs({ "masked", "relative_masked", "ratio", "bound" }) do
      columns[#columns + 1] = { key = name, title = (name:gsub("_", " ")) }
    end
  end
  return causeway.text_table(rows, { columns = columns, leading = several and 2 or 1,
    title = "Errors of B Cᵀ beside exp(scale q kᵀ)",
    note = self.frobenius.masked and "ratio: masked to unmasked; bound: what it cannot exceed" or nil })
end

causeway._as_table(Report)

function causeway._lowrank_report(report) return setmetatable(report, Report) end

-- Beside what all of them take (core/calls/lowrank.cpp), Tab completes their names and what each takes of its own.
local names, options = {}, causeway._options.lowrank
for i, m in ipairs(causeway.lowrank_method_list()) do
  names[i] = m.name
  for _, option in ipairs(m.options) do options[option.name] = true end
end
options[1] = names
