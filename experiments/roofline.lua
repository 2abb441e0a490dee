-- How near is every kernel to the roof that its work stands under?
--
--   causeway experiments/roofline.lua                      of what bench_gpu.lua measured on an H200, kept here
--   causeway experiments/roofline.lua --rows FILE          of kernels.csv of a run of bench_gpu.lua of one's own
--
--   --rows data/measured/bench_gpu_h200.csv  rows with name, units, time (s), bandwidth (bytes a second), rate
--                                            (FLOP a second)
--   --copy 4.22e12                           bytes a second of a plain copy, as bench_gpu.lua prints it
--   --tensor 9.89e14                         FLOP a second of tensor cores in 16 bits, of the data sheet
--   --fma 6.7e13                             of FMA units in Float32, likewise
--   --save results/roofline                  roofline.svg, .csv
--
-- A kernel is a point: across, how many operations of the recurrence (4 r d a token, 6 r d with the delta rule) it does
-- for each byte that must be read or written once; up, how many a second. It cannot be above the copies, nor above the
-- units that it runs on. Kernels in chunks do more operations than the recurrence has, and those in Float32 on tensor
-- cores three products for each: their own roofs are lower than the ones that are drawn.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/lib/arguments.lua")(arg, { rows = folder .. "/data/measured/bench_gpu_h200.csv",
  copy = 4.22e12, tensor = 9.89e14, fma = 6.7e13, save = "results/roofline" },
  { copy = { above = 0 }, tensor = { above = 0 }, fma = { above = 0 } })

local kinds = { "tensor cores, 16 bits", "tensor cores, Float32", "FMA units, Float32" }

local rows, points = {}, {}
for _, kind in ipairs(kinds) do points[kind] = { x = {}, y = {}, label = kind, style = "points" } end
for _, row in ipairs(load(options.rows)) do
  if row.rate and row.bandwidth then
    local kind, intensity = row.units, row.rate / row.bandwidth
    if not points[kind] then
      error(string.format("rows: units of %s: %s, expected %s, %s or %s", row.name, tostring(kind),
        table.unpack(kinds)), 0)
    end
    local units = kind == kinds[3] and options.fma or options.tensor
    local roof = math.min(options.copy * intensity, units)
    rows[#rows + 1] = { name = row.name, N = row.N, intensity = intensity, rate = row.rate, roof = roof,
      share = row.rate / roof, by = roof < units and "copies" or "units" }
    local p = points[kind]
    p.x[#p.x + 1], p.y[#p.y + 1] = intensity, row.rate / 1e12
  end
end
if #rows == 0 then error("rows: " .. options.rows .. " has no row with a rate and a bandwidth", 0) end

display(text_table(rows, { title = "Kernels under their roofs", columns = {
  "name", { key = "N", align = "right" },
  { key = "intensity", title = "FLOP / byte", format = "%.1f", align = "right" },
  { key = "rate", title = "TFLOP/s", format = function(x) return number_text(x / 1e12, 3) end, align = "right" },
  { key = "roof", format = function(x) return number_text(x / 1e12, 3) end, align = "right" },
  { key = "share", title = "of it", format = function(x) return string.format("%.0f %%", 100 * x) end,
    align = "right" },
  { key = "by", title = "bound by" } },
  note = "decoding only reads, which is faster than copying" }))

-- A roof: the copies until the units are reached.
local function roof(units, label)
  local least, edge, most = 0.1, units / options.copy, 4000
  return { x = { least, edge, most }, y = { options.copy * least / 1e12, units / 1e12, units / 1e12 }, label = label,
    style = "lines" }
end
local figure = { roof(options.tensor, "copies, tensor cores in 16 bits"), roof(options.fma, "copies, FMA units"),
  title = "Kernels under their roofs", xlabel = "FLOP of the recurrence a byte", ylabel = "TFLOP/s", xscale = "log",
  yscale = "log", legend = "below", save = options.save .. "/roofline.svg" }
for _, kind in ipairs(kinds) do
  if #points[kind].x > 0 then figure[#figure + 1] = points[kind] end
end
mkpath(options.save)
save(options.save .. "/roofline.csv", rows)
plot(figure)
