-- The functions of `table` where they go over many places (lua/shell/lists.cpp): in pieces, between which Ctrl-C and
-- time limits are heard. Arguments are checked.
local causeway = ...
local move <const>, sort <const>, piece <const> = table.move, table.sort, 1 << 9

local function move_in_pieces(from, first, last, to, into)
  local target = into == nil and from or into
  if to > last or to <= first or target ~= from then
    for i = first, last, piece do move(from, i, i + math.min(piece - 1, last - i), to + (i - first), into) end
  else
    for i = last, first, -piece do
      local start = i - math.min(piece - 1, i - first)
      move(from, start, i, to + (start - first), into)
    end
  end
  return target
end

local function less(a, b) return a < b end

causeway._long_lists = {
  move = move_in_pieces,
  insert = function(list, at, value)
    move_in_pieces(list, at, #list, at + 1)
    list[at] = value
  end,
  remove = function(list, at)
    local value, last = list[at], #list
    move_in_pieces(list, at + 1, last, at)
    list[last] = nil
    return value
  end,
  -- By a function of Lua's, in which a stop is heard: twice the time.
  sort = function(list)
    local good, message = pcall(sort, list, less)
    if not good then error(type(message) == "string" and message:gsub("^causeway:[^:]*:%d+: ", "") or message, 0) end
  end,
}
