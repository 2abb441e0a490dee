-- The general rule S ← (diag(a) - u wᵀ) S + k vᵀ in chunks against its definition: microseconds of processor time a
-- token and head, what part of the product rate both reach, and how much faster chunks could be at most.
--
--   CAUSEWAY_THREADS=1 causeway experiments/gates/general.lua    half a minute, on a machine that does little else
--
--   --tokens 8192 --d 64,128     one head, d_k = d_v = d
--   --chunk 24                   tokens in a chunk
--   --rounds 5                   of which the least is printed
--   --seed 1
--
-- A token of one query head takes 4 d² multiply-adds with the state in either form: what w and q read, what u takes out
-- and k adds; the definition d² more where a is given, chunks of c tokens some 4 c d. Chunks alone are products of
-- matrices, so that 4 d² over the product rate is the least time they could take.
local options = dofile((arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../lib/arguments.lua")(arg, {
  tokens = 8192, d = { 64, 128 }, chunk = 24, rounds = 5, seed = 1,
}, { tokens = { 1 }, d = { 1 }, chunk = { 1 }, rounds = { 1 }, seed = { 0 } })
if threads() > 1 then exit(2, string.format("%d threads, expected CAUSEWAY_THREADS=1: times are of one", threads())) end
local N = options.tokens
seed(options.seed)

local function seconds(f)
  local least = math.huge
  for _ = 0, options.rounds do -- the first one warms up
    local start = os.clock()
    f()
    least = math.min(least, os.clock() - start)
  end
  return least
end

-- Multiply-adds a second of the product of two matrices: each call measures again and returns the most so far, since
-- what else runs slows the one as it slows the other.
local function product_rate_of(to)
  local n, most = 128, 0
  local A, B = to(randn(n, n)), to(randn(n, n))
  return function()
    most = math.max(most, n ^ 3 / seconds(function() return A * B end))
    return most
  end
end

local kinds = {
  { name = "none", of = function() end, passes = 4 },
  { name = "a head", of = function() return rand(1, 1, N) * 0.1 + 0.9 end, passes = 5 },
  { name = "a channel", of = function(d) return rand(1, 1, N, d) * 0.1 + 0.9 end, passes = 5 },
}
local rows = {}
print(machine())
for _, to in ipairs({ f32, f64 }) do
  local rate, first = product_rate_of(to), #rows + 1
  for _, d in ipairs(options.d) do
    local function unit(x) return to(x / sqrt(sum(pow(x, 2), 4))) end
    local q, k, v = to(randn(1, 1, N, d)), unit(randn(1, 1, N, d)), to(randn(1, 1, N, d))
    local u, w = unit(randn(1, 1, N, d)) * 0.5, unit(randn(1, 1, N, d))
    for _, kind in ipairs(kinds) do
      local given = kind.of(d)
      local a = given and to(given)
      local function time(mode)
        return seconds(function()
          general_linear_attention(q, k, v, { a = a, u = u, w = w, mode = mode, chunk = options.chunk })
        end) / N
      end
      local recurrent, chunkwise = time("recurrent"), time("chunkwise")
      rate()
      rows[#rows + 1] = { type = eltype(q), d = d, a = kind.name, recurrent = recurrent * 1e6,
        share = kind.passes * d ^ 2 / recurrent, chunkwise = chunkwise * 1e6,
        chunk_share = (4 * d ^ 2 + 4 * options.chunk * d) / chunkwise, ratio = recurrent / chunkwise,
        most = recurrent / (4 * d ^ 2) }
    end
  end
  for i = first, #rows do
    local row = rows[i]
    row.share, row.chunk_share = 100 * row.share / rate(), 100 * row.chunk_share / rate()
    row.most = row.most * rate()
  end
  print(string.format("%s: products at %.1f · 10⁹ multiply-adds a second", rows[first].type, rate() / 1e9))
end
display(text_table(rows, {
  title = string.format("the general rule, %d tokens, chunks of %d, one thread", N, options.chunk),
  columns = { { key = "type" }, { key = "d", align = "right" }, { key = "a" },
    { key = "recurrent", title = "recurrent, µs", format = "%.2f" },
    { key = "share", title = "of the rate, %", format = "%.0f" },
    { key = "chunkwise", title = "chunkwise, µs", format = "%.2f" },
    { key = "chunk_share", title = "of the rate, %", format = "%.0f" },
    { key = "ratio", title = "faster", format = "%.1f×" },
    { key = "most", title = "at most", format = "%.1f×" } } }))
