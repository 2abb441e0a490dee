-- What core/calls says of the public calls: what Tab completes in them, and the table of options that ?help shows.
local causeway = ...

local calls, described = causeway._described_calls(), {}
for _, call in ipairs(calls) do
  described[call.name] = call.options
  local known = {}
  for _, option in ipairs(call.options) do known[option.name] = option.choices or true end
  causeway._options[call.name] = known
end

--- The options of a call in the order of their description, each {name, type, text, default, choices, cpu, gpu, ...};
--- nil where the call is not described.
function causeway._call_options(name)
  return described[name]
end

--- One of them by its name.
function causeway._call_option(name, option)
  for _, one in ipairs(described[name]) do
    if one.name == option then return one end
  end
end

--- The described calls, each {name, arguments, inputs, options}.
function causeway._calls() return calls end

local function quoted(word) return '"' .. word .. '"' end

-- The list of choices: "flash" (default) or "standard" (CPU alone)
local function choices(option)
  local list = {}
  for i, choice in ipairs(option.choices) do
    local notes = {}
    if quoted(choice) == option.default then notes[1] = "default" end
    if choice == option.cpu_choice then notes[#notes + 1] = "CPU alone" end
    list[i] = quoted(choice) .. (#notes > 0 and " (" .. table.concat(notes, ", ") .. ")" or "")
  end
  if #list == 1 then return list[1] end
  return table.concat(list, ", ", 1, #list - 1) .. " or " .. list[#list]
end

local devices = { cpu = "the CPU", gpu = "a GPU" }
local effects = { none = "without effect on ", refused = "not on " }

--- One line for ?help: what the option means, what it may be, its default, and where it does nothing.
function causeway._option_line(option)
  local parts = { option.text }
  local listed = option.choices and not option.listed_by
  if option.listed_by then parts[#parts + 1] = "a name from " .. option.listed_by end
  if listed then parts[#parts + 1] = choices(option) end
  local default = option.default == "to be given" and option.default or "default " .. option.default
  if option.type == "true or false" then parts[#parts + 1] = default
  elseif not option.choices then parts[#parts + 1] = option.type .. ", " .. default
  elseif not listed or not option.default:find('^"') then parts[#parts] = parts[#parts] .. ", " .. default end
  for _, device in ipairs({ "cpu", "gpu" }) do
    local effect = effects[option[device]]
    if effect then parts[#parts + 1] = effect .. devices[device] end
  end
  return table.concat(parts, "; ")
end
