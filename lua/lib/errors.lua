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
  split = 'the words of a text: for word in s:gmatch("%S+") do ... end',
  splitlines = 'the lines of a text: for line in s:gmatch("[^\\n]+") do ... end',
  strip = bare, trim = bare,
  getcwd = ";pwd at the prompt prints the folder",
  listdir = ";ls at the prompt lists the folder", system = "os.execute(text) runs a command, as ;ls at the prompt",
  makedirs = "mkpath(folder) makes it", mkdir = "mkpath(folder) makes it", chdir = ";cd FOLDER at the prompt moves",
  join = 'texts are joined by table.concat({"a", "b"}, ", ")',
  replace = 'it is s:gsub("from", "to"), of which the first value is the text',
  startswith = 'it is s:sub(1, 2) == "ab"',
  endswith = 'it is s:sub(-2) == "ab"',
}

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

local function of_points(name) return "run gets a table of the point: run = function(p) return p." .. name .. " end" end

-- {pattern of a message, function of what it captures and of the source that runs}: the hint, or nil.
local rules = {
  { "attempt to call a nil value %(method '([%w_]+)'%)$", function(name) return calls[name] end },
  { "attempt to call a nil value %(field '([%w_]+)'%)$", function(name) return calls[name] end },
  { "attempt to index a function value %(%l+ '([%w_]+)'%)$", function(name)
    return string.format("%s is a function: %s(...) calls it, and g, value = grad(%s, params) has its gradients", name,
      name, name)
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
  { "is read as %[heads, tokens, d_k%], expected %[batch, heads, tokens, d_k%]", function() return kept end },
  { "on a table value %(local '[%w_]+'%) %(sweep at ([%w_]+) =", of_points },
  { "compare number with table %(sweep at ([%w_]+) =", of_points },
  { "index (%d): (-?)%d+, expected 1 to ", function(place, _, _, sign)
    return sign == "" and "places count from 1" or string.format("the last one is size(A, %s)", place)
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
  { "([%w_]+): missing, update = ", function(name)
    local option = causeway._call_option("linear_attention", name)
    return option and name .. " is " .. option.text:match("^[^;]*") .. ", as in " .. option.example
  end },
  { "(%w+): expected a Tensor, got nothing$", function(_, source)
    return (source:find("[%w_]%s*%(?%s*{%s*[%a_][%w_]*%s*[,}]") or source:find("{%s*inputs%s*="))
      and "one table stands for arguments by name: {q = q, k = k, v = v}; one after the other they need none: (q, k, v)"
      or nil
  end },
}

--- What may be meant where a message came from this source, or nil.
function causeway._hint_on(message, source)
  for _, rule in ipairs(rules) do
    local found = { message:match(rule[1]) }
    local hint = found[1] and rule[2](found[1], source, message, found[2])
    if hint then return hint end
  end
end
