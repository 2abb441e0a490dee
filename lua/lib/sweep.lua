-- Runs a function over every combination of parameters and keeps each finished row on the disk at once.
--
-- The folder results/NAME holds
--   rows.jsonl  the journal: a line an origin or a finished row, written through to the disk before the next point
--               starts. A stopped sweep reads it and goes on; a last line torn by a crash is dropped, its point run
--               again.
--   NAME.csv, NAME.json   all rows of the grid with their origin, written when the sweep is complete
--
-- Processes that sweep in the same folder, ranks of MPI or programs started beside each other, share the points. Each
-- claims a point before it runs it, and looks then whether the row has come; rows are read and written under a lock of
-- the journal. Claims and locks (core/base/journal.hpp) end with the process that holds them, so what a killed one was
-- at is taken over by the others. Each returns when all points of its own grid have their rows.
--
-- What is kept when something has changed since the rows were written:
--   the grid            rows whose point is still in the grid; the others stay in the journal and come back with it
--   machine or version  all rows; each names the origin (lua/lib/origin.lua) that made it
--   the seed, `run`, what `run` refers to (lua/lib/digest.lua), a method written in Lua, a file that `run` loaded
--                       nothing: an error says what changed and asks for `fresh = true` (start again) or another name
-- What is not looked at: files that `run` reads otherwise than by `load`, and what lua/lib/digest.lua leaves out.
local causeway = ...

local raise, noun = causeway._raise, causeway._noun

local passing = "changes while the sweep runs" -- in place of the digest of such a file

local Results = { __name = "Results" }
Results.__index = Results
Results.__has_columns = true
causeway._note_class(Results, "results", "results")

local of_results = setmetatable({}, { __mode = "k" }) -- the metatables of results: each sweep has one of its own

--- Whether these are the results of a sweep, all of them or some.
function causeway._is_results(value) return of_results[debug.getmetatable(value)] == true end

-- ── Points ───────────────────────────────────────────────────────────────────────────────────────────────────────

local function is_identifier(name) return type(name) == "string" and name:find("^[%a_][%w_]*$") ~= nil end

-- 2.0 and 2 are one value and one key.
local function plain(value) return math.type(value) == "float" and math.tointeger(value) or value end

-- The names of the grid in the order of nesting: as in `order`, the others sorted after them. The last varies fastest.
local own_columns = { status = true, origin = true }

local function names_of(grid, order)
  local names, seen = {}, {}
  for i, name in ipairs(order or {}) do
    if grid[name] == nil then
      raise(string.format('sweep: order: item %d is "%s", which is not in the grid', i, tostring(name)))
    end
    if seen[name] then raise(string.format('sweep: order: "%s" appears twice', name)) end
    seen[name] = true
    names[i] = name
  end
  local others = {}
  for name, values in pairs(grid) do
    if not is_identifier(name) then
      raise(string.format("sweep: grid: %s without a name, expected names with lists: grid = {N = {128, 256}}",
        math.type(name) == "integer" and causeway._literal(values) or tostring(name)))
    end
    if own_columns[name] then
      raise(string.format("sweep: grid.%s: the name of a column that every row has, expected another", name))
    end
    if type(values) ~= "table" then
      raise(string.format("sweep: grid.%s: expected a list of values, got %s%s", name, noun(values),
        type(values) == "userdata" and ", whose list is A:totable()" or ""))
    end
    if next(values) == nil then
      causeway._note(string.format("sweep: grid.%s has no values, so there is nothing to run", name))
    end
    if not seen[name] then others[#others + 1] = name end
  end
  table.sort(others)
  table.move(others, 1, #others, #names + 1, names)
  if #names == 0 then raise("sweep: grid: expected at least one list of values, such as {N = {128, 256}}") end
  return names
end

local function checked_values(name, values)
  local out, seen = {}, {}
  for i = 1, #values do
    local value = plain(values[i])
    local kind = type(value)
    if kind ~= "number" and kind ~= "string" and kind ~= "boolean" or value ~= value or value == math.huge
      or value == -math.huge then
      raise(string.format("sweep: grid.%s: item %d is %s, expected a finite number, a string or true or false", name, i,
        kind == "number" and tostring(value) or "a " .. kind))
    end
    if kind == "string" and not utf8.len(value) then
      raise(string.format("sweep: grid.%s: item %d is %s, expected UTF-8", name, i, causeway._literal(value)))
    end
    if seen[value] then raise(string.format("sweep: grid.%s: %s appears twice", name, tostring(value))) end
    seen[value] = true
    out[i] = value
  end
  return out
end

-- All points in order, each {name = value}.
local function points_of(grid, names)
  local points = { {} }
  for _, name in ipairs(names) do
    local longer = {}
    for _, point in ipairs(points) do
      for _, value in ipairs(grid[name]) do
        local next_point = { [name] = value }
        for key, entry in pairs(point) do next_point[key] = entry end
        longer[#longer + 1] = next_point
      end
    end
    points = longer
  end
  return points
end

-- One text for a point, whatever the order of the grid.
local function key_of(point)
  local exact = {}
  for name, value in pairs(point) do exact[name] = plain(value) end
  return causeway.json_encode(exact)
end

-- "N = 128, method = fleet"
local function point_text(point, names)
  local parts = {}
  for i, name in ipairs(names) do parts[i] = name .. " = " .. tostring(point[name]) end
  return table.concat(parts, ", ")
end

-- ── The journal ──────────────────────────────────────────────────────────────────────────────────────────────────

-- What a journal has said so far. started: who emptied it last.
local function new_store(path) return { path = path, rows = {}, origins = {}, unchecked = {} } end

-- Adds to an origin what `run` has loaded under it.
local function add_run_data(origin, data)
  origin.run_data = origin.run_data or {}
  for path, digest in pairs(data) do origin.run_data[path] = digest end
end

local function is_text(value) return type(value) == "string" end
local function is_number_text_or_truth(value)
  return type(value) == "number" or type(value) == "string" or type(value) == "boolean"
end

local function is_table_of(names_fit, values_fit, value)
  if type(value) ~= "table" then return false end
  for name, entry in pairs(value) do
    if not names_fit(name) or not values_fit(entry) then return false end
  end
  return true
end

local function is_row(entry, origins)
  if not is_table_of(is_identifier, is_number_text_or_truth, entry.point) or next(entry.point) == nil
    or not is_table_of(is_text, is_number_text_or_truth, entry.values) or not causeway._is_status(entry.status)
    or type(entry.seconds) ~= "number" or entry.seconds < 0 or entry.origin ~= nil and not origins[entry.origin] then
    return false
  end
  for name in pairs(entry.values) do
    if entry.point[name] ~= nil or own_columns[name] then return false end
  end
  return true
end

local function is_origin(entry, origins)
  local origin = entry.origin
  return math.type(entry.id) == "integer" and entry.id == #origins + 1 and type(origin) == "table"
    and (origin.run == nil or is_table_of(is_text, is_text, origin.run))
    and (origin.run_data == nil or is_table_of(is_text, is_text, origin.run_data))
end

-- Takes a line of the journal into the store; false for what is none. Lines: {"origin": {...}, "id": n},
-- {"id": n, "run_data": {path: digest}}, {"started": "job"} or
-- {"point": {...}, "status": "ok", "values": {...}, "seconds": s, "origin": n}.
local function take_entry(store, entry)
  if type(entry) ~= "table" then return false end
  if entry.point ~= nil then
    if not is_row(entry, store.origins) then return false end
    store.rows[key_of(entry.point)] = entry
    store.unchecked[entry.origin or 0] = true
  elseif entry.origin ~= nil then
    if not is_origin(entry, store.origins) then return false end
    store.origins[entry.id] = entry.origin
  elseif entry.run_data ~= nil then
    local origin = math.type(entry.id) == "integer" and store.origins[entry.id]
    if not origin or not is_table_of(is_text, is_text, entry.run_data) then return false end
    add_run_data(origin, entry.run_data)
  else
    store.started = entry.started
    return is_text(entry.started)
  end
  return true
end

-- Takes a line into the store; false for what is none.
local function take_line(store, line)
  local good, entry = pcall(causeway.json_decode, line)
  if not good then causeway._pass_on(entry) end
  return good and take_entry(store, entry)
end

-- "line 4", the first of the file that is none.
local function first_bad_line(path)
  local store, number, file <close> = new_store(path), 0, io.open(path)
  for line in file and file:lines() or function() end do
    number = number + 1
    if not take_line(store, line) then return "line " .. number end
  end
  return "a line" -- of a file that has become another one since
end

-- Reads what has come to the journal since the last time: not what this process has added itself.
local function read_on(store, journal)
  for text in journal.read, journal do
    if text == "" then return end
    for line in text:gmatch("([^\n]*)\n") do
      if not take_line(store, line) then
        raise(string.format("sweep: %s, %s is not a row; repair the file or start again with fresh = true",
          store.path, first_bad_line(store.path)))
      end
    end
  end
end

-- Rows and origins of a journal that nobody may write.
local function read_journal(path)
  local store = new_store(path)
  causeway._with_journal(path, "read", function(journal) read_on(store, journal) end)
  return store.rows, store.origins
end

-- Fields of an origin that are known only once it is in use.
local later = { date = true, run_data = true }

-- The number of the origin among those of the journal; a new one is written to it.
local function origin_id(store, journal, origin)
  local text = causeway.json_encode(origin)
  for id, known in ipairs(store.origins) do
    local same = {}
    for key, value in pairs(known) do
      if not later[key] then same[key] = value end
    end
    if causeway.json_encode(same) == text then return id end
  end
  local id = #store.origins + 1
  local dated = { date = os.date("!%Y-%m-%dT%H:%M:%SZ") }
  for key, value in pairs(origin) do dated[key] = value end
  if journal then journal:append(causeway.json_encode({ origin = dated, id = id }) .. "\n") end
  store.origins[id] = dated
  return id
end

-- ── What made the rows ───────────────────────────────────────────────────────────────────────────────────────────

-- {name = digest} of everything that `run` refers to, and of the methods written in Lua, which it may call by name.
local function digests_of(run)
  local digests = causeway._digest_of_function(run)
  for _, method in ipairs(causeway._registered_methods()) do
    local parts = {}
    for name, digest in pairs(causeway._digest_of_function(method.forward)) do parts[#parts + 1] = name .. digest end
    table.sort(parts)
    digests["method " .. method.name] = causeway._digest(table.concat(parts, "\n"))
  end
  return digests
end

-- What differs between two tables of digests_of, sorted. A method that is only in one of them differs from nothing.
local function differences(before, now)
  local names = {}
  for name, digest in pairs(before) do
    if now[name] ~= digest and not (now[name] == nil and name:find("^method ")) then names[#names + 1] = name end
  end
  for name in pairs(now) do
    if before[name] == nil and not name:find("^method ") then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- Why rows of this origin would not come out again; nil where nothing is known to have changed.
local function reason_against(origin, seed, run)
  if origin.seed ~= seed then
    return string.format("rows made with seed %s, not %d; use that seed, another name,", tostring(origin.seed), seed)
  end
  if type(origin.run) ~= "table" then
    return "rows that do not tell which run function made them; use another name,"
  end
  local changed = differences(origin.run, run)
  if #changed > 0 then
    return string.format("rows of another run function (changed: %s); use another name,", table.concat(changed, ", "))
  end
  for path, digest in pairs(origin.run_data or {}) do
    local now = digest ~= passing and causeway._digest_of_data(path)
    if now and now ~= digest then
      return string.format("rows for which run loaded %s, which %s; use another name,", path,
        now == "gone" and "is gone" or "has changed")
    end
  end
end

-- How often each file has been loaded and saved until now.
local function files_so_far()
  local loads, saves = causeway._loads()
  local copies = { loads = {}, saves = {} }
  for path, count in pairs(loads) do copies.loads[path] = count end
  for path, count in pairs(saves) do copies.saves[path] = count end
  return copies
end

-- What a point has loaded since `before`, the files_so_far then: {path = digest}. A file that `run` saves itself or
-- that is gone again is noted as one that changes.
local function loaded_since(before, origin)
  local new = {}
  local loads, saves = causeway._loads()
  for path, count in pairs(loads) do
    if count ~= before.loads[path] and (origin.run_data or {})[path] ~= passing then
      local digest = causeway._digest_of_data(path)
      if digest == "gone" or saves[path] ~= before.saves[path] then digest = passing end
      new[path] = digest
    end
  end
  return new
end

-- The line that notes for the origin what a point has loaded, or "" where all is known. A file whose digest is another
-- by now changes while the sweep runs.
local function line_of_run_data(id, origin, loaded)
  local new = {}
  for path, digest in pairs(loaded) do
    local known = (origin.run_data or {})[path]
    if known and known ~= digest then digest = passing end
    if digest ~= known then new[path] = digest end
  end
  if next(new) == nil then return "" end
  add_run_data(origin, new)
  return causeway.json_encode({ id = id, run_data = new }) .. "\n"
end

-- ── One point ────────────────────────────────────────────────────────────────────────────────────────────────────

-- What run returned as {name = value}; an error for anything that a row cannot hold.
local function values_of(result, point, names)
  if type(result) == "number" then
    if point.value ~= nil then
      raise('sweep: run returned a number at ' .. point_text(point, names)
        .. ', whose column "value" is a parameter\'s: return it under a name of its own')
    end
    return { value = result }
  end
  if type(result) ~= "table" then
    raise("sweep: run returned " .. noun(result) .. " at " .. point_text(point, names)
      .. ", expected a number or a table of results")
  end
  local values = {}
  for name, value in pairs(result) do
    local kind = type(value)
    if type(name) ~= "string" or kind ~= "number" and kind ~= "string" and kind ~= "boolean" then
      -- Fields such as a Timing's methods live in its metatable; what stands in the table itself must be a result.
      local timing = type(name) == "string" and (debug.getmetatable(value) or {}).__name == "Timing"
        and string.format(": %s = btime(f).median, or all of btime(f) in the place of the table", name) or ""
      raise(string.format("sweep: run returned %s = a %s at %s, expected numbers, strings, true or false under names%s",
        tostring(name), kind, point_text(point, names), timing))
    end
    if point[name] ~= nil or own_columns[name] then
      raise(string.format('sweep: run returned "%s", which is already the name of a column', name))
    end
    if not utf8.len(name) then
      raise(string.format("sweep: run returned a value under the name %s, expected UTF-8", causeway._literal(name)))
    end
    values[name] = value
  end
  return values
end

-- Runs one point: its row, or nil and the error that stops the sweep.
local function run_point(run, point, names, timeout, seed)
  causeway.seed(seed)
  local given = causeway._result({}, "the point", table.concat(names, " "))
  for name, value in pairs(point) do given[name] = value end
  local start = causeway.clock()
  local good, result
  if timeout then
    good, result = pcall(causeway._with_timeout, timeout, run, given)
  else
    good, result = pcall(run, given)
  end
  local row = { point = point, seconds = causeway.clock() - start, status = "ok", values = {} }
  if good then
    row.values = values_of(result, point, names)
  else
    row.status = causeway._status_of_error(result)
    if row.status == "OOM" or row.status == "timeout" and timeout then return row end
    local kind = causeway.error_kind(result)
    if type(result) == "string" and kind ~= "interrupted" then
      result = causeway._of_kind(result .. " (sweep at " .. point_text(point, names) .. ")", kind)
    end
    return nil, result
  end
  return row
end

-- ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────────

-- What tables of other libraries have, and what does it here.
local where, column = "results:where{N = 128} or results:where(function(row) ... end) gives the rows that fit",
  'results:column("time") is the list of a column, tensor(...) of it a tensor'
local wide = 'results:pivot("method", "rank", "error") is a line a method and a column a rank'
local saved = 'results:save("results.csv") writes the rows; sweep{..., save = "results/NAME"} keeps them as they come'
local elsewhere = { filter = where, select = where, query = where, subset = where, loc = where,
  rows = "results[1], results[2] ... are its rows, #results of them; results:where{N = 128} gives those that fit",
  wide = wide, unstack = wide, pivot_table = wide, reshape = wide, crosstab = wide, get = column, values = column,
  to_csv = saved, write = saved, export = saved, to_json = saved, dataframe = saved,
  head = "results[1] is the first row, #results says how many there are",
  group_by = 'results:plot("N", "time", {by = "method"}) has a curve for each value of a column',
  sort = "rows = results:where(); table.sort(rows, function(a, b) return a.time < b.time end) sorts a list of the "
    .. "rows, and rows[1] is then the least",
  savefig = 'results:plot("N", "time", {save = "figure.svg"}) draws into a file',
  mean = 'tensor(results:column("time")):mean() is the mean of a column',
  slope = 'growth_exponent(results:column("N"), results:column("time")) is the p of time ≈ constant · N^p' }
elsewhere.fit, elsewhere.growth, elsewhere.exponent, elsewhere.polyfit = elsewhere.slope, elsewhere.slope,
  elsewhere.slope, elsewhere.slope
elsewhere.groupby, elsewhere.sort_values, elsewhere.median = elsewhere.group_by, elsewhere.sort, elsewhere.mean
elsewhere.max, elsewhere.std, elsewhere.describe = elsewhere.mean, elsewhere.mean, elsewhere.mean
elsewhere.best, elsewhere.min, elsewhere.argmin, elsewhere.idxmin = elsewhere.sort, elsewhere.sort, elsewhere.sort,
  elsewhere.sort

-- What a user looks for on results and does not find there: a column, which is told, or nothing.
local function not_there(columns, key)
  local left_out = key == "folder" or key == "units"  -- which only some have
  if type(key) ~= "string" or left_out or key:find("^__") or not causeway._asked_by_user(3) then return nil end
  for _, name in ipairs(columns) do
    if name == key then
      raise(string.format('results have no "%s" of their own: results:column("%s") is the list of that column, '
        .. "results[1].%s that of the first row", key, key, key))
    end
  end
  if elsewhere[key] then raise(string.format('results have no "%s": %s', key, elsewhere[key])) end
  local methods = {}
  for name in pairs(Results) do
    if not name:find("^__") then methods[#methods + 1] = name end
  end
  table.sort(methods)
  causeway._raise_absent("a table of results", key, { "columns", "names", "origins", "folder", "units" }, methods)
end

-- The rows of the grid in its order, flat: parameters, results, status, origin.
local function results_of(points, names, rows, origins, fields)
  local results = setmetatable({}, Results)
  local seen, value_names = {}, {}
  for _, point in ipairs(points) do
    local entry = rows[key_of(point)]
    if entry then
      local row = { status = entry.status, origin = entry.origin }
      for name, value in pairs(point) do row[name] = value end
      for name, value in pairs(entry.values) do
        row[name] = value
        if not seen[name] then seen[name] = true; value_names[#value_names + 1] = name end
      end
      results[#results + 1] = row
    end
  end
  table.sort(value_names)
  local columns = table.move(names, 1, #names, 1, {})
  table.move(value_names, 1, #value_names, #columns + 1, columns)
  columns[#columns + 1] = "status"
  -- In parentheses, for not_there looks at who asks: a tail call would hide this function.
  local meta, methods = {}, setmetatable({}, { __index = function(_, key) return (not_there(columns, key)) end })
  for key, value in pairs(Results) do (key:find("^__") and meta or methods)[key] = value end
  meta.__index = setmetatable({ columns = columns, names = names, origins = origins }, { __index = methods })
  for key, value in pairs(fields or {}) do meta.__index[key] = value end
  of_results[meta] = true
  return setmetatable(results, meta)
end

-- An error for a column that no row has; where no row has results, nobody knows.
local function check_column(results, name, argument)
  if name == "origin" then return end
  for _, known in ipairs(results.columns) do
    if known == name then return end
  end
  for _, row in ipairs(results) do
    if row.status == "ok" then
      raise(string.format('%s: no row has "%s", expected one of %s', argument, tostring(name),
        table.concat(results.columns, ", ")))
    end
  end
end

-- The units of what btime returns: a sweep whose columns have all of these names has run it.
local timing_units = { minimum = "seconds", median = "seconds", mean = "seconds", std = "seconds", memory = "bytes" }

local function is_timed(columns)
  local here = {}
  for _, name in ipairs(columns) do here[name] = true end
  for name in pairs(timing_units) do
    if not here[name] then return false end
  end
  return true
end

-- What columns are called whose names say the unit that they come in, not the one that they are shown in.
local titles = { seconds = "time", bytes = "memory" }

-- The unit of a column's numbers: as sweep was told, of what btime returns, or as the column is called; nil: none.
local function unit_of(results, name)
  local told = results.units and results.units[name]
  if told then return told end
  return is_timed(results.columns) and timing_units[name] or titles[name] and name or nil
end

local function give_units(results, columns)
  for i, name in ipairs(columns) do
    local unit = type(name) == "string" and unit_of(results, name)
    if unit then columns[i] = { key = name, title = name, unit = unit } end
  end
end

-- The label and the unit of an axis that shows a column; plot scales seconds and bytes, and no other unit.
local function axis_of(results, name, label, unit)
  local known = unit_of(results, name)
  if titles[known] then return label or titles[name] or name, unit or known end
  return label or (known and string.format("%s (%s)", name, known) or name), unit
end

--- The rows as a table to show; options as in text_table. A row without results shows its status in their place.
function Results:table(options)
  local rows, parameters = {}, {}
  for _, name in ipairs(self.names) do parameters[name] = true end
  local all_ok = true
  for i, row in ipairs(self) do
    local shown = {}
    for key, value in pairs(row) do shown[key] = value end
    if row.status ~= "ok" then
      all_ok = false
      for _, name in ipairs(self.columns) do
        if not parameters[name] and name ~= "status" then shown[name] = row.status end
      end
    end
    rows[i] = shown
  end
  options = options or {}
  for _, wanted in ipairs(options.columns or {}) do
    check_column(self, type(wanted) == "table" and wanted.key or wanted, "table: columns")
  end
  local columns = table.move(options.columns or self.columns, 1, #(options.columns or self.columns), 1, {})
  -- the status stands in the results' columns
  if not options.columns and (all_ok or #columns > #self.names + 1) then columns[#columns] = nil end
  give_units(self, columns)
  local given = { leading = #self.names }
  for key, value in pairs(options) do given[key] = value end
  given.columns = columns
  return causeway.text_table(rows, given)
end

causeway._as_table(Results, { most = 60 })

-- The error about a filter that is none: what is to be typed where a name and a value were given, as `where(name, x)`.
local function raise_filter(filter, value)
  local example = "{N = 128}"
  if is_identifier(filter) and value ~= nil then
    example = string.format("{%s = %s}", filter, causeway._literal(value))
  end
  raise(string.format("where: filter: %s, expected {name = value} or a function of a row, as in results:where%s",
    type(filter) == "string" and causeway._literal(filter) or noun(filter), example))
end

-- Whether the row has what is wanted of it: {name = value}, or of several values {name = {value, value}}.
local function fits(row, wanted)
  for name, value in pairs(wanted) do
    local good = row[name] == value
    for _, one in ipairs(type(value) == "table" and value or {}) do good = good or row[name] == one end
    if not good then return false end
  end
  return true
end

--- The rows, status "ok" or any, that `filter` lets through: {name = value}, {name = {value, value}} or a function of
--- the row. They are results too, with the table and the methods of all of them.
function Results:where(filter, ...)
  if not causeway._is_results(self) then
    raise('where: ' .. causeway._literal(self) .. ' in the place of the results, expected a colon: '
      .. 'results:where{N = 128}')
  end
  if filter ~= nil and type(filter) ~= "function" and not causeway._is_plain(filter) then raise_filter(filter, ...) end
  local choose = filter
  if type(filter) ~= "function" then
    if filter and type(filter[1]) == "boolean" then  -- where{rank == 64}
      raise(string.format("where: filter: {%s}, a comparison, expected {name = value}, as in results:where{%s = %s}",
        tostring(filter[1]), self.columns[1] or "N", self[1] and causeway._literal(self[1][self.columns[1]]) or "128"))
    end
    for name in pairs(filter or {}) do check_column(self, name, "filter") end
    choose = function(row) return fits(row, filter or {}) end
  end
  local found = setmetatable({}, getmetatable(self))
  for _, row in ipairs(self) do
    if choose(row) then found[#found + 1] = row end
  end
  return found
end

--- The values of one column, of the rows that are "ok" and pass the filter.
function Results:column(name, filter)
  check_column(self, name, "column")
  local values = {}
  for _, row in ipairs(self:where(filter)) do
    if row.status == "ok" and row[name] ~= nil then values[#values + 1] = row[name] end
  end
  return values
end

-- The cell of a row in a wide table: what is there, else why nothing is.
local function cell_of(row, value)
  if row.status ~= "ok" then return row.status end
  return row[value]
end

--- A wide table of one column, of the rows that pass the filter: a line for each value of `down`, a column for each of
--- `across`.
function Results:pivot(down, across, value, filter)
  if type(self) ~= "table" or down == nil or across == nil or value == nil then
    raise('pivot: expected a colon and three columns: results:pivot("method", "rank", "error")')
  end
  for _, name in ipairs({ down, across, value }) do check_column(self, name, "pivot") end
  local rows = self:where(filter)
  local format, unit = causeway._format_of_all(rows, value, unit_of(self, value))
  local lines, columns, line_of, column_of = {}, { { key = 1, title = down } }, {}, {}
  for _, row in ipairs(rows) do
    local y, x = row[down], row[across]
    if y ~= nil and x ~= nil then
      if not line_of[y] then
        line_of[y] = { y }
        lines[#lines + 1] = line_of[y]
      end
      if not column_of[x] then
        column_of[x] = #columns + 1
        columns[#columns + 1] = { key = #columns + 1, title = across .. " = " .. tostring(x), format = format,
          align = "right" }
      end
      if line_of[y][column_of[x]] ~= nil then
        raise(string.format('pivot: several rows have %s = %s and %s = %s, expected a filter that leaves '
          .. 'one, as in results:pivot("%s", "%s", "%s", {seed = 1})',
          down, tostring(y), across, tostring(x), down, across, value))
      end
      line_of[y][column_of[x]] = cell_of(row, value)
    end
  end
  return causeway.text_table(lines, { columns = columns, title = value .. (unit and " (" .. unit .. ")" or "") })
end

-- The column that draws the curves where none is named: the only other parameter that has several values.
local function other_parameter(results, x, y)
  local is_parameter, others = false, {}
  for _, name in ipairs(results.names) do
    is_parameter = is_parameter or name == x
    local first, differs = nil, false
    for _, row in ipairs(results) do
      if first == nil then first = row[name] end
      differs = differs or row[name] ~= first
    end
    if differs and name ~= x and name ~= y then others[#others + 1] = name end
  end
  if not is_parameter or #others < 2 then return is_parameter and others[1] or nil end
  raise(string.format('plot: by: nothing, but at one %s rows differ in %s, expected one of them, as in '
    .. 'plot(results:where{%s = ...}, "%s", "%s", {by = "%s"})', x, causeway._listed(others), others[2], x, y,
    others[1]))
end

--- A picture: results.plot("N", "time", {by = "method", error =, ...}); one curve for each value of `by`,
--- without which it is the only other parameter of the grid that has several values.
function Results:plot(x, y, options)
  if type(self) ~= "table" then
    raise('plot: ' .. causeway._literal(self) .. ' in the place of the results, expected a colon: results:plot("N", '
      .. '"time")')
  end
  causeway._check_plot_options(options, { "by", "error" })
  local given, by, err = {}, nil, nil
  for key, value in pairs(options or {}) do
    if key == "by" then by = value elseif key == "error" then err = value else given[key] = value end
  end
  if err ~= nil and type(err) ~= "string" then
    raise("plot: error: " .. tostring(err) .. ", expected the name of a column with the length of the bars; for "
      .. "the spread of repeats let run return it beside their mean, as std and mean of btime")
  end
  if by ~= nil then check_column(self, by, "plot: by") end
  if y == nil then raise('plot: y: nothing, expected the name of a column, as in results:plot("N", "time")') end
  check_column(self, x, "plot: x")
  check_column(self, y, "plot: y")
  for _, axis in ipairs({ { "x", x }, { "y", y } }) do
    for _, row in ipairs(self) do
      local value = row[axis[2]]
      if value ~= nil and type(value) ~= "number" then
        raise(string.format('plot: %s: column "%s" holds %s, expected numbers; by = "%s" makes a curve of each of them',
          axis[1], axis[2], causeway._literal(value), axis[2]))
      end
    end
  end
  by = by or other_parameter(self, x, y)
  if not causeway._add_curves(given, self, x, y, by, err) then
    raise(string.format("plot: no row has both %s and %s; the columns are %s", tostring(x), tostring(y),
      table.concat(self.columns, ", ")))
  end
  given.xlabel, given.xunit = axis_of(self, x, given.xlabel, given.xunit)
  given.ylabel, given.yunit = axis_of(self, y, given.ylabel, given.yunit)
  return causeway.plot(given)
end

-- ── The sweep ────────────────────────────────────────────────────────────────────────────────────────────────────

local function check_arguments(options)
  if type(options) ~= "table" or options[1] ~= nil then
    raise("sweep: expected a table {grid = ..., run = ...}, as in sweep{grid = {N = {128, 256}}, run = f}, got "
      .. (type(options) == "table" and "a list" or noun(options)))
  end
  causeway._check_options("sweep", options)
  if type(options.grid) ~= "table" then
    raise("sweep: grid: expected a table of lists such as {N = {128, 256}}, got " .. noun(options.grid))
  end
  if type(options.run) ~= "function" then
    raise("sweep: run: expected a function of a point, got " .. noun(options.run))
  end
  local parameters = debug.getinfo(options.run, "u").nparams
  if parameters > 1 then
    raise("sweep: run: a function of " .. parameters .. " values, expected one of a point: run = function(p) return "
      .. "p.N end")
  end
  if options.save ~= nil and (type(options.save) ~= "string" or options.save:gsub("/+$", "") == "") then
    raise('sweep: save: expected a folder such as "results/NAME"')
  end
  if options.order ~= nil and type(options.order) ~= "table" then
    raise("sweep: order: expected a list of names, got " .. noun(options.order))
  end
  if options.timeout ~= nil and not (type(options.timeout) == "number" and options.timeout > 0) then
    raise("sweep: timeout: expected a number of seconds above 0, got " .. tostring(options.timeout))
  end
  if options.seed ~= nil and not math.tointeger(options.seed) then
    raise("sweep: seed: expected a whole number, got " .. tostring(options.seed))
  end
  if options.units ~= nil and not is_table_of(is_text, is_text, options.units) then
    raise('sweep: units: expected a table of columns and their units, such as {time = "seconds"}, got '
      .. noun(options.units))
  end
  if options.fresh ~= nil and type(options.fresh) ~= "boolean" then
    raise("sweep: fresh: expected true or false, got " .. noun(options.fresh))
  end
end

-- What a folder of results is called, and the paths of its .csv and .json.
local function name_of_folder(folder) return folder:match("[^/]+$") end
local function result_files(folder)
  local start = folder .. "/" .. name_of_folder(folder)
  return start .. ".csv", start .. ".json"
end

local function write_results(folder, results, options)
  local columns = table.move(results.columns, 1, #results.columns, 1, {})
  columns[#columns + 1] = "origin"
  local csv_file, json_file = result_files(folder)
  causeway._replace_file(csv_file, causeway.text_table(results, { columns = columns }):csv())
  local rows = table.move(results, 1, #results, 1, {})
  local origins = {}
  for i, origin in ipairs(results.origins) do origins[i] = origin end
  causeway._replace_file(json_file, causeway.json_encode({ name = name_of_folder(folder), columns = columns,
    timeout = options.timeout, seed = options.seed, finished = os.date("!%Y-%m-%dT%H:%M:%SZ"), origins = origins,
    rows = rows }) .. "\n")
end

-- Raises an error where rows have come that would not come out again.
local function check_origins(store, folder, seed, run)
  for id in pairs(store.unchecked) do
    store.unchecked[id] = nil
    local reason = reason_against(store.origins[id] or { seed = seed }, seed, run)
    if reason then raise(string.format("sweep: %s holds %s or fresh = true to start again", folder, reason)) end
  end
end

-- How many sweeps of each folder this process has begun.
local begun = {}

-- Whether a rank of this job has already emptied the journal for this sweep. job: "NUMBER:"; nil outside MPI.
local function is_started(store, job, count)
  local before = job and store.started and store.started:sub(1, #job) == job and store.started:sub(#job + 1)
  return before and (math.tointeger(tonumber(before)) or 0) >= count
end

-- Empties the journal under its lock; the ranks of a job do so once for all. Waits for ranks that are still in an
-- earlier sweep of the folder; any other process that works there is in the way.
local function start_again(journal, folder, path)
  local job = causeway._mpi_job()
  local count = begun[folder]
  while true do
    local store = new_store(path)
    if job and pcall(read_on, store, journal) and is_started(store, job, count) then return store end
    if journal:empty_alone() then break end
    if not job or count == 1 then
      raise(string.format("sweep: %s is in use by another process, and fresh = true would take its rows away", folder))
    end
    journal:unlock()
    causeway._sleep(0.02)
    journal:rewind() -- another rank may empty it
    journal:lock()
  end
  for _, file in ipairs({ result_files(folder) }) do os.remove(file) end
  if job then journal:append(causeway.json_encode({ started = job .. count }) .. "\n") end
  return new_store(path)
end

-- Takes part in the sweep of a folder: what its journal says so far.
local function enter(journal, folder, fresh, seed, run)
  begun[folder] = (begun[folder] or 0) + 1
  local path = folder .. "/rows.jsonl"
  journal:lock()
  local store = fresh and start_again(journal, folder, path) or new_store(path)
  journal:join()
  read_on(store, journal)
  journal:append("") -- a torn line goes even where no row comes
  for _, file in ipairs({ result_files(folder) }) do causeway._remove_parts(file) end
  journal:unlock()
  check_origins(store, folder, seed, run)
  return store
end

-- The origin of new rows. What only a later reader needs to know is found out only where there will be one.
local function origin_now(seed, folder, run)
  if not folder then
    local origin = causeway._machine()
    origin.seed = seed
    return origin
  end
  local origin = causeway._origin(seed)
  local again = causeway._again
  origin.run, origin.save = run, again and again.to == folder and again.save or folder
  return origin
end

-- Calls f with the journal locked and read to its end; without a journal, at once.
local function locked(work, f)
  local journal = work.journal
  if not journal then return f() end
  journal:lock()
  read_on(work.store, journal)
  check_origins(work.store, work.folder, work.seed, work.run)
  local result = f()
  journal:unlock()
  return result
end

-- Runs a point that no other process is at; its row goes to the store, and to the journal where there is one.
local function run_claimed(work, point, key)
  local options, store, journal = work.options, work.store, work.journal
  if not work.id then
    local origin = work.origin()
    work.id = locked(work, function() return origin_id(store, journal, origin) end)
  end
  local origin = store.origins[work.id]
  local before = journal and files_so_far()
  local row, failure = run_point(options.run, point, work.names, options.timeout, work.seed)
  if not row then error(failure, 0) end
  row.origin = work.id
  local loaded = journal and loaded_since(before, origin)
  locked(work, function()
    -- Where a shared disk has taken the claim from a machine that was cut off, another process has run the point.
    if store.rows[key] then return end
    if journal then
      journal:append(line_of_run_data(work.id, origin, loaded) .. causeway.json_encode(row) .. "\n")
    end
    store.rows[key] = row
  end)
  if row.status == "OOM" then collectgarbage() end
end

-- Sees to the row of a point; false where another process is at it.
local function complete(work, point, key, progress)
  local journal = work.journal
  if work.store.rows[key] then return true end
  if journal and not journal:claim(key) then return false end
  -- The process that held the claim before has written the row by now, or died.
  if not locked(work, function() return work.store.rows[key] end) then
    progress:show(point_text(point, work.names))
    run_claimed(work, point, key)
  end
  if journal then journal:release() end
  return true
end

local shortest_wait, longest_wait = 0.01, 0.5  -- seconds between two looks at what other processes are at

-- Goes through the points until each has its row.
local function complete_all(work, todo, progress)
  local wait = shortest_wait
  while #todo > 0 do
    local left = {}
    for _, item in ipairs(todo) do
      if complete(work, item.point, item.key, progress) then progress:step() else left[#left + 1] = item end
    end
    if #left == #todo then
      progress:show(#left == 1 and "another process is at the last point"
        or string.format("other processes are at the last %d points", #left))
      causeway._sleep(wait)
      wait = math.min(2 * wait, longest_wait)
    else
      wait = shortest_wait
    end
    todo = left
  end
end

local function run_missing(work, points)
  local todo = {}
  for _, point in ipairs(points) do
    local key = key_of(point)
    if not work.store.rows[key] then todo[#todo + 1] = { point = point, key = key } end
  end
  local progress = causeway.progress(#points, #points - #todo)
  local finished, failure = pcall(complete_all, work, todo, progress)
  progress:finish()
  if not finished then error(failure, 0) end
end

-- Set in the program that `reproduce` starts: {save = the folder of the sweep that is to run again, to = where}. That
-- sweep runs there and ends the program; what comes after it, such as pictures of its rows, would only write over what
-- there is. Sweeps before it run beside it.
local function redirected(options)
  local again = causeway._again
  if not again or not options.save then return options end
  local moved = {}
  for name, value in pairs(options) do moved[name] = value end
  local folder = options.save:gsub("/+$", "")
  moved.fresh = true
  moved.save = folder == again.save and again.to or again.to .. "-before/" .. name_of_folder(folder)
  return moved, folder == again.save
end

--- Runs every combination of the grid; see the top of this file and lua/help/measure.lua.
function causeway.sweep(options)
  check_arguments(options)
  local ends_here
  options, ends_here = redirected(options)
  local names = names_of(options.grid, options.order)
  local grid = {}
  for _, name in ipairs(names) do grid[name] = checked_values(name, options.grid[name]) end
  local points = points_of(grid, names)
  local seed = math.tointeger(options.seed or 1)
  local folder = options.save and options.save:gsub("/+$", "")
  local work = { options = options, names = names, seed = seed, folder = folder }
  work.run = folder and digests_of(options.run)
  function work.origin() return origin_now(seed, folder, work.run) end
  local results
  local function run_all(journal)
    work.journal = journal
    work.store = journal and enter(journal, folder, options.fresh, seed, work.run) or new_store()
    run_missing(work, points)
    results = results_of(points, names, work.store.rows, work.store.origins,
      { folder = folder, units = options.units })
    if not folder then return end
    locked(work, function()
      write_results(folder, results, { timeout = options.timeout, seed = seed })
    end)
  end
  if folder then
    causeway.mkpath(folder)
    causeway._with_journal(folder .. "/rows.jsonl", "write", run_all)
  else
    run_all()
  end
  if ends_here then os.exit(0, true) end
  return results
end

--- What load says of a folder, where a sweep has put its results into it.
function causeway._said_of_folder(folder)
  folder = folder:gsub("/+$", "")
  local csv_file = result_files(folder)
  if causeway._path_kind(folder .. "/rows.jsonl") ~= "file" then return nil end
  return string.format("load: %s is the folder of a sweep, expected a file: load(\"%s\") gives its rows as a list, and "
    .. "the same sweep{..., save = \"%s\"} its results, without running what is done", folder, csv_file, folder)
end

causeway._read_journal, causeway._key_of_point = read_journal, key_of

causeway._options.sweep = { grid = true, run = true, save = true, order = true, timeout = true, seed = true,
  fresh = true, units = true }
