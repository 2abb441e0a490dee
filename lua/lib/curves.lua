-- What plot draws: its curves and axes as the user gave them, checked, and in one form.
local causeway = ...

local max_points = 20000 -- of one curve; of more, evenly spread ones are drawn
local styles, scales = { "lines", "points", "linespoints", "dashed" }, { "linear", "log" }
local legends = { "below", "bottom left", "bottom right", "right", "top left", "top right" }
for _, place in ipairs(legends) do legends[place] = true end

local spreads, units, ends_of_best = { "band", "bars" }, { "bytes", "seconds" }, { "highest", "lowest" }

local raise, noun = causeway._raise, causeway._noun

--- Refuses an option that is given and is none of the words.
function causeway._check_word(name, value, words)
  if value == nil then return end
  for _, word in ipairs(words) do
    if value == word then return end
  end
  local quoted = {}
  for i, word in ipairs(words) do quoted[i] = '"' .. word .. '"' end
  local last = table.remove(quoted)
  raise(string.format("%s: %s, expected %s or %s", name, type(value) == "string" and '"' .. value .. '"'
    or noun(value), table.concat(quoted, ", "), last))
end

--- Numbers, or a list of them, and not a table of curves.
function causeway._is_data(value)
  if type(value) == "userdata" then return causeway._is_tensor(value) end
  return causeway._is_plain(value) and (type(value[1]) == "number" or next(value) == nil)
end

-- Names of what belongs to a curve, and of what belongs to the axes of a panel.
local series_keys = { "x", "y", "label", "error", "style", "width", "spread", "like" }
local axis_keys = { "xlabel", "ylabel", "xscale", "yscale", "xrange", "yrange", "xticks", "yticks", "xunit", "yunit" }
causeway._axis_keys = axis_keys

-- Can the number be drawn on this axis?
local function drawn(v, log) return v == v and math.abs(v) ~= math.huge and (not log or v > 0) end

-- The curve as a table with the names of series_keys, checked but for its numbers. name: what an error calls it.
local function named_series(given, name)
  if causeway._is_data(given) then given = { y = given } end
  if type(given) ~= "table" then
    raise(name .. ": expected a curve such as {x = ..., y = ...}, got " .. noun(given))
  end
  if given.y == nil and given[1] ~= nil then
    local both = given[2] ~= nil
    given = { x = both and given[1] or nil, y = both and given[2] or given[1], label = given.label,
      error = given.error, style = given.style, width = given.width, spread = given.spread,
      like = given.like }
  end
  causeway._check_options(name, given, series_keys)
  if given.y == nil then raise(name .. ": no y given, expected {x = ..., y = ...}") end
  for _, key in ipairs { "x", "y" } do
    if type(given[key]) == "userdata" and not causeway._is_data(given[key]) then
      raise(string.format("%s: %s: expected numbers, got %s", name, key, noun(given[key])))
    end
  end
  causeway._check_word("plot: style", given.style, styles)
  causeway._check_word("plot: spread", given.spread, spreads)
  if given.like ~= nil and type(given.like) ~= "string" then
    raise("plot: like: expected the label of another curve, got a " .. type(given.like))
  end
  local width = given.width
  if width ~= nil and not (type(width) == "number" and width > 0 and width <= 20) then
    raise("plot: width: " .. tostring(width) .. ", expected the pixels of a line, up to 20")
  end
  if type(given.y) == "userdata" then -- the rows of a matrix, one after the other, are no curve
    local extents = 0
    for _, extent in ipairs({ given.y:size() }) do extents = extents + (extent > 1 and 1 or 0) end
    if extents > 1 then
      raise(string.format("%s: y: shape %s, expected one dimension, such as A(1); heatmap draws a matrix", name,
        table.concat({ given.y:size() }, "×")))
    end
  end
  return given
end

-- The lower and the upper end of the error bar of point i as a function of i and y; nil where there are no bars.
local function error_ends(given, name, n)
  if given == nil then return nil end
  local function values(list, called)
    local numbers, m = causeway._numbers(list, called, max_points)
    if m ~= n then raise(string.format("%s: %s has %d values, expected %d like y", name, called, m, n)) end
    return numbers
  end
  if type(given) == "table" and given.from ~= nil and given.to ~= nil then
    local from, to = values(given.from, "error.from"), values(given.to, "error.to")
    return function(i, y) return drawn(from[i]) and from[i] or y, drawn(to[i]) and to[i] or y end
  end
  local half = values(given, "error")
  return function(i, y)
    local e = drawn(half[i]) and math.abs(half[i]) or 0
    return y - e, y + e
  end
end

--- Adds to `curves` those of rows of results that ended well and have both columns: y over x, a curve for each value of
--- the column `by`, with bars of the column `err`, both of which may be nil. False where no row has both.
function causeway._add_curves(curves, rows, x, y, by, err)
  local of = {}
  for _, row in ipairs(rows) do
    local done = row.status == "ok" or row.status == nil  -- rows of a file may have no status
    if done and row[x] ~= nil and row[y] ~= nil then
      local label = tostring(by and row[by])
      local curve = of[label]
      if not curve then
        curve = { x = {}, y = {}, error = err and {}, label = by and label }
        of[label], curves[#curves + 1] = curve, curve
      end
      local n = #curve.x + 1
      curve.x[n], curve.y[n] = row[x], row[y]
      if err then curve.error[n] = row[err] or 0 end
    end
  end
  return next(of) ~= nil
end

-- One curve with checked numbers: points {x, y, low and high end of the error bar}, false where a line has a gap.
local function read_series(given, name, log_x, log_y)
  given = named_series(given, name)
  local y, n = causeway._numbers(given.y, "y", max_points)
  local x, m
  if given.x ~= nil then
    x, m = causeway._numbers(given.x, "x", max_points)
    if m ~= n then raise(string.format("%s: y has %d values, expected %d like x", name, n, m)) end
  end
  local ends = error_ends(given.error, name, n)
  local points, seen, below = {}, 0, 0
  for i = 1, #y do
    local px = x and x[i] or (#y == n and i or 1 + (i - 1) * (n - 1) // (#y - 1))
    if drawn(px, log_x) and drawn(y[i], log_y) then
      local low, high
      if ends then low, high = ends(i, y[i]) end
      points[#points + 1] = { px, y[i], low, high }
      seen = seen + 1
    else
      points[#points + 1] = false
      if drawn(px) and drawn(y[i]) then below = below + 1 end
    end
  end
  local style = given.style or (seen > 60 and "lines" or "linespoints") -- marks would cover a dense curve
  local label = given.label ~= nil and tostring(given.label) or nil
  return { points = points, count = seen, below = below, label = label, style = style, width = given.width or 2,
    has_error = ends ~= nil, spread = given.spread, like = given.like }
end

local function read_range(name, value, log)
  if value == nil then return nil end
  local a, b = nil, nil
  if type(value) == "table" then a, b = value[1], value[2] end
  local good = type(a) == "number" and type(b) == "number" and a < b and a ~= -math.huge and b ~= math.huge
  if not good or (log and a <= 0) then
    local more = log and ", both positive on a log axis" or ""
    raise(string.format("plot: %s: expected {from, to} with from < to%s", name, more))
  end
  return { a, b }
end

local function read_ticks(name, value)
  if value == nil then return nil end
  local ticks = causeway._numbers(value, name, max_points)
  table.sort(ticks)
  return ticks
end

local function read_axis(axis, options)
  local scale = options[axis .. "scale"]
  causeway._check_word("plot: " .. axis .. "scale", scale, scales)
  local log = scale == "log"
  return {
    log = log, range = read_range(axis .. "range", options[axis .. "range"], log),
    ticks = read_ticks(axis .. "ticks", options[axis .. "ticks"]),
  }
end

--- A table's curves (its list) and its options (its names). One curve may stand there without braces of its own.
function causeway._curves_and_options(given)
  local curves, options = {}, {}
  for key, value in pairs(given) do
    if math.type(key) == "integer" then curves[key] = value else options[key] = value end
  end
  if options.y ~= nil then
    local curve = {}
    for _, key in ipairs(series_keys) do curve[key], options[key] = options[key], nil end
    curves = { curve }
  end
  return curves, options
end

--- A panel with checked curves and axes: {curves =, x =, y =, xlabel =, ylabel =, options =, named = how many curves
--- have a label}. where: what an error calls it; known: the options it may have.
function causeway._read_panel(curves, options, where, known)
  if #curves == 0 then raise(where .. ": expected numbers to draw, got a table without curves") end
  causeway._check_options(where, options, known)
  causeway._check_word(where .. ": xunit", options.xunit, units)
  causeway._check_word(where .. ": yunit", options.yunit, units)
  causeway._check_word(where .. ": spread", options.spread, spreads)
  causeway._check_word(where .. ": best", options.best, ends_of_best)
  local x, y = read_axis("x", options), read_axis("y", options)
  local legend = options.legend
  if legend ~= nil and type(legend) ~= "boolean" and not legends[legend] then
    raise(string.format('plot: legend: "%s", expected true, false, "right", "below", "top left", "top right", '
      .. '"bottom left" or "bottom right"', tostring(legend)))
  end
  local read, any, below, named = {}, 0, 0, 0
  for i, curve in ipairs(curves) do
    read[i] = read_series(curve, where .. (#curves == 1 and ": the curve" or ": curve " .. i), x.log, y.log)
    read[i].spread = read[i].spread or options.spread or "bars"
    any, below = any + read[i].count, below + read[i].below
    if read[i].label ~= nil then named = named + 1 end
  end
  if any == 0 then
    local positive = (x.log or y.log) and " (on a log axis positive)" or ""
    raise(where .. ": there is no point to draw, expected at least one finite" .. positive .. " number")
  end
  if below > 0 then
    causeway._note(string.format("%s: %d of %d points %s left out: zero or negative, on a log axis", where, below,
      any + below, below == 1 and "is" or "are"))
  end
  return {
    curves = read, x = x, y = y, options = options, named = named,
    xlabel = causeway._use_unit(x, 1, read, options.xlabel, options.xunit),
    ylabel = causeway._use_unit(y, 2, read, options.ylabel, options.yunit),
  }
end

--- The options of one curve, and the words that options of a plot may be.
causeway._series_keys = series_keys
causeway._plot_words = {
  xscale = scales, yscale = scales, xunit = units, yunit = units, spread = spreads, best = ends_of_best,
  legend = table.move(legends, 1, #legends, 1, {}), style = styles,
}
