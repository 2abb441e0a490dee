-- How near to the speed of matrix products is softmax attention on tiles, and what does it hold in memory?
--
--   causeway experiments/bench_softmax.lua                       N = 256 ... 8192, 8 heads, d = 64, causal and not
--   causeway experiments/bench_softmax.lua --quick               N up to 2048, less time a point
--   causeway experiments/bench_softmax.lua --methods flash --lengths 4096
--
--   --lengths 256,512,…,8192
--   --methods flash,standard,gradient
--   --heads 8 --dim 64               shape of the inputs: standard normal, Float32, one batch
--   --seconds 0.5                    time spent on a point beyond warm-up
--   --product 512                    side of the matrix product that rates are compared with
--   --timeout 60                     seconds after which a point is given up and recorded as timeout
--   --save results/bench_softmax     rows.jsonl (goes on where it was stopped), .csv, .json, rate.svg, time.svg,
--                                    memory.svg
--   --fresh                          start again
--
-- Method: flash and its gradient are first compared with the definition in Float64; a wrong one is not timed. Calls and
-- products are timed in turns, three each, so that both see the same machine; each is its fastest, after a warm-up.
-- Useful operations (a multiply and an add are two) of h heads: 4 N² d h, with causal half of it; the gradient 10 N² d
-- h, half of it likewise (five products, of which the scores are recomputed).
-- Their rate is compared with what Eigen's Float32 product of this side, 512, reaches on the same threads.
-- Memory is the peak of a call beyond its inputs and its output (of the gradient: dq); "scores" is that of h N²
-- numbers.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/lib/arguments.lua")(arg, {
  quick = false, fresh = false, heads = 8, dim = 64, seconds = 0.5, product = 512, timeout = 60,
  save = "results/bench_softmax",
  lengths = { 256, 512, 1024, 2048, 4096, 8192 },
  methods = { "flash", "standard", "gradient" },
}, { heads = { 1 }, dim = { 1 }, seconds = { above = 0 }, product = { 1, 4096 }, timeout = { above = 0 },
  lengths = { 1 }, methods = { "flash", "standard", "gradient" } })
local cells = dofile(folder .. "/lib/cells.lua")
if options.quick then
  options.seconds = math.min(options.seconds, 0.2)
  options.lengths = dofile(folder .. "/lib/at_most.lua")(options.lengths, 2048, "lengths")
end
local h, d = options.heads, options.dim
local function product() return product_rate(options.product, { seconds = options.seconds / 2 }) end

-- ── Right before fast ──
print(tostring(machine()))
print(string.format("1 batch, %d heads, d = %d, Float32; Eigen's product: %.1f GFLOP/s\n", h, d, product() / 1e9))
for _, causal in ipairs({ true, false }) do
  seed(1)
  local q, k, v, G = randn(1, 2, 300, d), randn(1, 2, 300, d), randn(1, 2, 300, d), randn(1, 2, 300, d)
  local exact = { method = "standard", causal = causal }
  local function check(name, got, want, least)
    local err = relative_error(got, want)
    if not (err <= least) then
      error(string.format("%s is wrong: error %.1e, expected at most %.0e", name, err, least), 0)
    end
  end
  check("flash", softmax_attention(q, k, v, { causal = causal }), softmax_attention(f64(q), f64(k), f64(v), exact),
    1e-5)
  local got, want = softmax_attention_grad(q, k, v, G, { causal = causal }), softmax_attention_grad(f64(q), f64(k),
    f64(v), f64(G), exact)
  for _, name in ipairs({ "dq", "dk", "dv" }) do check(name, got[name], want[name], 1e-5) end
end

-- ── The sweep ──
local inputs_of = dofile(folder .. "/lib/one_length.lua")(function(N)
  seed(1)
  return { q = randn(1, h, N, d), k = randn(1, h, N, d), v = randn(1, h, N, d), G = randn(1, h, N, d) }
end)

local results = sweep({
  grid = { N = options.lengths, method = options.methods, mask = { "causal", "full" }, heads = { h }, d = { d } },
  order = { "heads", "d", "N", "mask", "method" },
  timeout = options.timeout,
  save = options.save,
  fresh = options.fresh,
  run = function(p)
    local x = inputs_of(p.N)
    local causal = p.mask == "causal"
    local function call()
      if p.method == "gradient" then return softmax_attention_grad(x.q, x.k, x.v, x.G, { causal = causal }).dq end
      return (softmax_attention(x.q, x.k, x.v, { causal = causal, method = p.method }))
    end
    local _, _, memory = measured_call(call)
    local time, yardstick, samples, turns = math.huge, 0, 0, 3
    for _ = 1, turns do
      yardstick = math.max(yardstick, product())
      local t = btime(call, { seconds = options.seconds / turns, show = false })
      time, samples = math.min(time, t.minimum), samples + t.samples
    end
    local rate = (p.method == "gradient" and 10 or 4) * p.N * p.N * d * h * (causal and 0.5 or 1) / time
    return { time = time, samples = samples, memory = memory, scores = 4 * h * p.N * p.N, rate = rate,
      product_rate = yardstick, share = rate / yardstick,
      curve = p.method .. ", " .. p.mask }
  end,
})

-- ── What came out ──
for _, mask in ipairs({ "causal", "full" }) do
  local lines = {}
  for i, row in ipairs(results:where({ mask = mask })) do
    local ok = row.status == "ok"
    lines[i] = { N = row.N, method = row.method, time = ok and row.time or row.status, rate = ok and row.rate or "",
      share = ok and row.share or "",
      memory = ok and row.memory or "", scores = ok and row.scores or "" }
  end
  print()
  display(text_table(lines, { title = string.format("%s, %d heads, d = %d", mask, h, d), columns = {
    "N", { key = "method" },
    { key = "time", unit = "ms", format = cells.scaled(1e3), align = "right" },
    { key = "rate", unit = "GFLOP/s", format = cells.scaled(1e-9), align = "right" },
    { key = "share", title = "of product rate", unit = "%", format = cells.scaled(100, 3), align = "right" },
    { key = "memory", title = "extra memory", unit = "bytes", align = "right" },
    { key = "scores", unit = "bytes", align = "right" },
  } }))
end

local function figure(column, title, label, scale)
  return results:plot("N", column, { by = "curve", xscale = "log", yscale = scale,
    title = string.format("%s, %d heads, d = %d", title, h, d), xlabel = "length N", ylabel = label })
end
local time_figure = figure("time", "Time of one call", "seconds", "log")
print()
display(time_figure)
time_figure:save(options.save .. "/time.svg")
figure("share", "Rate of useful operations, as a share of the product rate", "share"):save(options.save .. "/rate.svg")
figure("memory", "Memory beside the inputs", "bytes", "log"):save(options.save .. "/memory.svg")
print("\n" .. results.folder .. ": rows.jsonl, " .. options.save:match("[^/]+$")
  .. ".csv, .json, time.svg, rate.svg, memory.svg")
