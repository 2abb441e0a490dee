-- What the factorisations cost: the time of each against the length and against the rank, its growth beside that of the
-- stated cost; and the rate of favor+ beside that of a matrix product.
--
--   causeway experiments/fleet/cost.lua                       a minute
--   causeway experiments/fleet/cost.lua --methods favor+ --lengths 1024,2048 --ranks 16,32 --rate_length 4096
--
--   --lengths 2048,4096,8192,16384   at rank 64; a quarter of them for rsvd, whose time is not linear in N, and taylor,
--                                    of 2145 features,
--                                    a sixteenth for svd
--   --ranks 32,64,128,256            at the second largest length; where a rank can be chosen
--   --methods favor+,…               default: all
--   --dim 64                         one head, normal inputs, Float32 (only favor+, rfa, taylor and hedgehog compute in
--                                    it)
--   --seconds 0.4                    time spent on a point, in four turns
--   --rate_length 65536              favor+ with 8 heads, rank 256
--   --save results/fleet/cost        rows.jsonl (goes on where it was stopped), .csv, .json, .html, time.svg
--
-- An exponent is the slope of log time over log length or rank. That of the stated cost is measured on the same points,
-- the stated sum of powers taken with the constants that matrix products and singular values have. An exponent more
-- than 0.25 above what is stated is named below the table; the 0.25 leave room for factors that outgrow a cache on the
-- way, and a smaller exponent means that what is done once still counts. Times are processor time of all threads, which
-- other programs on the machine disturb least, of the fastest of many calls; the rate of favor+ is by the clock.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local registry, names = {}, {}
for i, m in ipairs(lowrank_method_list()) do registry[m.name], names[i] = m, m.name end
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  lengths = { 2048, 4096, 8192, 16384 }, ranks = { 32, 64, 128, 256 }, methods = names, dim = 64, seconds = 0.4,
  rate_length = 65536, save = "results/fleet/cost",
}, { lengths = { 2 }, ranks = { 1 }, methods = names, dim = { 1 }, seconds = { above = 0 }, rate_length = { 1 } })
local d = options.dim

-- Operations of one head, as the registry states them in O(); k: what the options' defaults make of their factor.
local stated = {
  ["favor+"] = function(N, r) return 2 * N * r * d end,
  rfa = function(N, r) return N * r * d end,
  lara = function(N, r) return 3 * N * r * d + r * r * d end,
  nystrom = function(N, r) return 2 * N * r * d + N * r * r + 20 * r ^ 3 end,
  linformer = function(N, r) return 2 * N * r * d end,
  skyformer = function(N, r) return 2 * N * r * d + N * r * r + 20 * r ^ 3 end,
  skeinformer = function(N, r) return 3 * N * r * d end,
  ["transformer-vq"] = function(N, r) return 22 * N * r * d end,
  hyper = function(N, r) return N * (r + 7) * d + N * math.log(N, 2) end,
  taylor = function(N) return N * d * d end,
  hedgehog = function(N) return N * d end,
  svd = function(N) return N ^ 3 end,
  -- the second term: six orthonormal bases
  rsvd = function(N, r) return 6 * N * N * (d + r + 10) + 30 * N * (r + 10) ^ 2 end,
}
local points = {} -- of each method: axis, length, rank
for _, name in ipairs(options.methods) do
  local m = registry[name]
  local less = ({ svd = 16, rsvd = 4, taylor = 4 })[name] or 1
  points[name] = {}
  local function point(axis, N, r)
    table.insert(points[name], { axis = axis, N = N, r = m.default_rank and math.min(r, N) or 0 })
  end
  for _, N in ipairs(options.lengths) do point("length", math.max(2, N // less), 64) end
  if m.default_rank and name ~= "svd" then
    for _, r in ipairs(options.ranks) do
      point("rank", math.max(2, options.lengths[math.max(1, #options.lengths - 1)] // less), r)
    end
  end
end

local file, finished = dofile(folder .. "/../lib/kept.lua")(options.save)
local results = sweep{
  grid = { method = options.methods, lengths = { table.concat(options.lengths, " ") },
    ranks = { table.concat(options.ranks, " ") }, d = { d } },
  order = { "d", "lengths", "ranks", "method" },
  save = options.save,
  fresh = finished,
  run = function(p)
    local inputs, times = {}, {}
    local most = 0
    for _, x in ipairs(points[p.method]) do most = math.max(most, x.N) end
    seed(1)
    local q, k = 0.3 * randn(most, d), 0.3 * randn(most, d) -- small: the random linformer takes sums of N keys
    local turns = 4
    for _ = 1, turns do -- all points in turns, so that all see the same machine
      for i, x in ipairs(points[p.method]) do
        inputs[i] = inputs[i] or { q({ 1, x.N }, ":"), k({ 1, x.N }, ":") }
        local rank = x.r > 0 and x.r or nil
        local start = clock()
        repeat
          collectgarbage()
          local before = os.clock()
          lowrank(p.method, inputs[i][1], inputs[i][2], { rank = rank, seed = 1 })
          times[i] = math.min(times[i] or math.huge, os.clock() - before)
        until clock() - start > options.seconds / turns
      end
    end
    local values = {}
    for i, x in ipairs(points[p.method]) do values[string.format("%s N=%d r=%d", x.axis, x.N, x.r)] = times[i] end
    return values
  end,
}

-- The slope of log y over log x, by least squares.
local function slope(x, y)
  local n, mx, my, above, below = #x, 0, 0, 0, 0
  for i = 1, n do mx, my = mx + math.log(x[i]) / n, my + math.log(y[i]) / n end
  for i = 1, n do
    above, below = above + (math.log(x[i]) - mx) * (math.log(y[i]) - my), below + (math.log(x[i]) - mx) ^ 2
  end
  return above / below
end
local measured = {}
for _, row in ipairs(results) do
  if row.status == "ok" then measured[row.method] = row end
end
local rows, curves, failures = {}, { xscale = "log", yscale = "log", xlabel = "length N", ylabel = "processor seconds",
  title = "Time of a factorisation, one head, rank 64", size = { 900, 560 } }, {}
for i, name in ipairs(options.methods) do
  local row = { method = name, time = registry[name].time }
  for _, axis in ipairs({ "length", "rank" }) do
    local x, y, cost = {}, {}, {}
    for _, p in ipairs(points[name]) do
      local time = measured[name] and measured[name][string.format("%s N=%d r=%d", p.axis, p.N, p.r)]
      if time and p.axis == axis then
        x[#x + 1], y[#y + 1], cost[#cost + 1] = axis == "length" and p.N or p.r, time, stated[name](p.N, p.r)
        if axis == "length" then row.N, row.seconds = p.N, time end
      end
    end
    if #x > 1 then
      row[axis], row[axis .. "_stated"] = slope(x, y), slope(x, cost)
      if row[axis] > row[axis .. "_stated"] + 0.25 then
        failures[#failures + 1] = string.format("%s grows with the %s by an exponent of %.2f, stated %.2f", name, axis,
          row[axis], row[axis .. "_stated"])
      end
    end
    if axis == "length" and #x > 0 then
      curves[#curves + 1] = { x = x, y = y, label = name, style = i <= 8 and "linespoints" or "dashed" }
    end
  end
  rows[i] = row
end
local function exponent(key, title) return { key = key, title = title, format = "%.2f", align = "right" } end
local result = text_table(rows, {
  title = string.format("Growth of time, one head, d = %d", d),
  columns = {
    "method", { key = "time", title = "stated" }, exponent("length", "in N"), exponent("length_stated", "stated"),
    exponent("rank", "in r"), exponent("rank_stated", "stated"),
    { key = "N", align = "right" }, { key = "seconds", title = "processor time there", format = function(s) return s
      and seconds_text(s) or "" end, align = "right" },
  },
  note = "exponents of processor time, measured and by the stated cost on the same points",
})
display(result)
local growth = #failures == 0 and "No factorisation grows by more than 0.25 above its stated exponent."
  or table.concat(failures, "; ") .. "."
print("\n" .. growth)

-- ── favor+ and the matrix product in it ──
local N, h, r = options.rate_length, 8, 256
seed(1)
local q, k = randn(1, h, N, 64), randn(1, h, N, 64)
local best, yardstick = math.huge, 0
for _ = 1, 5 do -- in turns, so that both see the same machine
  yardstick = math.max(yardstick, product_rate())
  best = math.min(best, btime(function() return (lowrank("favor+", q, k, { rank = r, seed = 1 })) end,
    { seconds = 2 * options.seconds, show = false }).minimum)
end
local rate = 4 * N * h * 64 * r / best
local verdict =
  string.format("favor+ at N = %d, %d heads, d = 64, r = %d, Float32: %s, products at %.1f GFLOP/s, %.0f %% of Eigen's "
  .. "512×512×512 product (%.1f GFLOP/s).",
  N, h, r, seconds_text(best), rate / 1e9, 100 * rate / yardstick, yardstick / 1e9)
print(verdict)

local figure = plot(curves)
figure:save(options.save .. "/time.svg")
report({ title = "Cost of the factorisations", save = file .. ".html", data = file .. ".csv",
  result, growth, verdict, figure })
print("\n" .. options.save .. ": rows.jsonl, " .. options.save:match("[^/]+$") .. ".csv, .json, .html, time.svg")
