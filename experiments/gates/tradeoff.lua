-- gates: the chunk length as a knob between the recurrent and the parallel form, by counted operations.
--
--   causeway experiments/gates/tradeoff.lua                seconds; --quick and --full change nothing
--
--   --length 256                    tokens, one head of 16; a power of two
--
-- The document: O(n C d + n d²) with chunks of C tokens, fully recurrent at C = 1, fully parallel at C = n. What the
-- clock says of it, which has its optimum between them, is experiments/gates/chunk.lua.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "gates", name = "tradeoff",
  title = "the chunk length between recurrent and parallel", options = { length = 256 },
  rules = { device = { "cpu" }, length = { 32 } },
  differs = "By counted operations; experiments/gates/chunk.lua has the times." })
local n, d = item.options.length, 16
if n & (n - 1) ~= 0 then exit(2, string.format("--length: %d, expected a power of two", n)) end

local function count(update, mode, chunk)
  seed(1)
  local k = randn(1, 1, n, d)
  local x = { q = randn(1, 1, n, d), k = k / sqrt(sum(times(k, k), 4)), v = randn(1, 1, n, d), mode = mode,
    chunk = chunk, update = update }
  if update == "delta" then x.beta = rand(1, 1, n) end
  return opcount(function() linear_attention(x) end).adds
end

local chunks = {}
local C = 1
while C <= n do
  chunks[#chunks + 1] = C
  C = 2 * C
end
local rows, curves = {}, { xscale = "log", yscale = "log", xlabel = "chunk length C", ylabel = "multiply-adds a token",
  title = string.format("Counted multiply-adds, n = %d, d = %d", n, d) }
local of = {}
for _, update in ipairs({ "linear", "delta" }) do
  local curve = { x = {}, y = {}, label = update }
  of[update] = {}
  for i, chunk in ipairs(chunks) do
    local adds = count(update, "chunkwise", chunk)
    of[update][chunk] = adds
    curve.x[i], curve.y[i] = chunk, adds / n
    rows[i] = rows[i] or { chunk = chunk }
    rows[i][update] = adds / n
  end
  curves[#curves + 1] = curve
end
item:table(rows, { title = "Multiply-adds a token by chunk length", columns = { { key = "chunk",
  title = "C" }, "linear", "delta" } })
item:figure(curves)
local linear = of.linear
-- A chunk reads the state for each token and adds each to it, 2 d² a token, and has C (C + 1) / 2 pairs at 2 d.
local function formula(chunk) return n * (2 * d * d + (chunk + 1) * d) end
local off = 0
for _, chunk in ipairs(chunks) do off = math.max(off, math.abs(linear[chunk] - formula(chunk))) end
item:judge("chunks of C take n (2 d² + (C + 1) d) multiply-adds: O(n C d + n d²)", "count", verdicts.equal(off, 0,
  string.format("largest difference at %d chunk lengths", #chunks)), "F5")
item:judge("operations grow with the chunk: the recurrent end takes the fewest", "count", verdicts.whether(
  linear[1] < linear[2] and linear[chunks[#chunks - 1]] < linear[n], string.format("%d at C = 1, %d at C = %d",
    linear[1], linear[n], n)), "F5")
item:judge("one chunk of all tokens is the parallel form", "count", verdicts.equal(linear[n],
  count("linear", "parallel"), "multiply-adds, of the chunk and of the parallel form"), "F5")
item:finish()
