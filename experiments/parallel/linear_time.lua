-- parallel, linear attention: time and speed-up of one sequence on up to 1024 GPUs, by the exchange of states, on the
-- model of a cluster; and what was measured on one and two GPUs on the model's curves.
--
--   causeway experiments/parallel/linear_time.lua           some seconds
--   causeway experiments/parallel/linear_time.lua --quick   fewer numbers of GPUs; --full as without
--
--   --devices 1,2,4,…,1024          in nodes of 8
--   --length 4194304                tokens of the curves by exchange, the gated delta rule
--   --together 8                    states that one kernel computes, of these curves
--   --measured_devices 1,2,4,8      of the curves that measured points stand on
--
-- 32 heads of width 128, BFloat16, states Float32. What a call and a token take is fitted to one GPU at two lengths, a
-- message's α and β to NCCL's (experiments/data/measured); links between nodes are as stated by the document on tree
-- decoding. "forgets": the ring where the gates of a part leave nothing of the state before it. The scan and the
-- all-gather cost a pass for the maps; what is gathered is applied map by map, a kernel for a state and a map, as the
-- schedule here has it, which is most of their time on many GPUs.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local gpus = dofile(folder .. "/../lib/several_gpus.lua")
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local coinciding = dofile(folder .. "/../lib/coinciding.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "parallel", name = "linear_time",
  title = "linear attention on several GPUs, time and speed-up",
  options = { devices = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 }, length = 1 << 22,
    together = 8, measured_devices = { 1, 2, 4, 8 } },
  rules = { device = { "cpu" }, devices = { 1, 4096 }, length = { 1 }, together = { 1, 32 },
    measured_devices = { 1, 4096 } },
  differs = "The curves are schedules on simulated links; points were measured on one and two H200 of one host." })
local options, rows = item.options, gpus.rows(item.experiments)
if item.mode == "quick" then
  local few = {}
  for i, p in ipairs(options.devices) do if i % 3 == 1 or i == #options.devices then few[#few + 1] = p end end
  options.devices = few
end

-- ── By exchange ──
local case = gpus.linear[1]
local function by_exchange(way, p)
  return gpus.linear_time(rows, case, p, gpus.with(way, { length = options.length,
    together = p > 1 and options.together or nil }))
end
local list = { { label = "ring, heads that forget", options = { exchange = "ring", forgets = true } } }
for _, exchange in ipairs(gpus.exchanges) do
  list[#list + 1] = { label = exchange.label, options = { exchange = exchange.name } }
end
local one = by_exchange({}, 1)
local table_rows, curves = {}, {}
for i, way in ipairs(list) do
  local curve = { x = {}, y = {}, label = way.label, style = i > 1 and i % 2 == 0 and "dashed" or nil }
  for _, p in ipairs(options.devices) do
    local time, report = by_exchange(way.options, p)
    table_rows[#table_rows + 1] = { way = way.label, gpus = p, time = time * 1e3, speed = one / time,
      waited = report.communication * 1e3 }
    curve.x[#curve.x + 1], curve.y[#curve.y + 1] = p, one / time
  end
  curves[i] = curve
end
item:table(table_rows, { title = string.format("Modelled: gated delta rule, %d tokens", options.length), columns = {
  { key = "way", title = "exchange" }, { key = "gpus", title = "GPUs", align = "right" },
  { key = "time", title = "ms", format = "%.3f", align = "right" },
  { key = "speed", title = "speed-up", format = "%.2f", align = "right" },
  { key = "waited", title = "waiting, ms", format = "%.3f", align = "right" } } })
local same = coinciding(curves)
curves.xscale, curves.yscale, curves.xlabel, curves.ylabel = "log", "log", "GPUs", "speed-up"
curves.title = "Speed-up over one GPU, model"
item:figure(curves)
if same then item:tell(same) end

-- ── Measured ──
local compared, off = {}, {}
for _, N in ipairs(gpus.lengths) do
  local figure = { xscale = "log", yscale = "log", xlabel = "GPUs", ylabel = "seconds",
    title = string.format("Model (lines) and measured (points), %d tokens", N) }
  for _, c in ipairs(gpus.linear) do
    local function model_of(p)
      return (gpus.linear_time(rows, c, p, { length = N, forgets = c.forgets, exchange = c.exchange }))
    end
    local curve, points = { x = {}, y = {}, label = c.label, style = "lines" },
      { x = {}, y = {}, like = c.label, style = "points" }
    for _, p in ipairs(options.measured_devices) do
      curve.x[#curve.x + 1], curve.y[#curve.y + 1] = p, model_of(p)
    end
    for _, p in ipairs({ 1, 2 }) do
      local measured = gpus.value(rows, c.work, N, p)
      points.x[p], points.y[p] = p, measured
      local row = gpus.compared(c.label, "N", N, p, measured, model_of(p), gpus.value(rows, c.work, N, 1))
      compared[#compared + 1] = row
      if p == 2 and not gpus.near(row) then
        off[#off + 1] = string.format("%s, N = %d: %.2f ×", c.label, N, row.ratio)
      end
    end
    figure[#figure + 1], figure[#figure + 2] = curve, points
  end
  item:figure(figure)
end
item:table(compared, { title = "Measured on H200 and modelled", columns = gpus.columns("N"),
  note = "The rows of one GPU are what the times of a call and of a token are fitted to." })
if #off > 0 then
  item:tell("Measured on two GPUs, more than 25 % from the model's time: " .. table.concat(off, "; ") .. ". The model "
    .. "gives a GPU that waits all of its multiprocessors, counts no flags of heads and no start of NCCL's kernels, "
    .. "which take some 0.1 ms of a call, and lets a kernel run as fast on few heads, or on half of the tokens, as on "
    .. "all.")
end
item:judge("the model's time on two GPUs is within 25 % of what was measured, at 131072 tokens", "time", (function()
  local near, all = 0, 0
  for _, row in ipairs(compared) do
    if row.gpus == 2 and row.N == 131072 then
      all = all + 1
      if gpus.near(row) then near = near + 1 end
    end
  end
  return verdicts.whether(near == all, string.format("%d of %d cases", near, all))
end)())
item:finish()
