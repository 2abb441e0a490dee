-- A picture: text in a terminal, and drawn by gnuplot SVG in a page and .svg, .png and .pdf files. plot and heatmap
-- make them.
local causeway = ...

local raise, noun = causeway._raise, causeway._noun

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

--- Columns and rows of a picture in the terminal.
function causeway._text_size()
  local columns, rows = causeway.terminal_size()
  return math.max(20, math.min(columns, 120)), math.max(12, math.min(rows - 3, 28))
end

-- The first line of a script: where the picture goes, how big it is, and its font, whose size is in pixels of the SVG.
local function terminal(kind, figure)
  local width, height = figure.size[1], figure.size[2]
  local font, size = figure.font or "Sans", figure.font_size or 14
  if kind == "svg" then
    return string.format("set terminal svg size %d,%d dynamic enhanced rounded font '%s,%.4g' background '#ffffff'",
      width, height, font, size)
  elseif kind == "png" then -- twice as many pixels, for sharp text
    return string.format("set terminal pngcairo size %d,%d enhanced rounded font '%s,%.4g' fontscale 1.9 linewidth 2 "
      .. "pointscale 2 background '#ffffff'", 2 * width, 2 * height, font, size * 12 / 14)
  end
  return string.format("set terminal pdfcairo size %.3fin,%.3fin enhanced rounded font '%s,%.4g' "
    .. "background '#ffffff'", width / 96, height / 96, font, size * 11 / 14)
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
local saved = 'p:save("figure.svg") writes it, a .png or a .pdf'
causeway._only_fields(Figure, { what = "a picture", fields = "size title font font_size script draw_text",
  elsewhere = { savefig = saved, write = saved, export = saved } })
causeway._can_show(Figure)

-- What a picture is told later would change nothing.
function Figure.__newindex(_, key)
  raise(string.format('a picture is drawn when it is made: plot{x = x, y = y, %s = ...}, expected no "%s" to be set '
    .. "later", tostring(key), tostring(key)))
end

--- A picture. Fields: script() returns the gnuplot commands behind the terminal's; draw_text() draws it for a terminal;
--- size, {width, height} in pixels; title; font and font_size, checked here.
function causeway._figure(fields)
  local font, size = fields.font, fields.font_size
  if font ~= nil and not (type(font) == "string" and #font <= 100 and font:find("^[%w][%w %-]*$")) then
    raise("font: expected a name of letters, digits, blanks and hyphens, got "
      .. (type(font) == "string" and string.format("%q", font) or noun(font)))
  end
  if size ~= nil and not (type(size) == "number" and size >= 4 and size <= 100) then
    raise("font_size: " .. tostring(size) .. ", expected pixels, from 4 to 100")
  end
  return setmetatable(fields, Figure)
end

-- How the greys of a picture look on a dark page: what is drawn in the first colour gets the second one there.
local dark_greys = {
  { "black", "#e8eaed" }, { "#202124", "#e8eaed" }, { "#3c4043", "#bdc1c6" }, { "#9aa0a6", "#80868b" },
  { "#e8eaed", "#33373b" },
}

-- The style of an SVG document that follows the reader's choice of a light or a dark page.
local function dark_style()
  local rules = {}
  local function add(light, dark)
    for _, name in ipairs({ "stroke", "fill", "color" }) do
      rules[#rules + 1] = string.format('svg [%s="%s"]{%s:%s}', name, light, name, dark)
    end
  end
  for _, pair in ipairs(dark_greys) do add(pair[1], pair[2]) end
  for _, colour in ipairs(causeway._palette) do add(colour.file, colour.dark) end
  -- gnuplot leaves a disc of the paper's white around a mark on its bar.
  return "<style>.paper{fill:#ffffff}@media (prefers-color-scheme:dark){.paper{fill:#17191c}\n"
    .. 'svg use[color="#FFFFFF"]{color:#17191c}\n'
    .. table.concat(rules, "\n") .. "}</style>"
end

-- gnuplot's SVG with fonts of the page, colours that a style can name, and that style.
local function finished_svg(svg, figure)
  svg = svg:gsub("<image ", '<image style="image-rendering:pixelated" ') -- a cell is a cell, not a blur
  svg = svg:gsub('font%-family="Sans"', 'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif"')
  svg = svg:gsub("([%a]+) ?= ?(['\"])rgb%( *(%d+), *(%d+), *(%d+)%)['\"]", function(name, _, r, g, b)
    return string.format('%s="#%02x%02x%02x"', name, tonumber(r), tonumber(g), tonumber(b))
  end)
  svg = svg:gsub('(<rect x="0" y="0" width="%d+" height="%d+") fill="#ffffff"/>', '%1 class="paper"/>', 1)
  local title = figure.title ~= nil and causeway._label(figure.title) or "a picture"
  return (svg:gsub("<title>Gnuplot</title>", function()
    return "<title>" .. causeway._escape_html(title) .. "</title>\n" .. dark_style()
  end, 1))
end

local function draw(self, kind)
  local output = run_gnuplot("set encoding utf8\n" .. terminal(kind, self) .. "\n" .. look .. self.script())
  return kind == "svg" and finished_svg(output, self) or output
end

--- The text of a label, indented, in lines no wider than the terminal.
function causeway._label_text(label, indent)
  local blanks = (" "):rep(indent)
  local lines = causeway._lines((causeway._label(label)), causeway.terminal_size() - indent)
  return blanks .. table.concat(lines, "\n" .. blanks)
end

--- The picture as lines of text, as wide as the terminal.
function Figure:text() return self.draw_text() end

--- The picture as an SVG document.
function Figure:svg() return draw(self, "svg") end

--- Writes the picture to a file; its name ends in .svg, .png or .pdf.
function causeway._write_figure(figure, path)
  if type(path) ~= "string" then
    raise("save: expected a file name, got " .. noun(path))
  end
  local kind = path:lower():match("%.(%a+)$")
  if kind ~= "svg" and kind ~= "png" and kind ~= "pdf" then
    raise(string.format('save: "%s", expected a name that ends in .svg, .png or .pdf', path))
  end
  causeway._replace_file(path, draw(figure, kind))
end

--- The same as a method. Returns the picture.
function Figure:save(path)
  causeway._write_figure(self, path)
  causeway._saved(self, path)
  return self
end

function Figure.__tostring(self) return self:text() end

function Figure.__rich(self)
  return causeway._lazy({ text = function() return self:text() end, svg = function() return self:svg() end })
end

--- Commands for the title and the axes' labels.
function causeway._labels_script(labels)
  local lines = {}
  for _, name in ipairs({ "title", "xlabel", "ylabel" }) do
    if labels[name] ~= nil then
      lines[#lines + 1] = string.format("set %s %s", name, causeway._gnuplot_label(labels[name]))
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
