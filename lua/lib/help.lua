-- help, apropos and the overview: pages made of the entries of causeway.manual.
local causeway = ...
local manual = causeway.manual

local function names(entries)
  local list = {}
  for name in pairs(entries) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- Text broken at blanks to lines of at most `room` characters.
local function wrapped(text, room, indent)
  return indent .. table.concat(causeway._lines((text:gsub("%s+", " ")), room), "\n" .. indent)
end

-- A line that is laid out: where it is too long, it goes on below the text that follows its first word, or at indent.
local function hanging(line, room, indent)
  if causeway._text_width(line) <= room then return line end
  local start = line:match("^%s+%S.-%s%s+")
  if not start or causeway._text_width(start) > room // 2 then
    start = line:match("^%s+%S+%s%s+") or line:match("^%s*")
  end
  indent = indent or (" "):rep(math.min(causeway._text_width(start), room // 2))
  local lines = causeway._lines(line:sub(#start + 1), room - #indent)
  return start .. table.concat(lines, "\n" .. indent)
end

-- A paragraph is wrapped; a line that begins with a blank is one of its own, with what is indented below it.
local function body(text, room, indent)
  local out, paragraph, item = {}, {}, nil
  local function flush()
    if #paragraph > 0 then out[#out + 1] = wrapped(table.concat(paragraph, " "), room, indent) end
    if item then out[#out + 1] = indent .. hanging(item, room):gsub("\n", "\n" .. indent) end
    paragraph, item = {}, nil
  end
  for line in (text .. "\n"):gmatch("(.-)\n") do
    if item and line:find("^     ") then
      item = item .. " " .. line:match("^%s*(.*)")
    elseif line:find("^%s") or line == "" then
      flush()
      if line == "" then out[#out + 1] = "" else item = line end
    else
      if item then flush() end
      paragraph[#paragraph + 1] = line
    end
  end
  flush()
  while out[#out] == "" do out[#out] = nil end
  return table.concat(out, "\n")
end

-- What fits into `room` columns, with an ellipsis where that is not all.
local function shortened(text, room)
  if utf8.len(text) <= room then return text end
  return text:sub(1, utf8.offset(text, math.max(room, 2)) - 1) .. "…"
end

local function bold(text)
  return causeway._colour() and "\27[1m" .. text .. "\27[0m" or text
end

local function room()
  return math.min(causeway.terminal_size(), 100) - 4
end

-- The options of a described call (lua/lib/calls.lua), a line each, wrapped behind their names.
local function described_options(list)
  local widest, lines = 0, {}
  for _, option in ipairs(list) do widest = math.max(widest, #option.name) end
  local indent = (" "):rep(widest + 6)
  for i, option in ipairs(list) do
    local text = wrapped(causeway._option_line(option), room() - widest - 4, indent)
    lines[i] = "    " .. option.name .. (" "):rep(widest + 2 - #option.name) .. text:sub(#indent + 1)
  end
  return table.concat(lines, "\n")
end

--- The options of a function and what they may be: as they are described, else from the table that completion reads;
--- nil where it has none or its text describes them.
function causeway._options_text(name)
  local described = causeway._call_options(name)
  if described then return described_options(described) end
  local known = causeway._options[name]
  if not known then return nil end
  for option in pairs(known) do  -- told already
    if type(option) == "string" and manual[name].text:find("%f[%w_]" .. option .. "%f[^%w_]") then return nil end
  end
  local lines = {}
  for _, option in ipairs(names(known)) do
    if type(option) == "string" then
      local choices = known[option]
      local list = type(choices) == "table" and ': "' .. table.concat(choices, '", "') .. '"' or ""
      lines[#lines + 1] = wrapped(option .. list, room() - 4, "      "):sub(3)
    end
  end
  return #lines > 0 and table.concat(lines, "\n") or nil
end

--- The words that an option takes, as a new list.
function causeway.choices(name, option)
  if type(name) ~= "string" then
    causeway._raise("choices: expected the name of a function, got " .. causeway._noun(name))
  end
  local entry = causeway._options[name]
  if not entry then causeway._raise(string.format('choices: "%s" is no function with options', tostring(name))) end
  local words = entry[option]
  if type(words) ~= "table" then
    causeway._raise(string.format('choices: the option "%s" of %s has no list of words', tostring(option), name))
  end
  return table.move(words, 1, #words, 1, {})
end

-- The ways to call it, which two blanks separate, each in lines that go on deeper; `name = value` stays together.
local function call_text(call)
  local out = {}
  for way in (call .. "  "):gmatch("(.-)  +") do
    local words = way:gsub(" ?= ?", function(sign) return (sign:gsub(" ", "\1")) end)
    for i, line in ipairs(causeway._lines(words, room() - 4)) do
      out[#out + 1] = (i == 1 and "  " or "      ") .. bold((line:gsub("\1", " ")))
    end
  end
  return table.concat(out, "\n")
end

-- Formulas: each line by itself, what does not fit set in below it.
local function laid_out(text)
  local out = {}
  for line in (text .. "\n"):gmatch("(.-)\n") do
    for i, piece in ipairs(causeway._lines(line, room() - 4)) do
      out[#out + 1] = (i == 1 and "    " or "      ") .. piece
    end
  end
  return table.concat(out, "\n")
end

-- What a text cites, a line each: documents by their titles where the text is a source, papers anywhere.
local function references(text, source)
  local out = {}
  for _, d in ipairs(causeway._documents) do
    if source:find("%f[%w_]" .. d.name .. "%f[^%w_]") then out[#out + 1] = { d.name, d } end
  end
  for _, r in ipairs(causeway._references) do
    for _, key in ipairs(r) do
      if text:find(key, 1, true) then out[#out + 1] = { key, r } end
    end
  end
  for i, found in ipairs(out) do
    local r = found[2]
    local full = (r.authors and r.authors .. ", " or "") .. r.title .. (r.place and ", " .. r.place or "")
    out[i] = hanging("    " .. found[1] .. ": " .. full, room(), "      ")
  end
  if text:find("%f[%w]claims? %u%d") then out[#out + 1] = "    claims: proofs/README.md" end
  return out
end

--- The lines below "source" on the page of a section: what it cites, written out.
function causeway._source_lines(section)
  local source = causeway._source_of(section)
  if not section.source then return references(section.text .. " " .. (section.notes or ""), source) end
  local lines = references(source, source)
  table.insert(lines, 1, laid_out(source))
  return lines
end

local function section_text(name, section)
  local parts = { call_text(section.call), "", body(section.text, room(), "  ") }
  local list = section.what == "a function" and causeway._options_text(name)
  if list then
    parts[#parts + 1] = "\n  options"
    parts[#parts + 1] = list
  end
  for _, one in ipairs(section.parts or {}) do
    parts[#parts + 1] = "\n  " .. one[1]
    parts[#parts + 1] = one[1] == "formula" and laid_out(one[2])
      or body(one[2], room() - 2, one[1] == "options" and "  " or "    ")
  end
  if section.notes then parts[#parts + 1] = "\n" .. body(section.notes, room(), "  ") end
  local sources = causeway._source_lines(section)
  if #sources > 0 then
    parts[#parts + 1] = "\n  source"
    table.move(sources, 1, #sources, #parts + 1, parts)
  end
  if section.example then
    parts[#parts + 1] = "\n  example"
    parts[#parts + 1] = "    " .. section.example:gsub("\n", "\n    ")
  end
  return table.concat(parts, "\n")
end

-- topic -> set of the names in it.
local function topics_of(sections)
  local topics = {}
  for name, list in pairs(sections) do
    for _, section in ipairs(list) do
      topics[section.topic] = topics[section.topic] or {}
      topics[section.topic][name] = true
    end
  end
  return topics
end

local function overview()
  local parts = {
    wrapped("?name shows help with an example; ??word searches, Tab completes; `;` hides a value, "
      .. "ans is the last; ;cmd: a command; @time, @btime, @show. Topics:", room(), "  "),
    "",
  }
  local topics = topics_of(causeway._sections())
  local widest = 0
  for name in pairs(topics) do widest = math.max(widest, #name) end
  for _, name in ipairs(names(topics)) do
    local text = causeway._topics[name] or table.concat(names(topics[name]), " ")
    parts[#parts + 1] = "  " .. bold(name) .. (" "):rep(widest - #name + 2) .. shortened(text, room() - widest - 2)
  end
  return table.concat(parts, "\n")
end

-- What Lua's manual does not say of its functions here.
local beside_lua = { print = "\n\nOf a table without a text of its own it shows where that lies in memory: "
  .. "display(t), or t alone at the prompt, shows what it has." }

-- Lua's own functions have their manual elsewhere.
local function of_lua(name)
  if not name:find("^[%a_]") then return nil end
  local value = _G
  for part in name:gmatch("[^.]+") do
    value = type(value) == "table" and rawget(value, part) or nil
  end
  if value == nil then return nil end
  local info = type(value) == "function" and debug.getinfo(value, "S")
  if info and info.what == "C" then
    return "  " .. bold(name) .. "\n\n" .. body("A function of Lua: https://www.lua.org/manual/5.4/manual.html#pdf-"
      .. name .. (beside_lua[name] or ""), room(), "  ")
  end
  if type(value) == "table" and package.loaded[name] == value and name ~= "_G" then
    return "  " .. bold(name) .. "\n\n" .. body("A library of Lua with " .. table.concat(names(value), ", "), room(),
      "  ")
  end
  local text, lead = causeway._literal(value), "  " .. bold(name) .. "\n\n  A variable of yours:"
  local one_line = not text:find("\n") and causeway._text_width(lead .. text) < room()
  return lead .. (one_line and " " or "\n\n") .. text
end

-- All that the page of a name says.
local function searched(name, list)
  local out = {}
  for _, section in ipairs(list) do
    table.move({ section.call, section.text, section.notes or "", section.source or "" }, 1, 4, #out + 1, out)
    for _, part in ipairs(section.parts or {}) do out[#out + 1] = part[2] end
  end
  for _, option in ipairs(causeway._call_options(name) or {}) do out[#out + 1] = option.name .. " " .. option.text end
  return table.concat(out, " ")
end

-- Names with help that contain the word, or all words where they are several, then those whose help does.
local function found(word, sections)
  local by_name, by_text = {}, {}
  local function has_all(text)
    text = text:lower()
    for one in word:lower():gmatch("%S+") do
      if not text:find(one, 1, true) then return false end
    end
    return true
  end
  for _, name in ipairs(names(sections)) do
    if has_all(name) then
      by_name[#by_name + 1] = name
    elseif has_all(name .. " " .. searched(name, sections[name])) then
      by_text[#by_text + 1] = name
    end
  end
  return table.move(by_text, 1, #by_text, #by_name + 1, by_name)
end

local function first_sentence(text)
  local one_line = text:gsub("%s+", " "):gsub("et al%.", "et al\1")
  return ((one_line:match("^(.-[.;])%s") or one_line):gsub("\1", "."):gsub(";$", ""))
end

-- The line for each name: the name, and what it is, of several things the one in the topic.
local function listing(list, sections, topic)
  local widest, shown, labels = 0, {}, {}
  for i, name in ipairs(list) do
    shown[i] = sections[name][1]
    for _, other in ipairs(sections[name]) do
      if other.topic == topic then shown[i] = other end
    end
    local method = shown[i].what ~= "an option" and shown[i].call:match("^m:[%w_]+")
    labels[i] = method or name  -- a method of a model is called by that
    widest = math.max(widest, utf8.len(labels[i]))
  end
  local lines = {}
  for i, section in ipairs(shown) do
    lines[i] = "  " .. labels[i] .. (" "):rep(widest - utf8.len(labels[i]) + 2)
      .. shortened(first_sentence(section.summary or section.text), room() - widest - 2)
  end
  return table.concat(lines, "\n")
end

-- The calls that take options, a line for each: whoever knows a call looks for what it takes.
local function options_by_call(sections)
  local calls, taken, widest = {}, {}, 0
  for _, name in ipairs(names(sections)) do
    local list = {}
    for _, option in ipairs(causeway._call_options(name) or {}) do list[#list + 1] = option.name end
    for option in pairs(#list == 0 and manual[name] and causeway._options[name] or {}) do
      if type(option) == "string" then list[#list + 1] = option end
    end
    table.sort(list)
    if #list > 0 then
      local call = manual[name] and manual[name].call:match("^m:[%w_]+") or name
      calls[#calls + 1], taken[call] = call, table.concat(list, ", ")
      widest = math.max(widest, #call)
    end
  end
  for i, call in ipairs(calls) do
    calls[i] = hanging("  " .. call .. (" "):rep(widest - #call + 2) .. taken[call], room() + 2)
  end
  return table.concat(calls, "\n")
end

-- The page of a name: all that it is, and the topic of that name.
local function page(name, sections)
  local parts, list, topic = {}, sections[name] or {}, topics_of(sections)[name]
  if #list > 1 then
    local what = {}
    for i, section in ipairs(list) do what[i] = section.what end
    local text = name .. " is " .. causeway._listed(what) .. "."
    parts[1] = wrapped(text, room(), "  ")
  end
  for _, section in ipairs(list) do parts[#parts + 1] = section_text(name, section) end
  if name == "options" then
    local lead = "  " .. bold(name) .. ": " .. causeway._topics[name] .. "; ?name tells of each"
    table.insert(parts, 1, lead .. "\n\n" .. options_by_call(sections))
  elseif topic and #list == 0 then
    parts[1] = "  " .. bold(name) .. ": " .. (causeway._topics[name] or "a topic")
    parts[2] = listing(names(topic), sections, name)
  elseif topic then
    parts[#parts + 1] = "  the topic " .. name .. "\n" .. wrapped(table.concat(names(topic), "  "), room() - 2, "    ")
  end
  return table.concat(parts, "\n\n")
end

-- The form in which names are compared: small letters, "_" for blanks and hyphens.
local function plain(name)
  return name == "-" and name or (name:lower():gsub("[%s%-]+", "_"))
end

-- What other libraries are called where their functions are.
local libraries = {}
for name in ("np numpy torch pytorch jnp jax lax plt pyplot sns matplotlib F nn functional tf scipy pd json time os "
  .. "random fla linalg optim cuda"):gmatch("%S+") do
  libraries[name] = true
end

-- A name without the library in front of it: "np.linalg.norm" -> "norm".
local function without_library(name)
  if name:find("^fla%.") then return name:match("[^.]*$") end  -- fla.ops.gla.chunk_gla
  local last = name
  while libraries[last:match("^([%w_]+)%.") or ""] do last = last:match("^[%w_]+%.(.*)$") end
  return last
end

-- What is known of a name together with the library in front of it, nn.Linear, with torch. before that or not; nil
-- where nothing is.
local function with_library(name)
  return causeway._elsewhere[plain(name)] or causeway._elsewhere[plain(name):gsub("^torch%.", "")]
end

-- What flash-linear-attention's kernels have in front of the name of a rule, and its layers behind.
local kernels = { "^fused_chunk_", "^fused_recurrent_", "^fused_", "^chunk_", "^recurrent_", "^parallel_",
  "^naive_recurrent_", "^naive_chunk_", "^naive_", "^torch_", "_attention$", "attention$", "_attn$", "_layer$",
  "_kernel$", "_fwd$", "_bwd$", "_ref$" }

-- The rule whose kernel or layer has this name, "gla" of fused_recurrent_gla; nil of another name.
local function without_kernel(name)
  if causeway._short_names[name] or causeway._around_calls[name] then return nil end
  for _, pattern in ipairs(kernels) do
    local rest, n = name:gsub(pattern, "")
    if n > 0 and #rest > 2 then return rest end
  end
end

-- What the kernels of flash-linear-attention for these pages are given, as from_fla takes it.
local fla_arguments = {
  linear_attention = "q = q, k = k, v = v",
  gated = "q = q, k = k, v = v, g = g",
  delta = "q = q, k = k, v = v, beta = beta,\n  use_qk_l2norm_in_kernel = true",
  gated_delta = "q = q, k = k, v = v, g = g, beta = beta,\n  use_qk_l2norm_in_kernel = true",
}

-- The line that computes what a kernel of flash-linear-attention does, where the name that was asked for is one of a
-- rule with an update here: of chunk_gla, not of retnet or mamba_chunk_scan. Nil for another.
local function line_of_kernel(name, entry)
  local asked = plain(without_library(name))
  local kernel = asked:find("^chunk_") or asked:find("^fused_chunk_") or asked:find("^fused_recurrent_")
  if not kernel or asked:find("mamba") then return nil end
  local given = fla_arguments[entry.page]
  return given and string.format("linear_attention(from_fla{%s})", given) or nil
end

-- What the literature or another library calls so: the entry of lua/help/names.lua, or one made for a page of another
-- spelling; nil where nothing is known of the name.
local function elsewhere(name, sections)
  local last = without_library(name)
  local entry = with_library(name) or causeway._elsewhere[plain(last)]
  if entry then return entry end
  if sections[last] then return { page = last } end
  for known in pairs(sections) do
    if plain(known) == plain(last) then return { page = known } end
  end
  for _, m in ipairs(causeway.method_list()) do
    if m.short and plain(m.short) == plain(last) then
      return { page = m.name, how = m.source and "So it is called in the tables of the leet document." }
    end
  end
  local snake = last:gsub("(%l%d?)(%u)", "%1_%2")
  if snake ~= last then return elsewhere(snake, sections) end
  local here = last:match("^(.+)_$")
  here = here and (causeway._called_here(here) or here)
  if here and causeway._metatable("Tensor").__methods[here .. "_"] and manual[here] then
    return { page = here, how = string.format("A:%s_(...) is %s in place", here, here), said = true }
  end
  local rule = without_kernel(plain(last))
  return rule and elsewhere(rule, sections)
end

--- The page that one of the names of lua/help/names.lua leads to, or nil.
function causeway._called_here(name)
  local entry = causeway._elsewhere[plain(name)]
  return entry and entry.page
end

-- Where a name of the literature leads, in a sentence; nil where nothing is known of it.
local function known_as(name)
  local entry = causeway._elsewhere[plain(name)]
  if not entry then return nil end
  if entry.said or entry.here then return entry.how end
  if not entry.page then return "it is not here; ?" .. plain(name) .. " says what is nearest" end
  return string.format(entry.near and 'the nearest here is "%s", see ?%s' or 'it is called "%s" here, see ?%s',
    entry.page, name)
end

-- The same of a name that has no page.
local function absent_here(name)
  local entry = causeway._elsewhere[plain(name)]
  return entry and not entry.page and not entry.said and known_as(name) or nil
end

-- Options of what stands in the place of attention, which m:attention takes in a table of their own.
local inner_options = {}
for name in ("rank seed features normalize block chunk log_decay beta shards"):gmatch("%S+") do
  inner_options[name] = true
end

-- What other libraries call the number of tokens that a model writes.
local new_tokens = {}
for name in ("max_new_tokens max_tokens max_length n_predict num_tokens new_tokens n"):gmatch("%S+") do
  new_tokens[name] = true
end

-- What writes a table of results in a form of this name.
local forms_of_tables = { text = "text", string = "text", html = "html", csv = "csv", latex = "latex", tex = "latex",
  markdown = "markdown", md = "markdown" }

-- What a column of a table has, not the table.
local of_columns = { format = true, unit = true, units = true, digits = true, precision = true, key = true }

-- What makes axes logarithmic elsewhere.
local logarithms = { log = true, loglog = true, logscale = true, log_scale = true, semilogx = true, semilogy = true }

-- What makes one axis logarithmic elsewhere, and what a curve is given there.
local of_pictures = {}
local function of_picture(others, how)
  for name in others:gmatch("%S+") do of_pictures[name] = how end
end
of_picture("color colour c", "a curve gets its colour by itself; like = the label of another curve gives it that one's")
of_picture("marker markers linestyle ls", 'style is "lines", "points", "linespoints" or "dashed"')
of_picture("linewidth lw line_width", "width = 3 is a line of 3 pixels")
of_picture("logx log_x xlog", 'it is xscale = "log"')
of_picture("logy log_y ylog", 'it is yscale = "log"')

-- The rules of linear_attention.
local updates = { linear = true, gated = true, delta = true, gated_delta = true }

-- What of linear_attention is asked of other attention.
local of_rules = { update = true, update_rule = true, log_decay = true }

-- The length of a block or chunk, which softmax_attention takes none of.
local blocks = { block = true, block_size = true, chunk = true, chunk_size = true, chunksize = true }

-- What is said of an option that has no place among the known ones, though it has a meaning elsewhere; else nil.
local function misplaced(name, known)
  if name == "shape" and known.lengths and known.heads then
    return "sizes are lengths = {1024}, batch, heads, rank and dim; tensors of yours inputs = {q, k, v}"
  end
  local called_causal = name == "causal" or causeway._called_here(name) == "causal"
  if called_causal and not known.causal and (known.decay or known.log_decay) then
    return "linear attention is always causal: leave it out"
  end
  if of_rules[name] and known.layout and known.scale and not known.log_decay then
    return 'it is linear_attention\'s: update = "gated", log_decay = g'
  end
  if known.return_lse and blocks[name] then return "the call chooses its blocks: leave it out" end
  if name == "seed" and known.dtype then return "seed(1) is for all that is drawn after it" end
  local order = known.bhnd and known.bnhd and causeway._elsewhere[plain(name)]
  if order and order.page == "layout" and order.how then return 'it is "' .. order.how:match('"(%l+)"') .. '" here' end
  local a_decay = name == "decay" or causeway._called_here(name) == "decay"
  if a_decay and known.log_decay and not known.decay then
    return 'a decay γ of all tokens is update = "gated", log_decay = math.log(γ)'
  end
  if known.flash and known.standard and name == "softmax" then return 'softmax attention itself is "flash"' end
  if known.vanilla and known.fleet then
    for _, m in ipairs(causeway.method_list()) do
      if m.short and m.short:lower() == name:lower() then
        return string.format('it is called "%s" here, in leet "%s"', m.name, m.short)
      end
    end
  end
  if known.vanilla and known.fleet and (name == "flash" or name == "softmax") then
    return 'it computes softmax attention: softmax_attention(q, k, v, {method = "flash"})'
  end
  local update = updates[name] and name or updates[causeway._called_here(name)] and causeway._called_here(name)
  if known.vanilla and known.fleet and update then
    return string.format('it is an update: linear_attention(q, k, v, {update = "%s", ...})', update)
  end
  if known.grid and known.run and (#name < 3 or not causeway._closest(plain(name), names(known))) then
    return string.format("a list of values stands in grid: grid = {%s = {...}}", name)
  end
  if known.columns and known.most and forms_of_tables[name] then
    return string.format("text_table(rows):%s() gives it", forms_of_tables[name])
  end
  if known.columns and known.most and of_columns[name] then
    return 'a column has it: columns = {{key = "time", unit = "ms", format = "%.1f"}}'
  end
  if known.xscale and known.yscale and logarithms[name] then
    return 'xscale = "log" and yscale = "log" are the options'
  end
  if known.xscale and known.yscale and (name == "labels" or name == "legends" or name == "names") then
    return 'each curve has its own: plot{{x = x, y = y, label = "a"}, ...}'
  end
  if (known.xscale and known.yscale or known.like) and not known.by and of_pictures[name] then
    return of_pictures[name]
  end
  if known.temperature and new_tokens[name] then return 'it is called "tokens" here, see ?generate' end
  if known.with and known.options and name == "method" then
    return "what stands in the place of attention is with = ...; see ?replace_attention"
  end
  if known.with and known.options and (inner_options[name] or causeway._options.lowrank[name]) then
    return string.format("it stands in options: options = {%s = ...}", name)
  end
end

-- The nearest of the known names and of those of the literature for them, where that is one of the latter.
local function near_alias(name, known)
  if name:sub(-1) == "_" then return nil end  -- an operation in place is none of the others
  local candidates, aliases = {}, {}
  for one in pairs(known) do candidates[#candidates + 1] = one end
  table.sort(candidates)
  for one, entry in pairs(causeway._elsewhere) do
    if entry.page and known[entry.page] and not known[one] then aliases[#aliases + 1] = one end
  end
  table.sort(aliases)
  table.move(aliases, 1, #aliases, #candidates + 1, candidates)
  local near = causeway._closest(plain(name), candidates)
  local alias = not known[near] and causeway._elsewhere[near]
  return alias and string.format('did you mean "%s", here "%s"?', near, alias.page) or nil
end

-- Rules that are no update of linear_attention, though they stand beside those in the literature.
local own_calls = { comba = true, rwkv7 = true, gated_delta_2 = true, delta_product = true }

--- What is said of a name that is none of the known ones, {name = true}, where the literature has it; else nil.
function causeway._known_here(name, known)
  local wrong_place = misplaced(name, known)
  if wrong_place then return wrong_place end
  local here = causeway._called_here(name)
  local rule = here or plain(name)
  if (known.gated_delta or known.vanilla) and own_calls[rule] then
    return string.format("it is a call of its own: %s(...), see ?%s", rule, rule)
  end
  if here and known[here] then return known_as(name) end
  for _, option in ipairs(causeway._short_names[plain(name)] or {}) do
    if known[option] then return string.format('it is called "%s" here, see ?%s', option, option) end
  end
  local of_attention = known.layout and known.scale
  if of_attention and causeway._around_calls[plain(name)] then return causeway._around_calls[plain(name)] end
  local near = here and causeway._closest(plain(name), names(known)) ~= ""
  return absent_here(name) or here and not near and "see ?" .. name or near_alias(name, known)
end

-- Element types, in small letters.
local element_types = { float16 = "Float16", float32 = "Float32", float64 = "Float64", bfloat16 = "BFloat16" }

-- Of a name that leads to a method, an update or a factorisation, which no global is: the call itself; nil of others.
local function call_meant(name)
  if #name < 3 then return nil end
  local lines = causeway._call_lines()
  local entry = elsewhere(name, lines)
  if not entry or not entry.page or entry.said then return nil end
  local line = line_of_kernel(name, entry) or entry.line or lines[entry.page]
  if not line then return nil end
  return string.format("%s %s, see ?%s", entry.near and "the nearest here is" or "it is", line, name)
end

--- What a global that is not there is called here, as a sentence, where the literature or another library has it. Of
--- another library's, the name is that with the library: np.zeros.
function causeway._meant_here(name)
  local last = without_library(name)
  if last ~= name then
    local whole = with_library(name)
    if whole and whole.said then return whole.how end
    if whole and not whole.page then return string.format("it is not here; ?%s says what is nearest", name) end
    local known = whole and known_as(name)
    if known then return known end
    if causeway[last] == nil then last = causeway[last:lower()] ~= nil and last:lower() or last end
    if causeway[last] ~= nil and manual[last] then
      return string.format("%s is %s here, without %s before it", name, last, name:sub(1, #name - #last))
    end
    local meant = causeway._meant_here(last)
    local behind = last:match("[^.]+$")  -- torch.autograd.grad
    if not meant and behind ~= last and manual[behind] then meant = "it is " .. behind .. " here, see ?" .. behind end
    return meant and name .. ": " .. meant
  end
  local called = causeway._called_here(name)
  if libraries[name] and (called == "tensor" or not called) then
    return string.format("functions have no %s. before them here: mean(A); ?%s.linspace leads to others", name, name)
  end
  local element = element_types[name:lower()]
  if element then return string.format('an element type stands in quotes: zeros(2, 3, "%s")', element) end
  if name == "i" then return nil end  -- Julia's unit matrix is I, and i the name of a place
  local meant = call_meant(name) or known_as(name)
  if meant or #name < 3 then return meant end
  for _, taken in pairs(causeway._options) do
    if taken[name] then
      return string.format("nothing is called %s here; of calls it is an option, see ?%s", name, name)
    end
  end
  if causeway._metatable("Tensor").__methods[name] then
    return string.format("it is a method of tensors: A:%s(...)", name)
  end
end

--- What is said of a method that is none of the known ones, {name = true}: what does it here, a function say, or nil.
function causeway._no_method(name, known)
  if causeway._instead[name] then return causeway._instead[name] end
  local here = causeway._called_here(name) or name
  if known[here] or known[name:lower()] then return nil end
  local in_place = name:sub(-1) == "_" and causeway._called_here(name:sub(1, -2))
  if in_place and known[in_place .. "_"] then return string.format('it is called "%s_" here', in_place) end
  local entry = causeway._elsewhere[plain(name)]
  if type(causeway[here]) == "function" and manual[here] and not (entry and entry.said) then
    return "it is a function here: " .. (manual[here].call .. "  "):match("^(.-)  ")
  end
  return entry and (entry.said or not entry.page) and known_as(name) or nil
end

-- The page of what is called so elsewhere: what there is to know, and the page of what it is here, or is near.
local function elsewhere_text(name, entry, sections)
  local how = entry.said and entry.how .. "." or entry.how
  if not entry.page then
    local lead = (entry.here or entry.said) and "" or "Not here. "
    return "  " .. bold(name) .. "\n\n" .. body(lead .. how, room(), "  ")
  end
  local lead = entry.said and how or name
    .. (entry.near and ": the nearest here is " .. entry.page .. "." or " is called " .. entry.page .. " here.")
    .. (how and " " .. how or "")
  local function set_in(line) return "    " .. line:gsub("\n", "\n    ") .. "\n\n" end
  local line, kernel = entry.line and set_in(entry.line) or "", line_of_kernel(name, entry)
  if kernel then
    local told = how and how:find("The scale is 1 here", 1, true) and "The kernel's"
      or "The scale is 1 here; flash-linear-attention's kernels have d_k^-0.5 where none is given. Their"
    line = line .. wrapped(told .. " own arguments, [batch, N, heads, width], with that scale:", room(), "  ") .. "\n\n"
      .. set_in(kernel)
  end
  return wrapped(lead, room(), "  ") .. "\n\n" .. line .. page(entry.page, sections)
end

local function unknown(name, sections)
  local known = names(sections)
  for other in pairs(causeway._elsewhere) do known[#known + 1] = other end
  table.sort(known)
  local last = without_library(name)
  local near = #last > 3 and causeway._closest(last, known) or ""  -- among so many one of three letters is always near
  local quoted = #name <= 200 and string.format('"%s"', name) or string.format("a name of %d bytes", #name)
  local text = string.format("no help for %s%s", quoted, near ~= "" and string.format(' (did you mean "%s"?)', near)
    or "")
  local list = found(name, sections)
  local next_step = near == "" and "; ? lists the topics, ??word searches all pages" or ""
  text = body(text .. (#list > 0 and "; it is mentioned in" or next_step), room(), "")
  return #list > 0 and text .. "\n" .. listing(list, sections) or text
end

-- Whether all that a name is are options or claims: `x`, `N` and `B1` are names that anybody gives to variables.
local function often_yours(list)
  for _, section in ipairs(list or {}) do
    if section.what ~= "an option" and section.what ~= "a claim" then return false end
  end
  return true
end

-- The page of an option that is called so elsewhere, with the names of the others; nil where none has a page.
local function text_of_short_name(name, sections)
  local options = {}
  for _, option in ipairs(causeway._short_names[plain(name)] or {}) do
    if sections[option] then options[#options + 1] = option end
  end
  if #options == 0 then return nil end
  local others = {}
  for i = 2, #options do others[i - 1] = "?" .. options[i] end
  local lead = string.format("What others call %s is the option %s here%s.", name, options[1],
    #others > 0 and ", or " .. causeway._listed(others) .. " in other calls" or "")
  return wrapped(lead, room(), "  ") .. "\n\n" .. page(options[1], sections)
end

-- What stands below a page about others' meaning of its name; nil where there is none, or where it is the page's own:
-- an option that has the name there too.
local function pointer_from(name, sections)
  local entry, around = causeway._elsewhere[plain(name)], causeway._around_calls[plain(name)]
  local how = entry and entry.how or around
  if how then return "Of other libraries' " .. name .. ": " .. how end
  local other = entry and entry.page
  local own = other and causeway._options[other] and causeway._options[other][name]
  if not other or own or other == name or not (sections[other] or causeway._topics[other]) then return nil end
  return "What others call " .. name .. " is " .. other .. " here: ?" .. other
end

-- What stands above the page of an option that has the name of a method of models; "" above any other.
local function method_lead(name, list)
  if manual[name] or not list or not causeway._metatable("Model").__methods[name] then return "" end
  return wrapped(string.format("The method m:%s has a page: ?m:%s.", name, name), room(), "  ") .. "\n\n"
end

-- The text of a page, or nil for a name that nothing is known of.
local function known_text(name)
  if name == "" then return overview() end
  local sections = causeway._sections()
  local text = of_lua(name)
  if sections[name] or topics_of(sections)[name] then
    local yours = text and often_yours(sections[name]) and name:find("^[%a_][%w_]*$")
    local pointer = pointer_from(name, sections)
    if yours then
      for _, section in ipairs(sections[name]) do text = text .. "\n\n" .. body(section.text, room(), "  ") end
    end
    return (yours and text or method_lead(name, sections[name]) .. page(name, sections))
      .. (pointer and "\n\n" .. wrapped(pointer, room(), "  ") or "")
  end
  if text then return text end
  local entry = elsewhere(name, sections)
  local around = causeway._around_calls[plain(name)]
  return entry and elsewhere_text(name, entry, sections) or text_of_short_name(name, sections)
    or around and elsewhere_text(name, { how = around }, sections)
end

local function text_of(name) return known_text(name) or unknown(name, causeway._sections()) end

--- All names that have a page: what Tab completes after `?`.
function causeway._page_names()
  local sections = causeway._sections()
  local list = topics_of(sections)
  for name in pairs(sections) do list[name] = true end
  return list
end

-- method -> the page of help that shows how it is called, of what is neither a tensor nor a table that shows itself:
-- m:chat stands on the page of generate.
local function pages_of_methods()
  local pages, own = {}, {}
  for _, name in ipairs(names(manual)) do
    local entry = manual[name]
    for object, method in entry.call:gmatch("%f[%a](%l+):([%w_]+)") do own[object .. ":" .. method] = name end
    for object, method in (entry.text .. (entry.notes or "")):gmatch("%f[%a](%l+):([%w_]+)[({]") do
      local key = object .. ":" .. method
      pages[key] = pages[key] or name
    end
  end
  for key, name in pairs(own) do pages[key] = name end
  return pages
end

-- The name whose page tells of object:method. Objects are called as in the manual (m:attention, results:plot), or are
-- variables of the user's.
local function of_method(object, method)
  local pages = pages_of_methods()
  local class = (debug.getmetatable(_G[object]) or {}).__name
  local called = ({ Model = "m", Results = "results" })[class] or object == "model" and "m" or object
  local there = pages[called .. ":" .. method]
  if called == "m" or called == "results" then return there or method end
  return not manual[method] and there or method
end

-- The name of the page that is meant by what stands behind `?`. Names may be quoted: ?"lightning-attention-2".
local function page_meant(name)
  name = name and name:gsub('^[\'"](.*)[\'"]$', "%1"):gsub("[%s;]+$", ""):gsub("[({].*[)}]$", "") or ""
  name = name:gsub("^causeway%.", "")
  local object, method = name:match("^(.*):([%w_]+)$")
  if not method then
    object, method = name:match("^([%a_][%w_]*)%.([%w_]+)$") -- q.mean of a variable, as it is asked for elsewhere
    method = debug.getmetatable(_G[object]) and method
  end
  return method and of_method(object, method) or name
end

--- What help(name) shows.
function causeway._help(name)
  local text = text_of(page_meant(name)) .. "\n"
  causeway._present { text = text, html = causeway._page_html(text) }
end

--- What `?name` shows.
function causeway._show_help(name)
  local text = text_of(page_meant(name)) .. "\n"
  causeway._page { text = text, html = causeway._page_html(text) }
end

--- The page of a name as text and as HTML; nil where nothing is known of it.
function causeway._page_of(name)
  local text = known_text(page_meant(name))
  if text then return text, causeway._page_html(text) end
end

-- The name under which the library or the user's globals know a function, or that of a method.
local function name_of(value)
  local class, method = causeway._class_of_method(value)
  if class then return class.called .. ":" .. method end
  for _, place in ipairs { causeway, _G } do
    for name, other in next, place do
      if other == value and type(name) == "string" then return name end
    end
  end
  for called, kind in pairs({ A = "Tensor", m = "Model" }) do
    for name, other in pairs(causeway._metatable(kind).__methods or {}) do
      if other == value then return called .. ":" .. name end
    end
  end
end

function causeway.help(what)
  if what ~= nil and type(what) ~= "string" then
    what = name_of(what) or error("help: expected a name or a function of causeway, got " .. causeway._noun(what), 2)
  end
  causeway._help(what)
end

local function search_text(word)
  if type(word) ~= "string" or word == "" then error("apropos: expected a word to search for", 3) end
  local sections = causeway._sections()
  local list = found(word, sections)
  if #list > 0 then return listing(list, sections) end
  return string.format('nothing in the help mentions "%s"%s', word, known_text(page_meant(word))
    and ", but ?" .. word .. " is a page" or "")
end

function causeway.apropos(word) causeway._present { text = search_text(word) } end

--- What `??word` shows.
function causeway._show_search(word) causeway._page { text = search_text(word) } end
