-- How the report of a call on several workers shows itself, and the parts of a tensor.
local causeway = ...

local Report = { __name = "ShardReport" }
causeway._only_fields(Report, { what = "a report", fields = "method engine algorithm topology shards time "
  .. "communication element_bytes sum_bytes messages elements bytes rounds memory held workers" })

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
  local decoding = r.topology ~= ""
  local parts = {}
  for _, part in ipairs({
    { "shard", "keys and values" }, { "incoming", "keys and values on their way" }, { "query", "queries" },
    { "partial", "partial results", "sum_bytes" }, { "state", "states and maps of states", "sum_bytes" },
    { "work", decoding and "buffers of the all-reduce" or "buffers of the exchange", "sum_bytes" },
  }) do
    local n = r.held[part[1]]
    if n > 0 then
      parts[#parts + 1] = string.format("    %-28s  %s", part[2],
        causeway.bytes_text(n * r[part[3] or "element_bytes"]))
    end
  end
  local lines = {
    string.format("%s (%s), %s on %s%s", decoding and r.method .. " decoding" or r.method, r.algorithm,
      plural(r.shards, "shard"), r.engine, decoding and ", topology " .. r.topology or ""),
    string.format("  time            %s, waiting for messages %s at most", causeway.seconds_text(r.time),
      causeway.seconds_text(r.communication)),
    string.format("  sent in all     %s, in %s", sent(r), plural(r.rounds, "round")),
    string.format("  by one worker   %s at most", sent(most)),
  }
  -- Beside its tokens a worker of a sequence holds states, and nothing where there are none.
  if #parts > 0 then
    lines[#lines + 1] = string.format("  memory          %s a worker at its peak%s; of these",
      causeway.bytes_text(r.memory), decoding and "" or " beside its tokens")
    lines[#lines + 1] = table.concat(parts, "\n")
  end
  return table.concat(lines, "\n")
end

function Report.__rich(r) return { text = tostring(r) } end

function causeway._shard_report(report) return setmetatable(report, Report) end
