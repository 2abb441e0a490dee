-- The axes of plot: their units, their ranges, and what is marked on them; for terminals and for gnuplot.
local causeway = ...

local superscripts = {
  ["-"] = "⁻", ["0"] = "⁰", ["1"] = "¹", ["2"] = "²", ["3"] = "³", ["4"] = "⁴", ["5"] = "⁵", ["6"] = "⁶", ["7"] = "⁷",
  ["8"] = "⁸", ["9"] = "⁹",
}
local most_places = 12 -- different x that are all marked; of more, round numbers are

local function plain_text(value) return string.format("%.10g", value) end

local function power_text(exponent, plain)
  if plain then return plain_text(10.0 ^ exponent) end
  return "10" .. string.format("%d", exponent):gsub(".", superscripts)
end

local function width(text) return causeway._text_width(text) end

-- ── Units ────────────────────────────────────────────────────────────────────────────────────────────────────────

local function each_point(curves, visit)
  for _, curve in ipairs(curves) do
    for _, point in ipairs(curve.points) do
      if point then visit(point) end
    end
  end
end

-- What the label calls its values, "seconds" or "bytes", at its end or in brackets there; and the text around it.
local function unit_in(label)
  for _, unit in ipairs({ "seconds", "bytes" }) do
    local before, behind = label:match("^(.-)%f[%a]" .. unit .. "(%)?)$")
    if before and before:sub(-1) ~= "_" then return unit, before, behind end
  end
end

-- The unit that fits: on a log axis the middle of what is drawn, otherwise its largest.
local function fitting_unit(unit, curves, k, log)
  local low, high = math.huge, 0
  each_point(curves, function(point)
    local size = math.abs(point[k])
    if size > 0 then low, high = math.min(low, size), math.max(high, size) end
  end)
  if high == 0 then return causeway._units[unit][1] end
  local size = log and math.sqrt(low) * math.sqrt(high) or high
  local found = causeway._units[unit][1]
  for _, entry in ipairs(causeway._units[unit]) do
    if entry[2] <= size or high / entry[2] > 1e300 then found = entry end
  end
  return found
end

--- Values called seconds or bytes, by the label or by the option `unit`, are shown in the one unit that fits: scales
--- the points, the range and the ticks of the axis, and returns its label. k: 1 for x, 2 for y, their place in a point.
function causeway._use_unit(axis, k, curves, label, unit)
  local named, before, behind
  if label ~= nil then named, before, behind = unit_in(tostring(label)) end
  unit = unit or named
  if not unit then return label end
  local name, size = table.unpack(fitting_unit(unit, curves, k, axis.log))
  axis.unit_size = size
  each_point(curves, function(point)
    point[k] = point[k] / size
    if k == 2 and point[3] then point[3], point[4] = point[3] / size, point[4] / size end
  end)
  for _, list in ipairs({ axis.range or {}, axis.ticks or {} }) do
    for i, value in ipairs(list) do list[i] = value / size end
  end
  if named == unit then return before .. name .. behind end
  return label ~= nil and string.format("%s (%s)", label, name) or name
end

-- ── Marks ────────────────────────────────────────────────────────────────────────────────────────────────────────

-- A mark is {place =, text =, minor = true where it is a small one}.

-- Marks at powers of two; room: characters that their texts may have together.
local function binary_marks(low, high, room)
  local marks = {}
  local from, to = math.ceil(math.log(low, 2) - 1e-9), math.floor(math.log(high, 2) + 1e-9)
  local longest = math.max(#plain_text(2.0 ^ from), #plain_text(2.0 ^ to))
  local step = math.max(1, math.ceil((to - from + 1) * (longest + 1) / room))
  for e = from, to do
    local shown = (e - from) % step == 0
    marks[#marks + 1] = { place = 2.0 ^ e, text = shown and plain_text(2.0 ^ e) or "" }
  end
  return marks
end

-- Marks at powers of ten and, on a short axis, at 2 and 5 times them.
local function decimal_marks(low, high, room)
  local marks = {}
  local from, to = math.floor(math.log(low, 10) + 1e-9), math.ceil(math.log(high, 10) - 1e-9)
  local plain = from >= -3 and to <= 5
  local step = math.max(1, math.ceil((to - from) * 6 / room))
  local function text(digit, e)
    if digit == 1 then return power_text(e, plain) end
    return plain and plain_text(digit * 10.0 ^ e) or digit .. "·" .. power_text(e)
  end
  for e = from, to do
    for digit = 1, 9 do
      local value = digit * 10.0 ^ e
      if value >= low * (1 - 1e-9) and value <= high * (1 + 1e-9) then
        local labelled = digit == 1 and (e - from) % step == 0 or to - from <= 2 and (digit == 2 or digit == 5)
        if labelled then
          marks[#marks + 1] = { place = value, text = text(digit, e) }
        elseif step == 1 then
          marks[#marks + 1] = { place = value, text = "", minor = true }
        end
      end
    end
  end
  return marks
end

-- Marks at round numbers, at most about `most` of them, all with as many decimals as their step has.
local function round_marks(low, high, most)
  local rough = (high - low) / math.max(1, most)
  local power = 10.0 ^ math.floor(math.log(rough, 10))
  local step = 10 * power
  for _, digit in ipairs({ 5, 2, 1 }) do
    if digit * power >= rough * (1 - 1e-9) then step = digit * power end
  end
  local decimals = math.max(0, -math.floor(math.log(step, 10) + 1e-9))
  local far = math.max(math.abs(low), math.abs(high)) >= 1e6 or decimals > 5
  local marks = {}
  for i = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) do
    local value = i * step
    marks[#marks + 1] = { place = value, text = far and string.format("%.4g", value)
      or string.format("%." .. decimals .. "f", value + 0.0) }
    if #marks > 100 then break end -- a step too small to tell its multiples apart
  end
  return marks
end

-- The different x of all points, sorted, where all of them can be marked with short texts; nil otherwise.
local function places_of(curves, k)
  local list, seen = {}, {}
  each_point(curves, function(point)
    local value = point[k]
    if #list <= most_places and not seen[value] then list[#list + 1], seen[value] = value, true end
  end)
  if #list > most_places then return nil end
  for _, value in ipairs(list) do
    local text = plain_text(value)
    if tonumber(text) ~= value or #text > 7 then return nil end
  end
  table.sort(list)
  return list
end

local function is_power_of_two(v)
  local mantissa = v > 0 and v / 2.0 ^ math.floor(math.log(v, 2) + 0.5)
  return mantissa == 1
end

-- The least and the greatest value to draw, bars included, and whether all of them are powers of two.
local function extent(curves, k, log)
  local low, high, binary = math.huge, -math.huge, true
  each_point(curves, function(point)
    local value = point[k]
    low, high, binary = math.min(low, value), math.max(high, value), binary and is_power_of_two(value)
    if k == 2 and point[3] then
      -- On a log axis a bar that goes down to 0, or nearly, does not stretch the axis.
      if not log or point[3] > value / 10 then low = math.min(low, point[3]) end
      high = math.max(high, point[4])
    end
  end)
  return low, high, binary
end

local function limits(low, high, log)
  if log then
    local margin = low == high and 2 or math.max(1.05, (high / low) ^ 0.04)
    return math.max(low / margin, 1e-300), math.min(high * margin, 1e300)
  end
  local size = math.max(math.abs(low), math.abs(high))
  local margin = 0.03 * high - 0.03 * low
  if high - low <= 1e-14 * size then margin = size > 1e-290 and size * 0.1 or 1 end
  return math.max(low - margin, -1.7e308), math.min(high + margin, 1.7e308)
end

--- What is drawn of an axis: low, high, log, marks, and position(value) from 0 to 1. k: 1 for x, 2 for y, the place of
--- its values in a point; given: {log =, range = {from, to} or nil, ticks = a sorted list of numbers or nil}; room:
--- characters that the marks of x may have together, of y rows.
function causeway._axis(k, curves, given, room)
  local log = given.log
  local low, high, binary = extent(curves, k, log)
  if given.range then
    low, high = given.range[1], given.range[2]
  else
    low, high = limits(low, high, log)
  end
  local axis = { low = low, high = high, log = log, given = given.ticks ~= nil, room = room }
  local from, to = log and math.log(low) or low / 2, log and math.log(high) or high / 2
  function axis.position(value)
    if from == to then return 0.5 end
    local place = ((log and math.log(value) or value / 2) - from) / (to - from)
    return math.max(-1e6, math.min(place, 1e6)) -- what lies outside is cut off at the border anyway
  end
  local listed = given.ticks or k == 1 and places_of(curves, k)
  if listed then
    axis.marks, axis.places = {}, true
    for _, value in ipairs(listed) do
      if (not log or value > 0) and value >= low and value <= high then
        axis.marks[#axis.marks + 1] = { place = value, text = plain_text(value) }
      end
    end
    return axis
  end
  local most = k == 1 and room / 8 or room / 3
  if log then
    axis.marks = (binary and binary_marks or decimal_marks)(low, high, k == 1 and room or room * 3)
    local texts = 0
    for _, mark in ipairs(axis.marks) do texts = texts + (mark.text ~= "" and 1 or 0) end
    if texts >= 2 then return axis end
  end
  -- Where half of the range is too large for a number, it has no marks.
  axis.marks = high - low < math.huge and round_marks(low, high, most) or {}
  return axis
end

--- Whether texts of the marks of x, side by side in `room` characters, run into one another; where `drop`, the texts
--- that do are left out, but for the first and the last one.
function causeway._crowded(axis, room, drop)
  local last, crowded = nil, false
  for i, mark in ipairs(axis.marks) do
    local function clash() return last and (axis.position(mark.place) - axis.position(last.place)) * room
      < (width(mark.text) + width(last.text)) / 2 + 1 end
    if mark.text ~= "" then
      local clashes = clash()
      crowded = crowded or clashes
      if not clashes or not drop then
        last = mark
      elseif i == #axis.marks and last ~= axis.marks[1] then
        last.text, last = "", mark
      else
        mark.text = ""
      end
    end
  end
  return crowded
end

--- gnuplot's commands for an axis, "x" or "y".
function causeway._axis_script(name, axis)
  local turned = false
  if name == "x" and axis.places then turned = causeway._crowded(axis, axis.room, not axis.given) and axis.given end
  local marks = {}
  for i, mark in ipairs(axis.marks) do
    marks[i] = string.format("'%s' %.17g%s", mark.text, mark.place, mark.minor and " 1" or "")
  end
  return string.format("%sset %srange [%.17g:%.17g]\nset %stics%s (%s)\n",
    axis.log and "set logscale " .. name .. "\n" or "", name, axis.low, axis.high, name,
    turned and " rotate by 60 right" or "", table.concat(marks, ", "))
end
