-- What a function is made of, as digests: whether it would still do what it did.
--
-- _digest_of_function(f) -> {["the function"] = digest, ["name"] = digest, ["name.field"] = digest, ...}: its code, and
-- each variable around it, local or global, that the code names. A field of a table that is named with its variable
-- (`options.seconds`) counts alone; of any other variable the whole value does:
--   numbers, strings, booleans    themselves
--   tensors                       type, shape and elements
--   tables                        keys and values, and the metatable; of results of a sweep the rows
--   functions                     their code and the variables around them, as here
--   functions of Lua and of this library, and their tables    their names
--   other userdata, coroutines    their kind alone
-- Where the code stands, what its lines are called and comments do not count. What the code itself assigns to (a cache,
-- a counter) is its state and does not count either: otherwise a function would not be itself after its first call.
--
-- Names and assignments are read from the compiled code, so all this holds at the prompt and in a notebook too.
local causeway = ...

local deepest = 100 -- tables and functions in one another; what lies below does not count

-- ── Compiled code ────────────────────────────────────────────────────────────────────────────────────────────────

-- The header of string.dump in Lua 5.4 (ldump.c): sizes of an instruction, an integer and a number, then two samples.
local header = string.pack("<c4Bbc6BBBjn", "\27Lua", 0x54, 0, "\x19\x93\r\n\x1a\n", 4, 8, 8, 0x5678, 370.5)

-- Instructions with a variable around the function (lopcodes.h).
local get_variable, set_variable, get_field, set_field = 9, 10, 11, 15

-- Types of constants that are followed by 8 bytes, or by a string.
local number_constants, string_constants = { [0x03] = true, [0x13] = true }, { [0x04] = true, [0x14] = true }

-- Seven bits a byte, the highest first; the last byte has its eighth bit set.
local function read_size(dump, at)
  local size = 0
  while true do
    local byte = dump:byte(at)
    at, size = at + 1, size << 7 | byte & 0x7f
    if byte & 0x80 ~= 0 then return size, at end
  end
end

-- nil where the dump has none.
local function read_text(dump, at)
  local size
  size, at = read_size(dump, at)
  if size == 0 then return nil, at end
  return dump:sub(at, at + size - 2), at + size - 1
end

local function read_constants(dump, at)
  local constants, count = {}
  count, at = read_size(dump, at)
  for i = 0, count - 1 do
    local kind = dump:byte(at)
    at = at + 1
    if number_constants[kind] then
      at = at + 8
    elseif string_constants[kind] then
      constants[i], at = read_text(dump, at)
    end
  end
  return constants, at
end

-- What a function does with a variable around it: reads it as a whole or by fields, assigns to it or to fields. Where
-- it reads the table of all globals as a whole, which is never looked at, any text of its code may be the name of one.
local function new_use() return { whole = false, fields = {}, texts = {}, assigned = false, assigned_fields = {} } end

-- Notes in `uses` what the instructions do with the variables around the function, which count from 1 on.
local function note_uses(instructions, constants, uses)
  local function use(i)
    uses[i + 1] = uses[i + 1] or new_use()
    return uses[i + 1]
  end
  for at = 1, #instructions, 4 do
    local word = string.unpack("<I4", instructions, at)
    local operation, a, b, c = word & 0x7f, word >> 7 & 0xff, word >> 16 & 0xff, word >> 24
    if operation == get_variable then
      use(b).whole = true
      for _, text in pairs(constants) do use(b).texts[text] = true end
    elseif operation == set_variable then
      use(b).assigned = true
    elseif operation == get_field then
      use(b).fields[constants[c]] = true
    elseif operation == set_field then
      use(a).assigned_fields[constants[b]] = true
    end
  end
end

-- Joins the uses of an inner function to those of the one around it. links[i] is the place of its variable i there;
-- nil: a local of the outer function.
local function join_uses(uses, inner, links)
  for i, use in pairs(inner) do
    local place = links[i]
    if place then
      local outer = uses[place] or new_use()
      uses[place] = outer
      outer.whole, outer.assigned = outer.whole or use.whole, outer.assigned or use.assigned
      for _, kind in ipairs({ "fields", "texts", "assigned_fields" }) do
        for name in pairs(use[kind]) do outer[kind][name] = true end
      end
    end
  end
end

-- One function of a dump: its code as text without the numbers of its lines, what it uses, where its variables come
-- from, and where it ends. Which place the variables of the outermost one have outside is no matter of its own.
local function read_function(dump, at, is_inner)
  local count, constants
  local parts, uses, links = {}, {}, {}
  at = select(2, read_text(dump, at))     -- the name of the source
  at = select(2, read_size(dump, at))     -- its first line
  at = select(2, read_size(dump, at))     -- its last line
  local from = at
  count, at = read_size(dump, at + 3)     -- after the numbers of parameters and registers
  local instructions = dump:sub(at, at + 4 * count - 1)
  constants, at = read_constants(dump, at + 4 * count)
  parts[1] = dump:sub(from, at - 1)
  note_uses(instructions, constants, uses)
  from = at
  count, at = read_size(dump, at)
  for i = 1, count do
    local in_stack, index = dump:byte(at, at + 1)
    links[i] = in_stack == 0 and index + 1 or nil
    at = at + 3
  end
  parts[2] = is_inner and dump:sub(from, at - 1) or ""
  count, at = read_size(dump, at)
  for _ = 1, count do
    local inner
    inner, at = read_function(dump, at, true)
    parts[#parts + 1] = inner.code
    join_uses(uses, inner.uses, inner.links)
  end
  for _ = 1, 4 do                         -- what is left of the names for debuggers: four times nothing
    count, at = read_size(dump, at)
    assert(count == 0)
  end
  return { code = table.concat(parts), uses = uses, links = links }, at
end

-- The code of f and the uses of its variables. In a Lua with another form of compiled code, all of it, and every
-- variable whole, but no global.
local function compiled(f)
  local dump = string.dump(f, true)
  if dump:sub(1, #header) == header then
    local top = read_function(dump, #header + 2)
    return top.code, top.uses
  end
  local uses = {}
  for i = 1, debug.getinfo(f, "u").nups do
    uses[i] = new_use()
    uses[i].whole = true
  end
  return dump, uses
end

-- ── Values ───────────────────────────────────────────────────────────────────────────────────────────────────────

local function is_of_library(value)
  if type(value) ~= "function" then return type(value) == "table" end
  local info = debug.getinfo(value, "S")
  return info.what == "C" or info.source:find("^=causeway:") ~= nil
end

-- Functions and tables that come with Lua and this library -> their names; of two names the first in the alphabet.
local function library_names()
  local names = { [causeway] = "causeway", [_G] = "_G" }
  local function add(prefix, list)
    for name, value in pairs(list) do
      if type(name) == "string" and is_of_library(value) then
        local known = names[value]
        names[value] = known and known < prefix .. name and known or prefix .. name
      end
    end
  end
  for _, name in ipairs({ "coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8" }) do
    local list = package.loaded[name]
    if type(list) == "table" then
      names[list] = name
      add(name .. ".", list)
    end
  end
  for _, name in ipairs({ "assert", "collectgarbage", "dofile", "error", "getmetatable", "ipairs", "load", "loadfile",
    "next", "pairs", "pcall", "print", "rawequal", "rawget", "rawlen", "rawset", "require", "select", "setmetatable",
    "tonumber", "tostring", "type", "warn", "xpcall" }) do
    local value = _ENV[name]
    if value ~= nil then names[value] = name end
  end
  add("causeway.", causeway)
  return names
end

-- A walk over values. The first one of a function only finds what it assigns to, however deep (`contents` is false);
-- the second leaves that out and makes the digests.
local Walk = {}
Walk.__index = Walk

local plain = { number = true, string = true, boolean = true, ["nil"] = true }

local function is_environment(name, value) return name == "_ENV" or rawequal(value, _G) end

-- Adds the text of a value. `self.parts` are its pieces, `self.seen` the tables and functions met before.
function Walk:add(value, depth)
  local kind = type(value)
  local parts = self.parts
  if plain[kind] then
    if self.contents then parts[#parts + 1] = string.format("%q;", value) end
  elseif self.library[value] then
    parts[#parts + 1] = "library " .. self.library[value] .. ";"
  elseif kind == "table" or kind == "function" then
    if self.seen[value] or depth == deepest then
      parts[#parts + 1] = "seen " .. (self.seen[value] or "deep") .. ";"
      return
    end
    self.count = self.count + 1
    self.seen[value] = self.count
    if kind == "table" then self:add_table(value, depth + 1) else self:add_function(value, depth + 1) end
  elseif kind == "userdata" and self.contents then
    parts[#parts + 1] = (causeway._digest(value) or (debug.getmetatable(value) or {}).__name or kind) .. ";"
  else
    parts[#parts + 1] = kind .. ";"
  end
end

-- Keys of other kinds than numbers, strings and booleans have no order, so only their number counts.
function Walk:add_table(value, depth)
  local texts, key_of, other, length = {}, {}, 0, 0
  while rawget(value, length + 1) ~= nil do length = length + 1 end
  for key in next, value do
    local kind = type(key)
    local in_order = math.type(key) == "integer" and key >= 1 and key <= length
    if plain[kind] and not in_order then
      local text = string.format("%q", key)
      texts[#texts + 1], key_of[text] = text, key
    elseif not in_order then
      other = other + 1
    end
  end
  table.sort(texts)
  local parts = self.parts
  parts[#parts + 1] = "table " .. length .. " " .. other .. "{"
  for i = 1, length do self:add(rawget(value, i), depth) end
  for _, text in ipairs(texts) do
    parts[#parts + 1] = text .. "="
    self:add(rawget(value, key_of[text]), depth)
  end
  parts[#parts + 1] = "}"
  -- What results of a sweep say beside their rows, such as dates, is not what is computed with.
  if not causeway._is_plain(value) and not causeway._is_results(value) then
    self:add(debug.getmetatable(value), depth)
  end
end

function Walk:add_function(f, depth)
  local info = debug.getinfo(f, "S")
  if info.what == "C" or info.source:find("^=causeway:") then
    self.parts[#self.parts + 1] = "library " .. info.source .. ";"
    return
  end
  self.parts[#self.parts + 1] = "function " .. self:each_variable(f, function(name, value)
    self.parts[#self.parts + 1] = name .. "="
    self:add(value, depth)
  end) .. ";"
end

-- Calls visit(name, value) for everything around f that counts; returns the digest of its code. What f assigns to is
-- noted in self.assigned, and skipped where that was known before.
function Walk:each_variable(f, visit)
  local code, uses = compiled(f)
  for i = 1, debug.getinfo(f, "u").nups do
    local use = uses[i]
    local name, value = debug.getupvalue(f, i)
    if name == "" or name == "(no name)" then name = "variable " .. i end
    if use then self:visit_variable(name, value, use, is_environment(name, value) and "_ENV" or debug.upvalueid(f, i),
      visit) end
  end
  return causeway._digest(code)
end

function Walk:visit_variable(name, value, use, id, visit)
  local assigned = self.assigned[id] or { fields = {} }
  self.assigned[id] = assigned
  assigned.whole = assigned.whole or use.assigned
  for field in pairs(use.assigned_fields) do assigned.fields[field] = true end
  if assigned.whole then return end
  local by_field = id == "_ENV" or not use.whole and causeway._is_plain(value)
  if not by_field then return visit(name, value) end
  local fields, named = {}, {}
  for field in pairs(use.fields) do named[field] = true end
  for text in pairs(use.texts) do named[text] = type(value) == "table" and rawget(value, text) ~= nil or named[text] end
  for field in pairs(named) do
    if not assigned.fields[field] then fields[#fields + 1] = field end
  end
  table.sort(fields)
  for _, field in ipairs(fields) do
    local found
    if type(value) == "table" then found = rawget(value, field) end
    if id ~= "_ENV" then
      visit(name .. "." .. field, found)
    else
      -- A global under its own name of the library says no more than the code does.
      local known = found ~= nil and self.library[found]
      local its_own = known == field or known == "causeway." .. field or found == nil and causeway[field] ~= nil
      if not its_own then visit(field, found) end
    end
  end
end

local function new_walk(assigned, contents)
  return setmetatable({ parts = {}, seen = {}, count = 0, library = library_names(), assigned = assigned,
    contents = contents }, Walk)
end

--- {name = digest} of a function: see the top of this file.
function causeway._digest_of_function(f)
  local assigned = {}
  new_walk(assigned, false):add(f, 0)
  local walk, digests = new_walk(assigned, true), {}
  if is_of_library(f) then return { ["the function"] = causeway._digest(walk.library[f] or "library") } end
  digests["the function"] = walk:each_variable(f, function(name, value)
    walk.parts, walk.seen, walk.count = {}, { [f] = 1 }, 1
    walk:add(value, 0)
    digests[name] = causeway._digest(table.concat(walk.parts))
  end)
  return digests
end
