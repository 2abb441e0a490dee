-- tree, Table 1: decoding time of Llama 3.1 8B with tree and ring attention on 8 H100 and 4 MI300X.
--
--   causeway experiments/tree/table1.lua                 a minute; --quick: seconds
--
-- The difference of the two columns is set beside the cluster model. Here a small Llama with random weights generates
-- ten tokens with both, its keys and values in eight shards; the printed one needs more memory and operations than a
-- small machine has, and its cells say how much. decoding.lua spreads a model over processes, and on GPUs
-- build/gpu/bench_sharded_model runs the printed one.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "tree", name = "table1",
  title = "decoding time of a whole model on H100 and MI300X",
  rules = { device = { "cpu" } },
  differs = "Printed: Llama 3.1 8B, ten tokens after a prefill. Here: the model of the cluster, and a small Llama." })
dofile(folder .. "/../lib/decoding_tables.lua")(item, item:printed(), function(row)
  return { machine = row.hardware:find("H100") and "h100" or "mi300x", devices = tonumber(row.hardware:match("^%d+")),
    layers = 32, dim = 128 }
end, { size = "8b", shards = 8 })
item:finish()
