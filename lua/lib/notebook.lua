-- What only a notebook shows: tensors and pages of help as HTML.
local causeway = ...

local function escaped(text) return causeway._escape_html(text) end

-- Colours of the heat map that lets either theme of a notebook show through: blue below 0, red above.
local negative, positive = "33,102,172", "214,96,77"
local strongest = 0.45 -- opacity of the cell that is farthest from 0

local function cell_html(cell, far)
  local value = tonumber(cell)
  local share = value and far > 0 and math.abs(value) / far or 0
  local colour = ""
  if share >= 0.02 then
    colour = string.format(";background:rgba(%s,%.2f)", value < 0 and negative or positive, strongest * share)
  end
  return string.format('<td style="text-align:right%s">%s</td>', colour, escaped(cell))
end

-- The greatest magnitude among the cells of the lines.
local function farthest(lines)
  local far = 0
  for _, line in ipairs(lines) do
    for cell in line:gmatch("%S+") do
      local value = math.abs(tonumber(cell) or 0)
      if value < math.huge then far = math.max(far, value) end
    end
  end
  return far
end

--- The text that a tensor is shown as, as a table whose cells are coloured by their values: what the text leaves out is
--- left out here.
function causeway._tensor_html(text)
  local lines = {}
  for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
  local title = table.remove(lines, 1) or ""
  local values = {}
  for _, line in ipairs(lines) do
    if not line:find("^%[") then values[#values + 1] = line end
  end
  if #values == 0 then return "<div><code>" .. escaped(text) .. "</code></div>" end
  local far = farthest(values)
  local out = { "<div><div>" .. escaped((title:gsub(":$", ""))) .. "</div>" }
  local open = false
  for _, line in ipairs(lines) do
    if line:find("^%[") then
      out[#out + 1] = (open and "</table>" or "") .. "<div>" .. escaped(line) .. "</div>"
      open = false
    else
      local cells = {}
      for cell in line:gmatch("%S+") do cells[#cells + 1] = cell_html(cell, far) end
      out[#out + 1] = (open and "" or "<table>") .. "<tr>" .. table.concat(cells) .. "</tr>"
      open = true
    end
  end
  return table.concat(out, "\n") .. (open and "</table>" or "") .. "</div>"
end

-- Whether the lines of a block are laid out: by columns, or set in below a heading.
local function is_laid_out(block)
  for _, line in ipairs(block) do
    if line:find("^   ") or line:find("%S%s%s+%S") then return true end
  end
  return not block[1]:find("^  ")
end

-- A heading of a page, one word or two above what is set in below it.
local function heading(block)
  local first, second = block[1], block[2]
  return second and second:find("^    ") and #first < 40 and first:match("^  (%l[%l ]*)$")
end

--- A page of help, as text, as HTML: paragraphs flow, formulas, lists and examples stay as they are laid out.
function causeway._page_html(text)
  local out, block = {}, {}
  local function flush()
    if #block == 0 then return end
    local title = heading(block)
    if title then
      out[#out + 1] = "<p><b>" .. escaped(title) .. "</b></p>"
      table.remove(block, 1)
    end
    local whole = table.concat(block, "\n")
    if #out == 0 or is_laid_out(block) then out[#out + 1] = "<pre>" .. escaped(whole) .. "</pre>"
    else out[#out + 1] = "<p>" .. escaped((whole:gsub("%s*\n%s*", " "):gsub("^%s+", ""))) .. "</p>" end
    block = {}
  end
  for line in (text .. "\n"):gmatch("(.-)\n") do
    if line:find("%S") then block[#block + 1] = line else flush() end
  end
  flush()
  return table.concat(out, "\n")
end
