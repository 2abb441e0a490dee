-- The frame of a script that reproduces one table or figure of a document.
--
--   local item = dofile(folder .. "/../lib/item.lua")(arg, {
--     document = "leet", name = "table3", title = "…", differs = "…",
--     options = { lengths = { 128 } }, rules = { lengths = { 1 } } })
--   item:table(rows, options)      a table, item:figure(curves) a picture, item:tell(text) a paragraph: on the screen
--                                  and on the page; item:table(rows, options, true) only there
--   item:judge("what", "time", verdict, claim)      a line of verdicts
--   item:finish()                  writes what came out
--
-- Besides the script's own options, item.options has device, quick, full, resume, fresh and save. What came out is left
-- in the folder `save`: item.json (parts, verdicts, origin, time and memory, from which pages are made anywhere), a
-- page, and the rows of sweeps in a folder for each mode.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local arguments = dofile(folder .. "/arguments.lua")
local reference, item_page = dofile(folder .. "/reference.lua"), dofile(folder .. "/item_page.lua")
local wrapped, processors = dofile(folder .. "/wrapped.lua"), dofile(folder .. "/processors.lua")

local Item = {}
Item.__index = Item

local common_help = [[

Options of every script that reproduces a table or figure:

  --device cpu                    or gpu, where there are times of one
  --quick                         less of it, in seconds
  --full                          all of it, which may take hours
  --resume                        keep what an earlier run has finished
  --fresh                         keep nothing, also of a run that was stopped
  --save %s  results]]

-- ── Text on the screen ──

local function say(text) print(wrapped(text, 80)) end

-- ── Parts ──

-- Title and differences stand above what is shown first.
local function announce(self)
  if self.announced then return end
  self.announced = true
  say(item_page.title_of(self))
  if self.differs then say(self.differs) end
end

--- A paragraph; lines that begin with two blanks keep their columns.
function Item:tell(text)
  announce(self)
  print()
  say(text)
  self.parts[#self.parts + 1] = { text = text }
end

local function add(self, part, only_on_page)
  self.parts[#self.parts + 1] = part
  if only_on_page then return end
  announce(self)
  print()
  display(item_page.value_of(part))
end

-- A cell is a number or a reason; "–" stands where the row's reason is in another cell.
local function check_cells(self, rows, options)
  for _, column in ipairs(options.columns or {}) do
    local key = type(column) == "table" and column.key or column
    for i, row in ipairs(rows) do
      if row[key] == nil or row[key] == "" then
        error(string.format("%s: row %d of %q has nothing in the column %s, expected a number or a reason",
          item_page.id_of(self), i, options.title or "a table", key), 0)
      end
    end
  end
end

--- A table; options as in text_table, formats as texts. Its numbers stay numbers in what is written. A cell without
--- anything is an error.
function Item:table(rows, options, only_on_page)
  check_cells(self, rows, options)
  add(self, { rows = rows, options = options }, only_on_page)
end

--- A picture, which is returned; curves as in plot. Curves without points are left out.
function Item:figure(curves)
  local part = { curves = {}, axes = {} }
  for name, value in pairs(curves) do if math.type(name) ~= "integer" then part.axes[name] = value end end
  for _, curve in ipairs(curves) do
    if #curve.x > 0 then part.curves[#part.curves + 1] = curve end
  end
  if #part.curves == 0 then return nil end
  add(self, part)
  return item_page.value_of(part)
end

-- ── Numbers ──

--- The rows of what the document prints; without a name those of this table.
function Item:printed(name) return reference.rows(self.experiments, self.document, name or self.name) end

--- A number of the document's text.
function Item:quoted(quantity) return reference.quoted(self.experiments, self.document, quantity) end

--- A sweep in a folder of this item and mode, which goes on where it was stopped, unless --fresh is given.
function Item:sweep(options)
  self.swept = (self.swept or 0) + 1
  local given = {}
  for name, value in pairs(options) do given[name] = value end
  given.save = self.save .. "/" .. self.mode .. (self.swept > 1 and "-" .. self.swept or "")
  local finished = io.open(given.save .. "/" .. given.save:match("[^/]+$") .. ".json")
  if finished then finished:close() end
  given.fresh = self.options.fresh or finished ~= nil and not self.options.resume
  local good, results = pcall(sweep, given)
  if not good then
    -- Said to whoever runs the script and has not written this line: one sentence, with the option that they have.
    if error_kind(results) then results = results:gsub("^%S+%.lua:%d+: ", ""):gsub("fresh = true", "--fresh") end
    error(results, 0)
  end
  for _, origin in ipairs(results.origins) do self.origin = self.origin or origin end
  self.data[#self.data + 1] = given.save .. "/" .. given.save:match("[^/]+$") .. ".csv"
  return results
end

--- A verdict: `what` is compared, kind is "time" (of a machine) or "count" (the same on every machine); claim, the id
--- of one of proofs/, may stand beside it.
function Item:judge(what, kind, verdict, claim)
  self.verdicts[#self.verdicts + 1] = { what = what, kind = kind, verdict = verdict.verdict,
    statistic = verdict.statistic, value = verdict.value, claim = claim }
end

-- ── The end ──

-- The most memory that this process has had, in bytes.
local function peak_memory()
  local file = io.open("/proc/self/status")
  local text = file and file:read("a") or ""
  if file then file:close() end
  local kib = text:match("VmHWM:%s*(%d+)")
  return kib and math.tointeger(kib) * 1024 or nil
end

-- Machine, versions, seed and commit, without the text of the script, which the repository has.
local function origin_of(self)
  local origin = {}
  for name, value in pairs(self.origin or causeway._origin(1)) do
    if name ~= "script" and name ~= "run" and name ~= "data" and name ~= "run_data" and name ~= "save"
      and name ~= "command" then
      origin[name] = value
    end
  end
  origin.device = self.device_name
  return origin
end

-- The claims that the verdicts touch, each once.
local function claims_of(list)
  local claims, seen = {}, {}
  for _, v in ipairs(list) do
    if v.claim and not seen[v.claim] then claims[#claims + 1], seen[v.claim] = v.claim, true end
  end
  table.sort(claims)
  return claims
end

local function command_of(self, given)
  local words = { "./lab experiments/" .. self.document .. "/" .. self.name .. ".lua" }
  local i = 1
  while given[i] do
    if given[i] == "--save" then
      i = i + 1
    elseif given[i] ~= "--resume" and given[i] ~= "--fresh" then
      words[#words + 1] = given[i]
    end
    i = i + 1
  end
  return table.concat(words, " ")
end

--- Shows the verdicts and writes item.json and the page.
function Item:finish()
  local processor_seconds, others = self.taken()
  local result = { document = self.document, name = self.name, title = self.title, differs = self.differs,
    claims = claims_of(self.verdicts), mode = self.mode, device = self.options.device, command = self.command,
    parts = self.parts, verdicts = self.verdicts, seconds = clock() - self.start,
    resumed = self.options.resume or nil, processor_seconds = processor_seconds, others = others,
    memory = peak_memory(), origin = origin_of(self),
    date = os.date("!%Y-%m-%d %H:%M UTC") }
  announce(self)
  print()
  display(item_page.verdict_table(result.verdicts))
  local in_use = item_page.in_use(result)
  if in_use then say(in_use) end
  mkpath(self.save)
  item_page.write(self.save .. "/item.json", result)
  local page = { title = item_page.title_of(result), save = self.save .. "/" .. self.name .. ".html",
    data = #self.data > 0 and self.data or nil, copy = true }
  for _, part in ipairs(item_page.parts_of(result, self.experiments)) do page[#page + 1] = part end
  report(page)
  print()
  say(string.format("%s: %s.html, item.json%s", self.save, self.name, #self.data > 0 and ", the rows" or ""))
end

return function(given, what)
  local defaults = { device = "cpu", quick = false, full = false, resume = false, fresh = false,
    save = string.format("results/%s/%s", what.document, what.name) }
  local rules = { device = { "cpu", "gpu" } }
  for name, value in pairs(what.options or {}) do defaults[name] = value end
  for name, value in pairs(what.rules or {}) do rules[name] = value end
  local options = arguments(given, defaults, rules, common_help:format(defaults.save))
  if options.quick and options.full then exit(2, "--quick: given together with --full, expected one of them") end
  if options.resume and options.fresh then exit(2, "--resume: given together with --fresh, expected one of them") end
  local device_name
  if options.device == "gpu" then
    local there, name = has_gpu()
    if not there then exit(2, "--device: gpu, but there is none: " .. name) end
    device_name = name
  end
  local self = setmetatable({ document = what.document, name = what.name, title = what.title, differs = what.differs,
    options = options, experiments = folder:match("^(.*)/[^/]*$"), save = options.save,
    mode = options.quick and "quick" or options.full and "full" or "standard", device_name = device_name, parts = {},
    verdicts = {}, data = {}, start = clock(), taken = processors() }, Item)
  self.command = command_of(self, given)
  return self
end
