-- processors(): begins to watch; what it returns gives, when called, the seconds of processors that this process and
-- its children have taken since, and the share of all the machine's that other programs took: 0 on an idle machine. nil
-- where the system does not say.
local ticks_a_second = 100 -- USER_HZ, which Linux has had at 100 on every architecture of today

local function read(path)
  local file = io.open(path)
  local text = file and file:read("a") or ""
  if file then file:close() end
  return text
end

-- Ticks of this process: the 14th to 17th field, the second being a name in brackets.
local function own_ticks()
  local fields, sum = {}, 0
  for field in (read("/proc/self/stat"):match(".*%)(.*)") or ""):gmatch("%S+") do fields[#fields + 1] = field end
  for i = 12, 15 do sum = sum + (tonumber(fields[i]) or 0) end
  return sum
end

-- Ticks of all processors: those in use, and all of them. Idle ones and those that wait for a disk are the fourth and
-- the fifth number; those of guests, at the end, are counted in the first two.
local function all_ticks()
  local busy, all, i = 0, 0, 0
  for field in (read("/proc/stat"):match("^cpu +([^\n]*)") or ""):gmatch("%d+") do
    i = i + 1
    if i <= 8 then
      all = all + tonumber(field)
      if i ~= 4 and i ~= 5 then busy = busy + tonumber(field) end
    end
  end
  return busy, all
end

return function()
  local own, busy, all = own_ticks(), all_ticks()
  return function()
    local own_now, busy_now, all_now = own_ticks(), all_ticks()
    if all == 0 then return nil end
    local share = (busy_now - busy - (own_now - own)) / math.max(all_now - all, 1)
    return (own_now - own) / ticks_a_second, math.min(math.max(share, 0), 1)
  end
end
