-- tpu, Figure 1: time of the forward and of the backward pass against the length, one head of 128.
--
--   causeway experiments/tpu/figure1.lua                to 16384 tokens, a minute or two
--   causeway experiments/tpu/figure1.lua --quick        to 2048, some seconds
--   causeway experiments/tpu/figure1.lua --full         to 65536
--
--   --lengths 256,512,…,65536
--   --width 128                     of the one head, Float32, normalised, positive inputs, as in the document
--   --seconds 0.2                   spent on a point, at least three calls
--   --timeout 30                    seconds after which a point is given up
--
-- The document's curves are of a TPU v4 and not printed as numbers; what its text says of them is judged. Methods:
-- hybrid (the proposed one), inner-product, outer-product, and FlashAttention, softmax attention in tiles. Backward:
-- that of the hybrid form with recomputation, Algorithm 2 with its errors corrected, and that of FlashAttention; the
-- two baselines have no gradient of their own here. experiments/tpu/crossover.lua has the crossover in detail.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts, timing = dofile(folder .. "/../lib/verdicts.lua"), dofile(folder .. "/../lib/timing.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "tpu", name = "figure1",
  title = "forward and backward pass against the length",
  options = { lengths = { 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536 }, width = 128, seconds = 0.2,
    timeout = 30 },
  rules = { device = { "cpu" }, lengths = { 1 }, width = { 1 }, seconds = { above = 0 }, timeout = { above = 0 } },
  differs = "Printed: curves, on a TPU v4. Here: this machine, medians; the baselines have no gradient of their own." })
local o = item.options
local d = o.width
local most = item.mode == "quick" and 2048 or item.mode == "full" and math.huge or 16384
local lengths = {}
for _, N in ipairs(o.lengths) do if N <= most then lengths[#lengths + 1] = N end end
if #lengths == 0 then lengths = { o.lengths[1] } end
local seconds = item.mode == "quick" and math.min(o.seconds, 0.05) or o.seconds
local methods = { "hybrid", "inner-product", "outer-product", "FlashAttention" }
local threads_here = threads()

local function inputs(N)
  seed(1)
  local function positive() return abs(randn(1, 1, N, d)) + 0.1 end
  return { q = positive(), k = positive(), v = randn(1, 1, N, d), G = randn(1, 1, N, d) }
end
local function forward(method, x)
  if method == "FlashAttention" then return (softmax_attention(x.q, x.k, x.v, { causal = true })) end
  return (causal_linear_attention(x.q, x.k, x.v, { method = method, normalize = true,
    block = method == "hybrid" and math.min(d, x.q:size(3)) or nil }))
end
local function backward(method, x)
  if method == "FlashAttention" then return softmax_attention_grad(x.q, x.k, x.v, x.G, { causal = true }).dq end
  return causal_linear_attention_grad(x.q, x.k, x.v, x.G, { normalize = true }).dB
end

-- The error beside Float64 of what is timed, at 300 tokens.
local function error_of(method, pass)
  local x, wide = inputs(300), {}
  for name, value in pairs(x) do wide[name] = f64(value) end
  if pass == "backward" then return relative_error(backward(method, x), backward(method, wide)) end
  local reference = method == "FlashAttention" and softmax_attention(wide.q, wide.k, wide.v, { causal = true,
    method = "standard" }) or causal_oracle(x.q, x.k, x.v, { normalize = true })
  return relative_error(forward(method, x), reference)
end

local results = item:sweep{
  grid = { N = lengths, method = methods, pass = { "forward", "backward" }, width = { d }, seconds = { seconds },
    threads = { threads_here } },
  order = { "width", "threads", "seconds", "pass", "N", "method" },
  timeout = o.timeout,
  run = function(p)
    if p.pass == "backward" and p.method ~= "hybrid" and p.method ~= "FlashAttention" then return { none = true } end
    local off = error_of(p.method, p.pass)
    if not (off <= 1e-4) then return { wrong = off } end
    local x = inputs(p.N)
    local f = p.pass == "forward" and forward or backward
    local t = timing(function() f(p.method, x) end, { seconds = p.seconds })
    return { median = t.median, lower = t.lower, upper = t.upper, samples = t.samples, error = off }
  end,
}

local function value_of(row)
  if row.status ~= "ok" then return row.status end
  if row.none then return "has no gradient of its own here" end
  if row.wrong then return string.format("wrong: error %.1e", row.wrong) end
  return row.median
end
local time, cells = { forward = {}, backward = {} }, {}
for _, pass in ipairs({ "forward", "backward" }) do
  local rows, curves = {}, { xscale = "log", yscale = "log", xlabel = "length N", ylabel = "seconds",
    title = string.format("%s pass, one head, d = %d", pass:gsub("^%l", string.upper), d) }
  for i, N in ipairs(lengths) do rows[i] = { N = N } end
  for _, method in ipairs(methods) do
    local curve = { x = {}, y = {}, label = method }
    time[pass][method] = {}
    for i, N in ipairs(lengths) do
      local row = results:where({ N = N, method = method, pass = pass })[1]
      local value = value_of(row)
      rows[i][method] = type(value) == "number" and string.format("%.3g", value) or value
      local none = type(value) ~= "number" and "–" or nil
      cells[#cells + 1] = { pass = pass, method = method, N = N, time = value, lower = none or row.lower,
        upper = none or row.upper, samples = none and 0 or row.samples }
      if type(value) == "number" then
        curve.x[#curve.x + 1], curve.y[#curve.y + 1], time[pass][method][N] = N, value, value
      end
    end
    curves[#curves + 1] = curve
  end
  local columns = { { key = "N", align = "right" } }
  for _, method in ipairs(methods) do columns[#columns + 1] = { key = method, align = "right" } end
  item:table(rows, { title = string.format("%s pass: seconds, median", pass:gsub("^%l", string.upper)),
    columns = columns })
  item:figure(curves)
end

local with_quartiles = dofile(folder .. "/../lib/cells.lua").with_quartiles
item:table(cells, { title = "Every cell", columns = with_quartiles({ "pass", "method", { key = "N", align = "right" },
  { key = "time", title = "seconds", format = "%.3g", align = "right" } }) }, true)

-- ── What the text says ──
local from = item:quoted("faster_than_every_baseline_from")
for _, pass in ipairs({ "forward", "backward" }) do
  local hybrid = time[pass].hybrid
  for _, method in ipairs(methods) do
    if method ~= "hybrid" and next(time[pass][method]) then
      local span = verdicts.overtakes(time[pass][method], hybrid)
      local what = string.format("hybrid is faster than %s from N = %d, %s", method, from, pass)
      if not span or lengths[#lengths] < from then
        item:judge(what, "time", verdicts.not_run("no length from " .. from .. " was measured"), "G11")
      else
        item:judge(what, "time", verdicts.whether(span[2] <= from, "overtakes " .. verdicts.span_text(span)), "G11")
      end
    end
  end
end
local least = item:quoted("outer_product_slowdown_at_least")
local longest
for _, N in ipairs(lengths) do
  if time.forward.hybrid[N] and time.forward["outer-product"][N] then longest = N end
end
local slowdown = "the outer product is at least two orders of magnitude slower"
if longest then
  local ratio = time.forward["outer-product"][longest] / time.forward.hybrid[longest]
  item:judge(slowdown, "time", verdicts.at_least(ratio, least, string.format("%.1f × at N = %d", ratio, longest)),
    "G11")
else
  item:judge(slowdown, "time", verdicts.not_run("no length with both times"), "G11")
end
for _, pass in ipairs({ "forward", "backward" }) do
  local x, y = {}, {}
  for _, N in ipairs(lengths) do
    if time[pass].hybrid[N] then x[#x + 1], y[#y + 1] = N, time[pass].hybrid[N] end
  end
  item:judge("hybrid is linear in the length, " .. pass, "time", verdicts.exponent_is(verdicts.fit(x, y), 1), "G5")
end
item:judge("length from which hybrid takes fewer operations, dense squares", "count", verdicts.equal(
  crossover{ r = d, d = d, block = d }, 2 * d + 1, "n > 2 d"), "G11")
item:finish()
