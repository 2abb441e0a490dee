-- tree, §6.3: the volume of ring and tree decoding, elements sent, counted, beside equations 10 to 14.
--
--   causeway experiments/tree/volume.lua                seconds; --quick and --full change nothing
--
--   --devices 1,2,4,8,16,32,64
--   --length 640000                 of the schedules, run without data
--   --heads 16 --dim 128            the document's block, hidden 2048
--   --topology ring                 of the all-reduce: ring is the one whose volume equation 12 gives
--   --check 640                     length of the same decodes run with data on threads, whose counts must be those of
--                                   the schedule
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "tree", name = "volume",
  title = "volume of tree and ring decoding",
  options = { devices = { 1, 2, 4, 8, 16, 32, 64 }, length = 640000, heads = 16, dim = 128, topology = "ring",
    check = 640 },
  rules = { device = { "cpu" }, devices = { 1, 1024 }, length = { 1 }, heads = { 1 }, dim = { 1 }, check = { 1 },
    topology = choices("tree_decode", "topology") },
  differs = "Printed: equations. Here: elements that the schedules send, counted, on any machine." })
local options = item.options
local heads, dim, N = options.heads, options.dim, options.length
local d, b = heads * dim, 1
local function most(report)
  local n = 0
  for _, worker in ipairs(report.workers) do n = math.max(n, worker.elements) end
  return n
end
local rows, ring_curve, tree_curve = {}, { x = {}, y = {}, label = "ring, counted" },
  { x = {}, y = {}, label = "tree, counted" }
local eq10_curve, eq14_curve = { x = {}, y = {}, label = "ring, (10) as printed", style = "dashed" },
  { x = {}, y = {}, label = "tree, (14) × p", style = "dashed" }
local checked = 0
for _, p in ipairs(options.devices) do
  local function schedule(method, length)
    return decode_model{ method = method, shards = p, length = length, heads = heads, dim = dim,
      topology = options.topology }
  end
  local ring, tree = schedule("ring", N), schedule("tree", N)
  local t = N / p
  rows[#rows + 1] = {
    p = p, ring = most(ring), ring_total = ring.elements, eq10 = 2 * b * t * d * p, shifts = 2 * b * t * d * (p - 1),
    ring_rounds = ring.rounds,
    tree = most(tree), tree_total = tree.elements, eq14 = 2 * (p - 1) / p * (b * d + 2 * b * heads),
    tree_rounds = tree.rounds,
    ratio = p > 1 and ring.elements / tree.elements or "none sent",
  }
  if p > 1 then
    ring_curve.x[#ring_curve.x + 1], ring_curve.y[#ring_curve.y + 1] = p, ring.elements
    tree_curve.x[#tree_curve.x + 1], tree_curve.y[#tree_curve.y + 1] = p, tree.elements
    eq10_curve.x[#eq10_curve.x + 1], eq10_curve.y[#eq10_curve.y + 1] = p, rows[#rows].eq10
    eq14_curve.x[#eq14_curve.x + 1], eq14_curve.y[#eq14_curve.y + 1] = p, rows[#rows].eq14 * p
  end
  -- With data.
  local M = options.check
  seed(1)
  local q, k, v = randn(1, heads, 1, dim), randn(1, heads, M, dim), randn(1, heads, M, dim)
  for method, decode in pairs({ ring = ring_decode, tree = tree_decode }) do
    local _, report = decode(q, k, v, { shards = p, engine = "threads", topology = method == "tree" and options.topology
      or nil })
    local expected = schedule(method, M)
    for _, what in ipairs({ "messages", "elements", "rounds" }) do
      if report[what] ~= expected[what] then
        error(string.format("%s at p = %d: %d %s on threads, %d in the schedule", method, p, report[what], what,
          expected[what]), 0)
      end
      checked = checked + 1
    end
  end
end
if mpi_rank() > 0 then return end
item:table(rows, {
  title = string.format("Elements sent for one query against %d keys, %d heads of %d; all-reduce: %s", N, heads, dim,
  options.topology), columns = {
  { key = "p", align = "right" },
  { key = "ring", title = "ring, a device", align = "right" }, { key = "shifts", title = "2btd(p-1)", format = "%.0f",
    align = "right" }, { key = "eq10", title = "(10)", format = "%.0f", align = "right" },
  { key = "ring_rounds", title = "rounds", align = "right" },
  { key = "tree", title = "tree, a device", align = "right" }, { key = "eq14", title = "(14)", format = "%.1f",
    align = "right" }, { key = "tree_rounds", title = "rounds", align = "right" },
  { key = "ratio", title = "ring ÷ tree, in all", align = "right" },
}, note = "(10) is one shift of all devices, or p shifts of one, not what a step of decoding takes; it does not grow "
  .. "with p at a fixed length." })
local same_footing = N / (1 + 2 / dim)
item:tell(string.format("%d counts of decodes with data on threads equal those of the schedules. Ring ÷ tree on the "
  .. "same footing: N/(1 + 2/d_h) = %s.", checked, number_text(same_footing)))
local apart = {}
for _, row in ipairs(rows) do
  if math.abs(row.tree - row.eq14) > 0.5 then
    apart[#apart + 1] = string.format("p = %d: %d, (14) %.1f", row.p, row.tree, row.eq14)
  end
end
if #apart > 0 then
  local why = options.topology == "ring"
    and string.format("(14) is what the busiest device sends where p divides the number of triples, here %d", b * heads)
    or "(14) is that of an all-reduce of least volume a device, whose parts are equal"
  item:tell(string.format("The tree's count differs from (14) at %s: %s.", table.concat(apart, "; "), why))
end
local curves = { ring_curve, tree_curve, eq10_curve, eq14_curve, title = "Elements sent in one decode, all devices",
  xlabel = "devices", ylabel = "elements", xscale = "log", yscale = "log" }
item:figure(curves)

-- ── Verdicts ──
item:judge("counts on threads with data are those of the schedules", "count", verdicts.whether(true,
  string.format("%d counts", checked)), "H16")
local last = rows[#rows]
if last.p > 1 then
  item:judge("a device of the ring sends 2btd(p-1), which (10) has once for all", "count", verdicts.near(last.ring,
    last.shifts, 1e-3), "H15")
  local off = 0
  for _, row in ipairs(rows) do
    if row.p > 1 and options.length % row.p == 0 then off = math.max(off, math.abs(row.eq10 / rows[1].eq10 - 1)) end
  end
  item:judge("the volume of a shift of the ring scales with p, at a fixed length", "count", verdicts.whether(off > 0.25,
    string.format("(10) differs by %.1e between p = %d and p = %d", off, rows[1].p, last.p)), "H15")
  item:judge("(14) is what the busiest device of the tree sends", "count", verdicts.whether(#apart == 0,
    #apart == 0 and "at every p" or "not at " .. table.concat(apart, "; ")), "H16")
  item:judge("ring ÷ tree in all is N / (1 + 2/d_h)", "count", verdicts.near(last.ratio, same_footing, 0.05), "H16")
end
item:finish()
