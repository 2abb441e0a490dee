-- leet, Listing 2: inference in one line without decay, in two with it, and with a method named.
--
--   causeway experiments/leet/listing2.lua                some seconds; --full changes nothing
--   causeway experiments/leet/listing2.lua --quick        1024 tokens
--
--   --length 4096                   as in the listing: 1 batch, 32 heads, rank 128, dim 256, γ = 0.9
--   --heads 32                      heads
--
-- The outputs of the first heads are compared with the Float64 definition.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "leet", name = "listing2",
  title = "inference in one line or two", options = { length = 4096, heads = 32 },
  rules = { length = { 1 }, heads = { 1 } }, differs = "The listing is Python on a GPU; here its three calls in Lua." })
local N, h = item.options.length, item.options.heads
if item.mode == "quick" then N = math.min(N, 1024) end
local gpu = item.options.device == "gpu"
seed(1)
local B, C, V = randn(1, h, N, 128), randn(1, h, N, 128), randn(1, h, N, 256)
if gpu then B, C, V = B:gpu(), C:gpu(), V:gpu() end
local gamma = fill(0.9, h)
local calls = {
  { "causal_linear_attention(B, C, V)", {} },
  { "causal_linear_attention(B, C, V, {decay = gamma})", { decay = gamma } },
  { 'causal_linear_attention(B, C, V, {method = "block-based"})', { method = "block-based" } },
}
local few = math.min(2, h)
local function heads(x) return copy((gpu and x:cpu() or x)(":", { 1, few }, ":", ":")) end
local rows = {}
for i, c in ipairs(calls) do
  local start = clock()
  local O = causal_linear_attention(B, C, V, c[2])
  local seconds = clock() - start
  local off = relative_error(heads(O), causal_oracle(heads(B), heads(C), heads(V), { decay = c[2].decay and 0.9 or 1 }))
  rows[i] = { call = c[1], time = seconds, error = off }
  item:judge(c[1] .. " is right", "count", verdicts.whether(off <= 1e-4, string.format("error %.1e on %d heads", off,
    few)), "B7")
end
item:table(rows, { title = string.format("The three calls, %d heads, N = %d, r = 128, d = 256", h, N), columns = {
  "call", { key = "time", title = "the first call", unit = "seconds" }, { key = "error", format = "%.1e" } } })
item:finish()
