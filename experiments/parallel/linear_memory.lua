-- parallel, linear attention: memory of a GPU beside its tokens and its results, by the exchange of states, on up to
-- 1024 GPUs.
--
--   causeway experiments/parallel/linear_memory.lua           some seconds
--   causeway experiments/parallel/linear_memory.lua --quick   fewer numbers of GPUs; --full as without
--
--   --devices 1,2,4,…,1024
--   --length 4194304                tokens
--
-- The gated delta rule, 32 heads of width 128; states and maps Float32. Counted on the schedules: states and maps, what
-- an exchange gathers, and with Ulysses' exchange of heads the tokens of the heads that a GPU computes.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local gpus = dofile(folder .. "/../lib/several_gpus.lua")
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "parallel", name = "linear_memory",
  title = "linear attention on several GPUs, memory of a GPU",
  options = { devices = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 }, length = 1 << 22 },
  rules = { device = { "cpu" }, devices = { 1, 4096 }, length = { 1 } },
  differs = "Counted on schedules without data, the same on any machine." })
local options = item.options
if item.mode == "quick" then options.devices = { options.devices[1], options.devices[#options.devices] } end
local heads, dim = 32, 128
local states = heads * dim * dim * 4
local rows, curves, ring_differs = {}, {}, nil
for i, exchange in ipairs(gpus.exchanges) do
  local curve = { x = {}, y = {}, label = exchange.label, style = i % 2 == 0 and "dashed" or nil }
  for _, p in ipairs(options.devices) do
    local report = linear_model{ exchange = exchange.name, update = "gated_delta", shards = p, length = options.length,
      heads = heads, dim = dim }
    local tokens = heads * math.ceil(options.length / p) * (4 * dim + 2) * 2
    rows[#rows + 1] = { way = exchange.label, gpus = p, memory = report.memory, tokens = tokens }
    curve.x[#curve.x + 1], curve.y[#curve.y + 1] = p, report.memory
    if exchange.name == "ring" and report.memory ~= states then
      ring_differs = ring_differs or string.format("%d bytes on %d GPUs, expected %d", report.memory, p, states)
    end
  end
  curves[i] = curve
end
item:table(rows, { title = string.format("Memory of a GPU, %d tokens", options.length), columns = {
  { key = "way", title = "exchange" }, { key = "gpus", title = "GPUs", align = "right" },
  { key = "memory", title = "of the exchange", unit = "bytes" }, { key = "tokens", title = "its tokens",
    unit = "bytes" } } })
curves.xscale, curves.yscale, curves.xlabel, curves.ylabel = "log", "log", "GPUs", "bytes"
curves.title = "Memory of a GPU beside its tokens"
item:figure(curves)
item:judge("the ring holds one state a head, whatever the number of GPUs", "count", verdicts.whether(not ring_differs,
  ring_differs or "counted at every number of GPUs"))
item:finish()
