-- Pictures of curves, and several beside one another as panels.
--
--   plot(y)                      plot(x, y)                      plot(x, y, {title = "...", yscale = "log"})
--   plot{ {x =, y =, label =, error =, style =}, ..., title =, xlabel =, ylabel = }
--   plot{ panels = { { {x =, y =, ...}, ..., title = }, ... }, columns = 2, xscale = "log" }
--
-- x, y and error are lists of numbers or Tensors. A point that is NaN or infinite, or not positive on a log axis, is
-- left out and the line has a gap there; of the latter a note says how many.
local causeway = ...

local legends = {
  ["right"] = "outside right top", ["below"] = "bmargin center horizontal", ["top left"] = "inside left top",
  ["top right"] = "inside right top", ["bottom left"] = "inside left bottom", ["bottom right"] = "inside right bottom",
}
local legend_look = " Left reverse samplen 2 spacing 1.2 width 1"
local legend_ink = " textcolor rgb '#3c4043'"

local raise, noun = causeway._raise, causeway._noun
local is_data, curves_and_options = causeway._is_data, causeway._curves_and_options

-- What a panel has from the picture where it says nothing itself.
local common_keys = { "spread", "best", table.unpack(causeway._axis_keys) }
local panel_keys = { "title", "legend", table.unpack(common_keys) }
local figure_keys = { "panels", "columns", "save", "size", "font", "font_size", table.unpack(panel_keys) }
causeway._options.plot = {}
for _, keys in ipairs({ figure_keys, causeway._series_keys }) do
  for _, key in ipairs(keys) do causeway._options.plot[key] = causeway._plot_words[key] or true end
end

--- Refuses an option of a picture of rows that is none: `more` names those that it has beside the ones of plot.
function causeway._check_plot_options(options, more)
  local known = { "save", "size", "font", "font_size", table.unpack(panel_keys) }
  causeway._check_options("plot", options, table.move(more or {}, 1, #(more or {}), #known + 1, known))
end

causeway._options.plot.by = true  -- of rows

-- ── The script ───────────────────────────────────────────────────────────────────────────────────────────────────

local function data_block(index, curve, log_y)
  local lines = { "$curve" .. index .. " << END" }
  for _, p in ipairs(curve.points) do
    if not p then
      lines[#lines + 1] = ""
    elseif p[3] then
      local low = p[3]
      if log_y and low <= 0 then low = p[2] * 1e-3 end
      lines[#lines + 1] = string.format("%.17g %.17g %.17g %.17g", p[1], p[2], low, p[4])
    else
      lines[#lines + 1] = string.format("%.17g %.17g", p[1], p[2])
    end
  end
  lines[#lines + 1] = "END"
  return table.concat(lines, "\n") .. "\n"
end

-- "with lines ... linecolor rgb '#...'", the type of the curve's marks and its colour.
local function look_of(curve)
  local colours, mark, round = causeway._look(curve.look)
  local again = round % 2 == 1
  local with
  if curve.style == "points" then
    with = string.format("with points pointtype %d pointsize 0.8", mark[1])
  elseif curve.style == "linespoints" then
    local dashes = again and " dashtype 4" or ""
    with = string.format("with linespoints linewidth %g pointtype %d pointsize 0.7%s", curve.width, mark[1], dashes)
  else
    with = string.format("with lines linewidth %g", curve.width)
    if curve.style == "dashed" then
      with = with .. (again and " dashtype 3" or " dashtype 2")
    elseif again then
      with = with .. " dashtype 4"
    end
  end
  return string.format("%s linecolor rgb '%s'", with, colours.file), mark[1], colours.file
end

-- The bands lie below all curves, and a curve's bars below its line.
local function plot_command(curves, labelled)
  local parts = {}
  for i, curve in ipairs(curves) do
    if curve.has_error and curve.spread == "band" then
      local _, _, colour = look_of(curve)
      parts[#parts + 1] = string.format("$curve%d using 1:3:4 notitle with filledcurves fillstyle transparent solid "
        .. "0.2 noborder linecolor rgb '%s'", i, colour)
    end
  end
  for i, curve in ipairs(curves) do
    local title = labelled and curve.label ~= nil and "title " .. causeway._gnuplot_label(curve.label) or "notitle"
    local with, point, colour = look_of(curve)
    if curve.has_error and curve.spread ~= "band" then
      parts[#parts + 1] = string.format("$curve%d using 1:2:3:4 notitle with yerrorbars linewidth 1.2 pointtype %d "
        .. "pointsize 0.7 linecolor rgb '%s'", i, point, colour)
    end
    parts[#parts + 1] = string.format("$curve%d using 1:2 %s %s", i, title, with)
  end
  return "plot " .. table.concat(parts, ", ") .. "\n"
end

-- Commands for one panel of `width` pixels. legend: one of `legends`, or nil for none inside of it.
local function panel_script(panel, width, legend)
  local lines = { causeway._labels_script({ title = panel.options.title, xlabel = panel.xlabel,
    ylabel = panel.ylabel }) }
  lines[2] = legend and "set key " .. legends[legend] .. legend_look .. legend_ink .. "\n" or "unset key\n"
  -- No point on the border.
  lines[3] = "set autoscale noextend\nset offsets graph 0.02, graph 0.02, graph 0.04, graph 0.04\n"
  local x = causeway._axis(1, panel.curves, panel.x, width * (legend == "right" and 0.58 or 0.85) / 8)
  lines[4] = causeway._axis_script("x", x)
  lines[5] = causeway._axis_script("y", causeway._axis(2, panel.curves, panel.y, 24))
  for i, curve in ipairs(panel.curves) do lines[#lines + 1] = data_block(i, curve, panel.y.log) end
  lines[#lines + 1] = plot_command(panel.curves, legend ~= nil)
  return table.concat(lines)
end

-- Where a panel has its legend: one of `legends`, or nil where no curve has a label.
local function legend_place(panel)
  local legend = panel.options.legend
  if panel.shares_legend or legend == false or panel.named == 0 then return nil end
  return type(legend) == "string" and legend or "right"
end

-- A panel in the terminal. In place of a legend the names stand beside the curves. rows: nil for the terminal's.
local function panel_text(panel, rows)
  local columns, terminal_rows = causeway._text_size()
  panel.names = panel.options.legend ~= false
  return causeway._terminal_plot(panel, columns, rows or terminal_rows, causeway._colour())
end

-- ── Panels ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- In pixels, for the usual size of the font. As text a panel is lower than a picture of its own: the panels stand below
-- one another.
local panel_size, title_height, legend_row_height, panel_text_rows = { 420, 330 }, 30, 26, 16

-- A curve for each entry of the legend that the panels share, and how many labels stand in a row of it.
local function shared_legend(panels, width, font_scale)
  local list, seen, longest = {}, {}, 0
  for _, panel in ipairs(panels) do
    for _, curve in ipairs(panel.shares_legend and panel.curves or {}) do
      if curve.label and not seen[curve.look] then
        list[#list + 1], seen[curve.look] = curve, true
        longest = math.max(longest, causeway._text_width((causeway._label(curve.label))))
      end
    end
  end
  table.sort(list, function(a, b) return a.look < b.look end)
  return list, math.max(1, math.floor((width - 40) / (font_scale * (8 * longest + 60))))
end

-- The legend as a plot of its own: keys without curves.
local function legend_script(entries, rows)
  local parts = { "NaN notitle" }
  for i, curve in ipairs(entries) do
    parts[i + 1] = string.format("keyentry %s title %s", look_of(curve), causeway._gnuplot_label(curve.label))
  end
  return "unset border\nunset tics\nunset grid\nset margins 0, 0, 0, 0\n"
    .. "set key at graph 0.5, 0.5 center center vertical maxrows " .. rows .. legend_look .. legend_ink
      .. "\nplot [0:1][0:1] " .. table.concat(parts, ", ") .. "\n"
end

-- The script of a picture with panels. Heights are counted from the bottom: the legend, the panels, the title.
local function panels_script(panels, options, columns, size, legend)
  local rows = math.ceil(#panels / columns)
  local top = options.title ~= nil and title_height or 0
  local width, height = size[1] / columns, (size[2] - top - legend.height) / rows
  local lines = { "set multiplot" .. (top > 0 and " title " .. causeway._gnuplot_label(options.title) or "") }
  local function part(x, y, w, h, script)
    lines[#lines + 1] = string.format("reset\n%sset origin %.6f, %.6f\nset size %.6f, %.6f\n%s", causeway._figure_look,
      x / size[1], y / size[2], w / size[1], h / size[2], script)
  end
  for i, panel in ipairs(panels) do
    local row, column = (i - 1) // columns, (i - 1) % columns
    part(column * width, size[2] - top - (row + 1) * height, width, height,
      panel_script(panel, width, legend_place(panel)))
  end
  if legend.rows > 0 then part(0, 0, size[1], legend.height, legend_script(legend.entries, legend.rows)) end
  lines[#lines + 1] = "unset multiplot\n"
  return table.concat(lines, "\n")
end

-- Title first, then a panel below the other.
local function panels_text(panels, title)
  local parts = { title ~= nil and causeway._label_text(title, 1) or nil }
  for _, panel in ipairs(panels) do parts[#parts + 1] = panel_text(panel, panel_text_rows) end
  return table.concat(parts, "\n\n")
end

-- The panels as given, each with the options of the picture where it has none of its own.
local function read_panels(options)
  if type(options.panels) ~= "table" or #options.panels == 0 then
    raise("plot: panels: expected a list of panels such as {{{x = ..., y = ...}, title = ...}, ...}")
  end
  local panels, common = {}, options.legend == nil or options.legend == "below"
  for i, given in ipairs(options.panels) do
    local where = "plot: panel " .. i
    if type(given) ~= "table" then raise(where .. ": expected a table of curves, got " .. noun(given)) end
    local curves, own = curves_and_options(is_data(given) and { { y = given } } or given)
    causeway._check_options(where, own, panel_keys)
    local shares = common and own.legend == nil
    for _, key in ipairs(common_keys) do if own[key] == nil then own[key] = options[key] end end
    if own.legend == nil and not common then own.legend = options.legend end
    panels[i] = causeway._read_panel(curves, own, where, panel_keys)
    panels[i].shares_legend = shares
  end
  return panels
end

local function panels_figure(options)
  causeway._check_options("plot", options, figure_keys)
  local panels = read_panels(options)
  local columns = options.columns
  if columns == nil then columns = math.ceil(math.sqrt(#panels)) end
  if math.type(columns) ~= "integer" or columns < 1 then
    raise("plot: columns: " .. tostring(columns) .. ", expected a whole number of at least 1")
  end
  columns = math.min(columns, #panels)
  causeway._give_looks(panels)
  local width = options.size and causeway._figure_size(options.size)[1] or math.max(800, panel_size[1] * columns)
  local font_scale = type(options.font_size) == "number" and math.max(0.1, options.font_size / 14) or 1
  local entries, in_a_row = shared_legend(panels, width, font_scale)
  local rows = math.ceil(#entries / in_a_row)
  local legend = { entries = entries, rows = rows,
    height = rows > 0 and rows * legend_row_height * font_scale + 12 or 0 }
  local height = panel_size[2] * math.ceil(#panels / columns) + legend.height
  local size = causeway._figure_size(options.size, { width, height + (options.title ~= nil and title_height or 0) })
  return causeway._figure({
    script = function() return panels_script(panels, options, columns, size, legend) end, size = size,
    font = options.font, font_size = options.font_size, title = options.title,
    draw_text = function() return panels_text(panels, options.title) end,
  })
end

-- ── The call ─────────────────────────────────────────────────────────────────────────────────────────────────────

local function make_figure(curves, options)
  local figure
  if options.panels ~= nil then
    if #curves > 0 then raise("plot: curves stand in the panels where there are such, expected none beside them") end
    figure = panels_figure(options)
  else
    local panel = causeway._read_panel(curves, options, "plot", figure_keys)
    if options.columns ~= nil then raise("plot: columns: expected together with panels only") end
    causeway._give_looks({ panel })
    local size = causeway._figure_size(options.size, { 800, 480 })
    figure = causeway._figure({
      script = function() return panel_script(panel, size[1], legend_place(panel)) end, size = size,
      font = options.font, font_size = options.font_size, title = options.title,
      draw_text = function() return panel_text(panel) end,
    })
  end
  if options.save ~= nil then causeway._write_figure(figure, options.save) end
  return figure
end

-- plot(y), plot(x, y), plot{1, 2, 3}, each with a table of options behind it.
local function figure_of_numbers(arguments)
  local first = arguments[1]
  local options, data = {}, { first }
  if type(first) == "table" then -- plot{1, 2, 3, title = "..."}
    local values = table.move(first, 1, #first, 1, {})
    for key, value in pairs(first) do
      if values[key] == nil then options[key] = value end
    end
    data[1] = values
  end
  for i = 2, arguments.n do
    local value = arguments[i]
    if type(value) == "string" then
      raise(string.format('plot: "%s", expected numbers or a table of options: plot(x, y, {style = "dashed", label = '
        .. '"a"})', value))
    end
    local plain = causeway._is_plain(value)
    if i == arguments.n and plain and value[1] == nil and next(value) ~= nil then
      for key, entry in pairs(value) do options[key] = entry end
    else
      data[#data + 1] = value
    end
  end
  if #data > 2 then
    raise("plot: " .. #data .. " lists of numbers, expected y, or x and y, or a table of curves {{x =, y =}, ...}")
  end
  if data[2] and causeway._is_plain(data[2]) and type(data[2][1]) ~= "number" and is_data(data[2][1]) then
    raise("plot: y: several lists of numbers, expected one: several curves are plot{{x = x, y = y1}, {x = x, y = y2}}")
  end
  local curve, rest = { x = data[2] and data[1], y = data[2] or data[1] }, {}
  for key, value in pairs(options) do
    local of_curve = key == "label" or key == "style" or key == "error" or key == "width" or key == "spread"
    local place = of_curve and curve or rest
    place[key] = value
  end
  return make_figure({ curve }, rest)
end

-- Whether a table is a list of rows {column = value}, such as those of a .csv file, and no list of curves.
local function is_rows(list)
  local row = list[1]
  if not causeway._is_plain(row) or row[1] ~= nil or next(row) == nil then return false end
  return type(row.y) == "number" or row.x == nil and row.y == nil and row.label == nil
end

--- A picture of two columns of rows {column = value}: causeway._plot_rows(rows, "N", "time", {by = "method"}).
function causeway._plot_rows(rows, x, y, options)
  causeway._check_plot_options(options, { "by" })
  local given, by = {}, options and options.by
  for key, value in pairs(options or {}) do
    if key ~= "by" then given[key] = value end
  end
  for _, name in ipairs({ x or false, y or false, by }) do
    local found = false
    for _, row in ipairs(rows) do found = found or row[name] ~= nil end
    if not found then
      local columns = {}
      for column in pairs(rows[1]) do columns[#columns + 1] = tostring(column) end
      table.sort(columns)
      raise(string.format('plot: %s, expected two of the columns %s, as in plot(rows, "%s", "%s", {by = ...})',
        name and "no row has " .. causeway._literal(name) or "rows without the names of two columns",
        table.concat(columns, ", "), columns[1], columns[2] or columns[1]))
    end
  end
  if not causeway._add_curves(given, rows, x, y, by) then
    raise(string.format("plot: no row has both %s and %s", x, y))
  end
  given.xlabel, given.ylabel = given.xlabel or x, given.ylabel or y
  return causeway.plot(given)
end

--- Draws curves; see the top of this file and lua/help/plot.lua. Returns the picture, which the shell shows.
function causeway.plot(...)
  local arguments = table.pack(...)
  local first = arguments[1]
  if first == nil then
    raise('plot: expected numbers or rows to draw, got nothing; the rows of a file are drawn by plot(rows, "x", "y")')
  end
  if type(first) ~= "table" and not is_data(first) then
    raise("plot: expected a list of numbers, a Tensor or a table of curves, got " .. noun(first))
  end
  if is_data(first) then return figure_of_numbers(arguments) end
  local class = getmetatable(first)
  if type(class) == "table" and first.plot then return first:plot(table.unpack(arguments, 2, arguments.n)) end
  if is_rows(first) then return causeway._plot_rows(table.unpack(arguments, 1, arguments.n)) end
  if arguments.n > 1 then
    raise("plot: a second argument behind a table of curves, expected one table: plot{{x = x, y = y}, {x = x, y = z}, "
      .. 'title = "T"}')
  end
  return make_figure(curves_and_options(first))
end
