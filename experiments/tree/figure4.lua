-- Figure 4 of the tree document: peak memory of a worker, tree against ring decoding on two devices.
--
--   causeway experiments/tree/memory.lua
--
--   --hidden 2048,4096              hidden sizes, multiples of 128, the width of a head
--   --lengths 16000,32000,64000,128000
--   --shards 2                      as in the document
--   --save results/tree/memory      .html, .csv, .svg
--
-- The schedules run without data; what a worker holds is counted by kind as it takes and gives back its buffers.
-- Printed: gaps of 524 MB and 1040 MB at hidden 2048 and 4096, bf16; the text gives no length, 128000 tokens on two
-- devices give these.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg,
  { hidden = { 2048, 4096 }, lengths = { 16000, 32000, 64000, 128000 }, shards = 2, save = "results/tree/memory" },
  { hidden = { 1 }, lengths = { 1 }, shards = { 1, 4096 } })
local coinciding = dofile(folder .. "/../lib/coinciding.lua")
local dim, b, p = 128, 1, options.shards
local rows, curves = {}, {}
for _, hidden in ipairs(options.hidden) do
  if hidden % dim ~= 0 then
    error(string.format("--hidden: %d, expected a multiple of %d, the width of a head", hidden, dim), 0)
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
local text = text_table(rows, {
  title = "Peak memory of a worker in MB (bf16), counted; equations 8 and 9; and elements beyond them", columns = {
  { key = "hidden", align = "right" }, { key = "N", align = "right" }, { key = "ring", format = "%.2f",
    align = "right" }, { key = "eq8", title = "(8)", format = "%.2f", align = "right" },
  { key = "over8", title = "elements over (8)", align = "right" }, { key = "tree", format = "%.2f", align = "right" },
  { key = "eq9", title = "(9)", format = "%.2f", align = "right" },
  { key = "over9", title = "elements over (9)", align = "right" }, { key = "gap", format = "%.2f", align = "right" },
  { key = "ratio", format = "%.5f", align = "right" },
}, note = "Over (8): m and d, which the ring keeps too, 2bn_h. Over (9): the all-reduce's buffer, one triple, b(d + "
  .. "2n_h)." })
print()
display(text)
local printed = { [2048] = 524, [4096] = 1040 }
local notes = {}
for _, row in ipairs(rows) do
  local there = printed[row.hidden]
  if there and row.N == 128000 and p == 2 then
    notes[#notes + 1] = string.format("hidden %d: gap %.2f MB, printed %d MB (%+.1f %%)", row.hidden, row.gap, there,
      100 * (row.gap / there - 1))
  end
end
if p == 1 then
  notes[#notes + 1] =
    "One worker's ring moves nothing; (8) holds from two on: 2btd of it are keys and values on their way."
end
notes[#notes + 1] = "\"2× less\" is a bound that the ratio never reaches."
print("\n" .. table.concat(notes, "\n"))
local over = coinciding(curves)
if over then
  notes[#notes + 1] = over
  print(over)
end
curves.title, curves.xlabel, curves.ylabel, curves.xscale, curves.yscale = "Peak memory of a worker: ring dashed"
  .. (over and "; ≈: on another line" or ""), "length N", "MB at hidden size d", "log", "log"
local figure = plot(curves)
print()
display(figure)
mkpath(options.save)
figure:save(options.save .. "/memory.svg")
text:save(options.save .. "/memory.csv")
report({ title = "Figure 4: memory of tree and ring decoding", save = options.save .. "/memory.html",
  data = options.save .. "/memory.csv", text, table.concat(notes, "\n\n"), figure })
print("\n" .. options.save .. ": memory.html, memory.csv, memory.svg")
