-- What a name has help on: the entries of causeway.manual, and pages made from the registries, so that a new method,
-- update, factorisation or option has its own unasked.
local causeway = ...
local manual = causeway.manual

-- A section of a page is a table with
--   what                 "a function", "an update of linear_attention": what the name is
--   topic                where the overview lists it
--   call, text, example  as in the manual; options and notes too
--   parts                a list of {heading, text}
--   source               where it comes from, in short (lua/help/references.lua)
-- Each maker of sections adds those of all its names: add(name, section).

local function of_manual(add)
  for name, entry in pairs(manual) do
    local what = type(causeway[name]) == "function" and "a function" or "a subject"
    add(name, setmetatable({ what = what }, { __index = entry }))
  end
end

local function part(list, heading, text)
  if text and text ~= "" then list[#list + 1] = { heading, text } end
end

-- A whole number with commas between its thousands.
local function grouped(n)
  local digits = string.format("%.0f", n)
  local first = (#digits - 1) % 3 + 1
  return digits:sub(1, first) .. digits:sub(first + 1):gsub("...", ",%0")
end

-- A line each of names and what they mean, in two columns.
local function rows_of(list)
  local widest, lines = 0, {}
  for _, row in ipairs(list) do widest = math.max(widest, #row[1]) end
  for i, row in ipairs(list) do lines[i] = "  " .. row[1] .. (" "):rep(widest + 2 - #row[1]) .. row[2] end
  return table.concat(lines, "\n")
end

-- What the letters of a memory stand for, beside r and d.
local function letters_of(memory, block)
  if not block then return "" end
  local what = memory:find("Br", 1, true) and "Br and Bc the rows and columns of a tile"
    or memory:find("t²", 1, true) and "t the length of a base case" or "b the length of a block"
  return string.format(", %s (block = %d by default)", what, block)
end

-- What an exact method costs, in words of the registry and, of a built-in one, in figures of its closed form.
local function cost_of(m)
  if not m.time then return nil end
  local text = "time " .. m.time .. (m.memory and "; memory of a head, in scalars, " .. m.memory or "")
    .. "; r, d are the widths" .. letters_of(m.memory or "", m.block) .. "."
  if not m.built_in then return text end
  local c = causeway.cost(m.name, { N = 8192, r = 128 })
  return text .. string.format(
    " At N = 8192, r = d = 128: the definition takes %s multiplications and %s scalars (cost).", grouped(c.multiplies),
    grouped(c.memory))
end

-- What an exact method takes beside its inputs.
local function support_of(m)
  local takes, lacks = {}, {}
  for _, option in ipairs({ "decay", "normalize", "state" }) do
    local to = m[option] and takes or lacks
    to[#to + 1] = option
  end
  if m.block then takes[#takes + 1] = "block" end
  local text = #takes > 0 and causeway._listed(takes) or "no option"
  if #lacks > 0 then text = text .. "; not " .. causeway._listed(lacks) end
  local devices = table.concat(m.device, " "):find("gpu") and "the CPU and a GPU." or "the CPU."
  local choice = m.built_in and not m.auto and ' "auto" does not choose it.' or ""
  return text .. ". This program runs it on " .. devices .. choice
end

-- The calls that the entries of the registries stand for, with all that they need.
local line_of = {}

function line_of.exact(m) return string.format('causal_linear_attention(q, k, v, {method = "%s"})', m.name) end

function line_of.update(u)
  local needed = (u.gate and ", log_decay = g" or "") .. (u.delta and ", beta = beta" or "")
  return string.format('linear_attention(q, k, v, {update = "%s"%s})', u.name, needed)
end

function line_of.mode(m) return string.format('linear_attention(q, k, v, {mode = "%s"})', m.name) end

function line_of.softmax(m) return string.format('softmax_attention(q, k, v, {method = "%s"})', m.name) end

function line_of.factorisation(m)
  return string.format('lowrank("%s", q, k%s)', m.name, m.default_rank and ", {rank = r}" or "")
end

--- name -> the call that a method, an update, a mode or a factorisation of this name stands for.
function causeway._call_lines()
  local lines, updates, modes = {}, causeway._linear_forms()
  for kind, list in pairs { exact = causeway.method_list(), update = updates, mode = modes,
    softmax = causeway._softmax_forms(), factorisation = causeway.lowrank_method_list() } do
    for _, entry in ipairs(list) do lines[entry.name] = line_of[kind](entry) end
  end
  return lines
end

local function of_exact_methods(add)
  for _, m in ipairs(causeway.method_list()) do
    local parts, options = {}, { string.format('method = "%s"', m.name) }
    part(parts, "formula", m.formula)
    part(parts, "cost", cost_of(m))
    part(parts, "when to use it", m.use)
    part(parts, "takes", support_of(m))
    if m.decay then options[2] = "decay = 0.9" end
    if m.built_in and m.block then options[#options + 1] = "block = 32" end
    add(m.name, {
      what = "a method of causal_linear_attention", topic = "attention", call = line_of.exact(m),
      text = m.text or "A method of causal linear attention written in Lua.",
      parts = parts, source = m.source,
      example = "q, k, v = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)\n"
        .. "causal_linear_attention(q, k, v,\n  {" .. table.concat(options, ", ") .. "})",
    })
  end
end

local function of_linear_attention(add)
  local updates, modes = causeway._linear_forms()
  local default = modes[2]
  for _, m in ipairs(modes) do
    if '"' .. m.name .. '"' == causeway._call_option("linear_attention", "mode").default then default = m end
  end
  for _, u in ipairs(updates) do
    local parts, options = {}, { string.format('update = "%s"', u.name) }
    part(parts, "formula", u.formula)
    part(parts, "cost", string.format('time of a head %s and memory %s scalars in mode = "%s", C the length of a '
      .. "chunk; see ?%s", default.time, default.memory, default.name, default.name))
    part(parts, "when to use it", u.use)
    if u.gate then options[#options + 1] = "log_decay = -rand(1, 2, 100)" end
    if u.delta then options[#options + 1] = "beta = rand(1, 2, 100)" end
    local table_of = table.concat(options, ", ")
    if #table_of > 70 then table_of = table.concat(options, ",\n   ") end
    add(u.name, {
      what = "an update of linear_attention", topic = "gated",
      call = string.format('linear_attention(q, k, v, {update = "%s", ...})', u.name),
      text = u.text, parts = parts, source = u.source,
      example = "q, k, v = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)\n"
        .. (u.delta and "k = k / sqrt(sum(pow(k, 2), 4))  -- keys of length 1\n" or "")
        .. "o, state = linear_attention(q, k, v,\n  {" .. table_of .. "})\no",
    })
  end
  for _, m in ipairs(modes) do
    local parts = {}
    part(parts, "cost", "time of a head " .. m.time .. "; memory " .. m.memory
      .. " scalars; C is the length of a chunk")
    part(parts, "when to use it", m.use)
    add(m.name, {
      what = "a mode of linear_attention", topic = "gated",
      call = string.format('linear_attention(q, k, v, {mode = "%s", ...})', m.name),
      text = m.text, parts = parts, source = m.source,
      example = "x = randn(1, 2, 100, 8)\nlinear_attention(x, x, x,\n"
        .. string.format('  {update = "gated", log_decay = -rand(1, 2, 100), mode = "%s"})', m.name),
    })
  end
end

local function of_softmax_attention(add)
  for _, m in ipairs(causeway._softmax_forms()) do
    local parts = {}
    part(parts, "formula", m.formula)
    part(parts, "cost", "time of a head " .. m.time .. ", N queries and M keys; memory " .. m.memory)
    part(parts, "when to use it", m.use)
    add(m.name, {
      what = "a method of softmax_attention", topic = "softmax", call = line_of.softmax(m),
      text = m.text, parts = parts, source = m.source,
      example = string.format('x = randn(1, 2, 100, 8)\nsoftmax_attention(x, x, x, {method = "%s"})', m.name),
    })
  end
end

local function of_factorisations(add)
  for _, m in ipairs(causeway.lowrank_method_list()) do
    local parts, own = {}, { { "rank", m.rank .. (m.default_rank and "; default " .. m.default_rank
      .. ", where that is not too many" or " as the width d has it") } }
    part(parts, "formula", m.formula)
    part(parts, "cost", "time of a head " .. m.time .. ", rank r, widths d")
    part(parts, "when to use it", m.use .. " " .. (m.future and
      "A row may depend on later tokens: fit for a prompt, which is known as a whole, and no leak into what is "
        .. "generated after it." or "An entry of B Cᵀ depends on its two tokens alone."))
    if m.values then own[#own + 1] = { "v", "values [b, h, N, w]; without them all count alike" } end
    for _, option in ipairs(m.options) do
      own[#own + 1] = { option.name, option.text .. "; default " .. tostring(option.default) }
    end
    part(parts, "options", rows_of(own))
    add(m.name, {
      what = "a factorisation of lowrank", topic = "lowrank",
      call = string.format('lowrank("%s", q, k, {%s...})', m.name, m.default_rank and "rank = r, " or ""),
      text = m.text, parts = parts, source = m.source,
      example = string.format('q, k = randn(1, 2, 64, 8), randn(1, 2, 64, 8)\nB, C, extras = lowrank("%s", q, '
        .. 'k%s)\nlowrank_error(q, k, B, C, {extras = extras}).frobenius.relative',
        m.name, m.default_rank and ", {rank = 32}" or ""),
    })
  end
end

--- Where a section comes from, in short: its source, or what stands behind "Source: " in its text; "" for neither.
function causeway._source_of(section)
  local text = (section.text .. " " .. (section.notes or "")):gsub("%s+", " ")
  return section.source or text:match("Source: (.*)$") or ""
end

-- The names whose sections say that they come from a document.
local function cited_in(document, sections)
  local found = {}
  for name, list in pairs(sections) do
    for _, section in ipairs(list) do
      if causeway._source_of(section):find("%f[%w_]" .. document .. "%f[^%w_]") then
        found[#found + 1] = name
        break
      end
    end
  end
  table.sort(found)
  return found
end

local function of_documents(add, sections)
  for _, d in ipairs(causeway._documents) do
    local parts, here = {}, cited_in(d.name, sections)
    part(parts, "title and authors", d.title .. (d.place and ", " .. d.place or "")
      .. (d.authors and "; " .. d.authors or ""))
    if #here > 0 then part(parts, "what of it is here", table.concat(here, "  ")) end
    part(parts, "its claims", "stated, proved and checked in proofs/: " .. d.claims
      .. "; what is wrong in it stands in proofs/ERRATA.md.")
    add(d.name, { what = "a document", topic = "documents", call = d.name .. ", the document", text = d.text,
      summary = d.title, parts = parts, example = d.example })
  end
end

-- The claims that check_bound checks, by their ids.
local function of_claims(add)
  for _, claim in ipairs(causeway._claims()) do
    local inputs, given = {}, {}
    for i, input in ipairs(claim.inputs) do
      inputs[i] = { input.name, input.form .. ", " .. input.text .. (input.optional and " (optional)" or "") }
      if not input.optional then given[#given + 1] = input.name .. " = " .. input.name end
    end
    local parts = {}
    part(parts, "in it", claim.terms)
    part(parts, "inputs", rows_of(inputs))
    add(claim.id, {
      what = "a claim", topic = "bounds",
      call = string.format('check_bound("%s", {%s})', claim.id, table.concat(given, ", ")),
      text = claim.statement:gsub("^%l", string.upper) .. ". Stated and proved in " .. claim.proof
        .. "; check_bound checks it on tensors of yours.",
      summary = claim.statement, parts = parts, source = claim.source,
      example = string.format('check_bound("%s")', claim.id),
    })
  end
end

-- What is said of options, gathered by name: {call, example, lines}, where lines[line] lists who means this by it. The
-- first who has an option gives the call and the example.
local function gathered()
  local options, order = {}, {}
  return options, order, function(name, line, who, call, example)
    if not options[name] then
      order[#order + 1] = name
      options[name] = { call = call, example = example, lines = {} }
    end
    local lines = options[name].lines
    if not lines[line] then lines[#lines + 1], lines[line] = line, {} end
    table.insert(lines[line], who)
  end
end

-- A call with its arguments and a table of options, in two lines where it would not fit in one.
local function called(call, options)
  local arguments = table.concat(call.arguments, ", ")
  if arguments == "" then return call.name .. "{" .. options .. "}" end
  local first, second = call.name .. "(" .. arguments .. ",", "{" .. options .. "})"
  return first .. (utf8.len(first .. second) < 72 and " " or "\n  ") .. second
end

-- The options of the described calls and of the factorisations: a section each, in it a paragraph for those who mean
-- the same by it. Returns the table of their names.
local function of_described_options(add)
  local options, order, gather = gathered()
  for _, call in ipairs(causeway._calls()) do
    for _, option in ipairs(call.options) do
      gather(option.name, causeway._option_line(option), call.name, called(call, option.name .. " = ..."),
        (call.inputs == "" and "" or call.inputs .. "\n") .. called(call, option.example))
    end
  end
  for _, m in ipairs(causeway.lowrank_method_list()) do
    for _, option in ipairs(m.options) do
      local call = 'lowrank("' .. m.name .. '", q, k, {' .. option.name .. " = %s})"
      local default, other = option.default, option.default
      if type(default) == "boolean" then other = not default end
      gather(option.name, option.text .. "; default " .. tostring(default), 'lowrank("' .. m.name .. '")',
        call:format("..."), "q, k = randn(1, 2, 64, 8), randn(1, 2, 64, 8)\nB, C = " .. call:format(other) .. "\nB")
    end
  end
  for _, name in ipairs(order) do
    local option, text = options[name], {}
    for i, line in ipairs(option.lines) do
      text[i] = "Of " .. causeway._listed(option.lines[line]) .. ": " .. line .. "."
    end
    local told = manual[name] and not causeway[name]  -- by a page of its own, as ?layout is
    if not told then
      add(name, { what = "an option", topic = "options", call = option.call, text = table.concat(text, "\n\n"),
        summary = option.lines[1], example = option.example })
    end
  end
  return options
end

-- What a line "  name, other   text" of a page says of a name, with the lines that go on below the text; nil where no
-- line begins with the name.
local function line_about(text, name)
  local found, indent
  for line in (text .. "\n"):gmatch("(.-)\n") do
    local start = line:match("^(%s+%S.-%s%s+)%S")
    if found then
      local blanks = line:match("^%s*")
      if line == "" or #blanks < indent then break end
      found = found .. " " .. line:sub(#blanks + 1)
    elseif start then
      local words = start:match("^%s+(.-)%s*$")
      if words:find("^[%w_, ]+$") and words:find("%f[%w_]" .. name .. "%f[^%w_]") then
        found, indent = line:sub(#start + 1), #start
      end
    end
  end
  return found
end

-- Whether a text has this word, but as the name of a function or of a method.
local function has_word(text, name)
  for before, behind in text:gmatch("()%f[%w_]" .. name .. "%f[^%w_]()") do
    if text:sub(before - 1, before - 1) ~= ":" and text:sub(behind, behind) ~= "(" then return true end
  end
  return false
end

-- The first sentence of a text with this word in it, or nil. Letters mean too much elsewhere in it to be looked for.
local function sentence_about(text, name)
  if #name < 2 then return nil end
  for sentence in (text:gsub("%s+", " ") .. " "):gmatch("(.-[.]) ") do
    if has_word(sentence, name) then
      local clause = sentence:gsub("%.$", "")
      for piece in (#clause > 160 and clause .. ";" or ""):gmatch(" ?(.-)[;:]%f[%z ]") do
        if has_word(piece, name) then return piece end
      end
      return clause
    end
  end
end

-- What is said of an option of a function: by the claims of check_bound, else by the function's page.
local function about_option(name, option)
  if name == "check_bound" then
    for _, claim in ipairs(causeway._claims()) do
      for _, input in ipairs(claim.inputs) do
        if input.name == option then return string.format("of %s %s, %s", claim.id, input.form, input.text) end
      end
    end
  end
  local text = manual[name].text .. "\n\n" .. (manual[name].notes or "")
  return line_about(text, option) or sentence_about(text, option)
end

-- Options that only completion knows: of which functions they are and what their pages say of them.
local function of_other_options(add, described)
  local functions = {}
  for name, known in pairs(causeway._options) do
    for option in pairs(known) do
      if type(option) == "string" and not described[option] and manual[name] then
        functions[option] = functions[option] or {}
        table.insert(functions[option], name)
      end
    end
  end
  for option, list in pairs(functions) do
    table.sort(list)
    local ways, text, summary = {}, {}, nil
    for i, name in ipairs(list) do
      local about = about_option(name, option)
      ways[i] = manual[name].call:match("^m:[%w_]+") or name
      if about then text[#text + 1] = string.format("Of %s: %s.", ways[i], (about:gsub("%.$", ""))) end
      summary = summary or about and about .. "."
    end
    table.insert(text, 1, string.format("An option of %s; ?%s says more.", causeway._listed(ways), list[1]))
    add(option, {
      what = "an option", topic = "options", call = manual[list[1]].call, text = table.concat(text, "\n\n"),
      summary = summary, example = manual[list[1]].example,
    })
  end
end

-- name -> list of sections, from the registries as they are now.
local function sections_now()
  local sections = {}
  local function add(name, section)
    sections[name] = sections[name] or {}
    table.insert(sections[name], section)
  end
  of_manual(add)
  of_exact_methods(add)
  of_linear_attention(add)
  of_softmax_attention(add)
  of_factorisations(add)
  of_documents(add, sections)
  of_claims(add)
  of_other_options(add, of_described_options(add))
  return sections
end

-- Whether two lists hold the same values in the same places.
local function same(a, b)
  if #a ~= #b then return false end
  for i, value in ipairs(a) do
    if value ~= b[i] then return false end
  end
  return true
end

local sections, methods  -- those made last, and the methods of register_method that are in them

--- All sections: name -> list of them, which the caller does not change. They are made once for all pages, and anew
--- after register_method, which alone adds to a registry while the program runs.
function causeway._sections()
  local registered = causeway._registered_methods()
  if not sections or not same(methods, registered) then
    sections, methods = sections_now(), table.move(registered, 1, #registered, 1, {})
  end
  return sections
end
