-- What results say of a field that they have not: a misspelt name is an error with the names there are, not a nil that
-- is found out later. The library itself, and functions of C, find nil there.
local causeway = ...

--- Whether the function `level` calls up is one of the user's.
function causeway._asked_by_user(level)
  local asking = debug.getinfo(level + 1, "S")
  return asking and asking.what ~= "C" and not asking.source:find("^=causeway:")
end

-- The words of a name in the order of the alphabet: relative_masked and masked_relative have the same.
local function words_of(name)
  local words = {}
  for word in name:lower():gmatch("[^_]+") do words[#words + 1] = word end
  table.sort(words)
  return table.concat(words, "_")
end

-- The one of the sorted names that is meant, in parentheses; "" where none is near.
local function meant(key, names)
  local known, near = {}, nil
  for _, name in ipairs(names) do
    known[name] = true
    local begins = #key > 2 and name:find(key, 1, true) == 1
    local is_part = #name > 3 and ("_" .. key .. "_"):find("_" .. name .. "_", 1, true)  -- latex of to_latex
    if name:lower() == key:lower() or (begins or is_part) and not near then near = name end
  end
  local words = words_of(key)
  for _, name in ipairs(names) do
    if words_of(name) == words then near = name end
  end
  near = near or causeway._closest(key, names)
  if near ~= "" then return string.format(' (did you mean "%s"?)', near) end
  local alias = causeway._known_here(key, known)
  if alias and not alias:find("^see %?") then return " (" .. alias .. ")" end
  local of_tensors = causeway._metatable("Tensor").__methods[key]
  local page = not of_tensors and type(causeway[key]) == "function" and causeway.manual[key]
  return page and string.format(" (it is a function here: %s)", (page.call .. "  "):match("^(.-)  ")) or ""
end

--- The known name, of {name = true}, that is meant by another, in parentheses; else all of them.
function causeway._meant_field(name, known)
  local names = {}
  for one in pairs(known) do names[#names + 1] = one end
  table.sort(names)
  local alias = causeway._known_here(name, known)
  if alias then return " (" .. alias .. ")" end
  local near = causeway._closest(name, names)
  if near ~= "" then return string.format(' (did you mean "%s"?)', near) end
  return ", expected one of " .. table.concat(names, ", ")
end

--- The error about `key` of a value that has none, in messages `what`. elsewhere: name -> what is done here in its
--- place.
function causeway._raise_absent(what, key, fields, methods, elsewhere)
  local text = string.format('%s has no "%s"', what, key)
  if elsewhere and elsewhere[key] then causeway._raise(text .. ": " .. elsewhere[key]) end
  local names = table.move(methods, 1, #methods, #fields + 1, table.move(fields, 1, #fields, 1, {}))
  table.sort(names)
  text = text .. meant(key, names) .. ": it has " .. causeway._listed(fields)
  if #methods > 0 then
    text = text .. (#fields > 0 and ", and " or "") .. "the methods " .. causeway._listed(methods)
  end
  causeway._raise(text)
end

-- What tables of other libraries have, of a value that is the list of its rows.
local of_lists = {}
for _, name in ipairs({ "rows", "data", "values", "items", "entries", "results", "records" }) do
  of_lists[name] = "the value is the list of its rows, x[1], x[2] ..., #x of them"
end

-- Classes of results -> {what = "a benchmark", called = what their page calls one}, for what is said of their methods.
local classes = {}

--- Notes the class of such results.
function causeway._note_class(class, what, called) classes[class] = { what = what, called = called or "x" } end

--- Of a method of a class of results, what the class is and the name of the method; nil of any other function.
function causeway._class_of_method(f)
  for class, about in pairs(classes) do
    for name, method in pairs(class) do
      if method == f and not name:find("^__") then return about, name end
    end
  end
end

--- Lets values whose metatable is `class` speak of fields that they have not. In `about` are: what, "a benchmark";
--- fields, their names, those that only some values have among them; list, true of a list of rows; elsewhere, as for
--- _raise_absent.
function causeway._only_fields(class, about)
  causeway._note_class(class, about.what)
  local fields, known, elsewhere = {}, {}, {}
  for name in about.fields:gmatch("%S+") do fields[#fields + 1], known[name] = name, true end
  for name, text in pairs(about.list and of_lists or {}) do elsewhere[name] = text end
  for name, text in pairs(about.elsewhere or {}) do elsewhere[name] = text end
  class.__index = class.__index or class
  setmetatable(class, { __index = function(_, key)
    if type(key) ~= "string" or known[key] or key:find("^__") or not causeway._asked_by_user(2) then return nil end
    local methods = {}
    for name, value in pairs(class) do
      if type(value) == "function" and not name:find("^__") then methods[#methods + 1] = name end
    end
    table.sort(methods)
    causeway._raise_absent(about.what, key, fields, methods, elsewhere)
  end })
end

local kinds = {} -- by what the tables are and may have

-- The metatable of the tables of a kind.
local function new_kind(what, also)
  local known = {}
  for name in also:gmatch("%S+") do known[name] = true end
  return causeway._shown_plainly({ __index = function(t, key)
    if type(key) ~= "string" or known[key] or key:find("^__") or not causeway._asked_by_user(2) then return nil end
    local fields = {}
    for name in next, t do
      if type(name) == "string" then fields[#fields + 1] = name end
    end
    table.sort(fields)
    causeway._raise_absent(what, key, fields, {})
  end })
end

--- Lets a plain table of results, in messages `what`, speak of fields that it has not, but for those in `also`, which
--- only some have; print shows it as the prompt does. Returns the table.
function causeway._result(t, what, also)
  also = also or ""
  local kind = what .. "\n" .. also
  kinds[kind] = kinds[kind] or new_kind(what, also)
  return setmetatable(t, kinds[kind])
end
