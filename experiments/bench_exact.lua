-- How near to the speed of matrix products is every exact method, and how does its time grow?
--
--   causeway experiments/bench_exact.lua      all methods "auto" knows, N = 128 to 131072
--   causeway experiments/bench_exact.lua --quick      N up to 8192, less time a point
--   causeway experiments/bench_exact.lua --methods fleet,block-based --heads 1 --lengths 8192
--
--   --lengths 128,256,…,131072
--   --methods fleet,…                default: those that "auto" chooses from
--   --heads 8 --rank 128 --dim 128   shape of the inputs: standard normal, Float32, one batch
--   --seconds 0.5                    time spent on a point beyond warm-up, at least three calls
--   --timeout 60                     seconds after which a point is given up and recorded as timeout
--   --save results/bench_exact       rows.jsonl (goes on where it was stopped), .csv, .json, rate.svg, time.svg
--   --fresh                          start again
--
-- Method: each method is first compared with the Float64 oracle; a wrong one is not timed. A time is the minimum over
-- the calls of a point, after a warm-up. Useful operations (a multiply and an add are two) of h heads:
--   block methods of block length c     N h (4 r d + (c + 1)(r + d))
--   vanilla, inner-product              N h (N + 1)(r + d)
--   recursion with base case t          h (2 r d S + (r + d) Σ n (n + 1)), S the sizes of all halved pieces, Σ over
--                                       leaves n
--   all others, rank by rank            N h 4 r d
-- Their rate is compared with what Eigen's 512×512×512 Float32 product reaches on the same threads, measured beside it.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local registered, all, candidates = {}, {}, {}
for i, method in ipairs(method_list()) do
  registered[method.name], all[i] = method, method.name
  if method.auto then candidates[#candidates + 1] = method.name end
end
local options = dofile(folder .. "/lib/arguments.lua")(arg, {
  quick = false, fresh = false, heads = 8, rank = 128, dim = 128, seconds = 0.5, timeout = 60,
  save = "results/bench_exact",
  lengths = { 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072 },
  methods = candidates,
}, { heads = { 1 }, rank = { 1 }, dim = { 1 }, seconds = { above = 0 }, timeout = { above = 0 }, lengths = { 1 },
  methods = all })
local cells = dofile(folder .. "/lib/cells.lua")
if options.quick then
  options.seconds = math.min(options.seconds, 0.2)
  options.lengths = dofile(folder .. "/lib/at_most.lua")(options.lengths, 8192, "lengths")
end
local h, r, d = options.heads, options.rank, options.dim
local names = options.methods

-- ── Useful operations ──

-- Sum of the sizes of all pieces that are halved, and Σ n (n + 1) over the leaves, for n tokens and base case t.
local function recursion_sums(n, t)
  if n <= t then return 0, n * (n + 1) end
  local s1, leaves1 = recursion_sums(n // 2, t)
  local s2, leaves2 = recursion_sums(n - n // 2, t)
  return n + s1 + s2, leaves1 + leaves2
end

local is_blocked = { ["block-based"] = true, ["lightning-attention-2"] = true, hybrid = true }

local function useful_operations(name, N)
  local block = registered[name].block
  if name == "vanilla" or name == "inner-product" then return h * N * (N + 1) * (r + d) end
  if name == "recursion" then
    local halved, leaves = recursion_sums(N, block)
    return h * (2 * r * d * halved + (r + d) * leaves)
  end
  if is_blocked[name] then return h * N * (4 * r * d + (math.min(block, N) + 1) * (r + d)) end
  return h * 2 * cost(name, { N = N, r = r, d = d }).multiplies
end

-- ── Right before fast ──
print(tostring(machine()))
print(string.format("1 batch, %d heads, r = %d, d = %d, Float32; Eigen's product: %.1f GFLOP/s\n", h, r, d,
  product_rate() / 1e9))
local wrong = {}
do
  seed(1)
  local B, C, V = randn(1, h, 1000, r), randn(1, h, 1000, r), randn(1, h, 1000, d)
  local reference = causal_oracle(B, C, V)
  local right = {}
  for _, name in ipairs(names) do
    local err = relative_error(causal_linear_attention(B, C, V, { method = name }), reference)
    if err <= 1e-4 then
      right[#right + 1] = name
    else
      wrong[#wrong + 1] = string.format("%s is wrong: error %.1e at N = 1000, expected at most 1e-4", name, err)
    end
  end
  names = right
end
for _, sentence in ipairs(wrong) do print(sentence) end

-- ── The sweep ──
local inputs_of = dofile(folder .. "/lib/one_length.lua")(function(N)
  seed(1)
  return { B = randn(1, h, N, r), C = randn(1, h, N, r), V = randn(1, h, N, d) }
end)

local results = sweep({
  grid = { N = options.lengths, method = names, heads = { h }, r = { r }, d = { d } },
  order = { "heads", "r", "d", "N", "method" },
  timeout = options.timeout,
  save = options.save,
  fresh = options.fresh,
  run = function(p)
    local x = inputs_of(p.N)
    local function call() return (causal_linear_attention(x.B, x.C, x.V, { method = p.method })) end
    local _, _, memory = measured_call(call)
    local yardstick = product_rate()
    local t = btime(call, { seconds = options.seconds, show = false })
    local rate = useful_operations(p.method, p.N) / t.minimum
    return { time = t.minimum, median = t.median, std = t.std, samples = t.samples, memory = memory, rate = rate,
      product_rate = yardstick, share = rate / yardstick,
      token = t.minimum / p.N }
  end,
})

-- ── What came out ──
for _, N in ipairs(options.lengths) do
  local rows = results:where({ N = N })
  local lines = {}
  for i, row in ipairs(rows) do
    local ok = row.status == "ok"
    lines[i] = { method = row.method, time = ok and row.time or row.status, rate = ok and row.rate or "",
      share = ok and row.share or "", token = ok and row.token or "", memory = ok and row.memory or "" }
  end
  print()
  display(text_table(lines, { title = "N = " .. N, columns = {
    { key = "method" },
    { key = "time", unit = "ms", format = cells.scaled(1e3), align = "right" },
    { key = "rate", unit = "GFLOP/s", format = cells.scaled(1e-9), align = "right" },
    { key = "share", title = "of product rate", unit = "%", format = cells.scaled(100, 3), align = "right" },
    { key = "token", title = "per token", unit = "ns", format = cells.scaled(1e9), align = "right" },
    { key = "memory", title = "extra memory", unit = "bytes", align = "right" },
  } }))
end

-- Shorter inputs still come from a cache, so a token of theirs costs less and the slope would show the caches.
local fitted_from = 8192
local growth = {}
for i, name in ipairs(names) do
  local long = results:where(function(row) return row.method == name and row.status == "ok"
    and row.N >= fitted_from end)
  local n, t = {}, {}
  for k, row in ipairs(long) do n[k], t[k] = row.N, row.time end
  growth[i] = { method = name, exponent = #n >= 2 and growth_exponent(n, t) or nil, from = n[1], to = n[#n] }
end
print()
display(text_table(growth, { title = "Growth exponent: the slope of log time on log N, for N >= " .. fitted_from,
  columns = { "method", { key = "exponent", format = "%.3f" }, "from", "to" } }))

local at = results:where({ N = 8192, status = "ok" })
table.sort(at, function(a, b) return a.time < b.time end)
if at[1] then
  print(string.format("\nFastest at N = 8192: %s, %.1f GFLOP/s of useful operations, %.0f %% of the product rate of "
    .. "%.1f GFLOP/s beside it.", at[1].method, at[1].rate / 1e9, at[1].share * 100, at[1].product_rate / 1e9))
end

local about = string.format("%d heads, r = %d, d = %d", h, r, d)
local time_figure = results:plot("N", "time", { by = "method", xscale = "log", yscale = "log",
  title = "Time of one call, " .. about, xlabel = "length N", ylabel = "seconds" })
print()
display(time_figure)
time_figure:save(options.save .. "/time.svg")
results:plot("N", "share", { by = "method", xscale = "log",
  title = "Rate of useful operations, as a share of the product rate, " .. about, xlabel = "length N",
  ylabel = "share" }):save(options.save .. "/rate.svg")
print("\n" .. results.folder .. ": rows.jsonl, " .. options.save:match("[^/]+$") .. ".csv, .json, time.svg, rate.svg")
if #wrong > 0 then os.exit(1, true) end
