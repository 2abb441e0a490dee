-- tree, Figure 3: time of ring over tree decoding, by length and by devices; a model, Tables 1 and 2 against it, and
-- this machine beside it.
--
--   causeway experiments/tree/figure3.lua                     half a minute; starts itself under mpirun for the points
--                                                             of MPI
--   causeway experiments/tree/figure3.lua --quick             one length here, less time; --full as without
--   mpirun -n 4 causeway experiments/tree/figure3.lua         measures MPI, and takes the points of threads from an
--                                                             earlier run
--
--   --lengths 80000,160000,320000,640000,1280000,2560000,5120000
--   --devices 8,16,32,64,128        of the model, in nodes of 8; the figure by length shows the first and the last two
--   --cluster h100                  h100, mi300x or rtx4090
--   --here 8000,16000,32000         lengths of the measured points
--   --shards 4                      of the measured points on threads
--   --ranks 4                       of those under mpirun; 0: none
--   --seconds 0.2                   spent on a measured point, at least three calls
--   --points                        only measures this machine, and leaves here-threads.json or here-mpi.json
--
-- What is decoded is compared with Float64 before its time counts.
--
-- The block is the document's: 16 heads of width 128, one query, bf16. The model runs the real schedule of each
-- algorithm on simulated links; its constants stand in proofs/tree.md. Measured points are Float32; the model beside
-- them has this machine's fitted constants: latency and rate of messages of 32 MiB that all ranks send at once
-- (link_speed), and the rate at which one worker reads keys and values, the mean over the tree's points. Its ring runs
-- without overlap: here the cores that compute copy the messages too.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "tree", name = "figure3",
  title = "latency of tree and ring decoding",
  options = { lengths = { 80000, 160000, 320000, 640000, 1280000, 2560000, 5120000 },
    devices = { 8, 16, 32, 64, 128 }, cluster = "h100", here = { 8000, 16000, 32000 }, shards = 4, ranks = 4,
    seconds = 0.2, points = false },
  rules = { device = { "cpu" }, lengths = { 1 }, devices = { 1, 4096 }, cluster = { "h100", "mi300x", "rtx4090" },
    here = { 1 }, shards = { 1, 1024 }, ranks = { 0, 1024 }, seconds = { from = 0 } },
  differs = "Printed: curves, on 8 to 128 H100. Here: the schedules on simulated links, and this machine." })
local options = item.options
if item.mode == "quick" then options.here, options.seconds = { options.here[1] }, math.min(options.seconds, 0.05) end
local coinciding = dofile(folder .. "/../lib/coinciding.lua")
local with_quartiles = dofile(folder .. "/../lib/cells.lua").with_quartiles
local heads, dim = 16, 128
local function tell(text) item:tell((text:gsub("^\n", ""))) end
local function model(method, devices, length, more)
  local o = { method = method, cluster = options.cluster, shards = devices, length = length, heads = heads, dim = dim }
  for name, value in pairs(more or {}) do o[name] = value end
  return decode_model(o).time
end

-- ── This machine ──
local function measure(engine, p)
  local shards = engine == "threads" and p or nil
  -- Puts the median, the quartiles and the number of times into a point, once what is decoded is right.
  local function time(point, name, decode)
    seed(1)
    local N = point.N
    local q, k, v = randn(1, heads, 1, dim), randn(1, heads, N, dim), randn(1, heads, N, dim)
    local expected = softmax_attention(f64(q), f64(k), f64(v), { method = "standard" })
    local times, spent = {}, 0
    while spent < options.seconds or #times < 3 do  -- all ranks are told the same times
      local o, report = decode(q, k, v, { engine = engine, shards = shards })
      if #times == 0 then
        local off = relative_error(o, expected)
        if not (off <= 1e-4) then error(string.format("%s over %s at N = %d: error %.1e", name, engine, N, off), 0) end
      end
      spent, times[#times + 1] = spent + report.time, report.time
    end
    point[name], point[name .. "_samples"] = median(times), #times
    point[name .. "_lower"], point[name .. "_upper"] = quantile(tensor(times), 0.25), quantile(tensor(times), 0.75)
  end
  local points = {}
  for i, N in ipairs(options.here) do
    points[i] = { N = N }
    time(points[i], "tree", tree_decode)
    time(points[i], "ring", ring_decode)
  end
  local logs = 0  -- of bytes a second that a worker of the tree reads
  for _, point in ipairs(points) do logs = logs + math.log(2 * point.N * heads * dim * 4 / p / point.tree) / #points end
  local shard = 2 * options.here[#options.here] * heads * dim * 4 // p
  return { engine = engine, ranks = p, points = points, link = link_speed(engine, math.max(2, p),
    math.max(1024, math.min(shard, 1 << 25))), memory_rate = math.exp(logs) }
end
local function points_file(engine) return options.save .. "/here-" .. engine .. ".json" end
local function same_lengths(measured)
  if type(measured) ~= "table" or type(measured.points) ~= "table" or #measured.points ~= #options.here then
    return false
  end
  for i, point in ipairs(measured.points) do
    if point.N ~= options.here[i] or not point.ring_samples then return false end
  end
  return true
end
local function kept(engine)
  local file = io.open(points_file(engine))
  if not file then return nil end
  file:close()
  local read, measured = pcall(load, points_file(engine))
  return read and same_lengths(measured) and measured or nil
end
local mine = mpi_size() > 1 and measure("mpi", mpi_size()) or measure("threads", options.shards)
if mpi_rank() > 0 then return end
mkpath(options.save)
save(points_file(mine.engine), mine)
if options.points then return end
local measured = { mine }
local why = "threads: run it without mpirun first, with the same --here"  -- points of one kind are missing
if mine.engine == "mpi" then
  measured[2] = kept("threads")
elseif options.ranks < 2 then
  why = "MPI: not measured, as --ranks " .. options.ranks .. " asks"
elseif not has_mpi() then
  why = "MPI: not measured, it was not found when causeway was built"
elseif not os.execute("command -v mpirun > /dev/null 2>&1") then
  why = "MPI: not measured, there is no mpirun here"
else
  local function quoted(text) return "'" .. tostring(text):gsub("'", "'\\''") .. "'" end
  local self = io.open("/proc/self/stat")
  local program = "/proc/" .. math.tointeger(self:read("n")) .. "/exe"
  self:close()
  -- Ranks may outnumber cores, and in a container there may be no user but root.
  local command = string.format(
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n %d \"$(readlink -f %s)\" %s "
      .. "--here %s --seconds %s --save %s --points > /dev/null",
    options.ranks, program, quoted(arg[0]), table.concat(options.here, ","), options.seconds, quoted(options.save))
  os.remove(points_file("mpi"))
  io.popen(command):close()  -- unlike os.execute it lets Ctrl-C end this script too
  measured[2] = kept("mpi")
  why = "MPI: mpirun -n " .. options.ranks .. " failed"
end

tell(string.format("%d heads of width %d, one query, bf16, %s in the model.", heads, dim, options.cluster))

-- ── The model ──
local most, longest, shortest = math.max(table.unpack(options.devices)), math.max(table.unpack(options.lengths)),
  math.min(table.unpack(options.lengths))
-- What is said of the published ×8 holds for its own cluster, devices and length.
local is_published = options.cluster == "h100" and most == 128 and longest == 5120000
local rows, by_length, by_devices = {}, {}, {}
for place, p in ipairs(options.devices) do
  local unit = model("ring", p, shortest)  -- as the document: relative to the ring at the shortest length
  local tree, ring = { x = {}, y = {}, label = "tree, " .. p .. " devices" },
    { x = {}, y = {}, label = "ring, " .. p .. " devices", style = "dashed" }
  for _, N in ipairs(options.lengths) do
    local row = { devices = p, N = N, tree = model("tree", p, N) * 1e3,
      three = model("tree", p, N, { algorithm = 3 }) * 1e3, ring = model("ring", p, N) * 1e3 }
    row.ratio, row.relative_tree, row.relative_ring = row.ring / row.three, row.three / 1e3 / unit,
      row.ring / 1e3 / unit
    rows[#rows + 1] = row
    tree.x[#tree.x + 1], tree.y[#tree.y + 1] = N, row.relative_tree
    ring.x[#ring.x + 1], ring.y[#ring.y + 1] = N, row.relative_ring
  end
  if place == 1 or place > #options.devices - 2 then
    table.insert(by_length, #by_length // 2 + 1, tree)  -- the solid lines first, so that dashes stay visible on them
    by_length[#by_length + 1] = ring
  end
end
item:table(rows, {
  title = "Modelled milliseconds a decode, and relative to the ring at the shortest length (Algorithm 3)", columns = {
  { key = "devices", align = "right" }, { key = "N", align = "right" },
  { key = "ring", title = "ring ms", align = "right" }, { key = "three", title = "tree ms", align = "right" },
  { key = "tree", title = "tree packed ms", align = "right" },
  { key = "relative_ring", title = "ring, relative", align = "right" },
  { key = "relative_tree", title = "tree, relative", align = "right" },
  { key = "ratio", title = "ring ÷ tree", align = "right" },
} })
for _, method in ipairs({ "ring", "tree" }) do
  local curve = { x = {}, y = {}, label = method .. ", N = " .. longest }
  for _, p in ipairs(options.devices) do
    curve.x[#curve.x + 1], curve.y[#curve.y + 1] = p, model(method, p, longest, method == "tree" and { algorithm = 3 }
      or nil)
  end
  by_devices[#by_devices + 1] = curve
end
if is_published then
  by_devices[#by_devices + 1] = { x = { most }, y = { model("ring", most, longest) / 8 }, label = "published: ring ÷ 8",
    style = "points" }
end

-- ── The document's Tables 1 and 2 ──
-- Ten tokens, the same prefill in both columns: ring less tree is 10 · layers · (a step of the ring less one of the
-- tree). The ring is that of the document's footnote 2: p shifts. Keys and values with as many heads as the queries,
-- 32.
local printed = {
  { machine = "h100", devices = 8, layers = 32, dim = 128, N = { 32000, 64000, 128000, 256000 },
    tree = { 0.60, 1.08, 2.68, 2.89 }, ring = { 2.57, 4.42, 6.38, 8.19 } },
  { machine = "mi300x", devices = 4, layers = 32, dim = 128, N = { 32000, 64000, 128000, 256000 },
    tree = { 1.05, 2.36, 6.43, 15.30 }, ring = { 3.57, 7.33, 16.40, 35.12 } },
  { machine = "rtx4090", devices = 2, layers = 16, dim = 64, N = { 8000, 16000, 20000, 32000 },
    tree = { 0.34, 0.58, 0.74, 1.01 }, ring = { 1.38, 2.77, 3.47, 5.45 } },
}
local compared = {}
for _, t in ipairs(printed) do
  for i, N in ipairs(t.N) do
    local function step(method, more)
      local o = { method = method, cluster = t.machine, shards = t.devices, length = N, heads = 32, dim = t.dim }
      for name, value in pairs(more) do o[name] = value end
      return decode_model(o).time
    end
    local modelled, there = 10 * t.layers * (step("ring", { home = true }) - step("tree", { algorithm = 3 })),
      t.ring[i] - t.tree[i]
    compared[#compared + 1] = { machine = t.devices .. " × " .. t.machine, N = N, printed = there, model = modelled,
      ratio = modelled / there,
      shift = (there - modelled) / (10 * t.layers * t.devices) * 1e3 }
  end
end
item:table(compared, { title = "Tables 1 and 2: ring less tree in seconds, printed and modelled", columns = {
  "machine", { key = "N", align = "right" }, { key = "printed", format = "%.2f", align = "right" },
  { key = "model", format = "%.2f", align = "right" },
  { key = "ratio", title = "model ÷ printed", format = "%.2f", align = "right" },
  { key = "shift", title = "printed less model, ms a shift", format = "%.2f", align = "right" },
}, note = "MI300X within 6 %; H100: the growth with N (least squares) within 14 %, and 0.6 to 1.0 ms more a shift at "
  .. "every N; RTX 4090: 0.3 of the rate of PCIe." })

-- ── The published ×8 ──
local tree_time, ring_time = model("tree", most, longest, { algorithm = 3 }), model("ring", most, longest)
local shard = 2 * longest / most * heads * dim * 2
local function moved(rate) return (most - 1) * shard / rate end
local partial = 3 * heads * (dim + 2) * 2      -- bytes of a partial result, generously
if not is_published then
  tell(string.format("\nThe model, %d × %s at %d tokens: ring ÷ tree %.4g. (The published figure is 8 for 128 × h100 "
    .. "at 5120000 tokens.)", most, options.cluster, longest, ring_time / tree_time))
else
  tell(string.format([[

Published: ring ÷ tree close to 8 at 128 devices and 5.12M tokens. The model, at %d devices and %d tokens: %.0f.
The published ratio is out, not the model: the document's own Table 1 has rings that move keys and values at the rates
of the links (above), and what follows depends on nothing else:
  keys and values of a device                  %.1f MB
  moved %d times at 50 GB/s (NDR, one way)    %.0f ms  (its slowest link)
  moved %d times at 900 GB/s everywhere       %.1f ms  (no node had a border)
  read once at 3.35 TB/s                       %.3f ms
A ratio of 8 needs a tree of %.0f ms, %.0f times what it has to read; even on the second reading of %.1f ms, %.0f times.
What does give such a ratio, and is not what §6.3 describes:
  a fixed cost of %.0f ms in both programs     (%.0f + x) / (%.3f + x) = 8
  a ring that moves partial results of %d kB, not keys and values, %d hops
    of latency: it takes %.1f times the tree's time]],
    most, longest, ring_time / tree_time, shard / 1e6, most - 1, moved(50e9) * 1e3, most - 1, moved(900e9) * 1e3,
    shard / 3.35e12 * 1e3,
    moved(50e9) / 8 * 1e3, moved(50e9) / 8 / (shard / 3.35e12), moved(900e9) / 8 * 1e3,
    moved(900e9) / 8 / (shard / 3.35e12),
    (ring_time - 8 * tree_time) / 7 * 1e3, ring_time * 1e3, tree_time * 1e3, partial // 1000, most - 1,
    (shard / 3.35e12 + (most - 1) * (8e-6 + 10e-6 + partial / 50e9)) / tree_time))
end
local slope = { ring = {}, tree = {} }
for _, p in ipairs(options.devices) do
  for method, more in pairs({ ring = {}, tree = { algorithm = 3 } }) do
    slope[method][#slope[method] + 1] = string.format("%.2f",
      math.log(model(method, p, longest, more) / model(method, p, shortest, more)) / math.log(longest / shortest))
  end
end
if longest > shortest then
  tell("Slope of log time on log length, devices " .. table.concat(options.devices, ", ") .. ": ring "
    .. table.concat(slope.ring, ", ") .. "; tree " .. table.concat(slope.tree, ", ") .. ".")
end

-- ── This machine, beside the model with its constants ──
local here, curves, cells = {}, {}, {}
for _, run in ipairs(measured) do
  local constants = { memory_rate = run.memory_rate, start = 0, flop_rate = 1e15, element_bytes = 4,
    per_node = run.ranks, within = run.link, overlap = false }
  local line = { tree = { style = "points" }, ring = { style = "points" }, model_tree = {},
    model_ring = { style = "dashed" } }
  for name, curve in pairs(line) do
    curve.x, curve.y, curve.label = {}, {}, string.format("%s, %s%s", name:match("%a+$"), run.engine, name:find("model")
      and ", model" or "")
  end
  for _, point in ipairs(run.points) do
    local row = { engine = run.engine, ranks = run.ranks, N = point.N, tree = point.tree, ring = point.ring,
      model_tree = model("tree", run.ranks, point.N, constants),
      model_ring = model("ring", run.ranks, point.N, constants) }
    for name, curve in pairs(line) do curve.x[#curve.x + 1], curve.y[#curve.y + 1] = point.N, row[name] end
    row.ratio, row.model_ratio = row.ring / row.tree, row.model_ring / row.model_tree
    for name in pairs(line) do row[name] = row[name] * 1e3 end
    here[#here + 1] = row
    for _, name in ipairs({ "tree", "ring" }) do
      cells[#cells + 1] = { engine = row.engine, ranks = row.ranks, N = row.N, method = name, time = row[name],
        lower = 1e3 * point[name .. "_lower"], upper = 1e3 * point[name .. "_upper"],
        samples = point[name .. "_samples"] }
    end
  end
  for _, name in ipairs({ "tree", "ring", "model_tree", "model_ring" }) do curves[#curves + 1] = line[name] end
  tell(string.format("\n%s, %d ranks: a message takes %s and %s/s with all sending; a worker reads %s/s", run.engine,
    run.ranks,
    seconds_text(run.link.latency), bytes_text(run.link.rate), bytes_text(run.memory_rate)))
end
if #measured == 1 then tell("\nPoints of " .. why .. ".") end
item:table(here, {
  title = "Milliseconds on this machine, Float32, median; and the model with its constants",
  columns = {
  "engine", { key = "ranks", align = "right" }, { key = "N", align = "right" }, { key = "tree", align = "right" },
  { key = "model_tree", title = "model", align = "right" },
  { key = "ring", align = "right" }, { key = "model_ring", title = "model", align = "right" },
  { key = "ratio", title = "ring ÷ tree", align = "right" },
  { key = "model_ratio", title = "model", align = "right" },
}, note = "Ranks share " .. machine().cores .. " cores and one memory." })
item:table(cells, { title = "Every cell in milliseconds", columns = with_quartiles({ "engine",
  { key = "ranks", align = "right" }, { key = "N", align = "right" }, "method",
  { key = "time", format = "%.3g", align = "right" } }) }, true)

-- ── Figures and files ──
local function figure(name, lines, title, x, y)
  lines.title, lines.xlabel, lines.ylabel, lines.xscale, lines.yscale = title, x, y, "log", "log"
  local picture = item:figure(lines)
  if picture then picture:save(options.save .. "/" .. name .. ".svg") end
end
local over = coinciding(by_length)
if over then tell("\nby_length.svg: " .. over) end
figure("by_length", by_length, "Relative time, model: ring dashed" .. (over and "; ≈: on another line" or ""),
  "length N", "time ÷ ring at the shortest")
figure("by_devices", by_devices, "Execution time, model", "devices", "seconds")
figure("here", curves, "This machine, and the model with its fitted constants", "length N", "seconds")

-- ── Verdicts ──
-- Ring ÷ tree at the longest length, by devices.
local ratios = {}
for _, row in ipairs(rows) do
  if row.N == longest then ratios[#ratios + 1] = row.ratio end
end
if #ratios > 1 then
  item:judge("the gap between ring and tree widens with the devices, model", "count", verdicts.whether(
    ratios[#ratios] > ratios[1], string.format("ring ÷ tree %.4g at %d devices, %.4g at %d", ratios[1],
      options.devices[1], ratios[#ratios], options.devices[#options.devices])), "H16")
end
if is_published then
  item:judge("ring ÷ tree at 128 devices and 5.12M tokens, model", "count", verdicts.near(ring_time / tree_time,
    item:quoted("speedup_at_128_gpus_5p12M_tokens")), "H23")
end
for _, run in ipairs(measured) do
  local here_ratios = {}
  for i, point in ipairs(run.points) do here_ratios[i] = point.ring / point.tree end
  item:judge("tree decoding is the faster one on this machine, " .. run.engine, "time",
    verdicts.always_faster(here_ratios, "lengths"), "H23")
end
for _, row in ipairs(here) do
  item:judge(string.format("ring ÷ tree on this machine is the model's, %s, N = %d", row.engine, row.N), "time",
    verdicts.near(row.ratio, row.model_ratio))
end
item:finish()
