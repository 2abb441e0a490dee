-- A panel of plot as lines of a terminal: curves in braille, each with its name at its right end.
local causeway = ...

local grey = 244             -- of the 256 colours, one that is seen on black and on white
local shown_curves = 6       -- of more curves these are in colour, the others grey
local shown_spreads = 4      -- of more curves the spread would hide the lines
local least_canvas = 8       -- columns; in a terminal too narrow for that lines run over
local inner_names = 46       -- columns of a terminal in which names still stand beside the curves

local function text_width(text) return causeway._text_width(text) end

-- Lengths in dots, drawn and left out in turn: without colours the lines of curves differ by them.
local dashes = { false, { 6, 4 }, { 1, 3 }, { 8, 3, 1, 3 }, { 3, 3 }, { 14, 5 } }
local faint = { 1, 5 }

-- The last point of a curve that is drawn, nil where there is none.
local function last_point(curve)
  for i = #curve.points, 1, -1 do
    if curve.points[i] then return curve.points[i] end
  end
end

-- ── What each curve looks like ───────────────────────────────────────────────────────────────────────────────────

-- The curves from the best to the worst: those that go furthest first, and of these the lowest (or highest) at its end.
local function ranked(curves, best)
  local list, sign = {}, best == "highest" and -1 or 1
  for i, curve in ipairs(curves) do
    local furthest, value = -math.huge, 0
    for _, point in ipairs(curve.points) do
      if point and point[1] >= furthest then furthest, value = point[1], point[2] end
    end
    list[i] = { curve = curve, reach = furthest, value = sign * value, order = i }
  end
  table.sort(list, function(a, b)
    if a.reach ~= b.reach then return a.reach > b.reach end
    if a.value ~= b.value then return a.value < b.value end
    return a.order < b.order
  end)
  local order = {}
  for i, entry in ipairs(list) do order[i] = entry.curve end
  return order
end

-- The first of the wanted numbers that is not taken, 1 where all are.
local function first_free(wanted, taken)
  for _, n in ipairs(wanted) do
    if not taken[n] then
      taken[n] = true
      return n
    end
  end
  return wanted[1]
end

-- Sets ink, dashes, mark and has_marks of every curve, and is_grey of those that are not shown in colour. Returns the
-- curves, the best first.
local function choose_inks(panel, coloured)
  local order = ranked(panel.curves, panel.options.best)
  for i, curve in ipairs(order) do curve.is_grey = #order > shown_curves and i > shown_curves end
  local dashes_taken, marks_taken = {}, {}
  for _, curve in ipairs(panel.curves) do
    local colours, mark, round = causeway._look(curve.look)
    curve.mark, curve.dashes = mark[2], nil
    curve.ink = coloured and (curve.is_grey and grey or colours.terminal) or nil
    if coloured then
      curve.dashes = curve.style == "dashed" and dashes[5] or round % 2 == 1 and dashes[4] or nil
    elseif curve.is_grey then
      curve.dashes, curve.mark = faint, "·"
    else
      local wanted = curve.style == "dashed" and { 2, 5, 4, 6, 3, 1 } or { 1, 2, 4, 6, 5, 3 }
      curve.dashes = dashes[first_free(wanted, dashes_taken)] or nil
      local marks = {}
      for i = 0, #causeway._marks - 1 do marks[i + 1] = (curve.look - 1 + i) % #causeway._marks + 1 end
      curve.mark = causeway._marks[first_free(marks, marks_taken)][2]
    end
  end
  return order
end

-- Says of every curve whether its spread is drawn.
local function choose_spreads(panel)
  local count = 0
  for _, curve in ipairs(panel.curves) do count = count + (curve.has_error and 1 or 0) end
  panel.spread_left_out = count > shown_spreads
  for _, curve in ipairs(panel.curves) do curve.spread_drawn = curve.has_error and not panel.spread_left_out end
end

-- ── Curves ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- The row of the canvas, counted from the top, that shows a place from 0 at the bottom to 1 at the top.
local function row_of(place, height) return math.floor((1 - place) * (4 * height - 1) + 0.5) // 4 end

-- Places in dots of the points of a curve, false where the line has a gap.
local function places_of(curve, x, y, canvas)
  local places, right, bottom = {}, 2 * canvas.width - 1, 4 * canvas.height - 1
  for i, point in ipairs(curve.points) do
    places[i] = point and { x.position(point[1]) * right, (1 - y.position(point[2])) * bottom } or false
  end
  return places
end

-- Bars or bands of the spread: thin columns, where they are longer than a mark.
local function draw_spread(canvas, curve, x, y)
  local right, bottom = 2 * canvas.width - 1, 4 * canvas.height - 1
  for _, point in ipairs(curve.points) do
    if point and point[3] then
      local function row(value) return (1 - y.position(value)) * bottom end
      local column, top = x.position(point[1]) * right, row(point[4])
      local low = row((y.log and point[3] <= 0) and point[2] or point[3])
      if low - top > 6 then canvas:line(column, top, column, low, curve.ink, { 1, 1 }) end
    end
  end
end

local function draw_curve(canvas, curve, x, y, coloured, order)
  local places = places_of(curve, x, y, canvas)
  if curve.spread_drawn then draw_spread(canvas, curve, x, y) end
  if curve.style ~= "points" then
    local previous, walked = false, 0
    for _, place in ipairs(places) do
      if place and previous then
        walked = canvas:line(previous[1], previous[2], place[1], place[2], curve.ink, curve.dashes, walked)
      elseif place then
        canvas:line(place[1], place[2], place[1], place[2], curve.ink)
      end
      previous = place
    end
  end
  -- Marks: at the points where these are few; where not, colours tell the lines apart, or some marks along them.
  local few = curve.count * 4 <= canvas.width
  local marked = curve.style == "points" or curve.style == "linespoints" and few
  local step = 1
  if not marked and not coloured then
    step = math.max(1, #places // 6)
    marked = true
  end
  if curve.is_grey then marked = curve.style == "points" end
  local dotted = curve.style == "points" and curve.count > 2 * canvas.width
  for i = 1 + (step > 1 and (order * step // 4) % step or 0), marked and #places or 0, step do
    local place = places[i]
    if place then
      local column, row = math.floor(place[1] + 0.5), math.floor(place[2] + 0.5)
      if dotted then
        canvas:dot(column, row, curve.ink)
      else
        canvas:put(column // 2, row // 4, curve.mark, curve.ink)
      end
    end
  end
end

-- ── Names ────────────────────────────────────────────────────────────────────────────────────────────────────────

local function cut(text, room)
  if text_width(text) <= room then return text end
  return text:sub(1, utf8.offset(text, math.max(1, room)) - 1) .. "…"
end

-- Rows for names that would like to stand at entry.row, sorted by it: different ones from 0 to height - 1, moved as
-- little as possible. Neighbours that get into each other's way share the shift evenly.
local function spread_rows(entries, height)
  local groups = {}
  for _, entry in ipairs(entries) do
    groups[#groups + 1] = { entries = { entry }, first = entry.row }
    while #groups > 1 do
      local group, above = groups[#groups], groups[#groups - 1]
      if group.first >= above.first + #above.entries then break end
      groups[#groups] = nil
      table.move(group.entries, 1, #group.entries, #above.entries + 1, above.entries)
      local sum = 0
      for i, member in ipairs(above.entries) do sum = sum + member.row - (i - 1) end
      above.first = sum / #above.entries
    end
  end
  local next_row = 0
  for _, group in ipairs(groups) do
    next_row = math.max(next_row, math.floor(group.first + 0.5))
    for _, entry in ipairs(group.entries) do
      entry.row, next_row = next_row, next_row + 1
    end
  end
  local limit = height - 1
  for i = #entries, 1, -1 do
    if entries[i].row > limit then entries[i].row = limit end
    limit = entries[i].row - 1
  end
end

-- Which curves have their names beside the canvas, row -> {text, ink}; and the named ones that found no room.
local function names_beside(order, y, height)
  local entries, without_room = {}, {}
  for _, curve in ipairs(order) do -- the best first: they find room
    local point = curve.label and last_point(curve)
    if point then
      if #entries < height then
        local share = math.max(0, math.min(y.position(point[2]), 1))
        entries[#entries + 1] = { curve = curve, row = row_of(share, height), share = share }
      else
        without_room[#without_room + 1] = curve
      end
    end
  end
  table.sort(entries, function(a, b)
    if a.share ~= b.share then return a.share > b.share end
    return a.curve.look < b.curve.look
  end)
  spread_rows(entries, height)
  local rows = {}
  for _, entry in ipairs(entries) do rows[entry.row] = entry.curve end
  return rows, without_room
end

local function name_of(curve) return (causeway._label(curve.label)) end

-- ── The panel ────────────────────────────────────────────────────────────────────────────────────────────────────

local function centred(text, left, columns)
  return string.rep(" ", left + math.max(0, (columns - text_width(text)) // 2)) .. text
end

-- Lines of a text below or above the canvas, no wider than the terminal.
local function add_lines(out, text, columns, indent)
  for _, line in ipairs(causeway._lines(text, columns - indent)) do out[#out + 1] = (" "):rep(indent) .. line end
end

-- A title in the middle above the canvas where it fits there, otherwise in lines from the left; bold.
local function add_title(out, title, left, width, columns, coloured)
  local lines = {}
  if text_width(title) <= width then
    lines[1] = centred(title, left, width)
  else
    add_lines(lines, title, columns, 1)
  end
  for _, line in ipairs(lines) do out[#out + 1] = coloured and "\27[1m" .. line .. "\27[22m" or line end
end

-- The axis below the canvas, and the texts of its marks.
local function add_x_axis(out, x, left, width, ink)
  causeway._crowded(x, width - 1, true)
  local line, texts, column = {}, {}, 0
  for i = 1, width do line[i] = "─" end
  for _, mark in ipairs(x.marks) do
    local at = math.floor(x.position(mark.place) * (2 * width - 1) + 0.5) // 2
    if at >= 0 and at < width and not mark.minor then line[at + 1] = "┬" end
    if mark.text ~= "" then
      local size = text_width(mark.text)
      -- A text may stand out over the corner of the axes, but not over the edge of the terminal.
      local from = math.max(column, math.min(left + at - size // 2, left + width - size), 0)
      if from + size <= left + width then
        texts[#texts + 1] = string.rep(" ", from - column) .. mark.text
        column = from + size + 1
        texts[#texts + 1] = " "
      end
    end
  end
  out[#out + 1] = string.rep(" ", left - 1) .. causeway._inked("└" .. table.concat(line), ink)
  out[#out + 1] = (table.concat(texts):gsub(" +$", ""))
end

-- Lines below: in full the names that are cut or have no room beside, what is grey, and what is not drawn.
local function add_notes(out, panel, rest, names_cut, columns, coloured)
  local grey_count = 0
  for _, curve in ipairs(panel.curves) do grey_count = grey_count + (curve.is_grey and 1 or 0) end
  for _, curve in ipairs(names_cut) do
    local lines = causeway._lines(name_of(curve), columns - 3)
    out[#out + 1] = " " .. causeway._inked(curve.mark, curve.ink) .. " " .. lines[1]
    for i = 2, #lines do out[#out + 1] = "   " .. lines[i] end
  end
  local notes = {}
  if grey_count > 0 then
    local unnamed = {}
    for _, curve in ipairs(rest) do unnamed[#unnamed + 1] = name_of(curve) end
    notes[1] = string.format("%s: the %d that end %s; %s: the other %d%s", coloured and "in colour" or "with marks",
      shown_curves, panel.options.best == "highest" and "highest" or "lowest", coloured and "grey" or "dotted",
      grey_count, #unnamed > 0 and ", not named beside them: " .. table.concat(unnamed, ", ") or "")
  end
  if panel.spread_left_out then notes[#notes + 1] = "the spread stands in files only" end
  for _, line in ipairs(#notes > 0 and causeway._lines(table.concat(notes, "; "), columns - 2) or {}) do
    out[#out + 1] = " " .. causeway._inked(line, coloured and grey or nil)
  end
end

-- The texts of the marks of y by row, and the widest of them.
local function y_texts(y, height)
  local texts, widest = {}, 0
  for _, mark in ipairs(y.marks) do
    local row = row_of(y.position(mark.place), height)
    if not mark.minor and row >= 0 and row < height then
      if mark.text ~= "" or not texts[row] then texts[row] = mark.text end
      widest = math.max(widest, text_width(mark.text))
    end
  end
  return texts, widest
end

--- The panel as text: `columns` wide, about `rows` high; coloured: in the terminal's 256 colours.
function causeway._terminal_plot(panel, columns, rows, coloured)
  local order = choose_inks(panel, coloured)
  choose_spreads(panel)
  local options, ink = panel.options, coloured and grey or nil
  local has_names = panel.names and panel.named > 0
  local title = options.title ~= nil and causeway._label(options.title) or nil
  local height = math.max(6, rows - (title and 1 or 0) - (panel.xlabel ~= nil and 1 or 0)
    - (panel.ylabel ~= nil and 1 or 0) - 2 - ((#order > shown_curves or panel.spread_left_out) and 1 or 0))
  local y = causeway._axis(2, panel.curves, panel.y, height)
  local labels, widest = y_texts(y, height)
  local left = widest + 2
  local beside, below = {}, {}
  local room = 0
  if has_names and columns >= inner_names then
    beside, below = names_beside(order, y, height)
    for _, curve in pairs(beside) do room = math.max(room, text_width(name_of(curve)) + 3) end
    room = math.min(room, columns * 2 // 5)
  elseif has_names then
    for _, curve in ipairs(panel.curves) do below[#below + 1] = curve.label and curve or nil end
  end
  local width = math.max(least_canvas, columns - left - room)
  local x = causeway._axis(1, panel.curves, panel.x, width)
  local canvas = causeway._canvas(width, height)
  for i = #order, 1, -1 do draw_curve(canvas, order[i], x, y, coloured, i) end

  local out, names_cut, rest = {}, {}, {}
  if title then add_title(out, title, left, width, columns, coloured) end
  if panel.ylabel ~= nil then add_lines(out, (causeway._label(panel.ylabel)), columns, 1) end
  for row = 0, height - 1 do
    local label, curve = labels[row], beside[row]
    local axis = (label and "┤" or "│")
    local line = string.rep(" ", left - 1 - text_width(label or "")) .. (label or "") .. causeway._inked(axis, ink)
    if curve then
      local name = cut(name_of(curve), room - 3)
      if name ~= name_of(curve) then names_cut[#names_cut + 1] = curve end
      line = line .. canvas:row(row) .. " " .. causeway._inked(curve.mark .. " " .. name, curve.ink)
    else
      line = line .. canvas:row(row, true)
    end
    out[#out + 1] = (line:gsub("%s+$", ""))
  end
  add_x_axis(out, x, left, width, ink)
  if panel.xlabel ~= nil then
    local label = (causeway._label(panel.xlabel))
    if text_width(label) <= width then
      out[#out + 1] = centred(label, left, width)
    else
      add_lines(out, label, columns, 1)
    end
  end
  for _, curve in ipairs(below) do
    local list = curve.is_grey and rest or names_cut
    list[#list + 1] = curve
  end
  add_notes(out, panel, rest, names_cut, columns, coloured)
  return table.concat(out, "\n")
end
