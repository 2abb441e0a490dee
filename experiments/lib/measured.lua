-- What a sweep's point of a time can come to, for cells of tables.
local measured = {}

--- What f() returns; an error that is neither a stop nor memory or time that ran out is what a cell can say: nil and
--- its text, without the line of the script.
function measured.unless_refused(f)
  local good, value = pcall(f)
  if good then return value end
  local kind = error_kind(value)
  if kind == "out of memory" or kind == "timeout" or kind == "interrupted" then error(value, 0) end
  return nil, (tostring(value):gsub("^[^\n]-:%d+: ", ""))
end

--- What stands in place of a time; nil where there is one. `run` returns refused, wrong (an error too large to be
--- timed), needs and free (bytes) or expected (the seconds of a call that would be over the limit) in place of it.
function measured.status_of(row, timeout)
  if row.status == "timeout" then return string.format("timeout (%g s)", timeout) end
  if row.status ~= "ok" then return row.status end
  if row.refused then return "refused: " .. row.refused end
  if row.wrong then return string.format("wrong: error %.1e", row.wrong) end
  if row.needs then return string.format("OOM (%s of %s)", bytes_text(row.needs), bytes_text(row.free)) end
  if row.expected then return string.format("over %g s by its growth", timeout) end
end

return measured
