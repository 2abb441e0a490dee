-- leet, Table 7: wall time of TransNormerLLM-7B over 100 prompts, by each method, batch 1 and 2.
--
--   causeway experiments/leet/table7.lua                a second; --quick and --full change nothing
--
-- Cells of a whole model wait for the model runner. What the document says of its own cells is recomputed.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "leet", name = "table7",
  title = "wall time of TransNormerLLM-7B", rules = { device = { "cpu" } },
  differs = "Printed: TransNormerLLM-7B over 100 prompts of 6k to 8k tokens on an A6000." })
dofile(folder .. "/../lib/wall_times.lua")(item)
item:finish()
