-- All pages of help as data, for the manual on the web: help.lua FILE
local path = ...

local function aliases_of()
  local found = {}
  for name, entry in pairs(causeway._elsewhere) do
    if entry.page and not entry.near then
      found[entry.page] = found[entry.page] or {}
      table.insert(found[entry.page], name)
    end
  end
  for _, names in pairs(found) do table.sort(names) end
  return found
end

local names, aliases = {}, aliases_of()
for name, list in pairs(causeway._sections()) do
  local sections = {}
  for i, section in ipairs(list) do
    local parts = {}
    for k, part in ipairs(section.parts or {}) do parts[k] = { heading = part[1], text = part[2] } end
    sections[i] = {
      what = section.what, topic = section.topic, call = section.call, text = section.text, notes = section.notes,
      summary = section.summary, example = section.example, parts = parts,
      options = section.what == "a function" and causeway._options_text(name) or nil,
      sources = causeway._source_lines(section),
    }
  end
  names[name] = { sections = sections, aliases = aliases[name] or {} }
end
local file = assert(io.open(path, "w"))
assert(file:write(json_encode { names = names, topics = causeway._topics }))
assert(file:close())
