-- A matrix as a picture: one coloured cell an element, row 1 at the top, light for small and dark for large values.
local causeway = ...

-- From light to dark in even steps of lightness (ColorBrewer's YlGnBu), readable in grey and by colour-blind readers.
local colours = { "#ffffd9", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494", "#081d58" }
local colours_256 = { 230, 193, 151, 115, 73, 38, 26, 19, 17 } -- their nearest among a terminal's 256
local shades = { " ", "░", "▒", "▓", "█" }
local max_cells = 512 -- a side; of a larger matrix the means over cells are drawn

local raise = causeway._raise

local function is_finite(v) return v == v and math.abs(v) ~= math.huge end

-- Values, after the logarithm where wanted, with their least and greatest; what cannot be drawn becomes NaN.
local function prepared(cells, log)
  local low, high = math.huge, -math.huge
  for i, v in ipairs(cells) do
    if log then v = v > 0 and math.log(v, 10) or 0 / 0 end
    if is_finite(v) then
      low, high = math.min(low, v), math.max(high, v)
    else
      v = 0 / 0
    end
    cells[i] = v
  end
  if low > high then
    raise("heatmap: A has no finite" .. (log and " positive" or "") .. " element, expected at least one")
  end
  return cells, low, high
end

-- The legend's value for a position from 0 to 1 in the range.
local function legend_text(low, high, log, position)
  local value = low + (high - low) * position
  return causeway.number_text(log and 10 ^ value or value, 3)
end

local function draw_text(A, options, log)
  local columns, rows = causeway.terminal_size()
  local coloured = causeway._colour()
  local cells, height, width = causeway._cells(A, math.max(8, math.min(rows - 6, 32)),
    math.max(20, math.min(columns - 4, 100)) // 2)
  local low, high
  cells, low, high = prepared(cells, log)
  local function cell(v)
    if v ~= v then return coloured and "  " or "??" end
    local share = high > low and (v - low) / (high - low) or 0.5
    if coloured then
      return string.format("\27[48;5;%dm  \27[0m", colours_256[1 + math.floor(share * (#colours_256 - 1) + 0.5)])
    end
    return string.rep(shades[1 + math.floor(share * (#shades - 1) + 0.5)], 2)
  end
  local lines = {}
  if options.title then lines[1] = causeway._label_text(options.title, 2) end
  lines[#lines + 1] = "  ┌" .. string.rep("─", 2 * width) .. "┐"
  for i = 1, height do
    local parts = {}
    for j = 1, width do parts[j] = cell(cells[(i - 1) * width + j]) end
    lines[#lines + 1] = "  │" .. table.concat(parts) .. "│"
  end
  lines[#lines + 1] = "  └" .. string.rep("─", 2 * width) .. "┘"
  local bar = {}
  for k = 0, 4 do bar[#bar + 1] = cell(low + (high - low) * k / 4) end
  lines[#lines + 1] = "  " .. legend_text(low, high, log, 0) .. " " .. table.concat(bar) .. " " .. legend_text(low,
    high, log, 1)
  return table.concat(lines, "\n")
end

--- Draws the matrix A. Options: title, xlabel, ylabel, scale = "linear" or "log", save, size. Returns the picture.
function causeway.heatmap(A, options)
  causeway._check_options("heatmap", options)
  options = options or {}
  local scale = options.scale or "linear"
  if scale ~= "linear" and scale ~= "log" then
    raise(string.format('heatmap: scale: "%s", expected "linear" or "log"', tostring(scale)))
  end
  local log = scale == "log"
  local cells, rows, columns, height, width = causeway._cells(A, max_cells, max_cells)
  local low, high
  cells, low, high = prepared(cells, log)

  local function script()
    local stops = {}
    for i, colour in ipairs(colours) do stops[i] = string.format("%d '%s'", i - 1, colour) end
    local lines = {
      causeway._labels_script(options, "picture"),
      "set palette defined (" .. table.concat(stops, ", ") .. ")",
      "unset key\nunset grid\nset border 0",
      "set size ratio " .. string.format("%.4f", math.max(0.25, math.min(height / width, 2))),
      string.format("set xrange [0.5:%.17g]\nset yrange [%.17g:0.5]", width + 0.5, height + 0.5),
      high > low and string.format("set cbrange [%.17g:%.17g]", low, high) or string.format("set cbrange [%.17g:%.17g]",
        low - 0.5, high + 0.5),
      log and "set cblabel 'power of ten' textcolor rgb '#3c4043'" or "set format cb '%.3g'",
      "$cells << END",
    }
    for i = 1, rows do
      local parts = {}
      for j = 1, columns do
        local v = cells[(i - 1) * columns + j]
        parts[j] = v == v and string.format("%.9g", v) or "NaN"
      end
      lines[#lines + 1] = table.concat(parts, " ")
    end
    lines[#lines + 1] = "END"
    -- The centre of cell j (from 0), in the columns of A.
    local function centre(n, of) return string.format("(%.17g + %.17g*", 0.5 + of / n / 2, of / n) end
    lines[#lines + 1] = "plot $cells matrix using " .. centre(columns, width) .. "$1):" .. centre(rows, height)
      .. "$2):3 with image"
    return table.concat(lines, "\n") .. "\n"
  end
  local figure = causeway._figure({ script = script, size = causeway._figure_size(options.size, { 640, 520 }),
    draw_text = function() return draw_text(A, options, log) end })
  if options.save ~= nil then figure:save(options.save) end
  return figure
end

causeway._options.heatmap = { title = true, xlabel = true, ylabel = true, scale = { "linear", "log" }, save = true,
  size = true }
