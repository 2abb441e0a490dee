-- What was measured on several GPUs (experiments/data/measured), and the constants of the model that follow from it.
--
-- From two lengths on one GPU come the time of a token and what a call takes besides, of which a kernel's start is at
-- most 10 µs; a message takes α + bytes/β: α is an all-gather of some KB, one of many in a row, β a message of 268 MB,
-- both of two H200. Between nodes the links are those that the document on tree decoding states; nothing was measured
-- there.
local several_gpus = {}

--- The measured rows: {work, tokens, gpus, seconds, machine, date, command}; of a range its middle.
function several_gpus.rows(experiments)
  local rows, units = {}, { ms = 1e-3, us = 1e-6, ["GB/s"] = 1e9 }
  for _, row in ipairs(load(experiments .. "/data/measured/several_gpus.csv")) do
    local unit = units[row.unit]
    row.value = (row.value + (row.to or row.value)) / 2 * unit
    rows[#rows + 1] = row
  end
  return rows
end

--- The value of the row of this work, length and number of GPUs.
function several_gpus.value(rows, work, tokens, gpus)
  for _, row in ipairs(rows) do
    if row.work == work and row.tokens == tokens and row.gpus == gpus then return row.value end
  end
  error(string.format("several_gpus: no row of %q, %s tokens, %d GPUs", work, tokens, gpus), 0)
end

--- The link between two GPUs of a host; `shared`: for messages in memory that they share with the CPU.
function several_gpus.link(rows, shared)
  local where = shared and "in memory shared with the CPU" or "in the GPUs' memory"
  return { latency = several_gpus.value(rows, "all-gather of 8.3 KB a GPU, " .. where
      .. ", one of a hundred in a row", nil, 2),
    rate = several_gpus.value(rows, "a message of 268 MB, all sending", nil, 2) }
end

--- Seconds of a call without tokens and of a token, by two lengths on one GPU.
function several_gpus.kernel(rows, work, short, long)
  local a, b = several_gpus.value(rows, work, short, 1), several_gpus.value(rows, work, long, 1)
  local token = (b - a) / (long - short)
  return math.max(0, a - token * short), token
end

--- The cases of linear attention that were measured, and what the model takes each for. `together`: states that one
--- kernel computes where several GPUs share a sequence, as gpu/sharded has it.
several_gpus.linear = {
  { work = "gated delta rule, heads that forget", label = "gated delta, forgets",
    update = "gated_delta", forgets = true },
  { work = "gated delta rule, a quarter of the heads never forgets", label = "gated delta, a quarter kept",
    update = "gated_delta", forgets = true },
  { work = "delta rule without gates", label = "delta",
    update = "delta", exchange = "all-scan", together = 16 },
  { work = "gate per channel (GLA)", label = "GLA",
    update = "gated", per_channel = true, forgets = true },
  { work = "gate per channel, delta rule (KDA)", label = "KDA",
    update = "gated_delta", per_channel = true, forgets = true },
  { work = "causal linear attention, decay (ALiBi's slopes)", label = "decay, ALiBi's",
    update = "gated", forgets = true },
  { work = "causal linear attention, decay (RetNet's)", label = "decay, RetNet's",
    update = "gated", exchange = "all-scan", together = 16 },
  { work = "causal linear attention, 0-1 mask", label = "0-1 mask",
    update = "linear", exchange = "all-scan", together = 16 },
}
several_gpus.lengths = { 16384, 131072 }

--- The exchanges of states, as the figures name them.
several_gpus.exchanges = {
  { name = "ring", label = "ring of states (LASP)" }, { name = "all-gather", label = "all-gather (LASP-2)" },
  { name = "all-scan", label = "all-scan (ZeCO)" }, { name = "heads", label = "exchange of heads (Ulysses)" },
}

--- The seconds that the model has for a measured case on p GPUs, and its report; `more`: options of linear_model, as
--- length and exchange.
function several_gpus.linear_time(rows, case, p, more)
  local call, token = several_gpus.kernel(rows, case.work, several_gpus.lengths[1], several_gpus.lengths[2])
  local start = math.min(call, 1e-5)
  local report = linear_model(several_gpus.with({ update = case.update, per_channel = case.per_channel,
    together = p > 1 and case.together or nil, shards = p, heads = 32, dim = 128, element_bytes = 2, start = start,
    token_time = token / 32, within = several_gpus.link(rows), cluster = "h100" }, more))
  return report.time + call - start, report
end

--- A row of a table of what was measured on p GPUs beside the model: seconds, and those measured on one GPU. `length`
--- is the name of the column of lengths.
function several_gpus.compared(work, length, tokens, p, measured, model, one)
  return { work = work, [length] = tokens, gpus = p, measured = measured * 1e3, model = model * 1e3,
    ratio = measured / model, speed = one / measured }
end

--- Whether such a row is as near to the model as the verdicts ask for.
function several_gpus.near(row) return math.abs(row.ratio - 1) <= 0.25 end

--- The columns of such a table.
function several_gpus.columns(length)
  return { "work", { key = length, align = "right" }, { key = "gpus", title = "GPUs", align = "right" },
    { key = "measured", title = "measured ms", format = "%.3f", align = "right" },
    { key = "model", title = "model ms", format = "%.3f", align = "right" },
    { key = "ratio", title = "measured ÷ model", format = "%.2f", align = "right" },
    { key = "speed", title = "speed-up measured", format = "%.2f", align = "right" } }
end

--- A table with the fields of both; the second's win.
function several_gpus.with(options, more)
  local out = {}
  for name, value in pairs(options) do out[name] = value end
  for name, value in pairs(more) do out[name] = value end
  return out
end

return several_gpus
