-- The axes of plot: what is marked on them, as commands of gnuplot.
local causeway = ...

local superscripts = {
  ["-"] = "⁻", ["0"] = "⁰", ["1"] = "¹", ["2"] = "²", ["3"] = "³", ["4"] = "⁴", ["5"] = "⁵", ["6"] = "⁶", ["7"] = "⁷",
  ["8"] = "⁸", ["9"] = "⁹",
}

local function plain_text(value) return string.format("%.10g", value) end

local function power_text(exponent, plain)
  if plain then return plain_text(10.0 ^ exponent) end
  return "10" .. string.format("%d", exponent):gsub(".", superscripts)
end

-- One mark as gnuplot reads it: 'text' place, and 1 behind a minor one.
local function mark(text, value, minor) return string.format("'%s' %.17g%s", text, value, minor and " 1" or "") end

-- Marks at powers of two; room: characters that their texts may have together.
local function binary_marks(low, high, room)
  local marks = {}
  local from, to = math.ceil(math.log(low, 2) - 1e-9), math.floor(math.log(high, 2) + 1e-9)
  local longest = math.max(#plain_text(2.0 ^ from), #plain_text(2.0 ^ to))
  local step = math.max(1, math.ceil((to - from + 1) * (longest + 1) / room))
  for e = from, to do
    local shown = (e - from) % step == 0
    marks[#marks + 1] = mark(shown and plain_text(2.0 ^ e) or "", 2.0 ^ e)
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
          marks[#marks + 1] = mark(text(digit, e), value)
        elseif step == 1 then
          marks[#marks + 1] = mark("", value, true)
        end
      end
    end
  end
  return marks
end

-- Marks at the places that the user gave. Where texts would run into one another they are turned in a picture, and the
-- later one is left out in a terminal: returns the marks and the words behind them.
local function given_marks(ticks, low, high, log, room, kind)
  local function place(v)
    if log then return math.log(v / low) / math.log(high / low) * room end
    return (v - low) / (high - low) * room
  end
  local marks, last, crowded = {}, -math.huge, false
  for _, value in ipairs(ticks) do
    if (not log or value > 0) and value >= low and value <= high then
      local text = plain_text(value)
      local clash = place(value) - last < #text + 1
      crowded = crowded or clash
      if clash and kind == "text" then text = "" else last = place(value) end
      marks[#marks + 1] = mark(text, value)
    end
  end
  return marks, crowded and kind ~= "text" and " rotate by 60 right" or ""
end

local function is_power_of_two(v)
  local mantissa = v > 0 and v / 2.0 ^ math.floor(math.log(v, 2) + 0.5)
  return mantissa == 1
end

-- The least and the greatest value to draw, and whether all of them are powers of two.
local function extent(curves, k)
  local low, high, binary = math.huge, -math.huge, true
  for _, curve in ipairs(curves) do
    for _, point in ipairs(curve.points) do
      if point then
        low, high = math.min(low, point[k]), math.max(high, point[k])
        binary = binary and is_power_of_two(point[k])
      end
    end
  end
  return low, high, binary
end

--- Commands for one axis of a panel. axis: "x" or "y"; k: 1 for x, 2 for y, the place of its values in a point; given:
--- {log = whether it is logarithmic, range = {from, to} or nil, ticks = a sorted list of numbers or nil}; room:
--- characters that its marks may have together.
function causeway._axis_script(axis, k, curves, given, room, kind)
  local log, range = given.log, given.range
  if not log and not given.ticks then
    local lines = { string.format("set format %s '%%.10g'", axis) }
    if range then lines[2] = string.format("set %srange [%.17g:%.17g]", axis, range[1], range[2]) end
    return table.concat(lines, "\n") .. "\n"
  end
  local low, high, binary = extent(curves, k)
  if range then
    low, high = range[1], range[2]
  elseif log then
    local margin = low == high and 2 or math.max(1.05, (high / low) ^ 0.04)
    low, high = math.max(low / margin, 1e-300), math.min(high * margin, 1e300)
  else
    local margin = low == high and 1 or 0.02 * (high - low)
    low, high = low - margin, high + margin
  end
  local marks, turned
  if given.ticks then
    marks, turned = given_marks(given.ticks, low, high, log, room, kind)
  else
    marks = (binary and binary_marks or decimal_marks)(low, high, room)
  end
  return string.format("%sset %srange [%.17g:%.17g]\nset %stics%s (%s)\n",
    log and "set logscale " .. axis .. "\n" or "", axis, low, high, axis, turned or "", table.concat(marks, ", "))
end
