-- tree, Figure 4: peak memory of a worker, tree against ring decoding on two devices.
--
--   causeway experiments/tree/figure4.lua                a second; --quick and --full change nothing
--
--   --hidden 2048,4096              hidden sizes, multiples of 128, the width of a head
--   --lengths 16000,32000,64000,128000
--   --shards 2                      as in the document
--
-- The schedules run without data; what a worker holds is counted by kind as it takes and gives back its buffers.
-- Printed: gaps of 524 MB and 1040 MB at hidden 2048 and 4096, bf16; the text gives no length, 128000 tokens on two
-- devices give these.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "tree", name = "figure4",
  title = "memory of tree and ring decoding",
  options = { hidden = { 2048, 4096 }, lengths = { 16000, 32000, 64000, 128000 }, shards = 2 },
  rules = { device = { "cpu" }, hidden = { 1 }, lengths = { 1 }, shards = { 1, 4096 } },
  differs = "Printed: two RTX 4090, a memory profiler. Here: what the schedules hold, counted, on any machine." })
local options = item.options
local coinciding = dofile(folder .. "/../lib/coinciding.lua")
local dim, b, p = 128, 1, options.shards
local rows, curves = {}, {}
for _, hidden in ipairs(options.hidden) do
  if hidden % dim ~= 0 then
    exit(2, string.format("--hidden: %d, expected a multiple of %d, the width of a head", hidden, dim))
  end
  local heads = hidden // dim
  local ring_curve, tree_curve = { x = {}, y = {}, label = "ring, d = " .. hidden, style = "dashed" },
    { x = {}, y = {}, label = "tree, d = " .. hidden }
  for _, N in ipairs(options.lengths) do
    local t, d = (N + p - 1) // p, heads * dim
    local tree = decode_model{ shards = p, length = N, heads = heads, dim = dim }
    local ring = decode_model{ method = "ring", shards = p, length = N, heads = heads, dim = dim }
    local eq8, eq9 = 4 * b * t * d + 2 * b * d, 2 * b * t * d + 2 * b * d + 2 * b * heads
    rows[#rows + 1] = {
      hidden = hidden, N = N, ring = ring.memory / 1e6, tree = tree.memory / 1e6, eq8 = eq8 * 2 / 1e6,
      eq9 = eq9 * 2 / 1e6,
      over8 = ring.held.total - eq8, over9 = tree.held.total - eq9, gap = (ring.memory - tree.memory) / 1e6,
      ratio = ring.memory / tree.memory,
    }
    ring_curve.x[#ring_curve.x + 1], ring_curve.y[#ring_curve.y + 1] = N, ring.memory / 1e6
    tree_curve.x[#tree_curve.x + 1], tree_curve.y[#tree_curve.y + 1] = N, tree.memory / 1e6
  end
  table.insert(curves, #curves // 2 + 1, tree_curve)  -- the solid lines first, so that dashes stay visible on them
  curves[#curves + 1] = ring_curve
end
if mpi_rank() > 0 then return end
item:table(rows, {
  title = "Peak memory of a worker in MB (bf16), counted; equations 8 and 9; and elements beyond them", columns = {
  { key = "hidden", align = "right" }, { key = "N", align = "right" }, { key = "ring", format = "%.2f",
    align = "right" }, { key = "eq8", title = "(8)", format = "%.2f", align = "right" },
  { key = "over8", title = "elements over (8)", align = "right" }, { key = "tree", format = "%.2f", align = "right" },
  { key = "eq9", title = "(9)", format = "%.2f", align = "right" },
  { key = "over9", title = "elements over (9)", align = "right" }, { key = "gap", format = "%.2f", align = "right" },
  { key = "ratio", format = "%.5f", align = "right" },
}, note = "Over (8): m and d, which the ring keeps too, 2bn_h. Over (9): the all-reduce's buffer, one triple, b(d + "
  .. "2n_h)." })
local printed = { [2048] = item:quoted("memory_gap_hidden_2048"), [4096] = item:quoted("memory_gap_hidden_4096") }
local notes, most = {}, 0
for _, row in ipairs(rows) do
  local there = printed[row.hidden]
  most = math.max(most, row.ratio)
  if there and row.N == 128000 and p == 2 then
    notes[#notes + 1] = string.format("hidden %d: gap %.2f MB, printed %d MB (%+.1f %%)", row.hidden, row.gap, there,
      100 * (row.gap / there - 1))
    item:judge("gap of memory at hidden " .. row.hidden, "count", verdicts.near(row.gap, there, 0.01), "H14")
  end
end
if p == 1 then
  notes[#notes + 1] =
    "One worker's ring moves nothing; (8) holds from two on: 2btd of it are keys and values on their way."
end
notes[#notes + 1] = "\"2× less\" is a bound that the ratio never reaches."
local over = coinciding(curves)
notes[#notes + 1] = over
for _, note in ipairs(notes) do item:tell(note) end
if p > 1 then
  item:judge("2× less peak memory", "count", verdicts.whether(most > 1.9 and most < 2,
    string.format("ring ÷ tree up to %.5f, below 2", most)), "H13")
  local last = rows[#rows]
  item:judge("memory of equation (8), within what the ring keeps besides", "count", verdicts.near(last.ring, last.eq8,
    1e-3), "H13")
  item:judge("memory of equation (9), within the all-reduce's buffer", "count", verdicts.near(last.tree, last.eq9,
    1e-3), "H13")
end
curves.title, curves.xlabel, curves.ylabel, curves.xscale, curves.yscale = "Peak memory of a worker: ring dashed"
  .. (over and "; ≈: on another line" or ""), "length N", "MB at hidden size d", "log", "log"
item:figure(curves)
item:finish()
