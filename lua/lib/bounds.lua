-- check_bound(): the claims of proofs/ on tensors of the user's, as a table to look at.
local causeway = ...

local list = causeway._claims()

local Claims = { __name = "Claims" }
causeway._only_fields(Claims, { what = "a list of claims", fields = "", list = true })

--- The list as a table to show.
function Claims:table()
  local rows = {}
  for i, claim in ipairs(self) do
    rows[i] = { claim = claim.id, statement = claim.statement, inputs = claim.takes }
  end
  return causeway.text_table(rows, { columns = { "claim", "statement", "inputs" },
    title = "Bounds that check_bound(claim, inputs) checks",
    note = 'check_bound("A9") says what the inputs of A9 are; proofs/README.md has all claims with their proofs' })
end

causeway._as_table(Claims)

--- What stands below the tables of a claim: what its letters mean, where they are no matter of course.
local function with_terms(claim, note)
  return claim.terms == "" and note or claim.terms .. "\n" .. note
end

local Claim = { __name = "Claim" }
causeway._only_fields(Claim, { what = "a claim", fields = "id statement terms takes inputs proof source" })

--- The inputs of one claim as a table to show.
function Claim:table()
  local rows = {}
  for i, input in ipairs(self.inputs) do
    rows[i] = { input = input.name, form = input.form, what = input.text .. (input.optional and " (optional)" or "") }
  end
  return causeway.text_table(rows, { columns = { "input", "form", "what" },
    title = self.id .. ": " .. self.statement, note = with_terms(self, self.proof .. " (" .. self.source .. ")") })
end

causeway._as_table(Claim)

local function is_nan(x) return x ~= x end

-- Three digits, of large numbers with an exponent.
local function short(x)
  if not (x >= 1e5 and x < math.huge) then return causeway.number_text(x, 3) end
  return (string.format("%.2e", x):gsub("e%+0*", "e"))
end

-- How many times the measured value fits into the bound; of a count, that it is equal.
local function margin(row)
  if is_nan(row.measured) or is_nan(row.bound) then return "NaN" end
  if row.exactly then return row.holds and "exact" or "differs" end
  if row.measured == 0 then return "exact" end
  return "×" .. short(row.bound / row.measured)
end

-- One side of a row: a count by all its digits.
local function side(x, row)
  if row.exactly and not is_nan(x) then return string.format("%.0f", x) end
  return short(x)
end

local function verdict(row)
  if is_nan(row.measured) or is_nan(row.bound) then return "not a number" end
  return row.holds and "yes" or "no"
end

--- The columns measured, bound, margin and holds of rows that have measured, bound and holds, after those given.
function causeway._bound_columns(columns)
  for _, column in ipairs({
    { key = "measured", format = side, align = "right" },
    { key = "sign", title = "" },
    { key = "bound", format = side, align = "right" },
    { key = "margin", align = "right" },
    "holds",
  }) do columns[#columns + 1] = column end
  return columns
end

--- Gives such a row what these columns show.
function causeway._bound_cells(row)
  row.sign, row.margin = row.exactly and "=" or "≤", margin(row)
  row.holds = verdict(row)
  return row
end

local Bound = { __name = "Bound" }
local of_rows = "each row has it: b[1].measured, b[1].bound, b[1].margin"
causeway._only_fields(Bound, { what = "a checked bound", fields = "claim statement terms proof source holds",
  list = true, elsewhere = { margin = of_rows, bound = of_rows, measured = of_rows, what = of_rows,
    exactly = of_rows } })

--- A row for each side of the claim.
function Bound:table()
  local rows, broken, unknown = {}, 0, 0
  for i, row in ipairs(self) do
    rows[i] = causeway._bound_cells({ claim = self.claim, checked = row.what, measured = row.measured,
      bound = row.bound, exactly = row.exactly, holds = row.holds })
    if rows[i].holds == "no" then broken = broken + 1 end
    if rows[i].holds == "not a number" then unknown = unknown + 1 end
  end
  local note = self.proof .. "; margin: bound over measured"
  local function say(what, n)
    if n > 0 then note = string.format("%s in %d of %d row%s; %s", what, n, #self, #self == 1 and "" or "s", note) end
  end
  say("NOT A NUMBER", unknown)
  say("DOES NOT HOLD", broken)
  return causeway.text_table(rows, { columns = causeway._bound_columns({ "claim", "checked" }), leading = 2,
    title = self.claim .. ": " .. self.statement, note = with_terms(self, note) })
end

causeway._as_table(Bound)

local function claim_of(id)
  if type(id) ~= "string" then
    causeway._raise("check_bound: claim: expected an id such as \"A9\", got " .. causeway._noun(id))
  end
  local ids = {}
  for i, claim in ipairs(list) do
    if claim.id == id:upper() then return claim end
    ids[i] = claim.id
  end
  causeway._raise(string.format("check_bound: claim: %q is none that can be checked, expected one of %s", id,
    table.concat(ids, " ")))
end

-- Other names of inputs, as causal_linear_attention has them.
local other_names = { { "q", "B" }, { "k", "C" }, { "v", "V" } }

-- The inputs under the names that the claim has for them.
local function renamed(claim, inputs)
  local known, given = {}, {}
  for _, input in ipairs(claim.inputs) do known[input.name] = true end
  if type(inputs) ~= "table" or not (known.B and known.C and known.V) then return inputs end
  for name, value in pairs(inputs) do given[name] = value end
  for _, names in ipairs(other_names) do
    local other, own = names[1], names[2]
    if given[other] ~= nil and given[own] ~= nil then
      causeway._raise(string.format("check_bound: inputs: %s and %s are the same, expected one of them", other, own))
    end
    given[own], given[other] = given[own] or given[other], nil
  end
  return given
end

-- Refuses a method that a script registered where a claim is of the library's own.
local function check_method(claim, inputs)
  local name = type(inputs) == "table" and not getmetatable(inputs) and inputs.method
  for _, input in ipairs(claim.inputs) do
    for _, m in ipairs(input.name == "method" and causeway.method_list() or {}) do
      if m.name == name and not m.built_in then
        causeway._raise(string.format('check_bound: method: "%s" is written in Lua, and %s is of the built-in methods; '
          .. 'benchmark_method("%s") compares it with the definition', name, claim.id, name))
      end
    end
  end
end

-- The inputs of the parts of a check, one after the other: a claim of every method is checked a method at a time.
local function parts_of(claim, inputs)
  local by_method = false
  for _, input in ipairs(claim.inputs) do by_method = by_method or input.name == "method" end
  if not by_method or type(inputs) ~= "table" or getmetatable(inputs) or inputs.method ~= nil then
    return { { what = "", inputs = inputs } }
  end
  local parts = {}
  for _, m in ipairs(causeway.method_list()) do
    if m.built_in then
      local given = { method = m.name }
      for name, value in pairs(inputs) do given[name] = value end
      parts[#parts + 1] = { what = ", " .. m.name, inputs = given }
    end
  end
  return parts
end

-- The inputs of one head after the other where decay has a number for each, as the calls take it.
local function heads_of(claim, inputs)
  local decay, known = type(inputs) == "table" and not getmetatable(inputs) and inputs.decay, {}
  for _, input in ipairs(claim.inputs) do known[input.name] = true end
  local of_tensor = type(decay) == "userdata"
  if not (known.decay and (of_tensor or type(decay) == "table")) then return { { what = "", inputs = inputs } } end
  local function refuse(text) causeway._raise(string.format("check_bound: decay: %s", text)) end
  if not known.B then
    refuse("got " .. causeway._noun(decay) .. ", expected a number: the inputs of " .. claim.id .. " have no heads")
  end
  if of_tensor and causeway.ndims(decay) ~= 1 then
    refuse("got a tensor that is no list, expected one number a head")
  end
  local rates = of_tensor and decay:totable() or decay
  for _, name in ipairs({ "B", "C", "V" }) do
    local x = inputs[name]
    local is_tensor = causeway._is_tensor(x)
    if not is_tensor or causeway.ndims(x) ~= 4 or x:size(2) ~= #rates then
      local shape = is_tensor and "[" .. table.concat({ x:size() }, ", ") .. "]" or causeway._noun(x)
      refuse(string.format("%d numbers, one a head, beside %s = %s, expected [b, %d, N, width]", #rates, name, shape,
        #rates))
    end
  end
  local parts = {}
  for head, rate in ipairs(rates) do
    local given = {}
    for name, value in pairs(inputs) do given[name] = value end
    for _, name in ipairs({ "B", "C", "V" }) do given[name] = inputs[name](":", { head, head }, ":", ":") end
    given.decay = rate
    parts[head] = { what = ", head " .. head, inputs = given }
  end
  return parts
end

-- Says of keys that look as if their tokens came before their heads what is done with them.
local function note_layout(inputs)
  if type(inputs) ~= "table" or getmetatable(inputs) then return end
  for _, name in ipairs({ "C", "k" }) do
    local key = inputs[name]
    if (debug.getmetatable(key) or {}).__name == "Tensor" then
      causeway._note_layout("check_bound", name, key, false)
    end
  end
end

-- The rows of a claim. Where several methods are checked and that takes a while, a line says how far they are: not at
-- once, for a notebook keeps the place of a line that has gone.
local function checked(claim, inputs)
  local rows, parts = {}, {}
  for _, head in ipairs(heads_of(claim, inputs)) do
    for _, part in ipairs(parts_of(claim, head.inputs)) do
      parts[#parts + 1] = { what = part.what .. head.what, head = head.what, inputs = part.inputs }
    end
  end
  local progress = causeway.progress(#parts, 0, 3)
  local good, problem = pcall(function()
    for _, one in ipairs(parts) do
      progress:show(claim.id .. one.what)
      local found = causeway._check_bound(claim.id, one.inputs)
      for _, row in ipairs(found) do row.what = row.what .. one.head end
      table.move(found, 1, #found, #rows + 1, rows)
      progress:step(claim.id)
    end
  end)
  progress:finish()
  if not good then error(problem, 0) end
  return rows
end

--- check_bound() is the list of claims, check_bound(claim) what one of them takes, check_bound(claim, inputs) the table
--- of what was measured beside its bound.
function causeway.check_bound(id, inputs, ...)
  if select("#", ...) > 0 then
    causeway._raise("check_bound: inputs: several, expected one table of name = value, as check_bound(claim) lists "
      .. "them")
  end
  if id == nil and inputs == nil then return setmetatable({ table.unpack(list) }, Claims) end
  local claim = claim_of(id)
  if inputs == nil then return setmetatable(claim, Claim) end
  check_method(claim, inputs)
  inputs = renamed(claim, inputs)
  note_layout(inputs)
  local rows = checked(claim, inputs)
  rows.claim, rows.statement, rows.proof, rows.source = claim.id, claim.statement, claim.proof, claim.source
  rows.terms = claim.terms
  rows.holds = true
  for _, row in ipairs(rows) do
    rows.holds = rows.holds and row.holds
    if not row.exactly then row.margin = row.bound / row.measured end
  end
  return setmetatable(rows, Bound)
end

-- What Tab completes.
local options = { {} }
for i, claim in ipairs(list) do
  options[1][i] = claim.id
  for _, input in ipairs(claim.inputs) do options[input.name] = true end
end
causeway._options.check_bound = options
