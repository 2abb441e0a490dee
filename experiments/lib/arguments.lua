-- The command line of an experiment. arguments(arg, {heads = 8, lengths = {128, 256}, quick = false}, rules) returns the same
-- table with what was given: --heads 4, --lengths 128,1024, --quick. An unknown or malformed option is an error of one sentence.
-- rules says more about some of them: {heads = {1, 4}, lengths = {1}} whole numbers from 1 to 4, and of at least 1;
-- {inputs = {"random", "layer1"}} one of these words; of a list, each of its items.
local function number(name, text)
  local value = tonumber(text)
  return value and math.abs(value) < math.huge and value or error(string.format("--%s: %q, expected a number", name, text), 0)
end

local function checked(name, value, rule)
  if not rule then return value end
  local least, most = rule[1], rule[2]
  if type(least) == "string" then
    for _, word in ipairs(rule) do
      if word == value then return value end
    end
    error(string.format("--%s: %q, expected %s", name, value, #rule > 1 and table.concat(rule, ", ", 1, #rule - 1) .. " or " .. rule[#rule] or rule[1]), 0)
  end
  local whole = math.tointeger(value)
  if not whole or whole < least or most and whole > most then
    error(string.format("--%s: %s, expected a whole number%s", name, value, most and string.format(" from %d to %d", least, most) or string.format(" of at least %d", least)), 0)
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
  if #items == 0 then error(string.format("--%s: %q, expected a list: %s, ...", name, text, example), 0) end
  return items
end

return function(given, defaults, rules)
  local options = {}
  for name, value in pairs(defaults) do options[name] = value end
  local names = {}
  for name in pairs(defaults) do names[#names + 1] = "--" .. name end
  table.sort(names)
  local i = 1
  while given[i] do
    local name = given[i]:match("^%-%-([%w_]+)$")
    local default = defaults[name]
    local rule = rules and rules[name]
    if default == nil then error(string.format("unknown option %q, expected one of %s", given[i], table.concat(names, " ")), 0) end
    if default == false or default == true then
      options[name] = true
    else
      i = i + 1
      local text = given[i] or error(string.format("--%s: expected a value after it", name), 0)
      if type(default) == "number" then
        options[name] = checked(name, number(name, text), rule)
      elseif type(default) == "table" then
        options[name] = list(name, text, default[1], rule)
      else
        options[name] = checked(name, text, rule)
      end
    end
    i = i + 1
  end
  return options
end
