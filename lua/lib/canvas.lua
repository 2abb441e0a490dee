-- A canvas of braille characters: 2 × 4 dots a cell of the terminal, one ink a cell, and characters over the dots. A
-- cell can show one ink only: dots of another ink, drawn later, replace those that it has.
local causeway = ...

-- The bit of a dot in U+2800 … U+28FF, by its row and column in the cell.
local bits = { [0] = { [0] = 1, 8 }, { [0] = 2, 16 }, { [0] = 4, 32 }, { [0] = 64, 128 } }

local Canvas = {}
Canvas.__index = Canvas

--- width × height cells. An ink is a number of the terminal's 256 colours, or nil.
function causeway._canvas(width, height)
  return setmetatable({ width = width, height = height, dots = {}, inks = {}, characters = {} }, Canvas)
end

--- The dot in column x and row y, counted from 0 at the left and at the top; outside there is none.
function Canvas:dot(x, y, ink)
  if x < 0 or y < 0 or x >= 2 * self.width or y >= 4 * self.height then return end
  local cell = (y // 4) * self.width + x // 2
  local others = self.inks[cell] == ink and self.dots[cell] or 0
  self.dots[cell], self.inks[cell] = others | bits[y % 4][x % 2], ink
end

--- A character in a cell, over the dots.
function Canvas:put(column, row, character, ink)
  if column < 0 or row < 0 or column >= self.width or row >= self.height then return end
  local cell = row * self.width + column
  self.characters[cell], self.inks[cell] = character, ink
end

function Canvas:is_free(column, row)
  local cell = row * self.width + column
  return column >= 0 and row >= 0 and column < self.width and row < self.height and not self.dots[cell]
    and not self.characters[cell]
end

-- The part of the segment that lies in the rectangle from (0, 0) to (width, height); nil where there is none.
local function clipped(x0, y0, x1, y1, width, height)
  local from, to, dx, dy = 0, 1, x1 - x0, y1 - y0
  for _, side in ipairs({ { -dx, x0 }, { dx, width - x0 }, { -dy, y0 }, { dy, height - y0 } }) do
    local p, q = side[1], side[2]
    if p == 0 then
      if q < 0 then return nil end
    elseif p < 0 then
      from = math.max(from, q / p)
    else
      to = math.min(to, q / p)
    end
  end
  if not (from <= to) then return nil end
  return x0 + from * dx, y0 + from * dy, x0 + to * dx, y0 + to * dy
end

--- A line between two places in dots. dashes: lengths drawn and left out in turn, or nil; walked: how far along the
--- dashes the line begins. Returns how far it ends.
function Canvas:line(x0, y0, x1, y1, ink, dashes, walked)
  walked = walked or 0
  x0, y0, x1, y1 = clipped(x0, y0, x1, y1, 2 * self.width - 1, 4 * self.height - 1)
  if not x0 then return walked end
  local steps = math.max(1, math.ceil(math.max(math.abs(x1 - x0), math.abs(y1 - y0))))
  local stride = math.sqrt((x1 - x0) ^ 2 + (y1 - y0) ^ 2) / steps
  local period = 0
  for _, length in ipairs(dashes or {}) do period = period + length end
  local function is_drawn(at)
    at = at % period
    for i, length in ipairs(dashes) do
      if at < length then return i % 2 == 1 end
      at = at - length
    end
    return false
  end
  for i = 0, steps do
    if not dashes or is_drawn(walked + i * stride) then
      self:dot(math.floor(x0 + (x1 - x0) * i / steps + 0.5), math.floor(y0 + (y1 - y0) * i / steps + 0.5), ink)
    end
  end
  return walked + steps * stride
end

--- The text in an ink of the terminal; without an ink as it is.
function causeway._inked(text, ink)
  return ink and text ~= "" and string.format("\27[38;5;%dm%s\27[39m", ink, text) or text
end

--- Row `row` from 0 as text, without blanks at its end where `open`.
function Canvas:row(row, open)
  local runs, ink, run = {}, nil, {}
  local last = self.width - 1
  while open and last >= 0 and self:is_free(last, row) do last = last - 1 end
  for column = 0, last do
    local cell = row * self.width + column
    local dots = self.dots[cell]
    local character = self.characters[cell] or dots and utf8.char(0x2800 + dots) or " "
    if self.inks[cell] ~= ink then
      runs[#runs + 1] = causeway._inked(table.concat(run), ink)
      ink, run = self.inks[cell], {}
    end
    run[#run + 1] = character
  end
  runs[#runs + 1] = causeway._inked(table.concat(run), ink)
  return table.concat(runs)
end
