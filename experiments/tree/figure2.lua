-- tree, Figure 2: time of sending and receiving between two devices against the size of the message, within a node and
-- between nodes.
--
--   causeway experiments/tree/figure2.lua                half a minute
--   causeway experiments/tree/figure2.lua --quick        some seconds; --full as without
--
--   --bytes 1024,…,33554432         sizes of messages
--   --ranks 2                       that send to and fro; with more, all at once around a ring
--
-- Printed: two H100 by NCCL, curves without numbers. Here: two threads of this machine, and the model's links of the
-- document's cluster; a second tier needs a second node, so the gap between tiers is that of the links that are stated.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "tree", name = "figure2",
  title = "sending and receiving between two devices",
  options = { bytes = { 1024, 16384, 262144, 1048576, 4194304, 33554432 }, ranks = 2 },
  rules = { device = { "cpu" }, bytes = { 8 }, ranks = { 2, 1024 } },
  differs = "Printed: NCCL on H100, within a node and between nodes. Here: two threads of this machine." })
local sizes = {}
for _, n in ipairs(item.options.bytes) do
  if item.mode ~= "quick" or n <= 4194304 then sizes[#sizes + 1] = n end
end
if #sizes == 0 then sizes = { item.options.bytes[1] } end
-- The rates of the links that the document states, one way, in bytes a second.
local stated = { within = item:quoted("nvlink4_bandwidth") * 1e9 / 2, between = item:quoted("infiniband_ndr_per_gpu")
  * 1e9 / 8 }
local ranks = item.options.ranks
local results = item:sweep{
  grid = { bytes = sizes, ranks = { ranks } },
  order = { "ranks", "bytes" },
  run = function(p)
    local link = link_speed("threads", p.ranks, p.bytes)
    return { latency = link.latency, rate = link.rate, time = link.latency + p.bytes / link.rate }
  end,
}
local rows, x, y = {}, {}, {}
for i, row in ipairs(results) do
  rows[i] = { bytes = row.bytes, time = row.time, rate = row.rate, within = row.bytes / stated.within,
    between = row.bytes / stated.between }
  x[i], y[i] = row.bytes, row.time
end
item:table(rows, { title = "A message, one way", columns = { { key = "bytes", unit = "bytes" },
  { key = "time", title = "here", unit = "seconds" }, { key = "rate", title = "rate here", unit = "bytes" },
  { key = "within", title = "NVLink 4, stated", unit = "seconds" },
  { key = "between", title = "InfiniBand NDR, stated", unit = "seconds" } },
  note = "stated: bytes ÷ rate, one way, without latency; rate: bytes a second" })
local within, between = {}, {}
for i, row in ipairs(rows) do within[i], between[i] = row.within, row.between end
item:figure({ { x = x, y = y, label = "two threads here" }, { x = x, y = within, label = "NVLink 4, stated",
  style = "dashed" }, { x = x, y = between, label = "InfiniBand NDR, stated", style = "dashed" }, xscale = "log",
  yscale = "log", xlabel = "message, bytes", ylabel = "seconds", title = "A message between two devices" })
item:judge("bandwidth within a node is significantly higher than between nodes", "count", verdicts.whether(
  stated.within > 2 * stated.between, string.format("%.0f and %.0f GB/s one way, by the stated links", stated.within
    / 1e9, stated.between / 1e9)), "H20")
item:judge("the same, measured", "time", verdicts.not_run("needs two nodes with GPUs"))
item:finish()
