-- fleet, Figure 2: speedup of the exact methods over vanilla attention, from 1k to 512k tokens.
--
--   causeway experiments/fleet/figure2.lua                to 16384 tokens, some minutes
--   causeway experiments/fleet/figure2.lua --quick        to 2048, about a minute
--   causeway experiments/fleet/figure2.lua --full         to 524288; nine minutes on two cores
--
--   --lengths 1024,2048,…,524288
--   --heads 32 --width 128          of the layer, as in the document: r = d = 128, batch 1
--   --seconds 0.3                   spent on a point, at least three calls; --quick and --full have their own
--   --timeout 30                    seconds after which a point is given up; likewise
--
-- The figure's points are not printed as numbers; what the text says of them is judged. FlashAttention-2, which the
-- document has as a reference in time, is softmax attention in tiles here.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local latency, verdicts = dofile(folder .. "/../lib/latency.lua"), dofile(folder .. "/../lib/verdicts.lua")
local defaults = {}
for name, value in pairs(latency.options) do defaults[name] = value end
defaults.lengths = { 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288 }
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "fleet", name = "figure2",
  title = "speedup over vanilla, from 1k to 512k tokens", options = defaults,
  rules = latency.rules,
  differs = "Printed: a curve, on an A6000. Here: this machine; speedups are medians over the median of vanilla." })
local labels = { "Vanilla", "Cdotp", "Cdotp_torch", "Bb", "Recur", "LA", "FA", "FlashAttention-2" }
local known = { Vanilla = "vanilla", Cdotp = "causal-dot-product", Cdotp_torch = "row-based", Bb = "block-based",
  Recur = "recursion", LA = "Lightning Attention-2", FA = "FleetAttention", ["FlashAttention-2"] = "FlashAttention-2" }
local printed = {}
for _, N in ipairs(item.options.lengths) do
  for _, label in ipairs(labels) do printed[#printed + 1] = { method = label, N = N } end
end
local cells = latency.measure(item, { { batch = 1, decay = false, printed = printed } })[1]
local times = {}
for _, label in ipairs(labels) do times[label] = {} end
for _, cell in ipairs(cells) do times[cell.method][cell.N] = cell end

local speedups, seconds = {}, {}
local curves = { xscale = "log", yscale = "log", xlabel = "length N", ylabel = "speedup over vanilla",
  title = string.format("Speedup over vanilla, %d heads, r = d = %d", item.options.heads, item.options.width) }
for _, label in ipairs(labels) do
  local curve = { x = {}, y = {}, label = known[label] }
  local ratio_row, time_row = { method = known[label] }, { method = known[label] }
  for _, N in ipairs(item.options.lengths) do
    local cell, base = times[label][N], times.Vanilla[N]
    time_row["N" .. N] = cell.ours and string.format("%.3g", cell.ours) or cell.status
    ratio_row["N" .. N] = cell.ours and base.ours and string.format("%.3g", base.ours / cell.ours)
      or cell.status or "no time of vanilla"
    if cell.ours and base.ours then curve.x[#curve.x + 1], curve.y[#curve.y + 1] = N, base.ours / cell.ours end
  end
  curves[#curves + 1], speedups[#speedups + 1], seconds[#seconds + 1] = curve, ratio_row, time_row
end
local columns = { "method" }
for _, N in ipairs(item.options.lengths) do
  columns[#columns + 1] = { key = "N" .. N, title = tostring(N), align = "right" }
end
item:table(latency.with_notes(seconds, { title = "Seconds, median", columns = columns }))
item:table(latency.with_notes(speedups, { title = "Speedup over vanilla", columns = columns }))
local every = {}
for i, cell in ipairs(cells) do
  every[i] = { method = known[cell.method], N = cell.N, time = cell.ours or cell.status, lower = cell.lower or "–",
    upper = cell.upper or "–", samples = cell.n }
end
local with_quartiles = dofile(folder .. "/../lib/cells.lua").with_quartiles
item:table(every, { title = "Every cell", columns = with_quartiles({ "method", { key = "N", align = "right" },
  { key = "time", title = "seconds", format = "%.3g", align = "right" } }) }, true)
item:figure(curves)

-- ── What the text says ──
local longest
for _, N in ipairs(item.options.lengths) do
  if times.FA[N].ours then longest = N end
end
local from = 64000
if longest and longest > from then
  local list = {}
  for _, label in ipairs(labels) do
    if label ~= "FlashAttention-2" then
      list[#list + 1] = { method = known[label], time = times[label][longest].ours }
    end
  end
  local verdict = verdicts.fastest(known.FA, list)
  verdict.statistic = string.format("at N = %d: %s", longest, verdict.statistic)
  item:judge("FleetAttention is the fastest beyond 64k tokens", "time", verdict)
else
  item:judge("FleetAttention is the fastest beyond 64k tokens", "time",
    verdicts.not_run("no length beyond 64k in this mode"))
end
local x, y = {}, {}
for _, N in ipairs(item.options.lengths) do
  if times.FA[N].ours then x[#x + 1], y[#y + 1] = N, times.FA[N].ours end
end
item:judge("the time of FleetAttention is linear in the length", "time", verdicts.exponent_is(verdicts.fit(x, y), 1),
  "B1")
-- By operations a form overtakes vanilla, without what the mask takes away, where N + 1 = 4 r d / (r + d).
local width = item.options.width
local count = 1
while cost("inner-product", { N = count, r = width, d = width }).multiplies <= cost("fleet", { N = count, r = width,
  d = width }).multiplies do count = count + 1 end
item:judge("length from which linear forms take fewer operations than the sums of vanilla", "count",
  verdicts.equal(count, 2 * width, string.format("r = d = %d", width)), "B6")
item:finish()
