-- What a reproduced table or figure looks like on a page, from what its script has left in item.json.
local text_parts = dofile(debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") .. "/text_parts.lua")
local item_page = {}

-- In which file of proofs/ the claims of a letter stand.
local proofs = { A = "masking", B = "exact", C = "recursion", D = "fleet", E = "decay", F = "gates", G = "tpu",
  H = "tree", I = "tables" }
-- Those that stand elsewhere than their letter says.
local elsewhere = { E4 = "gates", F10 = "backward", G7 = "backward", G8 = "backward", G9 = "backward",
  G10 = "backward", H1 = "energy", H2 = "energy", H3 = "energy", H4 = "energy", H12 = "energy", H17 = "energy",
  H18 = "energy", H19 = "energy", H21 = "energy" }

local here -- the working directory, asked for once

-- The names on the way from the root to a path, without "." and "..".
local function steps_to(path)
  if path:sub(1, 1) ~= "/" then
    if not here then
      local pipe = io.popen("pwd")
      here = pipe:read("l")
      pipe:close()
    end
    path = here .. "/" .. path
  end
  local steps = {}
  for step in path:gmatch("[^/]+") do
    if step == ".." then steps[#steps] = nil
    elseif step ~= "." then steps[#steps + 1] = step end
  end
  return steps
end

-- The way from one folder to a path.
local function between(from, to)
  local same = 0
  while same < #from and same < #to - 1 and from[same + 1] == to[same + 1] do same = same + 1 end
  local way = {}
  for _ = same + 1, #from do way[#way + 1] = ".." end
  for i = same + 1, #to do way[#way + 1] = to[i] end
  return table.concat(way, "/")
end

--- Where a claim of proofs/ stands: the address of its file from a page in `page_folder`; nil for no claim.
function item_page.claim_link(claim, experiments, page_folder)
  if not claim then return nil end
  local file = elsewhere[claim] or proofs[claim:sub(1, 1)]
  if not file then return nil end
  return between(steps_to(page_folder), steps_to(experiments .. "/../proofs/" .. file .. ".md"))
end

function item_page.id_of(item) return item.document .. "/" .. item.name end

--- What stands in place of an item, {document =, name =}, that left nothing.
function item_page.not_run(item, mode, device, reason)
  local mode_word = mode ~= "standard" and " --" .. mode or ""
  return { document = item.document, name = item.name, title = "not run", claims = {}, mode = mode, device = device,
    parts = {}, command = string.format("./lab experiments/%s/%s.lua%s", item.document, item.name, mode_word),
    verdicts = { { what = "the whole item", kind = "time", verdict = "not run", statistic = reason } }, seconds = 0,
    origin = {}, date = "–" }
end

-- "table3" as "Table 3".
local function readable(name)
  local word, number = name:match("^(%a+)(%d+)$")
  if not word then return name end
  return word:sub(1, 1):upper() .. word:sub(2) .. " " .. number
end

function item_page.title_of(item)
  return string.format("%s, %s: %s", item.document, readable(item.name), item.title)
end

--- A table or picture of item.json as a value that shows itself.
function item_page.value_of(part)
  if part.curves then
    local given = table.move(part.curves, 1, #part.curves, 1, {})
    for name, value in pairs(part.axes) do given[name] = value end
    return plot(given)
  end
  return text_table(part.rows, part.options)
end

--- The verdicts of an item; with a link to the claim where `link` is given, and beside those of another run, where
--- `other` is, {name =, verdict = function(v)}.
function item_page.verdict_table(list, link, other)
  local rows = {}
  for i, v in ipairs(list) do
    local there = other and other.verdict(v) or {}
    rows[i] = { what = v.what, kind = v.kind == "count" and "any machine" or "this one", verdict = v.verdict,
      statistic = v.statistic, claim = v.claim or "–", there = there.verdict or "–",
      statistic_there = there.statistic or "–" }
  end
  local columns = { "what", "verdict", "statistic" }
  if other then
    columns[#columns + 1] = { key = "there", title = other.name }
    columns[#columns + 1] = { key = "statistic_there", title = "statistic there" }
  end
  columns[#columns + 1] = { key = "kind", title = "holds for" }
  columns[#columns + 1] = { key = "claim", link = link }
  return text_table(rows, { title = "Verdicts", columns = columns })
end

-- More than this share of the processors, taken by other programs, makes times of something else than this one.
local most_taken = 0.1

--- What is to be said of an item's times where other programs ran beside it; nil where they are its own.
function item_page.in_use(item)
  local has_times = false
  for _, v in ipairs(item.verdicts) do has_times = has_times or v.kind == "time" and v.verdict ~= "not run" end
  if not has_times or not item.others or item.others <= most_taken then return nil end
  return string.format("Other programs took %.0f %% of the processors meanwhile: its times are of a machine in use.",
    100 * item.others)
end

-- What an item shows; of another run its tables and pictures, each with whose they are.
local function add_parts(add, parts, whose)
  for _, part in ipairs(parts) do
    if part.text then
      for _, piece in ipairs(whose and {} or text_parts(part.text)) do add(piece) end
    else
      if whose then add("On " .. whose .. ":") end
      add(item_page.value_of(part))
    end
  end
end

--- The parts of an item for report, from a page in `page_folder`; other as above, with the item of the other run where
--- there is one.
function item_page.parts_of(item, experiments, page_folder, other)
  local parts = {}
  local function add(part) parts[#parts + 1] = part end
  if item.differs and item.differs ~= "" then add(item.differs) end
  add({ code = item.command })
  local link = page_folder and function(row)
    return item_page.claim_link(row.claim ~= "–" and row.claim or nil, experiments, page_folder)
  end
  if #item.verdicts > 0 then add({ open = item_page.verdict_table(item.verdicts, link, other) }) end
  local in_use = item_page.in_use(item)
  if in_use then add(in_use) end
  add_parts(add, item.parts)
  if other and other.item then add_parts(add, other.item.parts, other.name) end
  if item.title == "not run" then return parts end
  local origin = item.origin or {}
  add(string.format("%s, %d threads; causeway %s%s; seed %s; %s; %s of %s and %s of memory.",
    origin.device or origin.processor or "?",
    origin.threads or 0, origin.causeway or "?", origin.commit and ", commit " .. origin.commit:sub(1, 10)
      .. (origin.dirty and " (changed)" or "") or "", origin.seed or "–", item.date, item.mode,
    seconds_text(item.seconds) .. (item.resumed and " since it went on" or ""), item.memory
      and bytes_text(item.memory) or "?"))
  return parts
end

-- JSON has no infinity and no NaN.
local function plain(value)
  if type(value) == "number" and (value ~= value or math.abs(value) == math.huge) then return number_text(value) end
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, entry in pairs(value) do
    if type(entry) == "function" then
      error(string.format("item: %s is a function, expected what JSON can hold", tostring(key)), 0)
    end
    copy[key] = plain(entry)
  end
  return copy
end

--- Writes a result in one step: a reader sees the old file or the new one.
function item_page.write(path, result) save(path, plain(result)) end

return item_page
