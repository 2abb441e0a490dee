-- What the repository shows of the runs that it keeps: experiments/data/runs/DEVICE-MODE.json, the table of README.md,
-- made from cpu-quick.json, and that of docs/reproduction.md, made from all of them.
--
--   published.publish(experiments, run)       writes all three; run: {mode =, device =, items =}, as in items.json
--   published.add(experiments, run, items)    the same with these items of the run in the one that is kept; what
--                                             neither has is not run
--   published.kept(experiments)               the runs that are kept, those of the CPU first
--   published.front(run)                      the table of README.md, as Markdown: verdicts by document
--   published.map(runs)                       that of docs/reproduction.md: claims, command, time, memory, machine
--   published.counts_text(verdicts, kind)     "3 hold, 1 differs", of one kind or of all
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local verdicts, item_page = dofile(folder .. "/verdicts.lua"), dofile(folder .. "/item_page.lua")
local published = {}

function published.counts_text(list, kind)
  local of_kind, words = {}, {}
  for _, v in ipairs(list) do
    if not kind or v.kind == kind then of_kind[#of_kind + 1] = v end
  end
  local counts = verdicts.count(of_kind)
  for _, word in ipairs({ "holds", "differs", "undecided", "not run" }) do
    if counts[word] > 0 then
      words[#words + 1] = counts[word] .. " " .. (word == "holds" and counts[word] > 1 and "hold"
        or word == "differs" and counts[word] > 1 and "differ" or word)
    end
  end
  return #words > 0 and table.concat(words, ", ") or "–"
end

local function markdown(header, rows)
  local lines = { "| " .. table.concat(header, " | ") .. " |", "|" .. ("---|"):rep(#header) }
  for _, row in ipairs(rows) do lines[#lines + 1] = "| " .. table.concat(row, " | ") .. " |" end
  return table.concat(lines, "\n")
end

local documents = { "fleet", "leet", "gates", "tpu", "tree" }

-- Whether any item with times ran beside other programs.
local function was_in_use(run)
  for _, item in ipairs(run.items) do
    if item_page.in_use(item) then return true end
  end
  return false
end

-- "2 threads of PROCESSOR", or the name of a GPU.
local function machine_of(item)
  local origin = item.origin
  local name = (origin.device or origin.processor or "?"):gsub("%s+", " "):gsub("%(R%)", "")
  return origin.device and name or string.format("%d threads of %s", origin.threads or 0, name)
end

local function day_of(item) return item.date:match("^%S+") end

function published.front(run)
  local in_use, rows, all = was_in_use(run), {}, {}
  for _, document in ipairs(documents) do
    local list, items = {}, 0
    for _, item in ipairs(run.items) do
      if item.document == document then
        items = items + 1
        for _, v in ipairs(item.verdicts) do list[#list + 1], all[#all + 1] = v, v end
      end
    end
    rows[#rows + 1] = { document, tostring(items), published.counts_text(list, "count") }
    if not in_use then table.insert(rows[#rows], published.counts_text(list, "time")) end
  end
  rows[#rows + 1] = { "all", tostring(#run.items), published.counts_text(all, "count") }
  local header = { "document", "items", "verdicts on what holds on any machine" }
  local note = string.format("`--%s` on %s, %s.", run.mode, machine_of(run.items[1]), day_of(run.items[1]))
  if in_use then
    note = note .. "\nThe machine was in use, so that its verdicts on times are not counted here."
  else
    table.insert(rows[#rows], published.counts_text(all, "time"))
    header[#header + 1] = "on times"
  end
  return markdown(header, rows) .. "\n\n" .. note
end

-- What an item took; nil of one that was not run. Of a run that went on where one was stopped only its last stretch is
-- known.
local function took(item)
  if item.title == "not run" then return nil end
  local form = item.resumed and "> %.2f" or "%.2f"
  return { #item.claims > 0 and table.concat(item.claims, " ") or "–", "`" .. item.command .. "`",
    form:format(item.seconds / 60), form:format((item.processor_seconds or item.seconds) / 60),
    item.memory and string.format("%.0f", item.memory / 2 ^ 20) or "–", machine_of(item) }
end

function published.map(runs)
  local rows, sums = {}, {}
  for _, run in ipairs(runs) do
    local count, seconds, processors, where, seen, resumed = 0, 0, 0, {}, {}, false
    for _, item in ipairs(run.items) do
      local row = took(item)
      if row then
        rows[#rows + 1] = row
        count, seconds = count + 1, seconds + item.seconds
        processors, resumed = processors + (item.processor_seconds or item.seconds), resumed or item.resumed
        local there = machine_of(item) .. ", " .. day_of(item)
        if not seen[there] then where[#where + 1], seen[there] = there, true end
      end
    end
    local more = resumed and "more than " or ""
    sums[#sums + 1] = string.format("%d items in %s%.1f minutes, %s%.1f of processors, on %s.", count, more,
      seconds / 60, more, processors / 60, table.concat(where, "; "))
  end
  return markdown({ "claims", "command", "minutes", "of processors", "MiB", "machine" }, rows) .. "\n\n"
    .. table.concat(sums, "\n")
end

local function path_of(experiments, device, mode)
  return string.format("%s/data/runs/%s-%s.json", experiments, device, mode)
end

local function kept_run(experiments, device, mode)
  local file = io.open(path_of(experiments, device, mode))
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return json_decode(text)
end

function published.kept(experiments)
  local runs = {}
  for _, device in ipairs({ "cpu", "gpu" }) do
    for _, mode in ipairs({ "quick", "standard", "full" }) do runs[#runs + 1] = kept_run(experiments, device, mode) end
  end
  return runs
end

published.begin, published.finish = "<!-- reproduced -->\n", "\n<!-- end of reproduced -->"

-- Puts a text between the marks of a page.
local function write_between_marks(path, text)
  local file = assert(io.open(path))
  local page = file:read("a")
  file:close()
  local _, from = page:find(published.begin, 1, true)
  local to = page:find(published.finish, 1, true)
  if not from or not to then error(path .. ": has no marks of the table that is made from a run", 0) end
  -- In one step: a reader sees the old page or the new one.
  file = assert(io.open(path .. ".new", "w"))
  assert(file:write(page:sub(1, from), text, page:sub(to)))
  assert(file:close())
  assert(os.rename(path .. ".new", path))
end

function published.publish(experiments, run)
  local root = experiments:match("^(.*)/[^/]*$") or "."
  mkpath(experiments .. "/data/runs")
  item_page.write(path_of(experiments, run.device, run.mode), run)
  write_between_marks(root .. "/docs/reproduction.md", published.map(published.kept(experiments)))
  if run.device == "cpu" and run.mode == "quick" then
    write_between_marks(root .. "/README.md", published.front(run))
  end
end

function published.add(experiments, run, items)
  local new, before = {}, {}
  for _, item in ipairs(items) do new[item_page.id_of(item)] = item end
  local kept = kept_run(experiments, run.device, run.mode)
  for _, item in ipairs(kept and kept.items or {}) do before[item_page.id_of(item)] = item end
  local whole = { mode = run.mode, device = run.device, items = {} }
  for i, item in ipairs(run.items) do
    local id = item_page.id_of(item)
    whole.items[i] = new[id] or before[id] or item_page.not_run(item, run.mode, run.device, "left to a later run")
  end
  published.publish(experiments, whole)
end

return published
