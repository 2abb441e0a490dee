-- A value as the shell shows it: numbers so that they read back (NaN, Inf and -Inf as in a tensor), strings quoted,
-- tables laid out to be read.
local causeway = ...

local most_depth = 4    -- tables nested deeper are elided
local most_elements = 12 -- of a tensor in a table whose elements are shown
local most_items = 40   -- entries of a table that are shown
local ends = 3          -- last entries of a longer list that are shown

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true "
  .. "until while"):gmatch("%a+") do
  keywords[word] = true
end

local function is_name(key)
  return type(key) == "string" and key:find("^[%a_][%w_]*$") and not keywords[key]
end

local function width(text) return causeway._text_width(text) end

local escapes = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\", ['"'] = '\\"' }

local function quoted(text)
  local escaped = text:gsub('[%c\\"]', function(c) return escapes[c] or string.format("\\x%02x", c:byte()) end)
  if not utf8.len(escaped) then
    escaped = escaped:gsub("[\x80-\xff]", function(c) return string.format("\\x%02x", c:byte()) end)
  end
  return '"' .. escaped .. '"'
end

-- The parameters of a function written in Lua from number `first` on, "a, b, ...".
local function parameters(f, first)
  local info, names = debug.getinfo(f, "u"), {}
  for i = first, info.nparams do names[#names + 1] = debug.getlocal(f, i) end
  if info.isvararg then names[#names + 1] = "..." end
  return table.concat(names, ", ")
end

-- Where a function comes from: `function f(a, b) at tour.lua:3`, `function maximum, see ?maximum`.
local function function_text(f)
  local info = debug.getinfo(f, "S")
  if info.what == "C" or info.source:find("^=causeway:") then
    for name, value in pairs(causeway) do
      if value == f and name:sub(1, 1) ~= "_" then return "function " .. name .. ", see ?" .. name end
    end
    for name, method in pairs(causeway._metatable("Tensor").__methods) do
      if method == f then return string.format("a method of tensors, called as A:%s()", name) end
    end
    for name, method in pairs(causeway._metatable("Model").__methods or {}) do
      if method == f then return string.format("a method of models, called as m:%s(), see ?m:%s", name, name) end
    end
    local class, name = causeway._class_of_method(f)
    if class then
      return string.format("a method of %s, called as %s:%s(%s)", class.what, class.called, name, parameters(f, 2))
    end
    return "built-in function"
  end
  return string.format("function (%s) at %s:%d", parameters(f, 1), info.short_src, info.linedefined)
end

-- Numbers before strings before all other keys, each in order.
local rank = { number = 1, string = 2 }
local function before(a, b)
  local x, y = rank[type(a)] or 3, rank[type(b)] or 3
  if x ~= y then return x < y end
  if x == 3 then return tostring(a) < tostring(b) end
  return a < b
end

local show

-- Types of Lua's own that have a metatable for all their values.
local of_lua = { string = true, number = true }

-- The metatables of plain tables that print shows as the prompt does.
local shown_plainly = {}

--- Lets print show tables of this metatable as the prompt does. Returns the metatable.
function causeway._shown_plainly(meta)
  meta.__tostring = function(t) return show(t, 0, {}) end
  shown_plainly[meta] = true
  return meta
end

local printable = causeway._shown_plainly({})

--- Lets print show this table of results as the prompt does. Returns the table.
function causeway._printable(t) return setmetatable(t, printable) end

--- Whether a table is one like the user's own: without a metatable but those of _shown_plainly.
function causeway._is_plain(t)
  local meta = debug.getmetatable(t)
  return type(t) == "table" and (meta == nil or shown_plainly[meta] == true)
end

-- The elements of a small vector or matrix on the CPU, rows parted by semicolons: "[1, 2; 3, 4]"; nil of any other.
local function small_tensor_text(A)
  local dims, n = causeway.ndims(A), causeway.length(A)
  if n == 0 or n > most_elements or dims > 2 or A:device() ~= "cpu" then return nil end
  local rows = dims == 1 and { A:totable() } or A:totable()
  for i, row in ipairs(rows) do
    for j, x in ipairs(row) do row[j] = causeway.isfinite(x) and string.format("%.4g", x) or tostring(x) end
    rows[i] = table.concat(row, ", ")
  end
  return "[" .. table.concat(rows, "; ") .. "]"
end

-- A value inside a table, on one line: something that speaks for itself gives the first line of what it says.
local function show_inner(value, depth, seen, taken)
  local meta = not causeway._is_plain(value) and debug.getmetatable(value)
  if type(meta) == "table" and rawget(meta, "__tostring") and not of_lua[type(value)] then
    local text = tostring(value)
    local first = text:match("^[^\n]*")
    if first == text then return text end
    first = first:gsub(":$", "")
    local elements = rawget(meta, "__name") == "Tensor" and small_tensor_text(value)
    local with_elements = elements and first .. " " .. elements
    local room = causeway.terminal_size() - 2 * depth - (taken or 0) - 1  -- a comma follows
    return with_elements and width(with_elements) <= room and with_elements or first
  end
  return show(value, depth, seen, taken)
end

-- The entries of a table as texts, in order; long lists keep their ends.
local function entries(t, depth, seen)
  local items = {}
  local n = rawlen(t)
  local function hide(from, to) return n > most_items and from > most_items - ends and from <= to end
  local i = 1
  while i <= n do
    if hide(i, n - ends) then
      items[#items + 1] = string.format("… %d more …", n - ends - i + 1)
      i = n - ends + 1
    end
    items[#items + 1] = show_inner(rawget(t, i), depth, seen)
    i = i + 1
  end
  local keys = {}
  for key in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= n) then keys[#keys + 1] = key end
  end
  table.sort(keys, before)
  for k, key in ipairs(keys) do
    if k > most_items then
      items[#items + 1] = string.format("… %d more", #keys - most_items)
      break
    end
    local name = is_name(key) and key or "[" .. show_inner(key, most_depth, seen) .. "]"
    items[#items + 1] = name .. " = " .. show_inner(rawget(t, key), depth, seen, width(name) + 3)
  end
  return items
end

-- `taken`: columns of its first line that its name takes.
local function show_table(t, depth, seen, taken)
  if next(t) == nil then return "{}" end
  if seen[t] then return "{…: itself}" end
  if depth >= most_depth then return "{…}" end
  seen[t] = true
  local items = entries(t, depth + 1, seen)
  seen[t] = nil
  local line = "{" .. table.concat(items, ", ") .. "}"
  local room = causeway.terminal_size() - 2 * depth - 2 - taken
  if width(line) <= room and not line:find("\n") then return line end
  local indent = ("  "):rep(depth + 1)
  local lines, current = {}, nil
  for _, item in ipairs(items) do  -- short entries share a line
    local short = width(item) <= 16 and not item:find("\n")
    if current and short and width(current) + width(item) + 2 <= room then
      current = current .. " " .. item .. ","
    else
      if current then lines[#lines + 1] = current end
      current = item .. ","
      if not short then lines[#lines + 1], current = current, nil end
    end
  end
  lines[#lines + 1] = current
  return "{\n" .. indent .. table.concat(lines, "\n" .. indent) .. "\n" .. ("  "):rep(depth) .. "}"
end

function show(value, depth, seen, taken)
  local kind = type(value)
  if kind == "string" then return quoted(value) end
  if math.type(value) == "float" then
    local text = causeway._exact_text(value)
    return text:find("^-?%d+$") and text .. ".0" or text
  end
  if kind == "function" then return function_text(value) end
  if kind == "table" then return show_table(value, depth, seen, taken or 0) end
  return tostring(value)
end

-- The last texts that were made to be copied, oldest first.
local made, most_made = {}, 4

--- Lets the prompt show this text, a table for a page or a paper, as it is, not as a string of Lua. Returns the text.
function causeway._made(text)
  made[#made + 1] = text
  if #made > most_made then table.remove(made, 1) end
  return text
end

local function is_made(value)
  for _, text in ipairs(made) do
    if text == value then return true end
  end
  return false
end

--- Any value as text; of several lines where it needs them. Used where the value has no __rich.
function causeway._literal(value)
  if type(value) == "string" and is_made(value) then return value end
  local meta = debug.getmetatable(value)
  if type(meta) == "table" and rawget(meta, "__tostring") and not of_lua[type(value)] then return tostring(value) end
  return show(value, 0, {})
end
