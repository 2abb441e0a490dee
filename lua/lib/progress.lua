-- A transient line that says how far a long computation is: count, time gone, time left.
local causeway = ...

local Progress = {}
Progress.__index = Progress

-- 75 -> "1:15", 3700 -> "1:01:40"
local function clock_text(seconds)
  local s = math.floor(seconds + 0.5)
  if s >= 3600 then return string.format("%d:%02d:%02d", s // 3600, s // 60 % 60, s % 60) end
  return string.format("%d:%02d", s // 60, s % 60)
end

local bar_width = 24

--- A bar of which this share is filled.
function causeway._bar(share)
  local eighths = math.floor(share * bar_width * 8 + 0.5)
  local full = eighths // 8
  local parts = { [0] = "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" }
  local text = string.rep("█", full) .. (full < bar_width and parts[eighths % 8] or "")
  return text .. string.rep(" ", bar_width - utf8.len(text))
end

--- Progress over `total` steps, `done` of them finished before. Steps may differ in length: the time left is the mean
--- time of the steps seen so far, times the steps left. Nothing is shown in the first `after` seconds (0 unless given).
function causeway.progress(total, done, after)
  return setmetatable({ total = total, done = done or 0, seen = 0, after = after or 0, start = causeway.clock() },
    Progress)
end

--- Shows the line, with `text` (what is going on) at its end.
function Progress:show(text)
  local elapsed = causeway.clock() - self.start
  if elapsed < self.after then return end
  local share = self.total > 0 and self.done / self.total or 1
  local line = string.format("%s %d/%d  %s", causeway._bar(share), self.done, self.total, clock_text(elapsed))
  if self.seen > 0 and self.done < self.total then
    line = line .. ", " .. clock_text(elapsed / self.seen * (self.total - self.done)) .. " left"
  end
  causeway._status(text and text ~= "" and line .. "  " .. text or line)
end

--- One step is done.
function Progress:step(text)
  self.done, self.seen = self.done + 1, self.seen + 1
  self:show(text)
end

--- Takes the line away.
function Progress:finish() causeway._status("") end
