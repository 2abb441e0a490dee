-- From which length on is the hybrid form of the tpu document the cheaper one, by count and by clock?
--
--   causeway experiments/tpu/crossover.lua                    under a minute
--   causeway experiments/tpu/crossover.lua --width 64 --block 32
--
--   --width 128             r = d: one head of this width, Float32, normalised, positive inputs, as in the document's
--                           §4
--   --lengths 32,64,…,4096
--   --block 0               block of hybrid and outer-product-blockwise; 0: the width
--   --threads 1             worker threads
--   --seconds 0.2           time spent on a point beyond warm-up, at least three calls
--   --timeout 20            seconds after which a point is given up
--   --save results/tpu/crossover   rows.jsonl (goes on where it was stopped), .csv, .json, .html, time.svg
--
-- Multiply-adds come from the closed forms that the counted definitions equal (cost): inner-product counts the triangle
-- of scores, N(N+1)/2 (r+d+1), and dense, as a masked matrix product does, N²(r+d+1); hybrid q'(r+d+1) + 2Nr(d+1) with
-- q' the squares on the diagonal. Timed are inner-product row by row, the same sum in matrix products (vanilla, which
-- leaves out what lies above the diagonal), outer-product-blockwise and hybrid.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  width = 128, block = 0, threads = 1, seconds = 0.2, timeout = 20, save = "results/tpu/crossover",
  lengths = { 32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096 },
}, { width = { 1 }, block = { 0 }, threads = { 1 }, seconds = { above = 0 }, timeout = { above = 0 }, lengths = { 1 } })
local page, tell, show = dofile(folder .. "/../lib/page.lua")()
local d, b = options.width, options.block > 0 and options.block or options.width
threads(options.threads)
local methods_here = { "inner-product", "vanilla", "outer-product-blockwise", "hybrid" }
local has_block = { ["outer-product-blockwise"] = b, hybrid = b }

tell(string.format("One head, r = d = %d, block %d, normalised, Float32, %d thread%s.", d, b, options.threads,
  options.threads == 1 and "" or "s"))
print(machine())

-- ── Right before fast ──
local function inputs_of(N)
  seed(1)
  local function positive(width) return abs(randn(1, 1, N, width)) + 0.1 end
  return { B = positive(d), C = positive(d), V = randn(1, 1, N, d) }
end
local function call(x, method)
  return (causal_linear_attention(x.B, x.C, x.V, { method = method, normalize = true, block = has_block[method] }))
end
do
  local N = 2 * b + 1
  local x = inputs_of(N)
  local reference = causal_oracle(x.B, x.C, x.V, { normalize = true })
  for _, method in ipairs(methods_here) do
    local err = relative_error(call(x, method), reference)
    if not (err <= 1e-4) then
      error(string.format("%s is wrong: error %.1e at N = %d, expected at most 1e-4; no time is measured", method, err,
        N), 0)
    end
  end
end

-- ── Counts ──
local function multiply_adds(method, N)
  return cost(method, { N = N, r = d, d = d, block = has_block[method], normalize = true }).adds
end
do -- the closed forms are what the definitions do, seen here at a small length
  local N, w = 2 * 5 + 3, 3
  local x = abs(randn(1, 1, N, w)) + 0.1
  for method in pairs(has_block) do
    local counted = opcount(function() causal_linear_attention(x, x, x, { method = method, normalize = true,
      block = 5 }) end)
    local closed = cost(method, { N = N, r = w, d = w, block = 5, normalize = true })
    for _, what in ipairs({ "multiplies", "adds", "divisions" }) do
      if counted[what] ~= closed[what] then
        error(string.format("%s: %d %s counted, %d in closed form", method, counted[what], what, closed[what]), 0)
      end
    end
  end
end
local predicted = crossover{ r = d, d = d, block = b, normalize = true }
local predicted_triangular = crossover{ r = d, d = d, block = b, normalize = true, tiles = "triangular" }

-- ── Times ──
local file, finished = dofile(folder .. "/../lib/kept.lua")(options.save)
local results = sweep{
  grid = { N = options.lengths, method = methods_here, width = { d }, block = { b }, threads = { options.threads } },
  order = { "width", "block", "threads", "N", "method" },
  timeout = options.timeout,
  save = options.save,
  fresh = finished,
  run = function(p)
    local x = inputs_of(p.N)
    local t = btime(function() return call(x, p.method) end, { seconds = options.seconds, show = false })
    return { time = t.minimum, median = t.median, memory = t.memory, multiply_adds = multiply_adds(p.method, p.N) }
  end,
}

local time_of = {}              -- method -> N -> seconds
for _, method in ipairs(methods_here) do time_of[method] = {} end
for _, row in ipairs(results) do time_of[row.method][row.N] = row.status == "ok" and row.time or nil end
local function cell(method, N)
  local seconds = time_of[method][N]
  return seconds and number_text(seconds * 1e3, 3) or "–"
end
local lines = {}
for i, N in ipairs(options.lengths) do
  local hybrid = multiply_adds("hybrid", N)
  lines[i] = {
    N = N, triangle = multiply_adds("inner-product", N) / hybrid, square = multiply_adds("vanilla", N) / hybrid,
    outer = multiply_adds("outer-product-blockwise", N) / hybrid,
    hybrid = hybrid / 1e6, time_inner = cell("inner-product", N), time_vanilla = cell("vanilla", N),
    time_outer = cell("outer-product-blockwise", N), time_hybrid = cell("hybrid", N),
  }
end
show(text_table(lines, {
  title = "Multiply-adds: those of hybrid in millions, the others over them; and milliseconds a call", columns = {
  { key = "N", align = "right" },
  { key = "hybrid", title = "hybrid 10⁶", format = "%.2f", align = "right" },
  { key = "triangle", title = "inner ÷", format = "%.3f", align = "right" },
  { key = "square", title = "inner dense ÷", format = "%.3f", align = "right" },
  { key = "outer", title = "outer ÷", format = "%.3f", align = "right" },
  { key = "time_inner", title = "inner ms", align = "right" },
  { key = "time_vanilla", title = "vanilla ms", align = "right" },
  { key = "time_outer", title = "outer ms", align = "right" },
  { key = "time_hybrid", title = "hybrid ms", align = "right" },
} }))

-- Where hybrid overtakes a method for good: between the last length at which it is slower and the next, on log axes.
-- nil, and a sentence, where all lengths are on one side.
local function measured_crossover(method)
  local slower, faster
  for _, N in ipairs(options.lengths) do
    local mine, other = time_of.hybrid[N], time_of[method][N]
    if mine and other then
      local point = { N = N, lead = math.log(other / mine) }
      if point.lead <= 0 then slower, faster = point, nil elseif not faster then faster = point end
    end
  end
  if not faster then return nil, slower and "not up to N = " .. slower.N or "no time was measured" end
  if not slower then return nil, "below N = " .. faster.N end
  local share = -slower.lead / (faster.lead - slower.lead)
  local N = math.exp(math.log(slower.N) + share * math.log(faster.N / slower.N))
  return N, string.format("N ≈ %.0f", N)
end
local by_rows, by_rows_text = measured_crossover("inner-product")
local by_products, by_products_text = measured_crossover("vanilla")
local _, by_outer_text = measured_crossover("outer-product-blockwise")
tell(string.format([[

hybrid takes fewer multiply-adds than inner-product from
  predicted, dense         N = %d%s
  predicted, triangular    N = %d
and less time than
  inner-product            %s
  vanilla                  %s
  outer-product-blockwise  %s]],
  predicted, b == d and string.format("  (n > 2d = %d)", 2 * d) or "", predicted_triangular, by_rows_text,
  by_products_text, by_outer_text))

-- ── The document's claims ──
local longest
for _, N in ipairs(options.lengths) do
  if time_of.hybrid[N] and time_of["outer-product-blockwise"][N] and time_of["inner-product"][N] then longest = N end
end
local slowdown = longest and time_of["outer-product-blockwise"][longest] / time_of.hybrid[longest]
local per_token = cost("hybrid", { N = 64 * d, r = d, d = d, block = d }).adds / (64 * d)
local claims = {
  { id = "G4", claim = "§3.3: an outer product pays a 128× penalty on a 128×128 product unit",
    verdict = "true in the model",
    here = string.format("a unit of side %d spends %d multiply-adds on %d useful ones: %d×", d, d ^ 3 // 1 | 0, d * d,
      d ^ 3 // (d * d) | 0) },
  { id = "G5", claim = "§3.4: time O(n/d), memory O(d²)", verdict = "repaired: it counts d×d products, not operations",
    here = string.format("%.0f multiply-adds a token at b = d, 4d² = %d", per_token, 4 * d * d) },
  { id = "G11", claim = "§4.1: faster than every baseline from n = 2048", verdict = "hardware; by count from n > 2d",
    here = string.format("inner-product: %s; vanilla: %s", by_rows_text, by_products_text) },
  { id = "G11", claim = "§4.1: the outer product is at least two orders of magnitude slower", verdict = "hardware",
    here = slowdown and string.format("%.1f× at N = %d", slowdown, longest) or "not measured" },
}
show(text_table(claims, { title = "The document's claims (TPU v4) and what is seen here", columns = {
  "id", { key = "claim" }, { key = "verdict" }, { key = "here" } } }))

-- ── The figure ──
local curves, lowest, highest = {}, math.huge, 0
for _, method in ipairs(methods_here) do
  local curve = { x = {}, y = {}, label = method }
  for _, N in ipairs(options.lengths) do
    local seconds = time_of[method][N]
    if seconds then
      curve.x[#curve.x + 1], curve.y[#curve.y + 1] = N, seconds
      lowest, highest = math.min(lowest, seconds), math.max(highest, seconds)
    end
  end
  if #curve.x > 0 then curves[#curves + 1] = curve end
end
local function mark(N, label)
  curves[#curves + 1] = { x = { N, N }, y = { lowest, highest }, style = "dashed", label = label }
end
if #curves > 0 then
  mark(predicted, "predicted, dense: " .. predicted)
  mark(predicted_triangular, "predicted, triangular: " .. predicted_triangular)
  if by_rows then mark(by_rows, string.format("measured, inner-product: %.0f", by_rows)) end
  if by_products then mark(by_products, string.format("measured, vanilla: %.0f", by_products)) end
  curves.xscale, curves.yscale, curves.xlabel, curves.ylabel = "log", "log", "length N", "seconds"
  curves.title = string.format("One head, r = d = %d, block %d, normalised", d, b)
  local figure = plot(curves)
  show(figure)
  figure:save(options.save .. "/time.svg")
end
report({ title = "Crossover of the hybrid and the inner-product form", save = file .. ".html",
  data = { file .. ".csv", file .. ".json" }, table.unpack(page) })
print("\n" .. options.save .. ": rows.jsonl, " .. options.save:match("[^/]+$") .. ".csv, .json, .html, time.svg")
