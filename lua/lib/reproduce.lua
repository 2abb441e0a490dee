-- Runs what made a folder of results once more and tells what came out the same.
local causeway = ...

local raise, noun = causeway._raise, causeway._noun

local Reproduction = { __name = "Reproduction" }
causeway._only_fields(Reproduction, { what = "a reproduction", fields = "folder script missing", list = true })

-- The folder of "results/NAME" or "results/NAME/rows.jsonl", and the journal in it.
local function folder_of(path)
  if type(path) ~= "string" then
    raise("reproduce: path: expected a folder of results, got " .. noun(path))
  end
  local folder = path:gsub("/rows%.jsonl$", ""):gsub("(.)/+$", "%1")
  local journal = folder .. "/rows.jsonl"
  local good, problem = pcall(causeway._with_journal, journal, "read", function() end)
  if not good then
    causeway._pass_on(problem)
    raise(string.format("reproduce: %s has no rows.jsonl, expected a folder that sweep wrote", path))
  end
  return folder, journal
end

-- The origin of the latest rows, and its number.
local function origin_of(rows, origins, folder)
  local latest
  for _, row in pairs(rows) do
    if origins[row.origin] and (not latest or row.origin > latest) then latest = row.origin end
  end
  if not latest then raise(string.format("reproduce: %s has no row whose origin is known", folder)) end
  local origin = origins[latest]
  local script = type(origin.script) == "table" and origin.script or {}
  if type(script.text) ~= "string" or type(script.path) ~= "string" or not math.tointeger(script.at)
    or type(origin.command) ~= "table" or type(origin.save) ~= "string" then
    raise(string.format("reproduce: %s keeps no script to run again: its rows were made at the prompt, by -e, from "
      .. "standard input or before scripts were kept; a script that sweeps with fresh = true makes them anew", folder))
  end
  return origin, latest
end

--- In the program that reproduce starts: runs the script of an origin with its arguments, its sweep into another
--- folder.
function causeway._run_again(journal, id, to)
  local _, origins = causeway._read_journal(journal)
  local origin = origins[id]
  local command, script = origin.command, origin.script
  local arg = {}
  for i, word in ipairs(command) do arg[i - script.at] = word end
  rawset(_G, "arg", arg)
  causeway._command = table.move(command, 1, #command, 1, { script = script.at, text = script.text })
  local folder = script.path:match("^(.*)/[^/]*$")
  if folder then package.path = package.path .. ";" .. folder .. "/?.lua" end
  causeway._again = { save = origin.save, to = to }
  local chunk, problem = load(script.text, "@" .. script.path, "t")
  if not chunk then error(problem, 0) end
  chunk(table.unpack(arg))
end

-- The last line of what a program says of its error that is not of a traceback.
local function complaint_of(output)
  return output:match("error: ([^\n]*)") or output:match("([^\n]+)\n*$") or "it said nothing"
end

local function run_again(origin, id, journal, to)
  local code = string.format("causeway._run_again(%q, %d, %q)", journal, id, to):gsub("\\\n", "\\n")
  local status, _, complaint = causeway._run_program({ "/proc/self/exe", "-e", code }, "")
  if status == 130 then raise("reproduce: interrupted", "interrupted") end
  if status ~= 0 then
    raise(string.format("reproduce: %s did not run again: %s", origin.script.path, complaint_of(complaint or "")))
  end
  local file = io.open(to .. "/rows.jsonl", "rb")
  if not file then
    raise(string.format("reproduce: %s ran again, but without a sweep that saves to %s", origin.script.path,
      origin.save))
  end
  file:close()
end

-- 0 for equal numbers, NaN with NaN too; otherwise |a − b| over the larger.
local function relative_difference(a, b)
  if a == b or a ~= a and b ~= b then return 0 end
  local difference = math.abs(a - b) / math.max(math.abs(a), math.abs(b))
  return difference == difference and difference or math.huge
end

-- Takes one value of both runs into the line of its column.
local function compare(line, before, again)
  line.rows = line.rows + 1
  if before == again or before ~= before and again ~= again then line.equal = line.equal + 1 end
  if type(before) ~= "number" or type(again) ~= "number" then return end
  line.difference = math.max(line.difference or 0, relative_difference(before, again))
  if before ~= 0 and again / before == again / before then line.ratios[#line.ratios + 1] = again / before end
end

-- A line for the status and for each column of results, over the points that both runs have.
local function comparison(rows, again)
  local lines, of, missing = {}, {}, 0
  local function line_of(name)
    if not of[name] then
      of[name] = { column = name, rows = 0, equal = 0, ratios = {} }
      lines[#lines + 1] = of[name]
    end
    return of[name]
  end
  line_of("status")
  for key, row in pairs(rows) do
    local other = again[key]
    if other then
      compare(line_of("status"), row.status, other.status)
      local names = {}
      for name in pairs(row.values) do names[name] = true end
      for name in pairs(other.values) do names[name] = true end
      for name in pairs(names) do compare(line_of(name), row.values[name], other.values[name]) end
    else
      missing = missing + 1
    end
  end
  for _, line in ipairs(lines) do
    table.sort(line.ratios)
    line.ratio = #line.ratios > 0 and line.ratios[(#line.ratios + 1) // 2] or nil
    line.ratios = nil
  end
  table.sort(lines, function(a, b)
    if (a.column == "status") ~= (b.column == "status") then return a.column == "status" end
    return a.column < b.column
  end)
  return lines, missing
end

--- The comparison as a table to show.
function Reproduction:table()
  local note = "difference: the largest, relative; ratio: the middle one, new to old"
  if self.missing > 0 then note = self.missing .. " rows did not come again; " .. note end
  return causeway.text_table(self, { title = self.script .. " again, in " .. self.folder, note = note, columns = {
    "column", { key = "rows" }, { key = "equal" }, { key = "difference", format = "%.1e" },
    { key = "ratio", format = "%.3f" } } })
end

causeway._as_table(Reproduction)

--- Runs the script of a folder of results again; see lua/help/measure.lua.
function causeway.reproduce(path)
  local folder, journal = folder_of(path)
  local rows, origins = causeway._read_journal(journal)
  local origin, id = origin_of(rows, origins, folder)
  local to = folder .. "-again"
  run_again(origin, id, journal, to)
  local lines, missing = comparison(rows, (causeway._read_journal(to .. "/rows.jsonl")))
  lines.folder, lines.script, lines.missing = to, origin.script.path, missing
  return setmetatable(lines, Reproduction)
end
