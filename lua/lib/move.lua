-- table.move in pieces, between which Ctrl-C and time limits are heard: Lua's own goes over as many places as it is
-- told in one call.
local causeway = ...
local raise <const>, move <const>, piece <const> = causeway._raise, table.move, 1 << 10

-- As it is, but for the position in front of what it says of its arguments: that of the caller.
local function at_once(...)
  local good, result = pcall(move, ...)
  if good then return result end
  if type(result) == "string" and result:find("^bad argument") then raise((result:gsub("'%?'", "'move'", 1))) end
  error(result, 0)
end

function package.loaded.table.move(from, first, last, to, ...)
  local f, l, t, into = math.tointeger(first), math.tointeger(last), math.tointeger(to), ...
  -- What is short, or is none of its calls. The distance of two that are too far apart is negative.
  if not (f and l and t) or l - f < piece or f > l or t > math.maxinteger - (l - f) then
    return at_once(from, first, last, to, ...)
  end
  local target = into == nil and from or into
  if t > l or t <= f or target ~= from then
    for i = f, l, piece do at_once(from, i, i + math.min(piece - 1, l - i), t + (i - f), target) end
  else
    for i = l, f, -piece do
      local start = i - math.min(piece - 1, i - f)
      at_once(from, start, i, t + (start - f), target)
    end
  end
  return target
end
