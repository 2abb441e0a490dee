-- leet, Table 9: FleetAttention beside FA_modify, batch 1 and 16, without and with decay.
--
--   causeway experiments/leet/table9.lua                up to 65536 tokens of all sequences, minutes
--   causeway experiments/leet/table9.lua --quick        up to 8192 tokens of all sequences, a minute
--   causeway experiments/leet/table9.lua --full         all of it, three minutes on two cores
--
--   --lengths 128,…,100000          the printed ones
--   --heads 32 --width 128          of the layer, rank and width of a head, Float32
--   --seconds 0.3                   spent on a cell, at least three calls; --quick and --full have their own
--   --timeout 30                    seconds after which a cell is given up
--
-- FA_modify is FA without the atomic additions of its ranks' results. FA here has none to take away: its cells stand
-- beside both, and the printed halving of the time has nothing to be compared with.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local latency, verdicts = dofile(folder .. "/../lib/latency.lua"), dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "leet", name = "table9",
  title = "FleetAttention and FA_modify", options = latency.options, rules = latency.rules,
  differs = "Printed: an A6000 of 48 GB. Here: this machine, medians; one form of FleetAttention, which adds no ranks "
    .. "atomically." })
local tables = {}
for _, batch in ipairs({ 1, 16 }) do
  for _, decay in ipairs({ false, true }) do
    local printed = {}
    for _, row in ipairs(item:printed()) do
      if row.batch_size == batch and (row.exp_decay == "yes") == decay then
        printed[#printed + 1] = { method = row.method, N = row.seq_len_tokens, time = row.runtime_s }
      end
    end
    tables[#tables + 1] = { batch = batch, decay = decay, printed = printed }
  end
end
local ratios = {}
for i, cells in ipairs(latency.measure(item, tables)) do
  latency.show(item, cells, tables[i].batch, tables[i].decay)
  latency.judge(item, cells, tables[i].batch, tables[i].decay)
  for _, cell in ipairs(cells) do
    for _, other in ipairs(cell.method == "FA" and cells or {}) do
      if other.method == "FA_modify" and other.N == cell.N and type(cell.printed) == "number"
        and type(other.printed) == "number" then
        ratios[#ratios + 1] = other.printed / cell.printed
      end
    end
  end
end
local mean = 0
for _, ratio in ipairs(ratios) do mean = mean + ratio / #ratios end
local half = verdicts.near(mean, item:quoted("fa_modify_time_ratio"))
half.statistic = string.format("mean %.3f of %d printed pairs, %.3f to %.3f", mean, #ratios,
  math.min(table.unpack(ratios)), math.max(table.unpack(ratios)))
item:judge("FA_modify takes approximately half the time, in the printed cells", "count", half, "I8")
item:judge("FA_modify takes approximately half the time, here", "time",
  verdicts.not_run("FA here adds no ranks atomically"), "D6")
item:finish()
