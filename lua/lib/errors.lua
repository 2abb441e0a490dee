-- What is to be known behind an error: hints on the messages of Lua and of the library.
local causeway = ...

-- Methods and fields that were called and are not there, of lists, texts, tables and results.
local of_pairs = "a loop over a table is written: for name, x in pairs(d) do ... end"
local markdown, latex = "of rows it is text_table(rows):markdown(), of results results:markdown()",
  "of rows it is text_table(rows):latex(), of results results:latex()"
local appended = "table.insert(l, x) appends x to a list"
local bare = 'a text without blanks around it is s:match("^%s*(.-)%s*$")'
local calls = {
  plot = 'rows of a file are drawn by plot(rows, "N", "time", {by = "method"})',
  markdown = markdown, to_markdown = markdown, latex = latex, to_latex = latex,
  save = 'rows are saved by save("rows.csv", rows)', to_csv = 'rows are saved by save("rows.csv", rows)',
  where = "rows of a file are a list: for _, row in ipairs(rows) do ... end",
  pivot = 'a wide table is made of the results of a sweep: results:pivot("method", "N", "median")',
  items = of_pairs, keys = of_pairs, values = of_pairs,
  append = appended, push = appended,
  split = 'the words of a text: for word in s:gmatch("%S+") do ... end',
  splitlines = 'the lines of a text: for line in s:gmatch("[^\\n]+") do ... end',
  strip = bare, trim = bare,
  join = 'texts are joined by table.concat({"a", "b"}, ", ")',
  replace = 'it is s:gsub("from", "to"), of which the first value is the text',
  startswith = 'it is s:sub(1, 2) == "ab"',
  endswith = 'it is s:sub(-2) == "ab"',
}

local conversions = { Float64 = "f64", Float32 = "f32", Float16 = "f16", BFloat16 = "bf16" }
local kept = 'a number drops the dimension that it indexes, a range keeps it: A(":", ":", {128, 128}, ":")'

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
  { ": 3 dimensions %(.*%), expected 4 like", function() return kept end },
  { "is read as %[heads, tokens, d_k%], expected %[batch, heads, tokens, d_k%]", function() return kept end },
  { "([%w_]+): missing, update = ", function(name)
    local option = causeway._call_option("linear_attention", name)
    return option and name .. " is " .. option.text:match("^[^;]*") .. ", as in " .. option.example
  end },
  { "(%w+): expected a Tensor, got nothing$", function(_, source)
    return source:find("[%w_]%s*%(?%s*{%s*[%a_][%w_]*%s*[,}]")
      and "one table stands for arguments by name: {q = q, k = k, v = v}; one after the other they need none: (q, k, v)"
      or nil
  end },
}

--- What may be meant where a message came from this source, or nil.
function causeway._hint_on(message, source)
  for _, rule in ipairs(rules) do
    local found = message:match(rule[1])
    local hint = found and rule[2](found, source, message)
    if hint then return hint end
  end
end
