-- How a report of tree_decode, ring_decode and decode_model shows itself.
local causeway = ...

local Report = { __name = "DecodeReport" }

local function plural(n, what) return string.format("%d %s%s", n, what, n == 1 and "" or "s") end

function Report.__tostring(r)
  local most = { messages = 0, elements = 0, bytes = 0 }
  for _, worker in ipairs(r.workers) do
    for name, value in pairs(most) do most[name] = math.max(value, worker[name]) end
  end
  local function sent(t)
    return string.format("%s, %s, %s", plural(t.messages, "message"), plural(t.elements, "element"),
      causeway.bytes_text(t.bytes))
  end
  local parts = {}
  for _, part in ipairs({
    { "shard", "keys and values" }, { "incoming", "keys and values on their way" }, { "query", "queries" },
    { "partial", "partial results", "sum_bytes" }, { "work", "buffers of the all-reduce", "sum_bytes" },
  }) do
    local n = r.held[part[1]]
    if n > 0 then
      parts[#parts + 1] = string.format("    %-28s  %s", part[2],
        causeway.bytes_text(n * r[part[3] or "element_bytes"]))
    end
  end
  return table.concat({
    string.format("%s decoding (%s), %s on %s, topology %s", r.method, r.algorithm, plural(r.shards, "shard"),
      r.engine, r.topology),
    string.format("  time            %s", causeway.seconds_text(r.time)),
    string.format("  sent in all     %s, in %s", sent(r), plural(r.rounds, "round")),
    string.format("  by one worker   %s at most", sent(most)),
    string.format("  memory          %s a worker at its peak; of these", causeway.bytes_text(r.memory)),
    table.concat(parts, "\n"),
  }, "\n")
end

function Report.__rich(r) return { text = tostring(r) } end

function causeway._decode_report(report) return setmetatable(report, Report) end
