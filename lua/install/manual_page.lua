-- The manual page causeway(1) out of what the program says of itself: manual_page.lua PROGRAM FILE
local program, path = ...

local function said(arguments)
  local pipe = assert(io.popen("NO_COLOR=1 '" .. program:gsub("'", "'\\''") .. "' " .. arguments, "r"))
  local text = pipe:read("a")
  assert(pipe:close() and text ~= "", "manual_page: " .. program .. " " .. arguments .. " failed")
  return text
end

-- Text as it stands: a backslash and a dash are not roff's, and no line begins with a request.
local function escaped(text)
  return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("^([.'])", "\\&%1"):gsub("\n([.'])", "\n\\&%1"))
end

-- "  name   what it is" as entries of a list; a line without a name goes on with the entry before it.
local function entries(lines)
  local out = {}
  for _, line in ipairs(lines) do
    local name, text = line:match("^  (%S.-)%s%s+(%S.*)$")
    if name then out[#out + 1] = ".TP\n\\fB" .. escaped(name) .. "\\fR\n" .. escaped(text)
    elseif line:find("%S") then out[#out + 1] = escaped(line:match("^%s*(.*)$")) end
  end
  return table.concat(out, "\n")
end

local function lines_of(text)
  local lines = {}
  for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
  return lines
end

local usage = said("--help")
local synopsis, options, environment = usage:match("^usage: causeway ([^\n]*)\n(.-)\nenvironment: (.*)$")
assert(synopsis, "manual_page: --help has another form than usage, options and environment")
local introduction, topics = said("-e 'help()'"):match("^(.-)\n\n(.*)$")
assert(introduction, "manual_page: the overview of help has another form than words and topics")
local version = said("--version"):match("^causeway (%S+)")

-- "NAME=what it is" and "NAME what it is", parted by commas; a comma inside what it is parts nothing.
local function variables(text)
  local out = {}
  for part in (text:gsub("%s+", " ") .. ", "):gmatch("(.-), ") do
    local name, what = part:match("^%s*([A-Z_]+=?%w*) (.*)$")
    if name then out[#out + 1] = ".TP\n\\fB" .. escaped(name) .. "\\fR\n" .. escaped(what)
    else out[#out] = out[#out] .. ", " .. escaped(part) end
  end
  return table.concat(out, "\n")
end

local page = table.concat({
  '.TH CAUSEWAY 1 "" "causeway ' .. version .. '" "User Commands"',
  ".SH NAME\ncauseway \\- a laboratory for causal attention in linear time",
  ".SH SYNOPSIS\n.B causeway\n" .. escaped(synopsis),
  ".SH DESCRIPTION\nLua 5.4 with tensors, causal attention in linear time and its relatives, measurements, plots " ..
    "and language models; without a file, an interactive shell.",
  entries(lines_of(options)),
  ".SH HELP INSIDE\n" .. escaped((introduction:gsub("%s+", " "):gsub("^ ", ""))),
  entries(lines_of(topics)),
  ".SH ENVIRONMENT\n" .. variables(environment),
  ".SH EXIT STATUS\n.TP\n.B 0\nall went well\n.TP\n.B 1\nan error: a sentence and, of a script, where it was\n" ..
    ".TP\n.B 2\na wrong command line\n.TP\n.B 130\ninterrupted",
  ".SH SEE ALSO\nThe manual as pages is installed in share/doc/causeway/html. " ..
    "The functions of libcauseway are in causeway.h; the Python module is called causeway.",
}, "\n") .. "\n"
local file = assert(io.open(path, "w"))
assert(file:write(page))
assert(file:close())
