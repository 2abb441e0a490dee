-- tree, Table 2: decoding time of Llama 3.2 1B with tree and ring attention on two RTX 4090.
--
--   causeway experiments/tree/table2.lua                 a minute; --quick: seconds; --full: five minutes
--
-- The difference of the two columns is set beside the cluster model. Here a small Llama with random weights generates
-- ten tokens with both, its keys and values in two shards; --full also one of the printed size, at the lengths whose
-- prompt is read in minutes.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "tree", name = "table2",
  title = "decoding time of a whole model on two RTX 4090", rules = { device = { "cpu" } },
  differs = "Printed: Llama 3.2 1B, ten tokens after a prefill. Here: the model of the cluster, and a Llama with "
    .. "random weights, small without --full." })
dofile(folder .. "/../lib/decoding_tables.lua")(item, item:printed(), function()
  return { machine = "rtx4090", devices = 2, layers = 16, dim = 64 }
end, { size = "1b", shards = 2 })
item:finish()
