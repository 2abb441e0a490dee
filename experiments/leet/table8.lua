-- leet, Table 8: wall time of toy-retnet-1.3B over 100 prompts, by each method, batch 1 and 2.
--
--   causeway experiments/leet/table8.lua                a second; --quick and --full change nothing
--
-- Cells of a whole model wait for the model runner. What the document says of its own cells is recomputed.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "leet", name = "table8",
  title = "wall time of toy-retnet-1.3B", rules = { device = { "cpu" } },
  differs = "Printed: toy-retnet-1.3B over 100 prompts of 6k to 8k tokens on an A6000." })
dofile(folder .. "/../lib/wall_times.lua")(item)
item:finish()
