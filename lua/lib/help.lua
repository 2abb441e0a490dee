-- help, apropos and the overview: pages made of the entries of causeway.manual.
local causeway = ...
local manual = causeway.manual

local function names(entries)
  local list = {}
  for name in pairs(entries) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- Text broken at blanks to lines of at most `room` characters.
local function wrapped(text, room, indent)
  return indent .. table.concat(causeway._lines((text:gsub("%s+", " ")), room), "\n" .. indent)
end

-- A line that is laid out: where it is too long, it goes on below the text that follows its first word.
local function hanging(line, room)
  if causeway._text_width(line) <= room then return line end
  local start = line:match("^%s+%S+%s%s+") or line:match("^%s*")
  local indent = (" "):rep(math.min(causeway._text_width(start), room // 2))
  local lines = causeway._lines(line:sub(#start + 1), room - #indent)
  return start .. table.concat(lines, "\n" .. indent)
end

-- A paragraph is wrapped; a line that begins with a blank is one of its own, with what is indented below it.
local function body(text, room, indent)
  local out, paragraph, item = {}, {}, nil
  local function flush()
    if #paragraph > 0 then out[#out + 1] = wrapped(table.concat(paragraph, " "), room, indent) end
    if item then out[#out + 1] = indent .. hanging(item, room):gsub("\n", "\n" .. indent) end
    paragraph, item = {}, nil
  end
  for line in (text .. "\n"):gmatch("(.-)\n") do
    if item and line:find("^     ") then
      item = item .. " " .. line:match("^%s*(.*)")
    elseif line:find("^%s") or line == "" then
      flush()
      if line == "" then out[#out + 1] = "" else item = line end
    else
      if item then flush() end
      paragraph[#paragraph + 1] = line
    end
  end
  flush()
  while out[#out] == "" do out[#out] = nil end
  return table.concat(out, "\n")
end

local function bold(text)
  return causeway._colour() and "\27[1m" .. text .. "\27[0m" or text
end

local function room()
  return math.min(causeway.terminal_size(), 100) - 4
end

-- The options of a described call (lua/lib/calls.lua), a line each, wrapped behind their names.
local function described_options(list)
  local widest, lines = 0, {}
  for _, option in ipairs(list) do widest = math.max(widest, #option.name) end
  local indent = (" "):rep(widest + 6)
  for i, option in ipairs(list) do
    local text = wrapped(causeway._option_line(option), room() - widest - 4, indent)
    lines[i] = "    " .. option.name .. (" "):rep(widest + 2 - #option.name) .. text:sub(#indent + 1)
  end
  return table.concat(lines, "\n")
end

-- The options of a function and what they may be: as they are described, else from the table that completion reads; nil
-- where it has none or its text describes them.
local function options(name)
  local described = causeway._call_options(name)
  if described then return described_options(described) end
  local known = causeway._options[name]
  if not known then return nil end
  for option in pairs(known) do  -- told already
    if type(option) == "string" and manual[name].text:find("%f[%w_]" .. option .. "%f[^%w_]") then return nil end
  end
  local lines = {}
  for _, option in ipairs(names(known)) do
    if type(option) == "string" then
      local choices = known[option]
      local list = type(choices) == "table" and ': "' .. table.concat(choices, '", "') .. '"' or ""
      lines[#lines + 1] = wrapped(option .. list, room() - 4, "      "):sub(3)
    end
  end
  return #lines > 0 and table.concat(lines, "\n") or nil
end

--- The words that an option takes, as a new list.
function causeway.choices(name, option)
  local entry = causeway._options[name]
  if not entry then causeway._raise(string.format('choices: "%s" is no function with options', tostring(name))) end
  local words = entry[option]
  if type(words) ~= "table" then
    causeway._raise(string.format('choices: the option "%s" of %s has no list of words', tostring(option), name))
  end
  return table.move(words, 1, #words, 1, {})
end

-- The ways to call it, which two blanks separate, each in lines that go on deeper; `name = value` stays together.
local function call_text(call)
  local out = {}
  for way in (call .. "  "):gmatch("(.-)  +") do
    local words = way:gsub(" ?= ?", function(sign) return (sign:gsub(" ", "\1")) end)
    for i, line in ipairs(causeway._lines(words, room() - 4)) do
      out[#out + 1] = (i == 1 and "  " or "      ") .. bold((line:gsub("\1", " ")))
    end
  end
  return table.concat(out, "\n")
end

local function page(name, entry)
  local parts = { call_text(entry.call), "", body(entry.text, room(), "  ") }
  local list = options(name)
  if list then
    parts[#parts + 1] = "\n  options"
    parts[#parts + 1] = list
  end
  if entry.notes then parts[#parts + 1] = "\n" .. body(entry.notes, room(), "  ") end
  if entry.example then
    parts[#parts + 1] = "\n  example"
    parts[#parts + 1] = "    " .. entry.example:gsub("\n", "\n    ")
  end
  return table.concat(parts, "\n")
end

local function overview()
  local topics = {}
  for name, entry in pairs(manual) do
    topics[entry.topic] = topics[entry.topic] or {}
    topics[entry.topic][name] = true
  end
  local parts = {
    wrapped("?name shows help with an example, ??word searches the help, Tab completes. The value of an expression is "
      .. "shown; a `;` at the end hides it; `ans` is the last one. ;cmd runs a shell command. @time EXPR, @btime EXPR "
      .. "and @show EXPR measure and show.", room(), "  "),
    "",
  }
  for _, topic in ipairs(names(topics)) do
    parts[#parts + 1] = "  " .. bold(topic)
    parts[#parts + 1] = wrapped(table.concat(names(topics[topic]), "  "), room() - 2, "    ")
  end
  return table.concat(parts, "\n")
end

-- Lua's own functions have their manual elsewhere.
local function of_lua(name)
  local value = _G
  for part in name:gmatch("[^.]+") do
    value = type(value) == "table" and rawget(value, part) or nil
  end
  if value == nil then return nil end
  local info = type(value) == "function" and debug.getinfo(value, "S")
  if info and info.what == "C" then
    return "  " .. bold(name) .. "\n\n" .. body("A function of Lua: https://www.lua.org/manual/5.4/manual.html#pdf-"
      .. name, room(), "  ")
  end
  if type(value) == "table" and package.loaded[name] == value and name ~= "_G" then
    return "  " .. bold(name) .. "\n\n" .. body("A library of Lua with " .. table.concat(names(value), ", "), room(),
      "  ")
  end
  return "  " .. bold(name) .. "\n\n  A variable of yours: " .. causeway._literal(value):gsub("\n", "\n  ")
end

-- All that the page of a name says.
local function searched(name)
  local entry = manual[name]
  local parts = { entry.call, entry.text, entry.notes }
  for _, option in ipairs(causeway._call_options(name) or {}) do
    parts[#parts + 1] = option.name .. " " .. option.text
  end
  return table.concat(parts, " ")
end

-- Names of the manual that contain the word, then those whose text does.
local function found(word)
  local by_name, by_text = {}, {}
  word = word:lower()
  for _, name in ipairs(names(manual)) do
    if name:lower():find(word, 1, true) then
      by_name[#by_name + 1] = name
    elseif searched(name):lower():find(word, 1, true) then
      by_text[#by_text + 1] = name
    end
  end
  return table.move(by_text, 1, #by_text, #by_name + 1, by_name)
end

local function first_sentence(text)
  local one_line = text:gsub("%s+", " ")
  return one_line:match("^(.-[.:;])%s") or one_line
end

-- The line for each name: the name, and what it is.
local function listing(list)
  local widest = 0
  for _, name in ipairs(list) do widest = math.max(widest, utf8.len(name)) end
  local lines = {}
  for i, name in ipairs(list) do
    local text = first_sentence(manual[name].text)
    local space = room() - widest - 2
    if utf8.len(text) > space then text = text:sub(1, utf8.offset(text, math.max(space, 2)) - 1) .. "…" end
    lines[i] = "  " .. name .. (" "):rep(widest - utf8.len(name) + 2) .. text
  end
  return table.concat(lines, "\n")
end

-- What the literature calls what has another name here.
local known_as = { ring_attention = "ring_decode", tree_attention = "tree_decode",
  flash_attention = "softmax_attention" }

local function unknown(name)
  local near = known_as[name:lower():gsub("[%s%-]", "_")] or causeway._closest(name, names(manual))
  local text = string.format('no help for "%s"%s', name, near ~= "" and string.format(' (did you mean "%s"?)', near)
    or "")
  local list = found(name)
  text = body(text .. (#list > 0 and "; it is mentioned in" or ""), room(), "")
  return #list > 0 and text .. "\n" .. listing(list) or text
end

--- What `?name` shows. Names may be quoted: ?"lightning-attention-2".
function causeway._help(name)
  name = name and name:gsub('^[\'"](.*)[\'"]$', "%1"):gsub("[%s;]+$", ""):gsub("%(.*%)$", "") or ""
  name = name:gsub("^causeway%.", ""):gsub("^.*:", "")
  local text
  if name == "" then text = overview()
  elseif rawget(manual, name) then text = page(name, manual[name])
  else text = of_lua(name) or unknown(name) end
  causeway._present { text = text .. "\n" }
end

-- The name under which the library or the user's globals know a function.
local function name_of(value)
  for _, place in ipairs { causeway, _G } do
    for name, other in next, place do
      if other == value and type(name) == "string" then return name end
    end
  end
end

function causeway.help(what)
  if what ~= nil and type(what) ~= "string" then
    what = name_of(what) or error("help: expected a name or a function of causeway, got a " .. type(what), 2)
  end
  causeway._help(what)
end

function causeway.apropos(word)
  if type(word) ~= "string" or word == "" then error("apropos: expected a word to search for", 2) end
  local list = found(word)
  causeway._present { text = #list > 0 and listing(list) or string.format('nothing in the help mentions "%s"', word) }
end
