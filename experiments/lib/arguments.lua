-- The command line of an experiment. arguments(arg, {heads = 8, lengths = {128, 256}, quick = false}) returns the same
-- table with what was given: --heads 4, --lengths 128,1024, --quick. An unknown or malformed option is an error.
local function number(name, text)
  return tonumber(text) or error(string.format("--%s: %q, expected a number", name, text), 0)
end

local function list(name, text, example)
  local items = {}
  for item in text:gmatch("[^,]+") do items[#items + 1] = type(example) == "number" and math.tointeger(number(name, item)) or item end
  return items
end

return function(given, defaults)
  local options = {}
  for name, value in pairs(defaults) do options[name] = value end
  local names = {}
  for name in pairs(defaults) do names[#names + 1] = "--" .. name end
  table.sort(names)
  local i = 1
  while given[i] do
    local name = given[i]:match("^%-%-([%w_]+)$")
    local default = defaults[name]
    if default == nil then error(string.format("unknown option %q, expected one of %s", given[i], table.concat(names, " ")), 0) end
    if default == false or default == true then
      options[name] = true
    else
      i = i + 1
      local text = given[i] or error(string.format("--%s: expected a value after it", name), 0)
      if type(default) == "number" then
        options[name] = number(name, text)
      elseif type(default) == "table" then
        options[name] = list(name, text, default[1])
      else
        options[name] = text
      end
    end
    i = i + 1
  end
  return options
end
