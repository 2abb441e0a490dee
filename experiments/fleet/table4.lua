-- fleet, Table 4: throughput of a whole model on random tokens, prompts of 2k to 3k, by each method.
--
--   causeway experiments/fleet/table4.lua                a second; --quick and --full change nothing
--
-- Cells of a whole model wait for the model runner; the document gives no unit. What it says of its own cells is
-- recomputed.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "fleet", name = "table4",
  title = "throughput of a whole model", rules = { device = { "cpu" } },
  differs = "Printed: a GPT on an A6000, without a unit." })
local reason = item:model_runner("throughput of each method")
local rows, best = {}, nil
for i, row in ipairs(item:printed()) do
  rows[i] = { method = row.method, printed = row.throughput_unit_not_stated, here = reason }
  if not best or rows[i].printed > best.printed then best = rows[i] end
end
item:table(rows, { title = "Throughput", columns = { "method", "printed", "here" } })
item:judge("FleetAttention has the highest of the printed throughputs", "count",
  verdicts.whether(best.method == "FleetAttention", string.format("%s, %d", best.method, best.printed)), "I1")
item:finish()
