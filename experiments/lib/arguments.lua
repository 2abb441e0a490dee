-- The command line of an experiment. arguments(arg, {heads = 8, lengths = {128, 256}, quick = false}, rules) returns
-- the same table with what was given: --heads 4, --lengths 128,1024, --quick. An unknown or malformed option ends the
-- program with one sentence and status 2, as the program's own wrong options do. --help prints the comment at the head
-- of the experiment, `more_help` below it, and ends the program.
-- rules says more about some of them: {heads = {1, 4}, lengths = {1}} whole numbers from 1 to 4, and of at least 1;
-- {seconds = {above = 0}} and {seconds = {from = 0}} any number above 0, and of at least 0; {inputs = {"random",
-- "layer1"}} one of these words; of a list, each of its items.
-- `save` is a folder: its name must not be empty, and slashes at its end are dropped.
local function number(name, text)
  local value = tonumber(text)
  if value and math.abs(value) < math.huge then return value end
  exit(2, string.format("--%s: %q, expected a %snumber", name, text, value and "finite " or ""))
end

local function checked(name, value, rule)
  if not rule then return value end
  local bound = rule.above or rule.from
  if bound then
    if value > bound or rule.from and value == bound then return value end
    exit(2, string.format("--%s: %s, expected a number %s %s", name, value, rule.from and "of at least" or "above",
      bound))
  end
  local least, most = rule[1], rule[2]
  if type(least) == "string" then
    for _, word in ipairs(rule) do
      if word == value then return value end
    end
    exit(2, string.format("--%s: %q, expected %s", name, value, #rule > 1 and table.concat(rule, ", ", 1, #rule - 1)
      .. " or " .. rule[#rule] or rule[1]))
  end
  local whole = math.tointeger(value)
  if not whole or whole < least or most and whole > most then
    exit(2, string.format("--%s: %s, expected a whole number%s", name, value, most and string.format(" from %d to %d",
      least, most) or string.format(" of at least %d", least)))
  end
  return whole
end

local function list(name, text, example, rule)
  local items = {}
  for item in text:gmatch("[^,]+") do
    local value = item
    if type(example) == "number" then
      value = number(name, item)
      value = math.tointeger(value) or value
    end
    items[#items + 1] = checked(name, value, rule)
  end
  if #items == 0 then exit(2, string.format("--%s: %q, expected a list: %s, ...", name, text, example)) end
  return items
end

local function folder(name, text)
  local path = text:match("^(.-)/*$")
  if path == "" then exit(2, string.format("--%s: %q, expected the name of a folder", name, text)) end
  return path
end

local columns_of_help = 80
local wrapped = dofile(debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") .. "/wrapped.lua")

-- A line that begins with two blanks, as an option and what it is; what does not fit goes on below that.
local function print_option(line)
  if utf8.len(line) <= columns_of_help then return print(line) end
  local head = line:match("^%s+%S.-%s%s+")
  if not head or utf8.len(head) > columns_of_help - 20 then head = line:match("^%s+") end
  local indent = utf8.len(head)
  local rest = wrapped(line:sub(#head + 1), columns_of_help - indent)
  print(head .. rest:gsub("\n", "\n" .. (" "):rep(indent)))
end

local function print_help(script)
  local prose = {}
  local function print_prose()
    if #prose > 0 then print(wrapped(table.concat(prose, " "), columns_of_help)) end
    prose = {}
  end
  for line in io.lines(script) do
    local text = line:match("^%-%- ?(.*)$")
    if not text or text == "" or text:sub(1, 2) == "  " then print_prose() end
    if not text then break end
    if text == "" then print() elseif text:sub(1, 2) == "  " then print_option(text) else prose[#prose + 1] = text end
  end
  print_prose()
end

return function(given, defaults, rules, more_help)
  local options, names = {}, { "--help" }
  for name, value in pairs(defaults) do
    options[name] = value
    names[#names + 1] = "--" .. name
  end
  table.sort(names)
  local i = 1
  while given[i] do
    local name = given[i]:match("^%-%-([%w_]+)$")
    local default = defaults[name]
    local rule = rules and rules[name]
    if name == "help" then
      print_help(given[0])
      if more_help then print(more_help) end
      os.exit(0, true)
    end
    if default == nil then
      exit(2, string.format("unknown option %q, expected one of %s", given[i], table.concat(names, " ")))
    end
    if type(default) == "boolean" then
      options[name] = true
    else
      i = i + 1
      local text = given[i]
      if not text or text:match("^%-%-") then exit(2, string.format("--%s: expected a value after it", name)) end
      if type(default) == "number" then
        options[name] = checked(name, number(name, text), rule)
      elseif type(default) == "table" then
        options[name] = list(name, text, default[1], rule)
      elseif name == "save" then
        options[name] = folder(name, text)
      else
        options[name] = checked(name, text, rule)
      end
    end
    i = i + 1
  end
  return options
end
