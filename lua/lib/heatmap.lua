-- A matrix as a picture: one coloured cell an element, row 1 at the top, light for small and dark for large values.
-- Where some are negative and some positive, colours go apart from 0: blue below, red above.
local causeway = ...

-- Colours of a file, their nearest among a terminal's 256, and what stands for them without colours.
local palettes = {
  -- From light to dark in even steps of lightness (ColorBrewer's YlGnBu), readable in grey and by colour-blind readers.
  sequential = {
    file = { "#ffffd9", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494", "#081d58" },
    terminal = { 230, 193, 151, 115, 73, 38, 26, 19, 17 },
    shades = { "  ", "░░", "▒▒", "▓▓", "██" },
  },
  -- As dark at one end as at the other, and light at 0 (ColorBrewer's RdBu).
  diverging = {
    file = { "#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d",
      "#b2182b", "#67001f" },
    terminal = { 17, 25, 68, 110, 153, 255, 223, 216, 167, 124, 52 },
    shades = { "##", "==", "--", "··", "  ", "░░", "▒▒", "▓▓", "██" },
  },
}
local max_cells = 512 -- a side; of a larger matrix the means over cells are drawn

local scales = { "linear", "log" }
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

-- The palette, and the least and the greatest value that it shows: as far below 0 as above it where there are both.
local function palette_for(low, high, log)
  if log or low >= 0 or high <= 0 then return palettes.sequential, low, high end
  local far = math.max(-low, high)
  return palettes.diverging, -far, far
end

-- The legend's value for a position from 0 to 1 in the range.
local function legend_text(low, high, log, position)
  local value = low * (1 - position) + high * position
  return causeway.number_text(log and 10 ^ value or value, 3)
end

-- A function that returns the two characters of a cell.
local function cell_painter(palette, low, high, coloured)
  local steps = coloured and palette.terminal or palette.shades
  return function(v)
    if v ~= v then return coloured and "  " or "??" end
    local share = high > low and (v / 2 - low / 2) / (high / 2 - low / 2) or 0.5
    local step = steps[1 + math.floor(share * (#steps - 1) + 0.5)]
    return coloured and string.format("\27[48;5;%dm  \27[0m", step) or step
  end
end

local function label_lines(lines, label, indent)
  if label ~= nil then lines[#lines + 1] = causeway._label_text(label, indent) end
end

local function draw_text(A, options, log)
  local columns, rows = causeway.terminal_size()
  local coloured = causeway._colour()
  local cells, height, width, all_rows, all_columns = causeway._cells(A, math.max(8, math.min(rows - 8, 32)),
    math.max(4, math.min(columns - 4, 100) // 2))
  local low, high, palette
  cells, low, high = prepared(cells, log)
  palette, low, high = palette_for(low, high, log)
  local cell = cell_painter(palette, low, high, coloured)
  local blank = false
  for _, v in ipairs(cells) do blank = blank or v ~= v end
  local lines = {}
  label_lines(lines, options.title, 2)
  label_lines(lines, options.ylabel ~= nil and "↓ " .. tostring(options.ylabel) or nil, 2)
  lines[#lines + 1] = "  ┌" .. string.rep("─", 2 * width) .. "┐"
  for i = 1, height do
    local parts = {}
    for j = 1, width do parts[j] = cell(cells[(i - 1) * width + j]) end
    lines[#lines + 1] = "  │" .. table.concat(parts) .. "│"
  end
  lines[#lines + 1] = "  └" .. string.rep("─", 2 * width) .. "┘"
  label_lines(lines, options.xlabel ~= nil and "→ " .. tostring(options.xlabel) or nil, 3)
  local bar = {}
  local last = palette == palettes.diverging and columns >= 40 and 8 or 4
  for k = 0, last do bar[#bar + 1] = cell(low * (1 - k / last) + high * k / last) end
  lines[#lines + 1] = "  " .. legend_text(low, high, log, 0) .. " " .. table.concat(bar) .. " " .. legend_text(low,
    high, log, 1)
  if height < all_rows or width < all_columns then
    label_lines(lines, string.format("means over cells: %d×%d of %d×%d", height, width, all_rows, all_columns), 2)
  end
  if blank then
    label_lines(lines, string.format("%s: %s", coloured and "blank" or "??",
      log and "not positive, or not finite" or "NaN or infinite"), 2)
  end
  return table.concat(lines, "\n")
end

-- gnuplot's commands for the cells, rows × columns of them, of a matrix of height × width.
local function script_of(grid, options, log)
  local palette, low, high = palette_for(grid.low, grid.high, log)
  local stops = {}
  for i, colour in ipairs(palette.file) do stops[i] = string.format("%d '%s'", i - 1, colour) end
  if low == high then low, high = low - 0.5, high + 0.5 end
  local lines = {
    causeway._labels_script(options),
    "set palette defined (" .. table.concat(stops, ", ") .. ")",
    "unset key\nunset grid\nset border 0",
    "set size ratio " .. string.format("%.4f", math.max(0.25, math.min(grid.height / grid.width, 2))),
    string.format("set xrange [0.5:%.17g]\nset yrange [%.17g:0.5]", grid.width + 0.5, grid.height + 0.5),
    string.format("set cbrange [%.17g:%.17g]", low, high),
    log and "set cblabel 'power of ten' noenhanced textcolor rgb '#3c4043'" or "set format cb '%.3g'",
    "$cells << END",
  }
  for i = 1, grid.rows do
    local parts = {}
    for j = 1, grid.columns do
      local v = grid.cells[(i - 1) * grid.columns + j]
      parts[j] = v == v and string.format("%.9g", v) or "NaN"
    end
    lines[#lines + 1] = table.concat(parts, " ")
  end
  lines[#lines + 1] = "END"
  -- The centre of cell j (from 0), in the columns of A.
  local function centre(n, of) return string.format("(%.17g + %.17g*", 0.5 + of / n / 2, of / n) end
  lines[#lines + 1] = "plot $cells matrix using " .. centre(grid.columns, grid.width) .. "$1):"
    .. centre(grid.rows, grid.height) .. "$2):3 with image"
  return table.concat(lines, "\n") .. "\n"
end

--- Draws the matrix A. Options: title, xlabel, ylabel, scale = "linear" or "log", save, size, font, font_size. Returns
--- the picture.
function causeway.heatmap(A, options)
  causeway._check_options("heatmap", options)
  options = options or {}
  causeway._check_word("heatmap: scale", options.scale, scales)
  local log = options.scale == "log"
  local grid = {}
  grid.cells, grid.rows, grid.columns, grid.height, grid.width = causeway._cells(A, max_cells, max_cells)
  grid.cells, grid.low, grid.high = prepared(grid.cells, log)
  local figure = causeway._figure({
    script = function() return script_of(grid, options, log) end,
    size = causeway._figure_size(options.size, { 640, 520 }), font = options.font, font_size = options.font_size,
    title = options.title, draw_text = function() return draw_text(A, options, log) end,
  })
  if options.save ~= nil then causeway._write_figure(figure, options.save) end
  return figure
end

causeway._options.heatmap = { title = true, xlabel = true, ylabel = true, scale = scales, save = true,
  size = true, font = true, font_size = true }
