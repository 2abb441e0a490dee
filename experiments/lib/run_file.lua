-- What reproduce.lua and the scripts of items leave, read back: a file may be cut, of another program or made by hand.
--
--   run_file.read(path)            what a JSON file holds; nil where there is none or it is damaged
--   run_file.wrong_item(item)      nil, or what is wrong with it as the item.json of a script
--   run_file.wrong_run(run)        nil, or what is wrong with it as an items.json
--   run_file.wrong_verdicts(list)  nil, or what is wrong with it as a verdicts.json
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local run_file = {}

function run_file.read(path)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read("a")
  file:close()
  if not text then return nil end -- a folder
  local good, value = pcall(json_decode, text)
  return good and value or nil
end

local words = dofile(folder .. "/verdicts.lua").count({}) -- its keys
local documents = {}
for _, item in ipairs(dofile(folder .. "/items.lua")) do documents[item.document] = true end

-- Whether it is an array: no other keys than 1 ... n.
local function is_list(value)
  if type(value) ~= "table" then return false end
  local n = 0
  for _ in pairs(value) do n = n + 1 end
  return n == #value
end

local function wrong_part(part)
  if type(part) ~= "table" then return "no table" end
  if part.text ~= nil then return type(part.text) ~= "string" and "a text that is none" or nil end
  if part.curves ~= nil then
    if not is_list(part.curves) or type(part.axes) ~= "table" then return "curves that are none" end
    for _, curve in ipairs(part.curves) do
      if type(curve) ~= "table" or not is_list(curve.x) or not is_list(curve.y) then return "a curve without points" end
    end
    return nil
  end
  if not is_list(part.rows) or type(part.options) ~= "table" then return "neither a text, curves nor a table" end
  for _, row in ipairs(part.rows) do
    if type(row) ~= "table" then return "a row that is none" end
  end
  return nil
end

local function wrong_verdict(v)
  if type(v) ~= "table" or type(v.what) ~= "string" then return "a verdict without \"what\"" end
  if not words[v.verdict] then return string.format("a verdict that is none, of %q", v.what) end
  if v.kind ~= "time" and v.kind ~= "count" then return string.format("no kind of the verdict of %q", v.what) end
  if v.statistic ~= nil and type(v.statistic) ~= "string" then
    return string.format("no statistic of the verdict of %q", v.what)
  end
  return nil
end

local fields = { document = "string", name = "string", title = "string", command = "string", date = "string",
  mode = "string", seconds = "number", origin = "table" }

function run_file.wrong_item(item)
  if type(item) ~= "table" then return "no table" end
  for name, kind in pairs(fields) do
    if type(item[name]) ~= kind then return "no " .. name end
  end
  if not documents[item.document] then return string.format("the document %q", item.document) end
  for _, name in ipairs({ "memory", "processor_seconds", "others" }) do
    if item[name] ~= nil and type(item[name]) ~= "number" then return "no " .. name end
  end
  for _, name in ipairs({ "processor", "device", "commit", "date", "causeway" }) do
    local value = item.origin[name]
    if value ~= nil and type(value) ~= "string" then return "no " .. name .. " of its origin" end
  end
  if item.origin.threads ~= nil and type(item.origin.threads) ~= "number" then return "no threads of its origin" end
  for _, name in ipairs({ "claims", "parts", "verdicts" }) do
    if not is_list(item[name]) then return "no " .. name end
  end
  for _, claim in ipairs(item.claims) do
    if type(claim) ~= "string" then return "a claim that is none" end
  end
  for _, v in ipairs(item.verdicts) do
    local wrong = wrong_verdict(v)
    if wrong then return wrong end
  end
  for _, part in ipairs(item.parts) do
    local wrong = wrong_part(part)
    if wrong then return wrong end
  end
  return nil
end

function run_file.wrong_run(run)
  if type(run) ~= "table" or not is_list(run.items) or #run.items == 0 then return "no items" end
  if run.mode ~= "quick" and run.mode ~= "standard" and run.mode ~= "full" then return "no mode" end
  if run.device ~= "cpu" and run.device ~= "gpu" then return "no device" end
  for i, item in ipairs(run.items) do
    local wrong = run_file.wrong_item(item)
    if wrong then return string.format("%s in item %d", wrong, i) end
  end
  return nil
end

function run_file.wrong_verdicts(list)
  if not is_list(list) or #list == 0 then return "no verdicts" end
  for _, v in ipairs(list) do
    if type(v) ~= "table" or type(v.id) ~= "string" or not words[v.verdict] then return "a verdict that is none" end
    if v.origin ~= nil and type(v.origin) ~= "table" then return "an origin that is none" end
  end
  return nil
end

return run_file
