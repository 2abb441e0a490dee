-- A picture drawn by gnuplot: text in a terminal, SVG in a page, .svg, .png and .pdf files. plot and heatmap make them.
local causeway = ...

local raise = causeway._raise

-- A gnuplot string: between single quotes nothing but the quote itself has a meaning.
local function quoted(text)
  text = tostring(text):gsub("[\0-\31\127]", " ")
  if not utf8.len(text) then text = text:gsub("[\128-\255]", "?") end
  return "'" .. text:gsub("'", "''") .. "'"
end
causeway._gnuplot_quoted = quoted

local function run_gnuplot(script)
  local status, output, complaint = causeway._run_program({ "gnuplot", "-d", "-" }, script)
  if not status then
    raise("gnuplot, which draws the pictures, is not installed: apt-get install gnuplot-nox", "I/O")
  end
  if status ~= 0 then
    local cause = complaint:match("line %d+: ([^\n]+)") or complaint:match("[^%s][^\n]*") or "exit status " .. status
    raise("gnuplot could not draw the picture: " .. cause, "system")
  end
  return output
end

--- Columns and rows of a picture in the terminal, without the rows of its legend.
function causeway._text_size()
  local columns, rows = causeway.terminal_size()
  return math.max(40, math.min(columns, 120)), math.max(12, math.min(rows - 3, 28))
end

-- The first line of a script: where the picture goes, and how big it is.
local function terminal(kind, figure)
  local width, height = figure.size[1], figure.size[2]
  if kind == "svg" then
    return string.format("set terminal svg size %d,%d dynamic noenhanced rounded font 'Sans,14' background '#ffffff'",
      width, height)
  elseif kind == "png" then -- twice as many pixels, for sharp text
    return string.format("set terminal pngcairo size %d,%d noenhanced rounded font 'Sans,12' fontscale 1.9 linewidth 2 "
      .. "pointscale 2 background '#ffffff'", 2 * width, 2 * height)
  elseif kind == "pdf" then
    return string.format("set terminal pdfcairo size %.3fin,%.3fin noenhanced rounded font 'Sans,11' "
      .. "background '#ffffff'", width / 96, height / 96)
  end
  local columns, rows = causeway._text_size()
  rows = (figure.text_rows or rows) + figure.legend_rows
  return string.format("set terminal dumb %d,%d noenhanced %s", columns, rows, causeway._colour() and "ansi256"
    or "mono")
end

local look = [[
set border 3 linecolor rgb '#9aa0a6' linewidth 1
set tics nomirror out scale 0.5 textcolor rgb '#3c4043'
set grid linetype 1 linecolor rgb '#e8eaed' linewidth 1 dashtype solid
set title textcolor rgb '#202124'
set xlabel textcolor rgb '#3c4043'
set ylabel textcolor rgb '#3c4043'
set style fill solid 1.0 noborder
set errorbars front 0.6
set pointintervalbox 0
]]
causeway._figure_look = look -- a script of several plots says it again behind each `reset`

local Figure = { __name = "Figure" }
Figure.__index = Figure

--- A picture. Fields: script(kind) returns the gnuplot commands behind the terminal's for "text", "svg", "png" or
--- "pdf"; size, {width, height} in pixels; draw_text(), where given, draws the text form without the script; text_rows,
--- its rows where they are not the terminal's; legend_rows, how many more the legend takes; ylabel.
function causeway._figure(fields)
  fields.legend_rows = fields.legend_rows or 0
  return setmetatable(fields, Figure)
end

local function draw(self, kind)
  local output = run_gnuplot("set encoding utf8\n" .. terminal(kind, self) .. "\n" .. (kind == "text" and "" or look)
    .. self.script(kind))
  if kind == "svg" then
    output = output:gsub("<image ", '<image style="image-rendering:pixelated" ') -- a cell is a cell, not a blur
    output = output:gsub('font%-family="Sans"', 'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif"')
  end
  return output
end

-- The text without lines at its ends that show nothing; colours make them longer than they look.
local function without_blank_ends(text)
  local lines, first, last = {}, nil, 0
  for line in (text:gsub("[ \f]+\n", "\n") .. "\n"):gmatch("(.-)\n") do
    lines[#lines + 1] = line
    if line:gsub("\27%[[%d;]*m", ""):find("[^%s\f]") then first, last = first or #lines, #lines end
  end
  local shown = table.concat(lines, "\n", first or 1, last):gsub("^\f+", ""):gsub("%s+$", "")
  return shown:find("\27", 1, true) and shown .. "\27[0m" or shown
end

--- The text of a label, indented, in lines no wider than the terminal.
function causeway._label_text(label, indent)
  local blanks = (" "):rep(indent)
  local text = tostring(label):gsub("[\0-\31\127]", " ")
  return blanks .. table.concat(causeway._lines(text, causeway.terminal_size() - indent), "\n" .. blanks)
end

--- The picture as lines of text, as wide as the terminal.
function Figure:text()
  local text = without_blank_ends(self.draw_text and self:draw_text() or draw(self, "text"))
  -- gnuplot has no place for the text of the vertical axis here.
  return self.ylabel and causeway._label_text(self.ylabel, 1) .. "\n" .. text or text
end

--- The picture as an SVG document.
function Figure:svg() return draw(self, "svg") end

--- Writes the picture to a file; its name ends in .svg, .png or .pdf. Returns the picture.
function Figure:save(path)
  if type(path) ~= "string" then
    raise("save: expected a file name, got " .. (path == nil and "nothing" or "a " .. type(path)))
  end
  local kind = path:lower():match("%.(%a+)$")
  if kind ~= "svg" and kind ~= "png" and kind ~= "pdf" then
    raise(string.format('save: "%s", expected a name that ends in .svg, .png or .pdf', path))
  end
  causeway._replace_file(path, draw(self, kind))
  return self
end

function Figure.__tostring(self) return self:text() end

function Figure.__rich(self)
  return causeway._lazy({ text = function() return self:text() end, svg = function() return self:svg() end })
end

--- Commands for the title and the axes' labels; Figure:text itself writes the vertical one.
function causeway._labels_script(options, kind)
  local lines = {}
  for _, name in ipairs({ "title", "xlabel", "ylabel" }) do
    if options[name] ~= nil and not (name == "ylabel" and kind == "text") then
      lines[#lines + 1] = string.format("set %s %s noenhanced", name, quoted(options[name]))
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

--- {width, height} in pixels as given in the option `size`; without it `default`.
function causeway._figure_size(size, default)
  if size == nil then return default end
  local function good(n) return type(n) == "number" and n >= 50 and n <= 8000 end
  if type(size) ~= "table" or not good(size[1]) or not good(size[2]) then
    raise("size: expected {width, height} in pixels, each from 50 to 8000")
  end
  return { math.floor(size[1]), math.floor(size[2]) }
end
