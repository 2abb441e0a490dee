-- gates: the parallel, the recurrent and the chunkwise view of linear attention are one function, at the stated costs.
--
--   causeway experiments/gates/views.lua                seconds; --quick and --full change nothing
--
--   --length 192                    tokens of the comparison, 2 heads of 16; counts go to 1024
--
-- The document states formulas and orders of growth. Each view is compared with the recurrence in Float64, and its
-- operations are counted: the same on every machine.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "gates", name = "views",
  title = "three views of one function, and their cost", options = { length = 192 },
  rules = { device = { "cpu" }, length = { 2 } },
  differs = "The document states formulas and orders of growth; operations are counted, the same on every machine." })
local N, d = item.options.length, 16
local modes = { "parallel", "recurrent", "chunkwise" }

local function problem(heads, n)
  seed(1)
  return { q = randn(1, heads, n, d), k = randn(1, heads, n, d), v = randn(1, heads, n, d) }
end

local function count(mode, n, chunk)
  local x = problem(1, n)
  x.mode, x.chunk = mode, chunk
  return opcount(function() linear_attention(x) end).adds
end

-- ── One function ──
local x = problem(2, N)
local reference = (linear_attention{ q = f64(x.q), k = f64(x.k), v = f64(x.v), mode = "recurrent" })
local rows = {}
local stated = { parallel = 2, recurrent = 1, chunkwise = 1 }
for i, mode in ipairs(modes) do
  x.mode, x.chunk = mode, nil
  local off = relative_error((linear_attention(x)), reference)
  item:judge("the " .. mode .. " view is the same function", "count", verdicts.whether(off <= 1e-5,
    string.format("error %.1e in Float32", off)), "F4")
  local lengths, counts = { 128, 256, 512, 1024 }, {}
  for k, n in ipairs(lengths) do counts[k] = count(mode, n) end
  local fit = verdicts.fit(lengths, counts)
  item:judge(string.format("the %s view takes O(N%s) operations", mode, stated[mode] == 2 and "²" or ""), "count",
    verdicts.exponent_is(fit, stated[mode]), "F5")
  rows[i] = { view = mode, error = off, growth = fit.exponent, per_token = counts[#counts] / lengths[#lengths] }
end
item:table(rows, { title = "Views of update = linear", columns = { "view", { key = "error", format = "%.1e" },
  { key = "growth", title = "exponent of N", format = "%.3f" },
  { key = "per_token", title = "multiply-adds a token, N = 1024" } } })
item:judge("a token of the recurrent view costs the same at every length", "count", verdicts.equal(
  count("recurrent", 1024) / 1024, count("recurrent", 128) / 128, "multiply-adds a token at 1024, expected as at "
    .. "128"), "F5")
item:finish()
