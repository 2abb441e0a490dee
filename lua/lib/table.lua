-- Tables of results: aligned text for a terminal, HTML for a page, Markdown and LaTeX for a paper, CSV for a file.
--
-- rows: a list of tables, a value for each column's key. Options:
--   columns  list of keys, or of {key =, title =, unit =, digits =, format = pattern or function(value, row), align =
--            "left"|"right", link = function(row)}; link gives the address of a cell on a page, or nil;
--            default: every key that occurs, sorted
--   title    a line above;  note: a line below;  most: rows shown, the middle ones left out past it
--   leading  how many columns are repeated where a table too wide for the terminal goes on below itself; default 1
--
-- Numbers of a column without a format have one number of decimals. With unit = "seconds" or "bytes" all of them have
-- the one unit that fits, which the header names; any other unit only stands there.
local causeway = ...

local Table = {}

-- Its rows by their numbers, as results have theirs.
function Table:__index(key)
  if math.type(key) == "integer" then return rawget(self, "rows")[key] end
  local own = rawget(Table, key)
  if own ~= nil then return own end
  return getmetatable(Table).__index(Table, key)  -- whom the absent field is told to is the caller of this one
end
function Table:__len() return #self.rows end
Table.__methods = Table  -- what Tab completes

causeway._only_fields(Table, { what = "a table", fields = "rows columns title note leading most" })
Table.__name = "Table"
causeway._can_show(Table)

--- A number with `digits` significant digits (4), without an exponent where it can be read without one.
function causeway.number_text(x, digits)
  if type(x) ~= "number" then causeway._raise("number_text: expected a number, got " .. causeway._noun(x)) end
  if digits == nil then digits = 4 end
  local whole = type(digits) == "number" and math.tointeger(digits)
  if not whole or whole < 1 or whole > 17 then
    causeway._raise("number_text: digits: " .. (type(digits) == "number" and tostring(digits) or causeway._noun(digits))
      .. ", expected a whole number from 1 to 17")
  end
  digits = whole
  if x ~= x then return "NaN" end
  if x == math.huge then return "Inf" elseif x == -math.huge then return "-Inf" end
  local size = math.abs(x)
  if math.type(x) == "integer" or size < 1e7 and x == math.floor(x) then return string.format("%.0f", x) end
  if size < 1e-3 or size >= 1e7 then
    local mantissa, sign, exponent = string.format("%." .. digits - 1 .. "e", x):match("^(.-)e([+-])0*(%d+)$")
    return mantissa .. "e" .. (sign == "-" and "-" or "") .. exponent
  end
  return string.format("%." .. math.max(0, digits - 1 - math.floor(math.log(size, 10))) .. "f", x)
end

-- What one unit of the header is worth, smallest first.
local scales = {
  seconds = { { "ns", 1e-9 }, { "µs", 1e-6 }, { "ms", 1e-3 }, { "s", 1 } },
  bytes = { { "B", 1 }, { "KiB", 2^10 }, { "MiB", 2^20 }, { "GiB", 2^30 }, { "TiB", 2^40 } },
}
causeway._units = scales

-- The sizes, other than 0, of a column's finite numbers, sorted; and whether one of them is no whole number.
local function sizes_of(rows, key)
  local sizes, broken = {}, false
  for _, row in ipairs(rows) do
    local x = row[key]
    if type(x) == "number" and x == x and math.abs(x) ~= math.huge then
      if x ~= 0 then sizes[#sizes + 1] = math.abs(x) end
      broken = broken or x ~= math.floor(x)
    end
  end
  table.sort(sizes)
  return sizes, broken
end

-- Decimals with which the middle one of the sizes has `digits` significant digits, and the least one two of them where
-- that takes no more than `most` decimals.
local function decimals_of(sizes, digits, most)
  local function behind(x, wanted) return wanted - 1 - math.floor(math.log(x, 10)) end
  local middle, least = behind(sizes[(#sizes + 1) // 2], digits), behind(sizes[1], math.min(2, digits))
  return math.max(0, math.min(middle, most), least <= most and least or 0)
end

--- Decimals for all of these numbers, at most `most`: the middle one of their sizes gets `digits` significant digits.
function causeway._decimals(numbers, digits, most)
  local rows = {}
  for i, x in ipairs(numbers) do rows[i] = { x } end
  local sizes = sizes_of(rows, 1)
  return #sizes > 0 and decimals_of(sizes, digits, most) or 0
end

local most_digits = 8 -- of a number with decimals; a column that needs more has each number written for itself

-- Sets how the numbers of a column without a format are written: factor and pattern, and the unit that the factor
-- makes; of numbers below 1, some of them very small, an exponent for all. Without either each is written for itself.
local function choose_numbers(column, rows, unit)
  local sizes, broken = sizes_of(rows, column.key)
  local scale = scales[unit]
  column.unit, column.factor = unit, 1
  if #sizes == 0 then
    if scale then column.unit, column.pattern = scale[1][1], "%.0f" end
    return
  end
  if scale then
    local middle = sizes[(#sizes + 1) // 2]
    local fitting = scale[1]
    for _, entry in ipairs(scale) do
      if entry[2] <= middle then fitting = entry end
    end
    column.unit, column.factor = fitting[1], 1 / fitting[2]
    for i, size in ipairs(sizes) do sizes[i] = size * column.factor end
    local whole = unit == "bytes" and fitting[2] == 1
    column.pattern = "%." .. (whole and 0 or decimals_of(sizes, column.digits or 3, 3)) .. "f"
  elseif broken then
    local decimals = decimals_of(sizes, column.digits or 4, most_digits)
    if sizes[#sizes] * 10.0 ^ decimals < 10 ^ most_digits and sizes[1] >= 1e-4 then
      column.pattern = "%." .. decimals .. "f"
    elseif sizes[#sizes] < 1 then
      column.exponent = "%." .. (column.digits or 4) - 1 .. "e"
    end
  end
end

local function number_cell(column, x)
  if column.format then return string.format(column.format, x) end
  if column.exponent and x ~= 0 and x == x and math.abs(x) ~= math.huge then
    return (string.format(column.exponent, x):gsub("e([+-])0*(%d)", function(sign, digit)
      return "e" .. (sign == "-" and "-" or "") .. digit
    end))
  end
  if not column.pattern or x ~= x or math.abs(x) == math.huge then return causeway.number_text(x, column.digits) end
  return string.format(column.pattern, x * column.factor)
end

--- What writes all numbers of rows[i][key] in one unit with as many decimals, and that unit, which text_table would
--- choose for a column of them.
function causeway._format_of_all(rows, key, unit)
  local column = { key = key }
  choose_numbers(column, rows, unit)
  return function(x) return type(x) == "number" and number_cell(column, x) or tostring(x) end, column.unit
end

local function cell_text(column, row)
  local value = row[column.key]
  if value == nil then return "" end
  local text
  if type(column.format) == "function" then
    text = tostring(column.format(value, row))
  elseif type(value) == "number" then
    text = number_cell(column, value)
  else
    text = tostring(value)
  end
  return (text:gsub("[\0-\31\127]", " "))
end

local function check_whole(name, value, least, most)
  if value == nil or math.type(value) == "integer" and value >= least and value <= most then return end
  causeway._raise(string.format("%s: %s, expected a whole number from %d to %d", name, tostring(value), least,
    most))
end

-- What a column may be told.
local column_fields = { key = true, title = true, unit = true, digits = true, format = true, align = true, link = true }

-- Whether the names differ in one letter, or in two that stand the other way round.
local function one_apart(a, b)
  if math.max(#a, #b) < 4 then return false end
  while a ~= "" and a:sub(1, 1) == b:sub(1, 1) do a, b = a:sub(2), b:sub(2) end
  while a ~= "" and a:sub(-1) == b:sub(-1) do a, b = a:sub(1, -2), b:sub(1, -2) end
  return math.max(#a, #b) < 2 or #a == 2 and a == b:reverse()
end

-- Refuses columns of which no row has one. A column alone that no row has stays empty, for it may be one that rows have
-- at times; a note says so where it is hardly more than a misspelt other one, or where the rows are `shown` at once.
local function check_keys(rows, columns, shown)
  local there, known, absent = {}, {}, {}
  for _, row in ipairs(rows) do
    for key in pairs(row) do there[key] = true end
  end
  for key in pairs(there) do known[#known + 1] = tostring(key) end
  table.sort(known)
  for _, column in ipairs(columns) do
    if not there[column.key] then absent[#absent + 1] = tostring(column.key) end
  end
  if #known == 0 or #absent == 0 then return end
  if #absent == #columns then
    local all = table.concat(known, ", ")
    causeway._raise(string.format('columns: no row has "%s", expected one of %s', absent[1], all))
  end
  for _, key in ipairs(absent) do
    local near
    for _, name in ipairs(known) do
      if one_apart(key, name) then near = string.format('(did you mean "%s"?)', name) end
    end
    if near or shown then
      local told = near or "but " .. causeway._listed(known)
      causeway._note(string.format('columns: no row has "%s" %s', key, told))
    end
  end
end

local function columns_of(rows, wanted, shown)
  local keys = wanted
  if not keys then
    keys = {}
    local seen = {}
    for _, row in ipairs(rows) do
      for key in pairs(row) do
        if not seen[key] then seen[key] = true; keys[#keys + 1] = key end
      end
    end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  end
  local columns = {}
  for i, spec in ipairs(keys) do
    if type(spec) ~= "table" then spec = { key = spec } end
    if spec.key == nil then causeway._raise("columns: item " .. i .. " has no key, expected a name or {key = NAME}") end
    for name in pairs(spec) do
      if not column_fields[name] then
        causeway._raise(string.format('columns: item %d: unknown field "%s"%s', i, tostring(name),
          causeway._meant_field(tostring(name), column_fields)))
      end
    end
    check_whole("columns: item " .. i .. ": digits", spec.digits, 1, 17)
    if spec.unit ~= nil and type(spec.unit) ~= "string" then
      causeway._raise("columns: item " .. i .. ": unit: expected a text, got " .. causeway._noun(spec.unit))
    end
    if spec.link ~= nil and type(spec.link) ~= "function" then
      causeway._raise("columns: item " .. i .. ": link: expected a function of the row, got a " .. type(spec.link))
    end
    local align = spec.align
    if not align then
      align = "left"
      for _, row in ipairs(rows) do
        if type(row[spec.key]) == "number" then align = "right" end
      end
    end
    local title = spec.title or tostring(spec.key)
    local column = { key = spec.key, title = causeway._label(title), format = spec.format, align = align,
      digits = spec.digits, link = spec.link }
    if spec.format then column.unit = spec.unit else choose_numbers(column, rows, spec.unit) end
    local unit = column.unit and " (" .. column.unit .. ")" or ""
    column.title, column.tex = column.title .. unit, title .. unit
    columns[i] = column
  end
  if wanted then check_keys(rows, columns, shown) end
  return columns
end

causeway._options.text_table = { columns = true, title = true, note = true, most = true, align = true,
  leading = true }
causeway._options.show_table = causeway._options.text_table

-- The last number of a list in which some may be missing.
local function last_of(column, key)
  local last = 0
  for i in pairs(column) do
    if math.type(i) ~= "integer" or i < 1 then
      causeway._raise(string.format("rows: %s has the key %s, expected a list", key, tostring(i)))
    end
    last = math.max(last, i)
  end
  return last
end

-- Rows of a table of columns, {N = {1, 2}, time = {3, 4}}; what is none as it is.
local function rows_of_columns(given)
  if not causeway._is_plain(given) or given[1] ~= nil or next(given) == nil then return given end
  local rows, n, first = {}, nil, nil
  for key, column in pairs(given) do
    if type(column) == "userdata" then
      if column:ndims() ~= 1 then
        causeway._raise(string.format("rows: %s is %s, expected a vector", tostring(key), causeway._noun(column)))
      end
      column = column:totable()
    end
    if type(key) ~= "string" or type(column) ~= "table" then
      causeway._raise("rows: " .. tostring(key) .. " is " .. causeway._noun(column)
        .. ", expected a list of rows {{N = 1, time = 2}, ...}, or columns {N = {1, 2}, time = {3, 4}}")
    end
    local last = last_of(column, key)
    n, first = n or last, first or key
    if last ~= n then
      local a, b = first, key
      if b < a then a, b, n, last = b, a, last, n end
      causeway._raise(
        string.format("rows: %s has %d values and %s %d, expected as many in every column", a, n, b, last))
    end
    for i = 1, last do
      rows[i] = rows[i] or {}
      rows[i][key] = column[i]
    end
  end
  return rows
end

local function new_table(rows, options, shown)
  -- load() gives the names of the columns behind the rows.
  if causeway._is_plain(options) and #options > 0 and next(options, #options) == nil then
    options = { columns = options }
  end
  if causeway._is_results(rows) and not (options and options.columns) then return rows:table(options) end
  rows = rows_of_columns(rows)
  if type(rows) ~= "table" then causeway._raise("rows: expected a list of tables, got " .. causeway._noun(rows)) end
  for i, row in ipairs(rows) do
    if type(row) ~= "table" then
      causeway._raise("rows: item " .. i .. " is " .. causeway._noun(row) .. ", expected a table")
    end
  end
  causeway._check_options("text_table", options)
  options = options or {}
  check_whole("leading", options.leading, 1, 1000)
  local columns = columns_of(rows, options.columns, shown)
  for i, align in ipairs(options.align or {}) do
    if columns[i] then columns[i].align = align end
  end
  return setmetatable({ rows = rows, columns = columns, title = options.title, note = options.note,
    most = options.most, leading = options.leading or 1 }, Table)
end

--- A table of results that shows itself as aligned text or HTML. Nothing is printed.
function causeway.text_table(rows, options) return new_table(rows, options) end

local function width(text) return causeway._text_width(text) end

local function padded(text, size, align)
  local blanks = string.rep(" ", size - width(text))
  return align == "right" and blanks .. text or text .. blanks
end

-- The texts of all cells, row by row; false stands for the rows left out.
local function body(self)
  local lines, n = {}, #self.rows
  local most = math.max(2, self.most or n)
  for i, row in ipairs(self.rows) do
    local left_out = n > most and i > most // 2 and i <= n - (most - most // 2)
    if left_out then
      if lines[#lines] then lines[#lines + 1] = false end
    else
      local cells = {}
      for j, column in ipairs(self.columns) do cells[j] = cell_text(column, row) end
      lines[#lines + 1] = cells
    end
  end
  return lines
end

local narrowest = 16 -- no column of texts is made narrower than this, nor than its longest word

local function longest_word(text)
  local longest = 0
  for word in text:gmatch("%S+") do longest = math.max(longest, width(word)) end
  return longest
end

-- How wide each column is: as it stands; with its title over several lines; with its texts over several lines too.
local function measured(columns, lines)
  local natural, titles, texts = {}, {}, {}
  for j, column in ipairs(columns) do
    local title, cells, word = longest_word(column.title), 0, 0
    for _, row in ipairs(lines) do
      local text = row and row[j] or "⋮"
      cells, word = math.max(cells, width(text)), math.max(word, longest_word(text))
    end
    natural[j] = math.max(width(column.title), cells)
    titles[j] = math.max(title, cells)
    texts[j] = column.align == "left" and math.max(title, word, math.min(cells, narrowest)) or titles[j]
  end
  return natural, titles, texts
end

-- Blanks before and between so many columns.
local function gaps(columns) return 1 + 2 * (columns - 1) end

-- Takes width from the widest of the columns in `block` until they fit into `limit` characters beside one another;
-- false where they are then no wider than `least` and still do not fit.
local function fit(block, sizes, least, limit)
  local total = gaps(#block)
  for _, j in ipairs(block) do total = total + sizes[j] end
  while total > limit do
    local widest
    for _, j in ipairs(block) do
      if sizes[j] > least[j] and not (widest and sizes[widest] >= sizes[j]) then widest = j end
    end
    if not widest then return false end
    sizes[widest], total = sizes[widest] - 1, total - 1
  end
  return true
end

-- Lists of columns that fit into `limit` below one another, at most `most` new ones in each; the leading ones begin
-- each of them.
local function packed(sizes, leading, limit, most)
  local blocks, used, added = {}, math.huge, 0
  for j = leading + 1, #sizes do
    if added == most or used + 2 + sizes[j] > limit then
      local block, start = {}, gaps(leading)
      for k = 1, leading do block[k], start = k, start + sizes[k] end
      blocks[#blocks + 1], used, added = block, start, 0
    end
    local block = blocks[#blocks]
    block[#block + 1] = j
    used, added = used + 2 + sizes[j], added + 1
  end
  return blocks
end

local narrowest_below = 22 -- a column of texts where a table goes on below: it may rather be longer than narrow

-- The columns in as few blocks as fit below one another, as even as can be; sets the width of each column.
local function split(sizes, texts, leading, limit)
  local least = {}
  for j, size in ipairs(texts) do least[j] = math.max(size, math.min(sizes[j], narrowest_below)) end
  local function start(count)
    local total = gaps(count)
    for j = 1, count do total = total + least[j] end
    return total
  end
  least[1] = math.min(least[1], #least == 1 and limit - 1 or limit // 2)
  leading = math.max(1, math.min(leading, #least - 1))
  while leading > 1 and start(leading) > limit // 2 do leading = leading - 1 end
  for j = leading + 1, #least do least[j] = math.min(least[j], limit - start(leading) - 2) end
  for j = 1, leading do sizes[j] = least[j] end
  if #least == 1 then return { { 1 } } end
  local fewest = #packed(least, leading, limit)
  local most = (#least - leading + fewest - 1) // fewest
  while #packed(least, leading, limit, most) > fewest do most = most + 1 end
  local blocks = packed(least, leading, limit, most)
  for _, block in ipairs(blocks) do fit(block, sizes, least, limit) end
  return blocks
end

-- Lists of the columns that stand beside one another, and the width of each column.
local function laid_out(self, lines, limit)
  local sizes, titles, texts = measured(self.columns, lines)
  local all = {}
  for j in ipairs(sizes) do all[j] = j end
  if fit(all, sizes, titles, limit) or fit(all, sizes, texts, limit) then return { all }, sizes end
  return split(titles, texts, self.leading, limit), titles
end

-- Adds the lines of some columns to `out`.
local function add_block(out, self, lines, block, sizes)
  local function add(cell)
    local parts, height = {}, 1
    for i, j in ipairs(block) do
      parts[i] = causeway._lines(cell(j), sizes[j])
      height = math.max(height, #parts[i])
    end
    for k = 1, height do
      local line = {}
      for i, j in ipairs(block) do line[i] = padded(parts[i][k] or "", sizes[j], self.columns[j].align) end
      out[#out + 1] = (" " .. table.concat(line, "  ")):gsub(" +$", "")
    end
  end
  add(function(j) return self.columns[j].title end)
  local rule = {}
  for i, j in ipairs(block) do rule[i] = string.rep("─", sizes[j]) end
  out[#out + 1] = " " .. table.concat(rule, "──")
  for _, cells in ipairs(lines) do
    add(function(j) return cells and cells[j] or "⋮" end)
  end
end

local least_room = 20 -- columns of a terminal; in a narrower one lines run over

--- The table as text, no wider than the terminal: titles and long texts go over several lines, and where that is not
--- enough, columns go on below the others.
function Table:text()
  local limit = math.max(least_room, (causeway.terminal_size()))
  local lines, out = body(self), {}
  if self.title then out = causeway._lines((causeway._label(self.title)), limit) end
  local blocks, sizes = laid_out(self, lines, limit)
  for i, block in ipairs(blocks) do
    if i > 1 then out[#out + 1] = "" end
    add_block(out, self, lines, block, sizes)
  end
  if #lines == 0 then out[#out + 1] = " (no rows)" end
  if self.note then
    for _, line in ipairs(causeway._lines(self.note, limit - 1)) do out[#out + 1] = " " .. line end
  end
  return table.concat(out, "\n")
end

local function escaped(text)
  return (tostring(text):gsub("[&<>\"']", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;",
    ["'"] = "&#39;" }))
end
causeway._escape_html = escaped

-- Cells of a page with more characters than this may go over several lines.
local long_cell = 48

-- A cell of a page, a link where its column gives one.
local function cell_html(column, row)
  local text = escaped(cell_text(column, row))
  local address = column.link and column.link(row)
  return address and string.format('<a href="%s">%s</a>', escaped(address), text) or text
end

--- The table as HTML, all rows.
function Table:html()
  local out = { '<div class="table"><table>' }
  if self.title then out[#out + 1] = "<caption>" .. escaped((causeway._label(self.title))) .. "</caption>" end
  local long = {}
  for _, row in ipairs(self.rows) do
    for _, column in ipairs(self.columns) do
      if width(cell_text(column, row)) > long_cell then long[column] = true end
    end
  end
  local function line(tag, cell)
    local parts = {}
    for j, column in ipairs(self.columns) do
      parts[j] = string.format("<%s%s%s>%s</%s>", tag, long[column] and ' class="long"' or "",
        column.align == "right" and ' style="text-align:right"' or "", cell(column), tag)
    end
    return "<tr>" .. table.concat(parts) .. "</tr>"
  end
  out[#out + 1] = "<thead>" .. line("th", function(column) return escaped(column.title) end)
    .. "</thead><tbody>"
  for _, row in ipairs(self.rows) do
    out[#out + 1] = line("td", function(column) return cell_html(column, row) end)
  end
  out[#out + 1] = "</tbody></table>"
  if self.note then out[#out + 1] = "<p>" .. escaped(self.note):gsub("\n", "<br>\n") .. "</p>" end
  out[#out + 1] = "</div>"
  return table.concat(out, "\n")
end

local function trimmed(text) return (text:gsub("^ +", ""):gsub(" +$", "")) end

local function for_markdown(text) return (text:gsub("[\\`*_|<%[$~]", "\\%0"):gsub("[\r\n]+", " ")) end

--- The table in Markdown as GitHub reads it, all rows; the title above and the note below as paragraphs.
function Table:markdown()
  local out = {}
  if self.title then out = { "**" .. for_markdown((causeway._label(self.title))) .. "**", "" } end
  local function add(cell)
    local parts = {}
    for j, column in ipairs(self.columns) do parts[j] = cell(column) end
    out[#out + 1] = "| " .. table.concat(parts, " | ") .. " |"
  end
  add(function(column) return for_markdown(column.title) end)
  add(function(column) return column.align == "right" and "---:" or ":---" end)
  for _, row in ipairs(self.rows) do
    add(function(column) return for_markdown(trimmed(cell_text(column, row))) end)
  end
  if self.note then
    for line in self.note:gmatch("[^\n]+") do
      out[#out + 1] = ""
      out[#out + 1] = for_markdown(line)
    end
  end
  return causeway._made(table.concat(out, "\n") .. "\n")
end

-- What LaTeX reads otherwise, or has no glyph for in its usual fonts.
local latex_words = {
  ["\\"] = "\\textbackslash{}", ["~"] = "\\textasciitilde{}", ["^"] = "\\textasciicircum{}", ["<"] = "$<$",
  [">"] = "$>$", ["|"] = "$|$", ["⋮"] = "$\\vdots$", ["×"] = "$\\times$", ["÷"] = "$\\div$", ["±"] = "$\\pm$",
  ["·"] = "$\\cdot$", ["≤"] = "$\\le$", ["≥"] = "$\\ge$", ["≈"] = "$\\approx$", ["→"] = "$\\to$", ["⊙"] = "$\\odot$",
  ["∞"] = "$\\infty$", ["√"] = "$\\surd$", ["−"] = "$-$", ["✓"] = "$\\checkmark$", ["⚄"] = "$\\ast$",
  ["–"] = "--", ["—"] = "---", ["…"] = "\\ldots{}", ["ᵀ"] = "$^{T}$", ["⁺"] = "$^{+}$", ["⁻"] = "$^{-}$",
  ["α"] = "$\\alpha$", ["β"] = "$\\beta$", ["γ"] = "$\\gamma$", ["δ"] = "$\\delta$", ["Δ"] = "$\\Delta$",
  ["κ"] = "$\\kappa$", ["µ"] = "$\\mu$", ["μ"] = "$\\mu$", ["π"] = "$\\pi$", ["ρ"] = "$\\rho$", ["σ"] = "$\\sigma$",
  ["ω"] = "$\\omega$", ["ε"] = "$\\varepsilon$", ["λ"] = "$\\lambda$", ["Λ"] = "$\\Lambda$", ["φ"] = "$\\varphi$",
  ["τ"] = "$\\tau$", ["Σ"] = "$\\Sigma$", ["Π"] = "$\\Pi$", ["η"] = "$\\eta$", ["θ"] = "$\\theta$", ["ξ"] = "$\\xi$",
  ["‖"] = "$\\|$", ["⌈"] = "$\\lceil$", ["⌉"] = "$\\rceil$", ["⌊"] = "$\\lfloor$", ["⌋"] = "$\\rfloor$",
  ["∈"] = "$\\in$", ["≠"] = "$\\ne$", ["←"] = "$\\gets$", ["ᵢ"] = "$_{i}$",
  ["ⱼ"] = "$_{j}$", ["ζ"] = "$\\zeta$", ["ν"] = "$\\nu$", ["χ"] = "$\\chi$", ["ψ"] = "$\\psi$", ["Γ"] = "$\\Gamma$",
  ["Θ"] = "$\\Theta$", ["Φ"] = "$\\Phi$", ["Ψ"] = "$\\Psi$", ["Ω"] = "$\\Omega$", ["∫"] = "$\\int$",
  ["∑"] = "$\\sum$", ["∏"] = "$\\prod$", ["∂"] = "$\\partial$", ["∇"] = "$\\nabla$", ["½"] = "$\\frac{1}{2}$",
  ["⟨"] = "$\\langle$", ["⟩"] = "$\\rangle$", ["§"] = "\\S{}", ["ⁿ"] = "$^{n}$", ["ₙ"] = "$_{n}$",
  ["ℓ"] = "$\\ell$", ["↓"] = "$\\downarrow$", ["′"] = "$'$", ["∘"] = "$\\circ$", ["⊗"] = "$\\otimes$",
  ["⋅"] = "$\\cdot$", ["≪"] = "$\\ll$",
}
for _, character in ipairs({ "&", "%", "$", "#", "_", "{", "}" }) do latex_words[character] = "\\" .. character end
for digit, raised in pairs({ [0] = "⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹" }) do
  latex_words[raised] = "$^{" .. digit .. "}$"
end
for digit, lowered in pairs({ [0] = "₀", "₁", "₂", "₃", "₄", "₅", "₆", "₇", "₈", "₉" }) do
  latex_words[lowered] = "$_{" .. digit .. "}$"
end

local function plain_for_latex(text)
  -- A letter under a combining tilde is a formula of its own, and so is a short index behind one symbol, as in U_n, Δ_i
  -- and ‖X‖_F, or of one letter behind a word, as in diam_i, not in names such as relative_error: both are marked until
  -- their letters are through.
  text = text:gsub("[\r\n]+", " "):gsub("Ã", "A\u{303}"):gsub("(%a)\u{303}", "\1%1")
  text = text:gsub("(%f[%w_]%a)_(%w%w?)%f[^%w_]", "%1\2%2\3"):gsub("([\128-\255])_(%w%w?)%f[^%w_]", "%1\2%2\3")
  text = text:gsub("(%f[%w_]%a+)_(%w)%f[^%w_]", "%1\2%2\3")
  local out = text:gsub("[\0-\127\194-\253][\128-\191]*", latex_words)
  return (out:gsub("\1(%a)", "$\\tilde{%1}$"):gsub("\2(%w+)\3", "$_{%1}$"))
end

-- What stands between dollar signs is a formula, as in the labels of pictures, and stays as it is.
local function for_latex(text)
  local out, at = {}, 1
  for from, formula, to in text:gmatch("()(%$[^%s$][^$]*%$)()") do
    if from >= at and not formula:find("%s%$$") and not text:find("^%d", to) then
      out[#out + 1] = plain_for_latex(text:sub(at, from - 1)) .. formula
      at = to
    end
  end
  -- Symbols that stand side by side are one formula. (Of an escaped dollar sign the next one is a formula's first.)
  return ((table.concat(out) .. plain_for_latex(text:sub(at))):gsub("([^\\])%$%$", "%1 "))
end

--- The table in LaTeX, all rows: a tabular with the lines of the package booktabs, in a table where it has a title.
function Table:latex()
  local align, lines = {}, {}
  for j, column in ipairs(self.columns) do align[j] = column.align == "right" and "r" or "l" end
  local function add(text) lines[#lines + 1] = text end
  local function add_row(cell)
    local parts = {}
    for j, column in ipairs(self.columns) do parts[j] = for_latex(cell(column)) end
    add("  " .. table.concat(parts, " & ") .. " \\\\")
  end
  add("\\begin{tabular}{" .. table.concat(align) .. "}")
  add("  \\toprule")
  add_row(function(column) return column.tex end)
  add("  \\midrule")
  for _, row in ipairs(self.rows) do
    add_row(function(column) return trimmed(cell_text(column, row)) end)
  end
  add("  \\bottomrule")
  add("\\end{tabular}")
  if self.title then
    table.insert(lines, 1, "\\begin{table}\n\\centering\n\\caption{" .. for_latex(self.title) .. "}")
  end
  -- A line of the note is a line of the page.
  if self.note then add("\n{\\small " .. for_latex((self.note:gsub("\n+", "\v"))):gsub("\v", " \\newline\n") .. "}") end
  if self.title then add("\\end{table}") end
  return causeway._made(table.concat(lines, "\n") .. "\n")
end

--- The table as CSV (RFC 4180), values in full, all rows.
function Table:csv()
  local function field(value, is_name)
    if value == nil then return "" end
    local text = math.type(value) == "float" and causeway._exact_text(value) or tostring(value)
    -- Text that load would take for a number is in quotes, and a name that would part cells in the first line.
    if text:find('[",\r\n]') or is_name and text:find("[;\t]") or type(value) == "string" and tonumber(value) then
      text = '"' .. text:gsub('"', '""') .. '"'
    end
    return text
  end
  local out = {}
  local function add(value, of_names)
    local parts = {}
    for j, column in ipairs(self.columns) do parts[j] = field(value(column), of_names) end
    out[#out + 1] = table.concat(parts, ",")
  end
  add(function(column) return column.key end, true)
  for _, row in ipairs(self.rows) do
    add(function(column) return row[column.key] end)
  end
  return causeway._made(table.concat(out, "\n") .. "\n")
end

--- Writes the table to a file, whose name ends in .csv, .html, .md, .tex or .txt. Returns the table.
function Table:save(path)
  if type(self) == "string" then
    causeway._raise(string.format('save: a method is called with a colon, as in tab:save(%q)', self))
  end
  local kind = type(path) == "string" and path:lower():match("%.(%a+)$")
  local make = ({ csv = self.csv, html = self.html, md = self.markdown, tex = self.latex, txt = self.text })[kind]
  if not make then
    causeway._raise("save: " .. tostring(path) .. ", expected a file name that ends in .csv, .html, .md, .tex or .txt")
  end
  local text = make(self)
  causeway._replace_file(path, text:sub(-1) == "\n" and text or text .. "\n")
  causeway._saved(self, path)
  return self
end

--- A picture of two columns: tab:plot("N", "time", {by = "method"}).
function Table:plot(x, y, options) return causeway._plot_rows(self.rows, x, y, options) end

Table.__tostring = Table.text

--- Besides text and HTML the forms in which a page lets a table be copied.
function Table.__rich(self)
  local makers = {}
  for _, form in ipairs({ "text", "html", "csv", "markdown", "latex" }) do
    makers[form] = function() return self[form](self) end
  end
  return causeway._lazy(makers)
end

--- Prints a table of results and returns it.
function causeway.show_table(rows, options)
  if causeway._is_plain(options) and not options[1] then causeway._check_options("show_table", options) end
  local result = new_table(rows, options, true)
  causeway._show(result)
  return result
end
