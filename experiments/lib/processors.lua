-- processors(): begins to watch; what it returns gives, when called, the seconds of processors that this process and
-- its children have taken since, and the share that other programs took of the processors that this one may run on
-- (all of the machine, or those that taskset left it): 0 where they were idle. nil where the system does not say.
-- processors(folder) reads another folder than /proc.
local ticks_a_second = 100 -- USER_HZ, which Linux has had at 100 on every architecture of today

local function read(path)
  local file = io.open(path)
  local text = file and file:read("a") or ""
  if file then file:close() end
  return text
end

-- Ticks of this process: the 14th to 17th field, the second being a name in brackets.
local function own_ticks(proc)
  local fields, sum = {}, 0
  for field in (read(proc .. "/self/stat"):match(".*%)(.*)") or ""):gmatch("%S+") do fields[#fields + 1] = field end
  for i = 12, 15 do sum = sum + (tonumber(fields[i]) or 0) end
  return sum
end

-- Which processors this process may run on, {[0] = true, …}, from a list such as 0-3,8.
local function allowed(proc)
  local set = {}
  local list = read(proc .. "/self/status"):match("Cpus_allowed_list:%s*(%S+)") or ""
  for first, last in list:gmatch("(%d+)%-?(%d*)") do
    for i = tonumber(first), tonumber(last) or tonumber(first) do set[i] = true end
  end
  return set
end

-- Ticks of the processors of a set: those in use, and all of them. Idle ones and those that wait for a disk are the
-- fourth and the fifth number; those of guests, at the end, are counted in the first two.
local function ticks_of(proc, set)
  local busy, all = 0, 0
  for name, fields in read(proc .. "/stat"):gmatch("cpu(%d+) ([^\n]*)") do
    local i = 0
    for field in (set[tonumber(name)] and fields or ""):gmatch("%d+") do
      i = i + 1
      if i <= 8 then
        all = all + tonumber(field)
        if i ~= 4 and i ~= 5 then busy = busy + tonumber(field) end
      end
    end
  end
  return busy, all
end

return function(proc)
  proc = proc or "/proc"
  local set = allowed(proc)
  local own, busy, all = own_ticks(proc), ticks_of(proc, set)
  return function()
    local own_now, busy_now, all_now = own_ticks(proc), ticks_of(proc, set)
    if all_now == 0 then return nil end
    local share = (busy_now - busy - (own_now - own)) / math.max(all_now - all, 1)
    return (own_now - own) / ticks_a_second, math.min(math.max(share, 0), 1)
  end
end
