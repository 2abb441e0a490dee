-- lowrank_methods(): the registry of factorisations as a table to look at; and what Tab completes in their calls.
local causeway = ...

local Methods = { __name = "Methods" }
causeway._only_fields(Methods, { what = "a list of factorisations", fields = "", list = true })

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
local of_norms = "each norm has it: e.frobenius.bound, e.operator.masked"
causeway._only_fields(Report, { what = "a table of errors", fields = "frobenius operator output residual heads",
  elsewhere = { bound = of_norms, masked = of_norms, unmasked = of_norms, ratio = of_norms,
    relative = "each norm has it: e.frobenius.relative, e.operator.relative",
    margin = "the table shows it; e.frobenius.bound / e.frobenius.masked is one" } })

-- The bounds of each error: claim of proofs/, and where the report has what the masked error must not exceed.
local bounds_of = {
  frobenius = { { "A1", function(norms) return norms.bound end } },
  operator = { { "A2", function(norms) return norms.bound end } },
  output = {
    { "A9", function(norms) return norms.row_bound end },
    { "A10 F", function(norms) return norms.frobenius_bound end },
    { "A10 op", function(norms) return norms.operator_bound end },
  },
}

-- The error by which heads are compared; NaN is the worst.
local function badness(head)
  local norms = head.output or head.frobenius
  local error = norms.relative_masked or norms.relative
  return error == error and error or math.huge
end

-- The heads that have rows of their own: of several the worst alone, unless all are asked for.
local function shown_heads(heads, all)
  if #heads == 1 then return {} end
  if all then return heads end
  local worst = heads[1]
  for _, head in ipairs(heads) do
    if badness(head) > badness(worst) then worst = head end
  end
  return { worst }
end

--- A row for each norm, of all heads and, where there are several, of the worst of them, or of each where options.heads
--- is true; with the mask one for each bound.
function Report:table(options)
  local all = options ~= nil
  if all and not (type(options) == "table" and options.heads == true and next(options, "heads") == nil) then
    causeway._raise("table: got " .. causeway._literal(options) .. ", expected nothing or {heads = true}")
  end
  local shown, batches = shown_heads(self.heads, all), self.heads[#self.heads].batch > 1
  local rows, broken, several, masked = {}, 0, #self.heads > 1, self.frobenius.masked ~= nil
  local function add(head, of)
    for _, name in ipairs({ "frobenius", "operator", "output" }) do
      local norms = of[name]
      if norms then
        local first = #rows + 1
        rows[first] = { head = head, error = name, unmasked = norms.unmasked, relative = norms.relative,
          relative_masked = norms.relative_masked }
        for i, bound in ipairs(masked and bounds_of[name] or {}) do
          local row = rows[first + i - 1] or {}
          row.claim, row.measured, row.bound = bound[1], norms.masked, bound[2](norms)
          -- An operator norm is known to the residual it stopped with, and a sum of squares to its roundings.
          row.holds = row.measured <= row.bound * (1 + 1e-9 + (self.residual or 0))
          rows[first + i - 1] = causeway._bound_cells(row)
          if row.holds == "no" then broken = broken + 1 end
        end
      end
    end
  end
  add("all", self)
  for _, head in ipairs(shown) do
    local name = batches and string.format("[%d, %d]", head.batch, head.head) or tostring(head.head)
    add(#shown < #self.heads and "worst: " .. name or name, head)
  end
  -- Norms of the error, the masked one beside its bound; behind them the same over the norm of what is approximated.
  local unmasked = { key = "unmasked", align = "right" }
  local columns = causeway._bound_columns({ "head", "error", "claim", unmasked })
  for _, column in ipairs(columns) do
    if column.key == "measured" then column.title, unmasked.format = "masked", column.format end
  end
  table.move({ "relative", { key = "relative_masked", title = "rel. masked" } }, 1, 2, #columns + 1, columns)
  -- Of the bounds neither the sign, which is always the same, nor whether they hold, which the note says where one does
  -- not: so many columns are as much as a line takes.
  local left_out = { sign = true, holds = true, head = not several, claim = not masked, relative_masked = not masked,
    measured = not masked, bound = not masked, margin = not masked }
  for i = #columns, 1, -1 do
    if left_out[columns[i].key or columns[i]] then table.remove(columns, i) end
  end
  local notes = {}
  if #shown == 1 and not all then notes[1] = "e:table{heads = true} has all " .. #self.heads .. " heads" end
  if (self.frobenius.relative or 0) > 1 then
    notes[#notes + 1] = "a relative error above 1 is more than that of zeros: a larger rank, a smaller scale, or "
      .. "another factorisation"
  end
  if broken > 0 then notes[#notes + 1] = "DOES NOT HOLD in " .. broken .. " rows" end
  if masked then
    notes[#notes + 1] = "unmasked, masked: norms of the error without the causal mask and with it; relative, rel. "
      .. "masked: these over the norm of what is approximated; margin: bound over masked" .. (self.output
      and "; A10 F and op: from the error's Frobenius and from its operator norm" or "")
  end
  return causeway.text_table(rows, { columns = columns, leading = (several and 2 or 1) + (masked and 1 or 0),
    title = "Errors of B Cᵀ beside exp(scale q kᵀ)", note = #notes > 0 and table.concat(notes, "; ") or nil })
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
