-- Pictures of curves, drawn by gnuplot: text in a terminal, SVG in a page, .svg, .png and .pdf files.
--
--   plot(y)                      plot(x, y)                      plot(x, y, {title = "...", yscale = "log"})
--   plot{ {x =, y =, label =, error =, style = "lines"|"points"|"linespoints"|"dashed"}, ..., title =, xlabel =, ylabel = }
--
-- x, y and error are lists of numbers or Tensors. A point that is NaN or infinite, or not positive on a log axis, is
-- left out and the line has a gap there.
local causeway = ...

-- Okabe and Ito's colours, told apart by colour-blind readers too; yellow, too pale on white, made darker.
local palette = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#4d4d4d", "#8c6d1f" }
local point_types = { 7, 5, 9, 13, 11, 15, 6, 4 }
local most_points = 20000 -- of one curve; of more, evenly spread ones are drawn
local styles = { lines = true, points = true, linespoints = true, dashed = true }
local legends = { ["right"] = "outside right top", ["below"] = "bmargin center horizontal", ["top left"] = "inside left top", ["top right"] = "inside right top",
  ["bottom left"] = "inside left bottom", ["bottom right"] = "inside right bottom" }

local raise = causeway._raise

-- ── gnuplot ──────────────────────────────────────────────────────────────────────────────────────────────────────

-- A gnuplot string: between single quotes nothing but the quote itself has a meaning.
local function quoted(text)
  text = tostring(text):gsub("[\0-\31\127]", " ")
  if not utf8.len(text) then text = text:gsub("[\128-\255]", "?") end
  return "'" .. text:gsub("'", "''") .. "'"
end
causeway._gnuplot_quoted = quoted

local function run_gnuplot(script)
  local status, output, complaint = causeway._run_program({ "gnuplot", "-d", "-" }, script)
  if not status then raise("gnuplot, which draws the pictures, is not installed: apt-get install gnuplot-nox", "I/O") end
  if status ~= 0 then raise("gnuplot could not draw the picture: " .. (complaint:match("line %d+: ([^\n]+)") or complaint:match("[^%s][^\n]*") or "exit status " .. status), "system") end
  return output
end

local function terminal_size()
  local columns, rows = causeway.terminal_size()
  return math.max(40, math.min(columns, 120)), math.max(12, math.min(rows - 3, 28))
end

-- The first lines of a script: where the picture goes, and how big it is. rows: lines of text that a legend adds.
local function terminal(kind, size, rows)
  local width, height = size[1], size[2]
  if kind == "svg" then return string.format("set terminal svg size %d,%d dynamic noenhanced rounded font 'Sans,14' background '#ffffff'", width, height) end
  if kind == "png" then
    return string.format("set terminal pngcairo size %d,%d noenhanced rounded font 'Sans,12' fontscale 1.9 linewidth 2 pointscale 2 background '#ffffff'", 2 * width, 2 * height)
  end
  if kind == "pdf" then return string.format("set terminal pdfcairo size %.3fin,%.3fin noenhanced rounded font 'Sans,11' background '#ffffff'", width / 96, height / 96) end
  local columns, height = terminal_size()
  return string.format("set terminal dumb %d,%d noenhanced %s", columns, height + (rows or 0), causeway._colour() and "ansi256" or "mono")
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

local Figure = { __name = "Figure" }
Figure.__index = Figure

--- A picture. script(kind) returns the gnuplot commands behind the terminal's for "text", "svg", "png" or "pdf";
--- text(), where given, draws the text form without gnuplot.
function causeway._figure(fields) return setmetatable(fields, Figure) end

local function draw(self, kind)
  local output = run_gnuplot("set encoding utf8\n" .. terminal(kind, self.size, self.legend_rows) .. "\n" .. (kind == "text" and "" or look) .. self.script(kind))
  if kind == "svg" then
    output = output:gsub("<image ", '<image style="image-rendering:pixelated" ') -- a cell is a cell, not a blur
    output = output:gsub('font%-family="Sans"', 'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif"')
  end
  return output
end

--- The picture as lines of text, as wide as the terminal.
function Figure:text()
  local text = self.draw_text and self:draw_text() or draw(self, "text")
  text = text:gsub("[ \f]+\n", "\n"):gsub("^[\n\f]+", ""):gsub("%s+$", "")
  -- gnuplot has no place for the text of the vertical axis here.
  return self.ylabel and " " .. tostring(self.ylabel):gsub("[\0-\31\127]", " ") .. "\n" .. text or text
end

--- The picture as an SVG document.
function Figure:svg() return draw(self, "svg") end

--- Writes the picture to a file; its name ends in .svg, .png or .pdf. Returns the picture.
function Figure:save(path)
  if type(path) ~= "string" then raise("save: expected a file name, got " .. (path == nil and "nothing" or "a " .. type(path))) end
  local kind = path:lower():match("%.(%a+)$")
  if kind ~= "svg" and kind ~= "png" and kind ~= "pdf" then raise(string.format('save: "%s", expected a name that ends in .svg, .png or .pdf', path)) end
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
    if options[name] ~= nil and not (name == "ylabel" and kind == "text") then lines[#lines + 1] = string.format("set %s %s noenhanced", name, quoted(options[name])) end
  end
  return table.concat(lines, "\n") .. "\n"
end

--- {width, height} in pixels as given in the option `size`.
function causeway._figure_size(size)
  if size == nil then return { 800, 480 } end
  local function good(n) return type(n) == "number" and n >= 50 and n <= 8000 end
  if type(size) ~= "table" or not good(size[1]) or not good(size[2]) then raise("size: expected {width, height} in pixels, each from 50 to 8000") end
  return { math.floor(size[1]), math.floor(size[2]) }
end

-- ── What is to be drawn ──────────────────────────────────────────────────────────────────────────────────────────

local function is_data(value)
  if type(value) == "userdata" then return true end
  return type(value) == "table" and getmetatable(value) == nil and (type(value[1]) == "number" or next(value) == nil)
end

local series_keys = { "x", "y", "label", "error", "style" }
local option_keys = { "title", "xlabel", "ylabel", "xscale", "yscale", "xrange", "yrange", "legend", "save", "size" }

-- One curve with checked numbers: points {x, y, error}, false where a line has a gap.
local function read_series(given, name, log_x, log_y)
  if is_data(given) then given = { y = given } end
  if type(given) ~= "table" then raise("plot: " .. name .. ": expected a curve such as {x = ..., y = ...}, got a " .. type(given)) end
  if given.y == nil and given[1] ~= nil then
    given = given[2] ~= nil and { x = given[1], y = given[2], label = given.label, error = given.error, style = given.style } or { y = given[1], label = given.label, error = given.error, style = given.style }
  end
  causeway._check_options("plot: " .. name, given, series_keys)
  if given.y == nil then raise("plot: " .. name .. ": no y given, expected {x = ..., y = ...}") end
  if given.style ~= nil and not styles[given.style] then raise(string.format('plot: style: "%s", expected "lines", "points", "linespoints" or "dashed"', tostring(given.style))) end

  if type(given.y) == "userdata" then -- the rows of a matrix, one after the other, are no curve
    local extents = 0
    for _, extent in ipairs({ given.y:size() }) do extents = extents + (extent > 1 and 1 or 0) end
    if extents > 1 then raise(string.format("plot: %s: y: shape %s, expected one dimension, such as A(1); heatmap draws a matrix", name, table.concat({ given.y:size() }, "×"))) end
  end
  local y, n = causeway._numbers(given.y, "y", most_points)
  local x, m
  if given.x ~= nil then
    x, m = causeway._numbers(given.x, "x", most_points)
    if m ~= n then raise(string.format("plot: %s: y has %d values, expected %d like x", name, n, m)) end
  end
  local err
  if given.error ~= nil then
    err, m = causeway._numbers(given.error, "error", most_points)
    if m ~= n then raise(string.format("plot: %s: error has %d values, expected %d like y", name, m, n)) end
  end

  local points, seen = {}, 0
  local function drawn(v, log) return v == v and math.abs(v) ~= math.huge and (not log or v > 0) end
  for i = 1, #y do
    local px = x and x[i] or (#y == n and i or 1 + (i - 1) * (n - 1) // (#y - 1))
    if drawn(px, log_x) and drawn(y[i], log_y) then
      local e = err and (drawn(err[i]) and math.abs(err[i]) or 0) or nil
      points[#points + 1] = { px, y[i], e }
      seen = seen + 1
    else
      points[#points + 1] = false
    end
  end
  local style = given.style or (seen > 60 and "lines" or "linespoints") -- marks would cover a dense curve
  return { points = points, count = seen, label = given.label, style = style, has_error = err ~= nil }
end

local function read_scale(name, value)
  if value == nil or value == "linear" then return false end
  if value == "log" then return true end
  raise(string.format('plot: %s: "%s", expected "linear" or "log"', name, tostring(value)))
end

local function read_range(name, value, log)
  if value == nil then return nil end
  local a, b = nil, nil
  if type(value) == "table" then a, b = value[1], value[2] end
  if type(a) ~= "number" or type(b) ~= "number" or not (a < b) or a == -math.huge or b == math.huge or (log and a <= 0) then
    raise(string.format("plot: %s: expected {from, to} with from < to%s", name, log and ", both positive on a log axis" or ""))
  end
  return { a, b }
end

-- ── Axes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

local superscripts = { ["-"] = "⁻", ["0"] = "⁰", ["1"] = "¹", ["2"] = "²", ["3"] = "³", ["4"] = "⁴", ["5"] = "⁵", ["6"] = "⁶", ["7"] = "⁷", ["8"] = "⁸", ["9"] = "⁹" }

local function power_text(exponent, plain)
  if plain then return string.format("%.10g", 10.0 ^ exponent) end
  return "10" .. string.format("%d", exponent):gsub(".", superscripts)
end

-- "('128' 128, '' 256 1, ...)": the marks of a log axis from low to high; at powers of two where all values are such.
-- room: characters that the texts may have together.
local function log_marks(low, high, binary, room)
  local marks = {}
  local function mark(text, value, minor) marks[#marks + 1] = string.format("'%s' %.17g%s", text, value, minor and " 1" or "") end
  if binary then
    local from, to = math.ceil(math.log(low, 2) - 1e-9), math.floor(math.log(high, 2) + 1e-9)
    local longest = math.max(#string.format("%.10g", 2.0 ^ from), #string.format("%.10g", 2.0 ^ to))
    local step = math.max(1, math.ceil((to - from + 1) * (longest + 1) / room))
    for e = from, to do
      local shown = (e - from) % step == 0
      mark(shown and string.format("%.10g", 2.0 ^ e) or "", 2.0 ^ e)
    end
    return marks
  end
  local from, to = math.floor(math.log(low, 10) + 1e-9), math.ceil(math.log(high, 10) - 1e-9)
  local plain = from >= -3 and to <= 5
  local step = math.max(1, math.ceil((to - from) * 6 / room))
  for e = from, to do
    for digit = 1, 9 do
      local value = digit * 10.0 ^ e
      if value >= low * (1 - 1e-9) and value <= high * (1 + 1e-9) then
        local labelled = digit == 1 and (e - from) % step == 0 or to - from <= 2 and (digit == 2 or digit == 5)
        if labelled then
          mark(digit == 1 and power_text(e, plain) or (plain and string.format("%.10g", value) or digit .. "·" .. power_text(e)), value)
        elseif step == 1 then
          mark("", value, true)
        end
      end
    end
  end
  return marks
end

local function is_power_of_two(v)
  local mantissa = v > 0 and v / 2.0 ^ math.floor(math.log(v, 2) + 0.5)
  return mantissa == 1
end

-- Commands for one axis. k: 1 for x, 2 for y.
local function axis_script(axis, k, curves, log, range, room)
  if not log then
    local lines = { string.format("set format %s '%%.10g'", axis) }
    if range then lines[2] = string.format("set %srange [%.17g:%.17g]", axis, range[1], range[2]) end
    return table.concat(lines, "\n") .. "\n"
  end
  local low, high, binary = math.huge, 0, true
  for _, curve in ipairs(curves) do
    for _, point in ipairs(curve.points) do
      if point then
        low, high = math.min(low, point[k]), math.max(high, point[k])
        binary = binary and is_power_of_two(point[k])
      end
    end
  end
  if range then
    low, high = range[1], range[2]
  else
    local margin = low == high and 2 or math.max(1.05, (high / low) ^ 0.04)
    low, high = math.max(low / margin, 1e-300), math.min(high * margin, 1e300)
  end
  return string.format("set logscale %s\nset %srange [%.17g:%.17g]\nset %stics (%s)\n", axis, axis, low, high, axis, table.concat(log_marks(low, high, binary, room), ", "))
end

-- ── The script ───────────────────────────────────────────────────────────────────────────────────────────────────

local function data_block(index, curve, log_y)
  local lines = { "$curve" .. index .. " << END" }
  for _, p in ipairs(curve.points) do
    if not p then
      lines[#lines + 1] = ""
    elseif p[3] then
      local low = p[2] - p[3]
      if log_y and low <= 0 then low = p[2] * 1e-3 end
      lines[#lines + 1] = string.format("%.17g %.17g %.17g %.17g", p[1], p[2], low, p[2] + p[3])
    else
      lines[#lines + 1] = string.format("%.17g %.17g", p[1], p[2])
    end
  end
  lines[#lines + 1] = "END"
  return table.concat(lines, "\n") .. "\n"
end

local function plot_command(curves, kind, labelled)
  local parts = {}
  for i, curve in ipairs(curves) do
    local colour = palette[(i - 1) % #palette + 1]
    local round = (i - 1) // #palette -- where colours come again, marks and dashes are others
    local point = kind == "text" and i or point_types[(i - 1 + 3 * round) % #point_types + 1]
    local again = round % 2 == 1
    local title = labelled and curve.label ~= nil and "title " .. quoted(curve.label) .. " noenhanced" or "notitle"
    local with
    if curve.style == "points" then
      with = string.format("with points pointtype %d pointsize 0.8", point)
    elseif curve.style == "linespoints" then
      with = string.format("with linespoints linewidth 2 pointtype %d pointsize 0.7%s", point, again and " dashtype 4" or "")
    else
      with = "with lines linewidth 2" .. (curve.style == "dashed" and (again and " dashtype 3" or " dashtype 2") or again and " dashtype 4" or "")
    end
    if curve.has_error and kind ~= "text" then -- characters are too coarse for error bars
      parts[#parts + 1] = string.format("$curve%d using 1:2:3:4 notitle with yerrorbars linewidth 1.2 pointtype %d pointsize 0.7 linecolor rgb '%s'", i, point, colour)
    end
    parts[#parts + 1] = string.format("$curve%d using 1:2 %s %s linecolor rgb '%s'", i, title, with, colour)
  end
  return "plot " .. table.concat(parts, ", ") .. "\n"
end

local function make_figure(curves, options)
  causeway._check_options("plot", options, option_keys)
  local log_x, log_y = read_scale("xscale", options.xscale), read_scale("yscale", options.yscale)
  local x_range, y_range = read_range("xrange", options.xrange, log_x), read_range("yrange", options.yrange, log_y)
  local legend = options.legend
  if legend ~= nil and type(legend) ~= "boolean" and not legends[legend] then
    raise(string.format('plot: legend: "%s", expected true, false, "right", "below", "top left", "top right", "bottom left" or "bottom right"', tostring(legend)))
  end
  local read, any, named = {}, 0, 0
  for i, curve in ipairs(curves) do
    read[i] = read_series(curve, #curves == 1 and "the curve" or "curve " .. i, log_x, log_y)
    any = any + read[i].count
    if read[i].label ~= nil then named = named + 1 end
  end
  if any == 0 then
    raise("plot: there is no point to draw, expected at least one finite" .. ((log_x or log_y) and " (on a log axis positive)" or "") .. " number")
  end
  local with_legend = legend ~= false and named > 0 and (legend ~= nil or #read > 1)

  local size = causeway._figure_size(options.size)
  local function script(kind)
    local lines = { causeway._labels_script(options, kind) }
    if with_legend then
      local place = kind == "text" and "bmargin center horizontal" or legends[legend] or legends["right"]
      lines[#lines + 1] = "set key " .. place .. " Left reverse noenhanced samplen 2 spacing 1.2 width 1" .. (kind == "text" and "" or " textcolor rgb '#3c4043'") .. "\n"
    else
      lines[#lines + 1] = "unset key\n"
    end
    local beside = with_legend and (legend == nil or legend == true or legend == "right") and 0.58 or 0.85
    local room = kind == "text" and terminal_size() * 0.85 or size[1] * beside / 8
    lines[#lines + 1] = "set autoscale noextend\nset offsets graph 0.02, graph 0.02, graph 0.04, graph 0.04\n" -- no point on the border
    lines[#lines + 1] = axis_script("x", 1, read, log_x, x_range, room)
    lines[#lines + 1] = axis_script("y", 2, read, log_y, y_range, 48)
    for i, curve in ipairs(read) do lines[#lines + 1] = data_block(i, curve, log_y) end
    lines[#lines + 1] = plot_command(read, kind, with_legend)
    return table.concat(lines)
  end
  local figure = causeway._figure({ script = script, size = size, ylabel = options.ylabel, legend_rows = with_legend and (named + 1) // 2 or 0 })
  if options.save ~= nil then figure:save(options.save) end
  return figure
end

--- Draws curves; see the top of this file and lua/help/plot.lua. Returns the picture, which the shell shows.
function causeway.plot(...)
  local arguments = table.pack(...)
  local first = arguments[1]
  if first == nil then raise("plot: expected numbers to draw, got nothing") end
  if type(first) ~= "table" and type(first) ~= "userdata" then raise("plot: expected a list of numbers, a Tensor or a table of curves, got a " .. type(first)) end

  if is_data(first) then
    local options = {}
    local data = { first }
    if type(first) == "table" then -- plot{1, 2, 3, title = "..."}
      local values = table.move(first, 1, #first, 1, {})
      for key, value in pairs(first) do
        if values[key] == nil then options[key] = value end
      end
      data[1] = values
    end
    for i = 2, arguments.n do
      local value = arguments[i]
      if i == arguments.n and type(value) == "table" and getmetatable(value) == nil and value[1] == nil and next(value) ~= nil then
        for key, entry in pairs(value) do options[key] = entry end
      else
        data[#data + 1] = value
      end
    end
    if #data > 2 then raise("plot: " .. #data .. " lists of numbers, expected y, or x and y, or a table of curves {{x =, y =}, ...}") end
    local curve, rest = { x = data[2] and data[1], y = data[2] or data[1] }, {}
    for key, value in pairs(options) do
      if key == "label" or key == "style" or key == "error" then curve[key] = value else rest[key] = value end
    end
    return make_figure({ curve }, rest)
  end

  if arguments.n > 1 then raise("plot: with a table of curves its options stand in the same table, expected no second argument") end
  local curves, options = {}, {}
  for key, value in pairs(first) do
    if math.type(key) == "integer" then curves[key] = value else options[key] = value end
  end
  if options.y ~= nil then -- one curve written without its own braces
    local curve = {}
    for _, key in ipairs(series_keys) do curve[key], options[key] = options[key], nil end
    curves = { curve }
  end
  if #curves == 0 then raise("plot: expected numbers to draw, got a table without curves") end
  return make_figure(curves, options)
end

local scales, styles_listed, places = { "linear", "log" }, { "lines", "points", "linespoints", "dashed" }, {}
for name in pairs(legends) do places[#places + 1] = name end
table.sort(places)
causeway._options.plot = { title = true, xlabel = true, ylabel = true, xscale = scales, yscale = scales, xrange = true, yrange = true, legend = places, save = true, size = true,
  label = true, error = true, style = styles_listed }
