-- Tables of results: aligned text for a terminal, HTML for a page, CSV for a file.
--
-- rows: a list of tables, a value for each column's key. Options:
--   columns  list of keys, or of {key =, title =, unit =, format = pattern or function(value, row), align =
--            "left"|"right"};
--            default: every key that occurs, sorted
--   title    a line above;  note: a line below;  most: rows shown, the middle ones left out past it
local causeway = ...

local Table = {}
Table.__index = Table
Table.__name = "Table"

--- A number with `digits` significant digits (4), without an exponent where it can be read without one.
function causeway.number_text(x, digits)
  if type(x) ~= "number" then causeway._raise("number_text: expected a number, got a " .. type(x)) end
  digits = digits or 4
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

local function cell_text(column, row)
  local value = row[column.key]
  if value == nil then return "" end
  local text
  if type(column.format) == "function" then
    text = tostring(column.format(value, row))
  elseif type(value) == "number" then
    text = column.format and string.format(column.format, value) or causeway.number_text(value)
  else
    text = tostring(value)
  end
  return (text:gsub("[\0-\31\127]", " "))
end

local function columns_of(rows, wanted)
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
    local title = spec.title or tostring(spec.key)
    if spec.unit then title = title .. " (" .. spec.unit .. ")" end
    local align = spec.align
    if not align then
      align = "left"
      for _, row in ipairs(rows) do
        if type(row[spec.key]) == "number" then align = "right" end
      end
    end
    columns[i] = { key = spec.key, title = title, format = spec.format, align = align }
  end
  return columns
end

causeway._options.text_table = { columns = true, title = true, note = true, most = true, align = true }

--- A table of results that shows itself as aligned text or HTML. Nothing is printed.
function causeway.text_table(rows, options)
  if type(rows) ~= "table" then causeway._raise("rows: expected a list of tables, got a " .. type(rows)) end
  for i, row in ipairs(rows) do
    if type(row) ~= "table" then
      causeway._raise("rows: item " .. i .. " is a " .. type(row) .. ", expected a table")
    end
  end
  causeway._check_options("text_table", options)
  options = options or {}
  local columns = columns_of(rows, options.columns)
  for i, align in ipairs(options.align or {}) do
    if columns[i] then columns[i].align = align end
  end
  return setmetatable({ rows = rows, columns = columns, title = options.title, note = options.note,
    most = options.most }, Table)
end

local function width(text) return utf8.len(text) or #text end

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

-- Takes width from the widest columns of texts until the table fits into `limit` characters, or no more can be taken.
local function fit(sizes, min_sizes, columns, limit)
  local total = 1 + 2 * (#sizes - 1)
  for _, size in ipairs(sizes) do total = total + size end
  while total > limit do
    local widest
    for j, column in ipairs(columns) do
      if column.align == "left" and sizes[j] > min_sizes[j] and not (widest and sizes[widest] >= sizes[j]) then
        widest = j
      end
    end
    if not widest then return end
    sizes[widest], total = sizes[widest] - 1, total - 1
  end
end

-- The text in lines of at most `size` characters, broken at blanks.
local function broken(text, size)
  if width(text) <= size then return { text } end
  local lines, line = {}, ""
  for word in text:gmatch("%S+") do
    if line ~= "" and width(line) + 1 + width(word) > size then lines[#lines + 1], line = line, "" end
    line = line == "" and word or line .. " " .. word
  end
  lines[#lines + 1] = line
  return lines
end

--- The table as text. Where it is wider than the terminal, long texts go over several lines.
function Table:text()
  local lines = body(self)
  local sizes, min_sizes = {}, {}
  for j, column in ipairs(self.columns) do
    sizes[j], min_sizes[j] = width(column.title), math.max(narrowest, width(column.title))
    for _, cells in ipairs(lines) do
      if cells then
        sizes[j] = math.max(sizes[j], width(cells[j]))
        for word in cells[j]:gmatch("%S+") do min_sizes[j] = math.max(min_sizes[j], width(word)) end
      end
    end
  end
  fit(sizes, min_sizes, self.columns, (causeway.terminal_size()))
  local out = {}
  local function add(cell)
    local parts, height = {}, 1
    for j in ipairs(self.columns) do
      parts[j] = broken(cell(j), sizes[j])
      height = math.max(height, #parts[j])
    end
    for k = 1, height do
      local line = {}
      for j, column in ipairs(self.columns) do line[j] = padded(parts[j][k] or "", sizes[j], column.align) end
      out[#out + 1] = (" " .. table.concat(line, "  ")):gsub(" +$", "")
    end
  end
  if self.title then out[1] = self.title end
  add(function(j) return self.columns[j].title end)
  local rule = {}
  for j in ipairs(self.columns) do rule[j] = string.rep("─", sizes[j]) end
  out[#out + 1] = " " .. table.concat(rule, "──")
  for _, cells in ipairs(lines) do
    add(function(j) return cells and cells[j] or "⋮" end)
  end
  for line in (self.note or ""):gmatch("[^\n]+") do
    for _, part in ipairs(broken(line, causeway.terminal_size() - 1)) do out[#out + 1] = " " .. part end
  end
  return table.concat(out, "\n")
end

local function escaped(text)
  return (tostring(text):gsub("[&<>\"']", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;",
    ["'"] = "&#39;" }))
end
causeway._escape_html = escaped

--- The table as HTML, all rows.
function Table:html()
  local out = { '<div class="table"><table>' }
  if self.title then out[#out + 1] = "<caption>" .. escaped(self.title) .. "</caption>" end
  local function line(tag, cell)
    local parts = {}
    for j, column in ipairs(self.columns) do
      parts[j] = string.format("<%s%s>%s</%s>", tag, column.align == "right" and ' style="text-align:right"' or "",
        escaped(cell(column)), tag)
    end
    return "<tr>" .. table.concat(parts) .. "</tr>"
  end
  out[#out + 1] = "<thead>" .. line("th", function(column) return column.title end) .. "</thead><tbody>"
  for _, row in ipairs(self.rows) do
    out[#out + 1] = line("td", function(column) return cell_text(column, row) end)
  end
  out[#out + 1] = "</tbody></table>"
  if self.note then out[#out + 1] = "<p>" .. escaped(self.note) .. "</p>" end
  out[#out + 1] = "</div>"
  return table.concat(out, "\n")
end

--- The table as CSV (RFC 4180), values in full, all rows.
function Table:csv()
  local function field(value)
    if value == nil then return "" end
    local text = math.type(value) == "float" and causeway._exact_text(value) or tostring(value)
    if text:find('[",\r\n]') then text = '"' .. text:gsub('"', '""') .. '"' end
    return text
  end
  local out = {}
  local function add(value)
    local parts = {}
    for j, column in ipairs(self.columns) do parts[j] = field(value(column)) end
    out[#out + 1] = table.concat(parts, ",")
  end
  add(function(column) return column.key end)
  for _, row in ipairs(self.rows) do
    add(function(column) return row[column.key] end)
  end
  return table.concat(out, "\n") .. "\n"
end

--- Writes the table to a file, whose name ends in .csv, .html or .txt. Returns the table.
function Table:save(path)
  local kind = type(path) == "string" and path:lower():match("%.(%a+)$")
  local make = ({ csv = self.csv, html = self.html, txt = self.text })[kind]
  if not make then
    causeway._raise("save: " .. tostring(path) .. ", expected a file name that ends in .csv, .html or .txt")
  end
  local text = make(self)
  causeway._replace_file(path, text:sub(-1) == "\n" and text or text .. "\n")
  return self
end

Table.__tostring = Table.text
function Table.__rich(self) return { text = self:text(), html = self:html() } end

--- Prints a table of results and returns it.
function causeway.show_table(rows, options)
  local result = causeway.text_table(rows, options)
  causeway._show(result)
  return result
end
