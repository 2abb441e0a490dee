-- leet, Table 1: the methods and their time as a function of the length.
--
--   causeway experiments/leet/table1.lua                seconds; --quick and --full change nothing
--
-- Printed: orders of growth. Here: operations counted, the same on every machine.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "leet", name = "table1",
  title = "methods and their time", rules = { device = { "cpu" } },
  differs = "Printed: orders of growth. Here: operations counted, the same on every machine." })
local names = { vanilla = "vanilla", ["causal-dot-product"] = "causal-dot-product", ["block-based"] = "block-based",
  recursion = "recursion", ["lightningAttention-2"] = "lightning-attention-2", FleetAttention = "fleet" }
local claims = { recursion = "C1", ["lightningAttention-2"] = "B2" }
local list = {}
for i, row in ipairs(item:printed()) do
  local label = row.computation_method
  list[i] = { label = label, name = names[label], stated = row.time_complexity, claim = claims[label] or "B1" }
end
dofile(folder .. "/../lib/complexity.lua").rows(item, list)
item:finish()
