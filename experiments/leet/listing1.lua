-- leet, Listing 1: a method of one's own in the benchmark of the library.
--
--   causeway experiments/leet/listing1.lua                some minutes: batch 16, lengths to 2048
--   causeway experiments/leet/listing1.lua --quick        of length 128, some seconds
--
--   --lengths 128,512,2048          of the benchmark
--   --heads 8 --width 64            of the layer, Float32
--
-- The listing passes a function attn(q, k, v, gamma), whose body it leaves to the reader, to benchmark_method with
-- batch_size = 16 and is_weight_decay = True. Here the function is the sum of the definition, a token at a time; a
-- second one forgets the decay, and must be refused.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "leet", name = "listing1",
  title = "a method of one's own in benchmark_method", options = { lengths = { 128, 512, 2048 }, heads = 8,
  width = 64 }, rules = { device = { "cpu" }, lengths = { 1 }, heads = { 1 }, width = { 1 } },
  differs = "The listing leaves the body of attn to the reader; here it is scan, a token at a time." })
local o = item.options
local lengths = {}
for _, N in ipairs(o.lengths) do
  if item.mode ~= "quick" or N <= 128 then lengths[#lengths + 1] = N end
end
if #lengths == 0 then lengths = { o.lengths[1] } end
local gamma = retnet_decay(o.heads)
local per_head = {}
for h = 1, o.heads do per_head[h] = gamma(h) end

-- O of the recurrence S ← γ S + k vᵀ, o = Sᵀ q.
local function attn(q, k, v, options)
  local b, h, N, r, d = q:size(1), q:size(2), q:size(3), q:size(4), v:size(4)
  local decay = zeros(1, h, N)
  for i = 1, h do decay:set(options.decay and per_head[i] or 1, ":", i) end
  return (scan{ inputs = { q = q, k = k, v = v, g = decay }, state = zeros(b, h, r, d), step = function(S, x)
    S = x.g * S + outer(x.k, x.v)
    return x.q * S, S
  end })
end
local function forgets(q, k, v) return attn(q, k, v, {}) end

local function line(name, method)
  local results = benchmark_method(method, { lengths = lengths, batch = 16, heads = o.heads, rank = o.width,
    decay = gamma, repeats = item.mode == "quick" and 3 or 15, show = false, methods = {} })
  local rows = {}
  for i, row in ipairs(results) do
    rows[i] = { method = name, N = row.N, median = row.median or row.message or row.status, std = row.std or "–",
      error = row.error or "–", status = row.status }
  end
  return rows
end
local mine, wrong = line("attn", attn), line("attn without decay", forgets)
local rows = table.move(wrong, 1, #wrong, #mine + 1, table.move(mine, 1, #mine, 1, {}))
item:table(rows, { title = string.format("benchmark_method(attn, {batch = 16, decay = gamma}), %d heads of %d", o.heads,
  o.width), columns = { "method", { key = "N", align = "right" }, { key = "median", unit = "seconds" }, "std",
  { key = "error", format = "%.1e", align = "right" }, "status" } })
local function all(list, status)
  local n = 0
  for _, row in ipairs(list) do n = n + (row.status == status and 1 or 0) end
  return verdicts.whether(n == #list, string.format("%d of %d lengths: %s", n, #list, status))
end
item:judge("a method of one's own is timed beside a reference", "count", all(mine, "ok"))
item:judge("a method that forgets the decay is refused", "count", all(wrong, "wrong"))
item:finish()
