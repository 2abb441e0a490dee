-- Figure 3 of the tree document: time of ring over tree decoding, by length and by devices; a model, and this machine beside it.
--
--   causeway experiments/tree/latency.lua                     some seconds
--   mpirun -n 4 causeway experiments/tree/latency.lua         with measured points of MPI
--
--   --lengths 80000,160000,320000,640000,1280000,2560000,5120000
--   --devices 8,16,32,64,128        of the model, in nodes of 8
--   --cluster h100                  h100, mi300x or rtx4090
--   --here 2000,8000,32000          lengths of the measured points
--   --shards 4                      of the measured points on threads
--   --seconds 0.2                   spent on a measured point
--   --save results/tree/latency     .html, .csv, by_length.svg, by_devices.svg, here.svg
--
-- The block is the document's: 16 heads of width 128, one query, bf16. The model runs the real schedule of each algorithm on
-- simulated links; its constants stand in proofs/tree.md. Measured points are Float32; the model beside them has this machine's
-- constants: latency and rate of a message between two ranks (link_speed), the rate at which one worker reads keys and values.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  lengths = { 80000, 160000, 320000, 640000, 1280000, 2560000, 5120000 }, devices = { 8, 16, 32, 64, 128 }, cluster = "h100",
  here = { 2000, 8000, 32000 }, shards = 4, seconds = 0.2, save = "results/tree/latency",
})
local heads, dim = 16, 128
local page = {}
local function tell(text)
  print(text)
  page[#page + 1] = text
end
local function show(value)
  print()
  display(value)
  page[#page + 1] = value
end
local function model(method, devices, length, more)
  local o = { method = method, cluster = options.cluster, shards = devices, length = length, heads = heads, dim = dim }
  for name, value in pairs(more or {}) do o[name] = value end
  return decode_model(o).time
end

tell(string.format("%d heads of width %d, one query, bf16, %s in the model.\n%s", heads, dim, options.cluster, tostring(machine())))

-- ── The model ──
local most = options.devices[#options.devices]
local longest = options.lengths[#options.lengths]
local rows, by_length, by_devices = {}, {}, {}
for _, p in ipairs(options.devices) do
  local unit = model("ring", p, options.lengths[1])  -- as the document: relative to the ring at the shortest length
  local tree, ring = { x = {}, y = {}, label = "tree, " .. p }, { x = {}, y = {}, label = "ring, " .. p, style = "dashed" }
  for _, N in ipairs(options.lengths) do
    local row = { devices = p, N = N, tree = model("tree", p, N) * 1e3, three = model("tree", p, N, { algorithm = 3 }) * 1e3, ring = model("ring", p, N) * 1e3 }
    row.ratio, row.relative_tree, row.relative_ring = row.ring / row.three, row.three / 1e3 / unit, row.ring / 1e3 / unit
    rows[#rows + 1] = row
    tree.x[#tree.x + 1], tree.y[#tree.y + 1] = N, row.relative_tree
    ring.x[#ring.x + 1], ring.y[#ring.y + 1] = N, row.relative_ring
  end
  by_length[#by_length + 1] = ring
  by_length[#by_length + 1] = tree
end
show(causeway.text_table(rows, { title = "Modelled milliseconds a decode, and relative to the ring at the shortest length (Algorithm 3)", columns = {
  { key = "devices", align = "right" }, { key = "N", align = "right" },
  { key = "ring", title = "ring ms", align = "right" }, { key = "three", title = "tree ms", align = "right" }, { key = "tree", title = "tree packed ms", align = "right" },
  { key = "relative_ring", title = "ring, relative", align = "right" }, { key = "relative_tree", title = "tree, relative", align = "right" },
  { key = "ratio", title = "ring ÷ tree", align = "right" },
} }))
for _, method in ipairs({ "ring", "tree" }) do
  local curve = { x = {}, y = {}, label = method .. ", N = " .. longest }
  for _, p in ipairs(options.devices) do
    curve.x[#curve.x + 1], curve.y[#curve.y + 1] = p, model(method, p, longest, method == "tree" and { algorithm = 3 } or nil)
  end
  by_devices[#by_devices + 1] = curve
end

-- ── The published ×8 ──
local tree_time, ring_time = model("tree", most, longest, { algorithm = 3 }), model("ring", most, longest)
local shard = 2 * longest / most * heads * dim * 2
local function moved(rate) return (most - 1) * shard / rate end
local partial = 3 * heads * (dim + 2) * 2      -- bytes of a partial result, generously
tell(string.format([[

Published: ring ÷ tree close to 8 at 128 devices and 5.12M tokens. The model, at %d devices and %d tokens: %.0f.
Is the model or the figure out? What does not depend on the model's constants:
  keys and values of a device                  %.1f MB
  moved %d times at 50 GB/s (NDR, one way)    %.0f ms     (what the slowest link of the ring must carry)
  moved %d times at 900 GB/s everywhere       %.1f ms     (as if no node had a border)
  read once at 3.35 TB/s                       %.3f ms
So a ratio of 8 needs a tree that takes %.1f ms even on the faster reading, %.0f times what it has to read and %.0f times what
the model gives it. §6.3 of the document has itself a factor of 100 in a single shift. What does give such a ratio:
  a fixed cost of %.0f ms in both programs     (%.0f + x) / (%.3f + x) = 8
  a ring that moves partial results of %d kB instead of keys and values: %d hops of latency against the tree's,
                                               %.1f
The shape holds: the ring's time grows with the length at every number of devices, the tree's hardly.]],
  most, longest, ring_time / tree_time, shard / 1e6, most - 1, moved(50e9) * 1e3, most - 1, moved(900e9) * 1e3, shard / 3.35e12 * 1e3,
  moved(900e9) / 8 * 1e3, moved(900e9) / 8 / (shard / 3.35e12), moved(900e9) / 8 / tree_time,
  (ring_time - 8 * tree_time) / 7 * 1e3, ring_time * 1e3, tree_time * 1e3, partial // 1000, most - 1,
  (shard / 3.35e12 + (most - 1) * (8e-6 + 10e-6 + partial / 50e9)) / tree_time))
local slope = { ring = {}, tree = {} }
for _, p in ipairs(options.devices) do
  local first, last = options.lengths[1], longest
  for method, more in pairs({ ring = {}, tree = { algorithm = 3 } }) do
    slope[method][#slope[method] + 1] = string.format("%.2f", math.log(model(method, p, last, more) / model(method, p, first, more)) / math.log(last / first))
  end
end
tell("Slope of log time on log length, devices " .. table.concat(options.devices, ", ") .. ": ring " .. table.concat(slope.ring, ", ") .. "; tree " .. table.concat(slope.tree, ", ") .. ".")

-- ── This machine ──
local here = {}
local function measure(engine, p)
  local link = link_speed(engine)
  local constants
  local tree, ring = { x = {}, y = {}, label = "tree, " .. engine, style = "points" }, { x = {}, y = {}, label = "ring, " .. engine, style = "points" }
  local model_tree, model_ring = { x = {}, y = {}, label = "tree, model" }, { x = {}, y = {}, label = "ring, model" }
  for _, N in ipairs(options.here) do
    seed(1)
    local q, k, v = randn(1, heads, 1, dim), randn(1, heads, N, dim), randn(1, heads, N, dim)
    local function least(decode, o)
      o.engine = engine
      local best = math.huge
      local tries = math.max(3, math.ceil(options.seconds / 0.02))
      for _ = 1, tries do
        local _, report = decode(q, k, v, o)
        best = math.min(best, report.time)
      end
      return best
    end
    local shards = engine == "threads" and p or nil
    if not constants then -- one worker's reading rate with the cores shared by p, from the longest length
      local n = options.here[#options.here]
      local K = randn(1, heads, n, dim)
      local best = math.huge
      for _ = 1, 5 do
        local _, report = tree_decode(q, K, K, { engine = engine, shards = shards })
        best = math.min(best, report.time)
      end
      constants = { memory_rate = 2 * n * heads * dim * 4 / p / best, start = 0, flop_rate = 1e15, element_bytes = 4, per_node = p, within = link }
    end
    local t, r = least(tree_decode, { shards = shards }), least(ring_decode, { shards = shards })
    local mt, mr = model("tree", p, N, constants), model("ring", p, N, constants)
    for curve, y in pairs({ [tree] = t, [ring] = r, [model_tree] = mt, [model_ring] = mr }) do
      curve.x[#curve.x + 1], curve.y[#curve.y + 1] = N, y
    end
    here[#here + 1] = { engine = engine, ranks = p, N = N, tree = t * 1e3, ring = r * 1e3, model_tree = mt * 1e3, model_ring = mr * 1e3, ratio = r / t, model_ratio = mr / mt }
  end
  tell(string.format("\n%s, %d ranks: latency %s, %s/s between two ranks; a worker reads %s/s", engine, p, causeway.seconds_text(link.latency), causeway.bytes_text(link.rate),
    causeway.bytes_text(constants.memory_rate)))
  return { tree, ring, model_tree, model_ring }
end
local curves = mpi_size() > 1 and measure("mpi", mpi_size()) or measure("threads", math.tointeger(options.shards))
show(causeway.text_table(here, { title = "Milliseconds on this machine, Float32, the least of some calls; and the model with its constants", columns = {
  "engine", { key = "ranks", align = "right" }, { key = "N", align = "right" }, { key = "tree", align = "right" }, { key = "model_tree", title = "model", align = "right" },
  { key = "ring", align = "right" }, { key = "model_ring", title = "model", align = "right" }, { key = "ratio", title = "ring ÷ tree", align = "right" },
  { key = "model_ratio", title = "model", align = "right" },
}, note = "Ranks share " .. machine().cores .. " cores and one memory: what the ring moves contends there, which a rate measured between two ranks does not know." }))

-- ── Figures and files, by rank 0 ──
if mpi_rank() > 0 then return end
causeway._make_folder(options.save)
local function figure(name, lines, title, x, y)
  lines.title, lines.xlabel, lines.ylabel, lines.xscale, lines.yscale = title, x, y, "log", "log"
  local picture = plot(lines)
  show(picture)
  picture:save(options.save .. "/" .. name .. ".svg")
end
figure("by_length", by_length, "Relative execution time, model: ring dashed", "length N", "time ÷ ring at the shortest")
figure("by_devices", by_devices, "Execution time, model", "devices", "seconds")
figure("here", curves, "This machine, and the model with its constants", "length N", "seconds")
causeway._replace_file(options.save .. "/latency.csv", causeway.text_table(rows):csv())
causeway.report({ title = "Figure 3: latency of tree and ring decoding", save = options.save .. "/latency.html", table.unpack(page) })
print("\n" .. options.save .. ": latency.html, latency.csv, by_length.svg, by_devices.svg, here.svg")
