-- fleet, Table 1: the methods, whether they serve general low-rank attention, and their time.
--
--   causeway experiments/fleet/table1.lua                seconds; --quick and --full change nothing
--
-- Printed: orders of growth and ticks. Here: operations counted, and every method run on factors of both signs that are
-- not any kernel's; both are the same on every machine.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "fleet", name = "table1",
  title = "methods, their time, and what they serve",
  rules = { device = { "cpu" } },
  differs = "Printed: orders of growth and ticks. Here: operations counted, and methods run on general factors." })
local names = { vanilla = "vanilla", ["causal-dot-product"] = "causal-dot-product", ["row-based"] = "row-based",
  ["block-based"] = "block-based", recursion = "recursion", ["Lightning Attention-2"] = "lightning-attention-2",
  FleetAttention = "fleet" }
local claims = { recursion = "C1", ["Lightning Attention-2"] = "B2" }
local list = {}
for i, row in ipairs(item:printed()) do
  local label = row.low_rank_computation_method
  list[i] = { label = label, name = names[label], stated = row.time_complexity, claim = claims[label] or "B1",
    general = row.general_low_rank_attention }
end
dofile(folder .. "/../lib/complexity.lua").rows(item, list)

seed(1)
local B, C, V = randn(1, 2, 200, 8), randn(1, 2, 200, 8), randn(1, 2, 200, 24)
local reference, rows = causal_oracle(B, C, V), {}
for i, m in ipairs(list) do
  local off = relative_error(causal_linear_attention(B, C, V, { method = m.name }), reference)
  local general = off <= 1e-5
  rows[i] = { label = m.label, printed = m.general, here = general and "yes" or "no", error = off }
  item:judge(m.label .. ": for general low-rank attention, " .. m.general, "count",
    verdicts.whether((m.general == "yes") == general, string.format("error %.1e on factors of both signs", off)), "B9")
end
item:table(rows, { title = "For general low-rank attention?", columns = { { key = "label", title = "method" },
  { key = "printed" }, "here", { key = "error", format = "%.1e", align = "right" } },
  note = "error: relative to the Float64 definition, r = 8, d = 24, N = 200, normal factors" })
item:finish()
