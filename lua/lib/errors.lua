-- What is to be known behind an error: hints on the messages of Lua and of the library.
local causeway = ...

-- Methods and fields that were called and are not there, of lists, texts, tables and results.
local of_pairs = "a loop over a table is written: for name, x in pairs(d) do ... end"
local markdown, latex = "of rows it is text_table(rows):markdown(), of results results:markdown()",
  "of rows it is text_table(rows):latex(), of results results:latex()"
local appended = "table.insert(l, x) appends x to a list"
local drawn = 'a picture gets it when it is drawn: plot{x = x, y = y, title = "T"}'
local bare = 'a text without blanks around it is s:match("^%s*(.-)%s*$")'
local calls = {
  plot = 'rows of a file are drawn by plot(rows, "N", "time", {by = "method"})',
  markdown = markdown, to_markdown = markdown, latex = latex, to_latex = latex,
  save = 'rows are saved by save("rows.csv", rows)', to_csv = 'rows are saved by save("rows.csv", rows)',
  where = "rows of a file are a list: for _, row in ipairs(rows) do ... end",
  pivot = 'a wide table is made of the results of a sweep: results:pivot("method", "N", "median")',
  items = of_pairs, keys = of_pairs, values = of_pairs,
  append = appended, push = appended,
  title = drawn, xlabel = drawn, ylabel = drawn, legend = drawn, set_title = drawn, set_xlabel = drawn,
  sort = "a list is sorted by table.sort(l), or table.sort(l, function(a, b) return a.t < b.t end)",
  split = 'the words of a text: for word in s:gmatch("%S+") do ... end',
  splitlines = 'the lines of a text: for line in s:gmatch("[^\\n]+") do ... end',
  strip = bare, trim = bare, backward = "g, value = grad(loss, params) has the gradients of loss(params)",
  getcwd = ";pwd at the prompt prints the folder",
  listdir = ";ls at the prompt lists the folder", system = "os.execute(text) runs a command, as ;ls at the prompt",
  makedirs = "mkpath(folder) makes it", mkdir = "mkpath(folder) makes it", chdir = ";cd FOLDER at the prompt moves",
  join = 'texts are joined by table.concat({"a", "b"}, ", ")',
  replace = 'it is s:gsub("from", "to"), of which the first value is the text',
  startswith = 'it is s:sub(1, 2) == "ab"',
  endswith = 'it is s:sub(-2) == "ab"',
}

-- What load reads.
local forms_of_load = { npy = true, npz = true, safetensors = true, csv = true, json = true, lua = true }
causeway._forms_of_tables = { tex = true, md = true, html = true, txt = true }

local conversions = { Float64 = "f64", Float32 = "f32", Float16 = "f16", BFloat16 = "bf16" }
local kept = 'a number drops the dimension that it indexes, a range keeps it: A(":", ":", {128, 128}, ":")'

-- What is to be typed where the type of a tensor came first, as Julia has it: randn(Float64, 3).
local function type_behind(name, source)
  local type, dims = source:match(name .. "%s*%(%s*['\"]?(%u[%w_]*%d+)['\"]?%s*,%s*([^()]*)%)")
  return type and string.format('the type stands behind the sizes, in quotes: %s(%s, "%s")', name, dims,
    conversions[type] and type or "Float64") or nil
end

-- What is to be typed where a method of results was called with a point, b.plot(): what came as its object is none.
local function colon_for_point(_, source)
  for name, method in source:gmatch("([%a_][%w_]*)%.([%a_][%w_]*)%s*[%({\"']") do
    local object = _G[name]
    local known, found = pcall(function() return object[method] end)
    if known and type(found) == "function" and causeway._class_of_method(found) then
      return string.format("a method is called with a colon: %s:%s(...)", name, method)
    end
  end
end

-- The arguments of the first call of a function in the source, as texts; nil where the call is not found whole.
local function arguments_of(name, source)
  local inside = source:match("%f[%w_]" .. name .. "%s*(%b())")
  if not inside then return nil end
  local arguments, open, one = {}, 0, ""
  for character in inside:sub(2, -2):gmatch(".") do
    if character:find("[%(%[{]") then open = open + 1 end
    if character:find("[%)%]}]") then open = open - 1 end
    if character == "," and open == 0 then
      arguments[#arguments + 1], one = one, ""
    else
      one = one .. character
    end
  end
  arguments[#arguments + 1] = one
  for i, argument in ipairs(arguments) do arguments[i] = argument:match("^%s*(.-)%s*$") end
  return arguments
end

-- Batch, heads and tokens of the keys in a call of linear attention, "1, 4, 9"; where they are no variable, "b, h, N".
local function sizes_of_key(source)
  for _, call in ipairs({ "linear_attention", "linear_attention_step" }) do
    local key = rawget(_G, (arguments_of(call, source) or {})[2] or "")
    if (debug.getmetatable(key) or {}).__name == "Tensor" and causeway.ndims(key) > 3 then
      return string.format("%d, %d, %d", causeway.size(key))
    end
  end
  return "b, h, N"
end

-- The sizes of the state in a call of linear_attention_step, "1, 4, 64, 64"; nil where its keys and values are no
-- variables.
local function sizes_of_state(source)
  local arguments, sizes = arguments_of("linear_attention_step", source) or {}, {}
  for i = 2, 3 do
    local given = rawget(_G, arguments[i] or "")
    if (debug.getmetatable(given) or {}).__name ~= "Tensor" or causeway.ndims(given) < 3 then return nil end
    sizes[i] = { given:size() }
  end
  local b, h = table.unpack(sizes[3])
  return string.format("%d, %d, %d, %d", b, h, sizes[2][#sizes[2]], sizes[3][#sizes[3]])
end

-- The list that a global of the user's is, and its name, where this pattern stands behind the name in the source; nil
-- where it is none.
local function list_before(source, pattern)
  local object = source:match("([%a_][%w_]*)" .. pattern)
  local value = object and rawget(_G, object)
  if causeway._is_plain(value) and #value > 0 then return value, object end
end

-- What is to be typed where a global of the user's that stands before this pattern in the source is a table of tensors
-- by name, as load gives of a file with several.
local function tensors_by_name(source, pattern)
  local object = source:match("([%a_][%w_]*)" .. pattern)
  local value, first = rawget(_G, object or ""), nil
  for name, one in pairs(causeway._is_plain(value) and value or {}) do
    if type(name) ~= "string" or (debug.getmetatable(one) or {}).__name ~= "Tensor" then return nil end
    if not first or name < first then first = name end
  end
  return first and string.format("%s is a table of tensors by name: %s.%s%s()", object, object, first, pattern)
end

-- What is to be typed where a table that an object has was called as a method.
local function table_for_method(name, source)
  local object = source:match("([%a_][%w_]*)[.:]" .. name .. "%s*%(")
  local known, value = pcall(function() return rawget(_G, object)[name] end)
  if not object or not known or type(value) ~= "table" then return nil end
  local list = #value > 0 and string.format(", its first %s.%s[1]", object, name) or ""
  return string.format("it is a table and not called: %s.%s%s", object, name, list)
end

-- What is to be typed where the last argument of a call is a call with more results than one.
local function several_results(name, source)
  local arguments = arguments_of(name, source)
  local last = arguments and arguments[#arguments]
  return last and last:find("^[%a_][%w_.:]*%s*%b()$")
    and string.format("a call at the end passes on all its results: (%s) is the first alone", last) or nil
end

-- Whether this value has a method of the name, which is no function of the library's.
local function has_method(value, name)
  local class = debug.getmetatable(value) or {}
  if class.__name == "Model" then return (class.__methods or {})[name] ~= nil end
  if type(value) ~= "table" then return false end
  local known, found = pcall(function() return value[name] end)
  return known and type(found) == "function" and causeway._class_of_method(found) ~= nil
end

-- What is to be typed where a method was called as a function, bits_per_byte(m, "a text"): of the value that came
-- first, else of a model.
local function method_for_function(name, source)
  local arguments = arguments_of(name, source)
  local object = arguments and arguments[1]:match("^[%a_][%w_]*$")
  local value = object and rawget(_G, object)
  local own = value ~= nil and has_method(value, name)
  local of_models = (causeway._metatable("Model").__methods or {})[name]
  local tensor = value ~= nil and (debug.getmetatable(value) or {}).__name == "Tensor"
  if not own and (tensor or not of_models) then return nil end
  if arguments and (own or object and value == nil) then table.remove(arguments, 1) end
  local rest = arguments and table.concat(arguments, ", ") or "..."
  if rest:find("\n") then rest = "..." end
  return string.format("it is a method%s: %s:%s(%s)", own and "" or " of models", object or "m", name, rest)
end

-- Fields that no table of the user's has, read in the source: what stands before them, without calls, as far as it is
-- there.
local function table_before(name, source)
  for path in source:gmatch("([%a_][%w_%.%[%]\"']*)%.%f[%w_]" .. name .. "%f[^%w_]") do
    local value = _G
    for key in path:gmatch("[^%.%[%]]+") do
      local place = math.tointeger(tonumber(key))
      if type(value) ~= "table" then break end
      value = rawget(value, place or key:match("^[\"']?(.-)[\"']?$"))
    end
    if type(value) == "table" and value ~= _G and value ~= causeway and rawget(value, name) == nil then
      return value, path
    end
  end
end

-- What is to be known of a name that the table `value`, called `path` in the source, does not have; nil where it has
-- none or too many.
local function absent_name(value, path, name)
  if getmetatable(value) and getmetatable(value).__index then return nil end
  local names = {}
  for key in next, value do
    if type(key) == "string" then names[#names + 1] = key end
  end
  if #names == 0 or #names > 40 then return nil end
  table.sort(names)
  local near = causeway._closest(name, names)
  local captured = {}
  for _, one in ipairs(causeway._options.capture.what) do captured[one] = true end
  local all = captured[name]
  for _, one in ipairs(names) do all = all and captured[one] end
  if all then return string.format('%s has no "%s": m:capture{..., what = "%s"} asks for it', path, name, name) end
  local known = near ~= "" and string.format('(did you mean "%s"?)', near) or "but " .. causeway._listed(names)
  return string.format('%s has no "%s" %s', path, name, known)
end

--- What is to be known of a field of a table of the user's that was read and is not there: `d[1] has no "gama" (did you
--- mean "gamma"?)`. Nil where the table has no names, or the source sets the field.
function causeway._absent_field(name, source)
  local value, path = table_before(name, source)
  return value and absent_name(value, path, name)
end

--- The same of an entry that is such a field and nothing else, or prints it.
function causeway._note_on_field(source)
  local whole = source:gsub("[;%s]+$", ""):match("[^;\n]*$")
  whole = whole:match("^%s*print%s*%((.*)%)%s*;?%s*$") or whole
  local name = whole:match("^%s*[%a_][%w_%.%[%]\"']*%.([%a_][%w_]*)%s*;?%s*$")
  if name then return causeway._absent_field(name, source) end
  local object, key = whole:match("^%s*([%a_][%w_]*)%[[\"']([^\"']+)[\"']%]%s*;?%s*$")
  local value = rawget(_G, object or "")
  return type(value) == "table" and rawget(value, key) == nil and absent_name(value, object, key) or nil
end

-- What was said of variables that were to be states, by their names.
local nil_states = {}
causeway._nil_states = nil_states

--- What is to be known of an entry that gives a second variable the state of a call that returns it on request alone.
function causeway._note_on_state(source)
  if source:find("%f[%w_]local%f[^%w_]") or source:find("%f[%w_]function%f[^%w_]") then return nil end
  for state, call in source:gmatch("[%a_][%w_]*%s*,%s*([%a_][%w_]*)%s*=%s*([%a_][%w_]*)%s*%(") do
    if state ~= "_" and rawget(_G, state) == nil and (causeway._options[call] or {}).return_state then
      local told = string.format("%s is nil: %s returns its state with return_state = true", state, call)
      nil_states[state] = told
      return told
    end
  end
end

-- What is there of a name like that of a path in the source, of the same kind or one that load reads.
local function near_path(path, source, message)
  local near = source:find(path, 1, true) and causeway._near_path(path) or ""
  local form, of_near = path:match("%.(%w+)$"), near:match("%.(%w+)$")
  if not forms_of_load[of_near] and (of_near ~= form or message:find("load: \"", 1, true)) then return nil end
  return near ~= "" and string.format('did you mean "%s"?', near) or nil
end

-- The calls with several results that people hand on.
local several = { { "lowrank", "B, C" }, { "svd", "U, S, V" }, { "qr", "Q, R" }, { "linear_attention", "o, S" },
  { "linear_attention_step", "o, S" }, { "scan", "o, S" } }

-- What is to be typed where a call with several results is an argument and another one follows it.
local function first_result_alone(_, source)
  for _, call in ipairs(several) do
    if source:find("[%(,]%s*" .. call[1] .. "%s*%b()%s*,") then
      return string.format("before a comma only the first result counts: %s = %s(...)", call[2], call[1])
    end
  end
end

local function of_points(name) return "run gets a table of the point: run = function(p) return p." .. name .. " end" end

-- What is known of the text of a file that dofile was to run and that is no Lua.
local function of_file(path, source, message)
  return source:find("dofile", 1, true) and causeway._hint_on_script(path, message) or nil
end

-- {pattern of a message, function of what it captures and of the source that runs}: the hint, or nil.
local rules = {
  { "^(.-%.lua):%d+: .+ near ", of_file },
  { "attempt to call a nil value %(global 'time'%)$", function()
    return "t = clock(); f(); clock() - t are seconds; @btime f() measures a call"
  end },
  { "attempt to call a nil value %(global '([%w_]+)'%)$", method_for_function },
  { "attempt to call a nil value %(method '([%w_]+)'%)$", function(name) return calls[name] end },
  { "attempt to call a nil value %(method '([%w_]+)'%)$", function(name, source)
    local list, object = list_before(source, ":" .. name)
    if not causeway._metatable("Tensor").__methods[name] or list and type(list[1]) ~= "number" then return nil end
    local named = not list and tensors_by_name(source, ":" .. name)
    if named then return named end
    return list and string.format("%s is a list: tensor(%s):%s() is of a tensor of it", object, object, name)
      or string.format("it is a method of tensors: of a list, tensor({1, 2, 3}):%s()", name)
  end },
  { "k: (%d[%d×]*), expected (%d[%d×]*) like q$", function(_, _, message)  -- grouped keys: fewer heads than q
    local b, h, n, d, all, heads, tokens, width =
      message:match("k: (%d+)×(%d+)×(%d+)×(%d+), expected (%d+)×(%d+)×(%d+)×(%d+) like q$")
    h, heads = tonumber(h), tonumber(heads)
    if not b or b ~= all or n ~= tokens or d ~= width or h == 0 or heads % h ~= 0 then return nil end
    local places = {}
    for head = 1, math.min(h, 3) do
      for _ = 1, math.min(heads // h, 3) do places[#places + 1] = tostring(head) end
    end
    local more = #places < heads and ", ..." or ""
    return string.format('k(":", {{%s%s}}, ":", ":") has each head of k as often as q needs it',
      table.concat(places, ", "), more)
  end },
  { "attempt to call a table value %(global '([%w_]+)'%)$", function(name, source)
    local list = list_before(source, "%(")
    return list and list == rawget(_G, name) and string.format("%s is a list: %s[1] is its first; tensor(%s) makes a "
      .. "tensor of it", name, name, name)
  end },
  { "attempt to call a table value %(method '([%w_]+)'%)$", table_for_method },
  { "attempt to call a table value %(field '([%w_]+)'%)$", table_for_method },
  { "([%w_]+): options: expected a table such as .*, got a Tensor$", several_results },
  { "decay: %d+ values, expected 1%f[^%d]", function()
    return "a decay for each token is linear_attention's: update = \"gated\", log_decay = log(decay)"
  end },
  { "attempt to call a nil value %(field '([%w_]+)'%)$", function(name) return calls[name] end },
  { "attempt to index a function value %(%l+ '([%w_]+)'%)$", function(name, source)
    local object = source:match("%f[%w_]([%a_][%w_]*)%." .. name .. "%f[^%w_]")
    if object and causeway[object] == nil then
      return string.format("%s is a method: %s:%s() calls it", name, object, name)
    end
    local gradients = source:find(name .. "%.[%l_]*%f[%l]grad") or source:find(name .. "%.backward")
    return string.format("%s is a function: %s(...) calls it", name, name)
      .. (gradients and string.format(", and g, value = grad(%s, params) has its gradients", name) or "")
  end },
  { "elements of a Tensor are written as", function(_, source)
    return source:find("requires_grad", 1, true)
      and "no tensor is marked: g, value = grad(loss, params) has the gradients of loss(params)" or nil
  end },
  { "([%w_]+): B?Float%d+, expected B?Float%d+ like ([%w_]+)$", function(_, _, message)
    local name, came, wanted, like = message:match("([%w_]+): (B?Float%d+), expected (B?Float%d+) like ([%w_]+)$")
    return string.format("%s(%s) makes %s %s, %s(%s) makes %s %s", conversions[wanted], name, name, wanted,
      conversions[came], like, like, came)
  end },
  { "(%l+): dimension 1: expected a number, got ", type_behind },
  { "module '.-' not found:", function()
    return "the library is here already; require(\"name\") reads name.lua from this folder"
  end },
  { "rand: expected dimensions", function() return "math.random() is one number from 0 to 1" end },
  { "index 1: expected a number, .*, got \" ", function(_, source)  -- A' * B'
    return source:find("[%w_%)%]]'[^']*'") and "A:t() is the transpose of A" or nil
  end },
  { ": 3 dimensions %(.*%), expected 4 like", function() return kept end },
  { "state: %d[%d×]*, expected %d[%d×]*", function(_, source)  -- q(":", ":", 1, ":") of one token
    return source:find("[\"']:[\"']%s*,%s*[%w_]+%s*,") and kept or nil
  end },
  { "is read as %[heads, tokens, d_k%], expected %[batch, heads, tokens, d_k%]", function() return kept end },
  { "on a table value %(local '[%w_]+'%) %(sweep at ([%w_]+) =", of_points },
  { "compare number with table %(sweep at ([%w_]+) =", of_points },
  { "(%l[%l_]*): %d[%d×]*, expected %d[%d×]*×1%f[^%d×]", function(name, source)  -- g(":", ":", t) of one token
    local call = source:find("linear_attention_step", 1, true) or source:find(":step", 1, true)
    return call and string.format("a number drops the dimension that it indexes, a range keeps it: "
      .. "%s = x(\":\", \":\", {5, 5})", name) or nil
  end },
  { "state: expected a Tensor, got nothing", function(_, source)
    return string.format("zeros(b, h, d_k, d_v) is an empty state: linear_attention_step(q, k, v, zeros(%s))",
      sizes_of_state(source) or "1, 8, 64, 64")
  end },
  { "state: expected a Tensor, got a table", function()
    return "the state comes fourth, the options behind it: linear_attention_step(q, k, v, S, {update = \"delta\", ...})"
  end },
  { "x%.([%w_]+) is not given, expected it in the call: rule", function(name, source)
    local measured = source:find("benchmark_method", 1, true) or source:find("causal_linear_attention", 1, true)
    return measured and string.format("a function gives it: mine = function(q, k, v) return (rule(q, k, v, {%s = %s})) "
      .. "end, benchmark_method(mine, {inputs = {q, k, v}, reference = false})", name, name) or nil
  end },
  { "evaluate: options: expected a table such as", function() return "m:evaluate{cloze = true}, or {mmlu = path}" end },
  { "cannot be loaded: its extension is \"%.(%l+)\"", function(form)
    local path = 'io.open("a.' .. form .. '"):read("a")'
    return (form == "txt" or form == "md" or form == "log" or form == "lua" or form == "tex")
      and "the text of a file is " .. path or nil
  end },
  { "(%S+): cannot be read: No such file or directory", near_path },
  { "load: \"(.-)\" is neither a file nor Lua code", near_path },
  { "load: \"(.-)\" is neither a file nor Lua code", function(path)
    if path:find("%.txt$") then return "there is no such file; the text of one is io.open(path):read(\"a\")" end
    return path:find("%.%w+$") and "there is no such file" or nil
  end },
  { "index (%d): (-?)%d+, expected 1 to ", function(place, _, _, sign)
    return sign == "" and "places count from 1" or string.format("the last one is size(A, %s)", place)
  end },
  { "attempt to call a table value %(global 'table'%)", function()
    return "show_table(rows) shows rows as a table, text_table(rows) keeps it"
  end },
  { "attempt to call a nil value %(global 'benchmark'%)", function(_, source)
    return source:find("benchmark%s*%(%s*function%s*%(%s*%)") and "btime(f) times a function without arguments" or nil
  end },
  { "attempt to index a nil value %(global '([%w_]+)'%)", function(name, source)
    local attribute = source:find("%f[%w_]" .. name .. "%.shape%f[^%w_]") or source:find("%f[%w_]" .. name .. "%.dtype")
    return attribute and string.format("nothing is called %s here", name) or nil
  end },
  { "attempt to call a table value %(global 'string'%)", function()
    return "a text of a value is tostring(x), with digits string.format(\"%.3f\", x)"
  end },
  { "attempt to mod a 'string' with", function() return 'a text with a value in it is string.format("%.3f", x)' end },
  { "attempt to call a nil value %(field '([%w_]+)'%)$", function(name, source)
    local here = type(causeway[name]) == "function" and source:find("%f[%w_]math%." .. name .. "%f[^%w_]")
    return here and string.format("it is %s(x) here, of numbers and of tensors", name) or nil
  end },
  { "attempt to %l+ a %l+ value", colon_for_point },
  { "([%w_]+): missing, update = ", function(name, source)
    local option = causeway._call_option("linear_attention", name)
    return option and string.format("%s is %s, such as %srand(%s)", name, option.text:match("^[^:;]*"),
      name == "log_decay" and "-" or "", sizes_of_key(source))
  end },
  { "a nil value %(field '([%a_][%w_]*)'%)$", causeway._absent_field },
  { "(%S+): cannot be written: No such file or directory", function(path)
    local folder = path:match("^(.+)/[^/]+$")
    local there = folder and io.open(folder)
    if there then there:close() end
    return folder and not there and string.format("mkpath(%q) makes the folder", folder) or nil
  end },
  { "name: expected a string, got nothing", function(_, source)
    return source:find("lowrank%s*%(%s*%)")
      and 'B, C = lowrank("favor+", q, k, {rank = 64}); lowrank_methods() lists them' or nil
  end },
  { "save: value: expected what to save, got nothing", function(_, source)
    return source:find("nil%s*%)") and 'save("q.npy", q) saves q' or nil
  end },
  { "norm: argument 2", function()
    return "the largest singular value is opnorm(A), the largest sum of a column maximum(sum(abs(A), 1))"
  end },
  { "its output for token %d+ has Inf or NaN", function()
    return 'exponentials of its features may vanish or overflow here: a larger rank, another seed, or '
      .. 'with = "hedgehog", whose features lie between 0 and 1'
  end },
  { "round: argument 2", function() return 'digits of a text are string.format("%.2f", x)' end },
  { "length: expected a Tensor, got a (%l+)", function() return "the length of a list or of a text is #x" end },
  { 'save: "(.-)" has the extension "%.(%l+)"', function(path, source, _, form)
    if form == "svg" or form == "png" or form == "pdf" then
      local picture = source:match("save%s*%b()") and source:match("save%s*%(%s*[^,]*,%s*([%a_][%w_]*)%s*%)") or "p"
      return string.format('a plot is saved by its own method: %s:save("%s")', picture, path)
    end
    return causeway._forms_of_tables[form] and string.format('rows in this form: text_table(rows):save("%s")', path)
      or nil
  end },
  { "a %.csv file holds a table of rows", function()
    return 'vectors are saved by text_table{x = x, y = y}:save("x.csv")'
  end },
  { "model: expected a model, as in m:layers", function(_, source)
    local object, method = source:match("([%a_][%w_]*)%.([%a_][%w_]*)%s*[%({\"']")
    return object and string.format("a method is called with a colon: %s:%s(...)", object, method) or nil
  end },
  { "cost: [rN]: expected a number", function() return 'cost("recursion", {N = 8192, r = 128, d = 128})' end },
  { "returned %u%w+, expected (%u%w+) like V", function(type)
    return conversions[type] and string.format("%s(o) has this type", conversions[type])
  end },
  { 'method: "auto" names no definition', function()
    return 'opcount(causal_linear_attention, q, k, v, {method = "recursion"})'
  end },
  { "opcount: expected a function", function()
    return 'opcount(causal_linear_attention, q, k, v, {method = "recursion"})'
  end },
  { "crossover: options: expected a table", function() return "crossover{r = 128, d = 128}" end },
  { "(%w+): expected a Tensor, got nothing$", first_result_alone },
  { "(%w+): expected a Tensor, got nothing$", function(_, source)  -- heatmap(c.scores)
    for object, field in source:gmatch("%f[%w_]([%a_][%w_]*)%.([%a_][%w_]*)%s*%)") do
      local value = rawget(_G, object)
      local absent = causeway._is_plain(value) and value[field] == nil and causeway._absent_field(field, source)
      if absent then return absent end
    end
  end },
  { "(%w+): expected a Tensor, got nothing$", function(_, source)
    return (source:find("[%w_]%s*%(?%s*{%s*[%a_][%w_]*%s*[,}]") or source:find("{%s*inputs%s*="))
      and "one table stands for arguments by name: {q = q, k = k, v = v}; one after the other they need none: (q, k, v)"
      or nil
  end },
}

--- What may be meant where a message came from this source, or nil. Words in a longer message were given, and the
--- patterns take time with the square of them.
function causeway._hint_on(message, source)
  if #message > 1000 then return nil end
  for _, rule in ipairs(rules) do
    local found = { message:match(rule[1]) }
    local hint = found[1] and rule[2](found[1], source, message, found[2])
    if hint then return hint end
  end
end
