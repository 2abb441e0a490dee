-- Lines that the user types: at the terminal, or in the front end of a notebook.
local causeway = ...
local raise = causeway._raise

--- See ?input.
function causeway.input(prompt)
  if prompt ~= nil and type(prompt) ~= "string" then
    raise("input: prompt: expected a string, got a " .. type(prompt))
  end
  if causeway._front_end then return causeway._front_end.ask(prompt or "") end
  if prompt then
    io.stdout:write(prompt)
    io.stdout:flush()
  end
  return io.stdin:read("l")
end

-- What is left of the last line.
local rest = ""

-- A piece of the line that is begun, or of a new one, in the form that io.read names.
local function read(format)
  local line = rest ~= "" and rest or causeway._front_end.ask("") .. "\n"
  rest = ""
  if math.type(format) == "integer" then
    rest = line:sub(format + 1)
    return line:sub(1, format)
  end
  local kind = type(format) == "string" and format:match("^%*?([lLna])")
  if kind == "l" then return (line:gsub("\n$", "")) end
  if kind == "L" or kind == "a" then return line end
  if kind == "n" then
    local word
    word, rest = line:match("^%s*(%S*)(.*)$")
    return tonumber(word)
  end
  raise("io.read: " .. causeway._literal(format) .. ', expected "l", "L", "n", "a" or a number of characters')
end

--- In a notebook io.read asks the user, for standard input has nothing.
function causeway._read_from_front_end()
  function _G.io.read(...)
    if select("#", ...) == 0 then return read("l") end
    local values = {}
    for i, format in ipairs({ ... }) do values[i] = read(format) end
    return table.unpack(values, 1, select("#", ...))
  end
end
