-- Every table, figure, listing and checked statement of the five documents, run here and set beside what is printed,
-- with a verdict by a stated rule: one page.
--
--   causeway experiments/reproduce.lua --quick           all of it, small, in less than ten minutes on two cores
--   causeway experiments/reproduce.lua                   larger, in an hour or two
--   causeway experiments/reproduce.lua --full            as large as the documents have it, in some hours
--
--   --only fleet,leet/table3        documents or items of them; the page keeps what earlier runs have left of others
--   --device cpu                    or gpu, for the items that have times of one
--   --compare FILE                  the items.json or verdicts.json of another run, such as another machine's, whose
--                                   verdicts (and tables, from items.json) stand beside
--   --page                          runs nothing: the page of what there is, with the mode's option of that run
--   --from FILE                     runs nothing: the page of the items.json of another run, such as
--                                   experiments/data/runs/cpu-quick.json, which comes with the repository
--   --publish                       keeps what came out as experiments/data/runs/DEVICE-MODE.json, and writes the
--                                   tables of README.md and docs/reproduction.md; only where every item has finished.
--                                   With --only those items take the places of theirs in the run that is kept, so that
--                                   a long one can be made in pieces
--   --fresh                         start again where a run was stopped; otherwise it goes on
--   --save results/reproduce        index.html, verdicts.json, items.json, and a folder for each item
--
-- Each item is a script of its own, experiments/DOCUMENT/ITEM.lua, which can be run alone with the same options; one
-- that fails has its error as its verdict, and the others are run. What is finished is on the disk at once: after
-- Ctrl-C or a crash the same command goes on, and others into the same folder leave it that. The documents are those of
-- proofs/README.md.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/lib/arguments.lua")(arg, { quick = false, full = false, only = { "all" },
  device = "cpu", compare = "", page = false, from = "", publish = false, fresh = false, save = "results/reproduce" },
  { device = { "cpu", "gpu" } })
local items, item_page = dofile(folder .. "/lib/items.lua"), dofile(folder .. "/lib/item_page.lua")
local verdicts, published = dofile(folder .. "/lib/verdicts.lua"), dofile(folder .. "/lib/published.lua")
local run_file, wrapped = dofile(folder .. "/lib/run_file.lua"), dofile(folder .. "/lib/wrapped.lua")
for i, word in ipairs(arg) do
  if (word == "--from" or word == "--compare") and arg[i + 1] == "" then
    exit(2, word .. ": \"\", expected the name of a file")
  end
end
if options.quick and options.full then exit(2, "--quick: given together with --full, expected one of them") end
if options.device == "gpu" then
  local there, why = has_gpu()
  if not there then exit(2, "--device: gpu, but there is none: " .. why) end
end
if options.from ~= "" then
  for _, name in ipairs({ "quick", "full", "fresh", "page" }) do
    if options[name] then exit(2, string.format("--%s: given together with --from, which runs nothing", name)) end
  end
  if options.device ~= "cpu" then exit(2, "--device: given together with --from, which runs nothing") end
end
local all_items = table.concat(options.only, ",") == "all"
if not all_items and options.from ~= "" then
  exit(2, "--only: given together with --from, which runs nothing, expected all items")
end
local mode = options.quick and "quick" or options.full and "full" or "standard"

-- ── What is run ──

local function chosen()
  local known, list = { all = true }, {}
  for _, item in ipairs(items) do known[item.document], known[item_page.id_of(item)] = true, true end
  local wanted = {}
  for _, word in ipairs(options.only) do
    if not known[word] then
      exit(2, string.format("--only: %q, expected a document or an item such as fleet or leet/table3", word))
    end
    wanted[word] = true
  end
  for _, item in ipairs(items) do
    if (wanted.all or wanted[item.document] or wanted[item_page.id_of(item)])
      and (item.gpu or options.device == "cpu") then
      list[#list + 1] = item
    end
  end
  return list
end

local function place_of(item) return options.save .. "/" .. item.document .. "/" .. item.name end

-- What an item has left; nil where it has not finished, or where that is damaged.
local function left_by(item)
  local result = run_file.read(place_of(item) .. "/item.json")
  return not run_file.wrong_item(result) and item_page.id_of(result) == item_page.id_of(item) and result or nil
end

-- The note of the runs in this folder that have not finished, by their options: which items each has begun, and of them
-- has finished. Rows that other items have left are of earlier runs, perhaps of another program. The process says
-- whether one is running.
local running = options.save .. "/running.json"
local key = table.concat({ mode, options.device, table.concat(options.only, ",") }, " ")

local process = (function()
  local stat = io.open("/proc/self/stat")
  local number = math.tointeger(stat:read("n"))
  stat:close()
  return number
end)()

local function is_reproducing(number)
  local file = math.type(number) == "integer" and number ~= process and io.open("/proc/" .. number .. "/cmdline")
  if not file then return false end
  local words = file:read("a") or ""
  file:close()
  return words:find("reproduce.lua", 1, true) ~= nil
end

local function words_of(value)
  local out = {}
  for _, word in ipairs(type(value) == "table" and value or {}) do
    if type(word) == "string" then out[#out + 1] = word end
  end
  return out
end

-- {options = {begun =, finished =}, …}, and the process that runs.
local function noted_runs()
  local note, runs = run_file.read(running), {}
  if type(note) ~= "table" or type(note.runs) ~= "table" then return runs, nil end
  for name, run in pairs(note.runs) do
    if type(name) == "string" and name:find("^%S+ %S+ %S") and type(run) == "table" then
      runs[name] = { begun = words_of(run.begun), finished = words_of(run.finished) }
    end
  end
  return runs, note.process
end

-- What an earlier start with these options has left; refuses to take what others have.
local function taken_up()
  local runs, by = noted_runs()
  if is_reproducing(by) then
    exit(2, string.format("--save: process %d is reproducing into %s, expected its end or another folder", by,
      options.save))
  end
  if options.fresh then runs = {} end
  for name in pairs(runs) do
    if name:match("^%S+ %S+") ~= key:match("^%S+ %S+") then
      local other, device, only = name:match("^(%S+) (%S+) (.*)$")
      local words = (other ~= "standard" and " --" .. other or "") .. (device == "gpu" and " --device gpu" or "")
        .. (only ~= "all" and " --only " .. only or "")
      exit(2, string.format("--save: in %s a run was stopped%s; its command goes on, --fresh drops it, another folder "
        .. "leaves it alone", options.save, words ~= "" and ", with" .. words or ""))
    end
  end
  runs[key] = runs[key] or { begun = {}, finished = {} }
  return runs
end
local function note(runs) save(running, { runs = runs, process = process }) end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local program = '"$(readlink -f /proc/' .. process .. '/exe)"'

-- Before a command: it ends with this program, also where that is killed and could not end it, so that it does not take
-- the processors from a later start. "" where setpriv (util-linux) cannot do that.
local ends_with_this = os.execute("setpriv --pdeathsig KILL true > /dev/null 2>&1") and "setpriv --pdeathsig KILL "
  or ""

-- Runs one script; nil, or one sentence of what went wrong.
local function run(item, resume)
  local place = place_of(item)
  mkpath(place)
  local words = { "exec " .. ends_with_this .. program,
    quoted(string.format("%s/%s/%s.lua", folder, item.document, item.name)) }
  if mode ~= "standard" then words[#words + 1] = "--" .. mode end
  if options.device == "gpu" then words[#words + 1] = "--device gpu" end
  words[#words + 1] = resume and "--resume" or "--fresh"
  words[#words + 1] = "--save " .. quoted(place)
  local output = place .. "/output.txt"
  -- Unlike os.execute, this lets Ctrl-C end this program too.
  local good, kind, code = io.popen(table.concat(words, " ") .. " > " .. quoted(output) .. " 2>&1 < /dev/null"):close()
  if good and left_by(item) then return nil end
  if kind == "signal" and code == 2 or code == 130 then error("interrupted; the same command goes on", 0) end
  -- What it says of its end stands before the traceback.
  local last, of_its_end = "it said nothing", nil
  for line in io.lines(output) do
    if line:find("%S") then last = line end
    of_its_end = line:match("^error: (.*)") or of_its_end
  end
  return ((of_its_end or last):gsub("^%S+%.lua:%d+: ", ""))
end

local function minutes_text(seconds)
  return string.format("%d:%02d", seconds // 60, math.floor(seconds % 60))
end

local counts_text = published.counts_text

-- Runs what has not finished; returns the errors by id.
local function run_all(list)
  local runs = taken_up()
  local mine, failures, was_begun, is_finished = runs[key], {}, {}, {}
  for _, id in ipairs(mine.begun) do was_begun[id] = true end
  for _, id in ipairs(mine.finished) do is_finished[id] = true end
  note(runs)
  local todo, expected, spent, left = {}, 0, 0, 0
  for _, item in ipairs(list) do
    local there = is_finished[item_page.id_of(item)] and left_by(item)
    if not there or there.mode ~= mode or there.device ~= options.device then
      todo[#todo + 1] = item
      left = left + item.seconds
    end
  end
  if #todo < #list then print(string.format("%d of %d items were finished before", #list - #todo, #list)) end
  local bar = progress(#list, #list - #todo)
  for _, item in ipairs(todo) do
    local id, start = item_page.id_of(item), clock()
    bar:show(id .. (expected > 0 and ", " .. minutes_text(left * spent / expected) .. " left in all" or ""))
    if not was_begun[id] then
      mine.begun[#mine.begun + 1] = id
      note(runs)
    end
    failures[id] = run(item, was_begun[id])
    if not failures[id] then mine.finished[#mine.finished + 1] = id end
    note(runs)
    bar:finish()
    local seconds = clock() - start
    spent, expected, left = spent + seconds, expected + item.seconds, left - item.seconds
    local result = left_by(item)
    print(string.format("%-16s %6s  %s", id, minutes_text(seconds), failures[id] and "failed:"
      or counts_text(result.verdicts)))
    if failures[id] then print(wrapped(failures[id], 80)) end
    bar:step()
  end
  bar:finish()
  runs[key] = nil
  if next(runs) then note(runs) else os.remove(running) end
  return failures
end

-- ── What is written ──

local function slug(text)
  return (text:lower():gsub("[^%w]+", "-"):gsub("^-", ""):gsub("-$", ""))
end

local function results_of(failures)
  local results = {}
  for i, item in ipairs(items) do
    local id = item_page.id_of(item)
    local reason = failures[id] or (options.device == "gpu" and not item.gpu and "it has no times of a GPU"
      or all_items and "it has not been run" or "left out by --only")
    results[i] = not failures[id] and left_by(item) or item_page.not_run(item, mode, options.device, reason)
  end
  return results
end

local function verdict_list(results)
  local list, seen = {}, {}
  for _, item in ipairs(results) do
    for _, v in ipairs(item.verdicts) do
      local id = item_page.id_of(item) .. "/" .. slug(v.what)
      if seen[id] then error(string.format("two verdicts are called %s", id), 0) end
      seen[id] = true
      list[#list + 1] = { id = id, document = item.document, item = item.name, what = v.what, kind = v.kind,
        command = item.command, verdict = v.verdict, statistic = v.statistic, value = v.value, claim = v.claim,
        origin = item.origin }
    end
  end
  return list
end

-- The other run: {name, verdicts by id, items by id}; nil where none is asked for.
local function other_run()
  if options.compare == "" then return nil end
  local value = run_file.read(options.compare)
  local of_items = type(value) == "table" and value.items ~= nil
  local wrong = of_items and run_file.wrong_run(value) or not of_items and run_file.wrong_verdicts(value) or nil
  if wrong then
    exit(2, string.format("--compare: %q%s, expected an items.json or verdicts.json of reproduce.lua",
      options.compare, value ~= nil and " has " .. wrong or ""))
  end
  local list = of_items and verdict_list(value.items) or value
  local other, dated = { verdicts = {}, items = {}, name = options.compare }, nil
  for _, v in ipairs(list) do
    other.verdicts[v.id] = v
    local machine = v.origin and (v.origin.device or v.origin.processor)
    -- With its day, which the origins of sweeps have: two runs may be of one machine.
    if machine and not dated then
      dated = v.origin.date
      other.name = machine .. (dated and ", " .. dated:sub(1, 10) or "")
    end
  end
  for _, item in ipairs(value.items or {}) do other.items[item_page.id_of(item)] = item end
  return other
end

local function anchor(item) return item.document .. "-" .. item.name end

local documents = { { "fleet", "Efficient Decoding for Long Prompts via Low-Rank Attention" },
  { "leet", "LeetDecoding" }, { "gates", "Linear attention, the decay gate and the delta rule" },
  { "tpu", "Optimized Linear Attention for TPU Hardware" }, { "tree", "Tree Attention" } }

-- How many verdicts both runs have, and a table of those that are not the same, each with its statistic.
local function beside(list, other)
  local both, rows = 0, {}
  for _, v in ipairs(list) do
    local there = other.verdicts[v.id]
    if there and v.verdict ~= "not run" and there.verdict ~= "not run" then
      both = both + 1
      if v.verdict ~= there.verdict then
        rows[#rows + 1] = { item = v.document .. "/" .. v.item, what = v.what, here = v.verdict,
          statistic = v.statistic, there = there.verdict, statistic_there = there.statistic,
          kind = v.kind == "count" and "any machine" or "one machine", address = "#" .. anchor({ document = v.document,
            name = v.item }) }
      end
    end
  end
  local text = string.format("Of %d verdicts that both runs have, %d are the same and %d are not.", both, both - #rows,
    #rows)
  return text, #rows > 0 and text_table(rows, { title = "Verdicts that are not the same", columns = {
    { key = "item", link = function(row) return row.address end }, "what", "here", "statistic",
    { key = "there", title = other.name }, { key = "statistic_there", title = "statistic there" },
    { key = "kind", title = "holds for" } } }) or nil
end

local function index_of(results, document)
  local rows = {}
  for _, item in ipairs(results) do
    if item.document == document then
      rows[#rows + 1] = { item = item.name, title = item.title, count = counts_text(item.verdicts, "count"),
        time = counts_text(item.verdicts, "time"), address = "#" .. anchor(item) }
    end
  end
  return text_table(rows, { title = document, columns = {
    { key = "item", link = function(row) return row.address end }, { key = "count", title = "on any machine" },
    { key = "time", title = "times" }, { key = "title", title = "what" } } })
end

-- Claim → command → minutes → memory → machine.
local function costs(results)
  local rows = {}
  for _, item in ipairs(results) do
    local form = item.resumed and "> %.2f" or "%.2f"
    rows[#rows + 1] = { claims = #item.claims > 0 and table.concat(item.claims, " ") or "–", command = item.command,
      minutes = form:format(item.seconds / 60),
      processor = item.processor_seconds and form:format(item.processor_seconds / 60) or "–",
      memory = item.memory or "–", machine = item.origin.device or item.origin.processor or "–",
      address = item_page.claim_link(item.claims[1], folder, options.save) }
  end
  return text_table(rows, { title = "What each command takes", columns = {
    { key = "claims", link = function(row) return row.address end }, "command",
    { key = "minutes", align = "right" }, { key = "processor", title = "of processors", align = "right" },
    { key = "memory", unit = "bytes" }, "machine" },
    note = "> of an item that went on after it was stopped: its last stretch" })
end

local rules = [[
Statements that hold on any machine (counts, volumes, exponents of counts, formulas of memory, crossovers by count) are
kept apart from times, and compared exactly or within the share that is named.

order of methods: two times within 25 % of each other have no order; the verdict holds where no pair with an order in
both, here and in the document, is turned around, differs where one is whose quartiles here are more than 25 % apart,
and is undecided otherwise. Kendall's τ counts all pairs.

ratio to the document: here ÷ printed, divided by the one machine factor of the table, the median of these ratios; it
holds where every cell is within ± 25 % with both its quartiles, differs where both quartiles of one are off, and is
undecided otherwise.

growth: the slope of log time on log length by least squares, with its 95 % interval; it holds where the interval of the
difference lies within 0.25 of zero, differs where it excludes zero and the difference is more than 0.25, and is
undecided otherwise.

crossover: the spans of lengths between which one method overtakes another for good have lengths in common. Undecided
where those of the quartiles say both, or where what was measured ends before it.

which is faster: one of several where all others take more than 25 % longer, and not where another one is faster by
more than that; undecided otherwise. A ratio that is stated differs where it is missed by more than 25 %.

figures of the text: within ± 25 % where no other share is named.

machine in use: an item with times during which other programs took more than a tenth of the processors says so. Its
verdicts on times are those of what was left of the machine.]]

local function total_text(list)
  local total = verdicts.count(list)
  return string.format("%d verdicts: %d hold, %d differ, %d undecided, %d not run.", #list, total.holds, total.differs,
    total.undecided, total["not run"])
end

local function page_of(results, list, other)
  local page = { title = "The documents' tables and figures, reproduced", save = options.save .. "/index.html",
    data = { options.save .. "/verdicts.json", options.save .. "/items.json" }, copy = true }
  local function add(part) page[#page + 1] = part end
  add({ heading = "Verdicts" })
  add(total_text(list) .. " An item is a table, figure or listing of a document, or a group of its statements. Below "
    .. "the index each stands with the document's numbers, the ones measured here, the verdicts and the command that "
    .. "gives them again."
    .. (other and " Beside them the verdicts of another run: " .. other.name .. "." or ""))
  for _, document in ipairs(documents) do
    local index = index_of(results, document[1])
    if #index.rows > 0 then add({ open = index }) end
  end
  if other then
    local text, different = beside(list, other)
    print(text)
    add({ heading = "Beside " .. other.name })
    add(text)
    if different then add({ open = different }) end
  end
  add({ heading = "Rules" })
  add(rules)
  add({ heading = "Commands" })
  add(costs(results))
  for _, document in ipairs(documents) do
    local first = true
    for _, item in ipairs(results) do
      if item.document == document[1] then
        if first then add({ heading = document[1] .. ": " .. document[2] }) end
        first = false
        add({ heading = item_page.title_of(item), level = 3, id = anchor(item) })
        for _, part in ipairs(item_page.parts_of(item, folder, options.save, other and {
          name = other.name, item = other.items[item_page.id_of(item)],
          verdict = function(v) return other.verdicts[item_page.id_of(item) .. "/" .. slug(v.what)] end,
        })) do
          add(part)
        end
      end
    end
  end
  report(page)
end

-- The items of another run, in place of one of this machine.
local function given_run(path)
  local value = run_file.read(path)
  local wrong = run_file.wrong_run(value)
  if wrong then
    exit(2, string.format("--from: %q%s, expected an items.json of reproduce.lua", path,
      value ~= nil and " has " .. wrong or ""))
  end
  return value
end

-- The items, all unless --only names some, that have nothing of their own though this device can run them: they failed,
-- have not been run, or a run that was given lacks them.
local function not_finished(results, device)
  local names, there, of_gpu = {}, {}, {}
  for _, item in ipairs(results) do there[item_page.id_of(item)] = item.title ~= "not run" end
  for _, item in ipairs(items) do of_gpu[item_page.id_of(item)] = item.gpu end
  for _, item in ipairs(all_items and items or results) do
    local id = item_page.id_of(item)
    if (device ~= "gpu" or of_gpu[id]) and not there[id] then names[#names + 1] = id end
  end
  return names
end

-- The items that --only names; all of them without it, or in another run.
local function wanted_of(results)
  if all_items then return results end
  local wanted, list = {}, {}
  for _, item in ipairs(chosen()) do wanted[item_page.id_of(item)] = true end
  for _, item in ipairs(results) do
    if wanted[item_page.id_of(item)] then list[#list + 1] = item end
  end
  return list
end

-- The items that an earlier run has left in another mode or on another device, which this page shows beside.
local function of_another_run(results)
  local names = {}
  for _, item in ipairs(results) do
    if item.mode ~= mode or item.device ~= options.device then names[#names + 1] = item_page.id_of(item) end
  end
  return names
end

-- The items whose scripts were run with changes that no commit has.
local function changed_sources(results)
  local names = {}
  for _, item in ipairs(results) do
    if item.origin.dirty then names[#names + 1] = item_page.id_of(item) end
  end
  return names
end

-- What is wrong with a file or a folder is one sentence, and no trace of where this script found it.
local function or_exit(f, ...)
  local good, value = pcall(f, ...)
  if good then return value end
  if type(value) == "string" and not value:find("interrupted", 1, true) then
    exit(1, (value:gsub("^%S+%.lua:%d+: ", "")))
  end
  error(value, 0)
end

local other, failures, given = other_run(), {}, options.from ~= "" and given_run(options.from) or nil
or_exit(mkpath, options.save)
if not given and not options.page then failures = or_exit(run_all, chosen()) end
local whole = given or { mode = mode, device = options.device, items = results_of(failures) }
local results = whole.items
local list = or_exit(verdict_list, results)
or_exit(save, options.save .. "/verdicts.json", list)
or_exit(save, options.save .. "/items.json", whole)
or_exit(page_of, results, list, other)
local to_publish = options.publish and wanted_of(results) or {}
local unfinished = options.publish and not_finished(to_publish, whole.device) or {}
local others, dirty = given and {} or of_another_run(to_publish), #changed_sources(to_publish) > 0
if options.publish and #unfinished == 0 and #others == 0 and not dirty then
  or_exit(all_items and published.publish or published.add, folder, whole, to_publish)
end
print()
print(total_text(list))
print(options.save .. ": index.html, verdicts.json, items.json")
if #unfinished > 0 then
  error("--publish: nothing is published, for these items have not finished: " .. table.concat(unfinished, ", "), 0)
end
if #others > 0 then
  error(string.format("--publish: nothing is published, for these items are of another mode than %s or not of the %s: "
    .. "%s", mode, options.device, table.concat(others, ", ")), 0)
end
if dirty then
  error("--publish: nothing is published, for items were run with changes that are not committed, expected a commit", 0)
end
if next(failures) then os.exit(1, true) end
