-- parallel, decoding: time and speed-up of tree and ring decoding on up to 128 GPUs, on the model of a cluster with
-- constants that were measured; and what was measured on one to four GPUs on the model's curves.
--
--   causeway experiments/parallel/decoding_time.lua           a second; --quick and --full change nothing
--
--   --devices 1,2,4,…,128           in nodes of 8
--   --lengths 80000,640000,5120000  keys of the curves
--
-- One query, 16 heads of width 128, BFloat16. A kernel's start and the rate of reading keys are fitted to one GPU at
-- two lengths, a message's α and β to NCCL's (experiments/data/measured); links between nodes are as stated by the
-- document on tree decoding.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local gpus = dofile(folder .. "/../lib/several_gpus.lua")
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "parallel", name = "decoding_time",
  title = "tree and ring decoding on several GPUs, time and speed-up",
  options = { devices = { 1, 2, 4, 8, 16, 32, 64, 128 }, lengths = { 80000, 640000, 5120000 } },
  rules = { device = { "cpu" }, devices = { 1, 4096 }, lengths = { 1 } },
  differs = "The curves are schedules on simulated links; points were measured on H200 of one host." })
local options, rows = item.options, gpus.rows(item.experiments)
local heads, dim = 16, 128
local short, long = 80000, 640000

-- What was measured: the tree that merges on the CPU, the ring, and the tree that merges on the GPUs.
local cases = {
  { work = "tree decoding, packed, all-gather, merged on the CPU", one = "decoding, all keys on one GPU",
    method = "tree", shared = true, gpus = { 1, 2, 4 }, label = "tree, merged on the CPU" },
  { work = "ring decoding, overlapped", one = "decoding, all keys on one GPU", method = "ring", gpus = { 1, 2, 4 },
    label = "ring" },
  { work = "decoding, a plain call", one = "decoding, a plain call", method = "tree", gpus = { 1, 2 },
    label = "tree, merged on the GPUs" },
}
local function model(case, length, p)
  local start, key = gpus.kernel(rows, case.one, short, long)
  return decode_model{ method = case.method, topology = case.method == "tree" and "all-gather" or nil, shards = p,
    length = length, heads = heads, dim = dim, start = start, memory_rate = 2 * heads * dim * 2 / key,
    within = gpus.link(rows, case.shared) }.time
end
local function label_of(case, length) return string.format("%s, %d keys", case.label, length) end
local table_rows, modelled, curves = {}, {}, { xscale = "log", yscale = "log", xlabel = "GPUs", ylabel = "seconds",
  title = "Model (lines) and measured (points)" }
for _, length in ipairs(options.lengths) do
  for i, case in ipairs({ cases[1], cases[2] }) do
    local label = label_of(case, length)
    local curve = { x = {}, y = {}, label = label, style = i == 2 and "dashed" or "lines" }
    modelled[label] = true
    for _, p in ipairs(options.devices) do
      curve.x[#curve.x + 1], curve.y[#curve.y + 1] = p, model(case, length, p)
    end
    curves[#curves + 1] = curve
  end
  for _, p in ipairs(options.devices) do
    local tree, ring, one = model(cases[1], length, p), model(cases[2], length, p), model(cases[1], length, 1)
    table_rows[#table_rows + 1] = { keys = length, gpus = p, tree = tree * 1e3, ring = ring * 1e3, speed = one / tree,
      ratio = ring / tree }
  end
end
item:table(table_rows, { title = "Modelled milliseconds a decode, H200", columns = { { key = "keys", align = "right" },
  { key = "gpus", title = "GPUs", align = "right" }, { key = "tree", format = "%.3f", align = "right" },
  { key = "ring", format = "%.3f", align = "right" }, { key = "speed", title = "speed-up, tree", format = "%.2f",
    align = "right" }, { key = "ratio", title = "ring ÷ tree", format = "%.1f", align = "right" } } })

local compared, off = {}, {}
for _, case in ipairs(cases) do
  for _, length in ipairs({ short, long }) do
    local label = label_of(case, length)
    local points = { x = {}, y = {}, style = "points", [modelled[label] and "like" or "label"] = label }
    for _, p in ipairs(case.gpus) do
      local measured = gpus.value(rows, p == 1 and case.one or case.work, length, p)
      points.x[#points.x + 1], points.y[#points.y + 1] = p, measured
      local row = gpus.compared(case.label, "keys", length, p, measured, model(case, length, p),
        gpus.value(rows, case.one, length, 1))
      compared[#compared + 1] = row
      if p > 1 and not gpus.near(row) then
        off[#off + 1] = string.format("%s, %d keys, %d GPUs: %.2f ×", case.label, length, p, row.ratio)
      end
    end
    curves[#curves + 1] = points
  end
end
item:figure(curves)
item:table(compared, { title = "Measured on H200 and modelled", columns = gpus.columns("keys"),
  note = "The rows of one GPU are what a start and the rate of reading are fitted to." })
item:tell(#off > 0 and "Measured more than 25 % from the model: " .. table.concat(off, "; ") .. "."
  or "All that was measured on several GPUs is within 25 % of the model.")
item:judge("the model's times on several GPUs are within 25 % of what was measured", "time", verdicts.whether(#off == 0,
  #off == 0 and "all of them" or string.format("%d are not", #off)))
item:finish()
