-- tree: the figures quoted in the running text, judged by its own tables, by counts and by the cluster model.
--
--   causeway experiments/tree/quoted.lua                a second; --quick and --full change nothing
--
-- What the authors ran is listed and not judged; figures of the model take the links that the document states.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "tree", name = "quoted",
  title = "figures of the text", rules = { device = { "cpu" } },
  differs = "Speedups of tables are recomputed from their cells; times of the example from the stated links." })

-- The largest ring ÷ tree of the cells that fit, and how many there are.
local function speedup(name, fits)
  local most, least, count = 0, math.huge, 0
  for _, row in ipairs(item:printed(name)) do
    if fits(row) then
      local ratio = row.ring_time_s / row.tree_time_s
      most, least, count = math.max(most, ratio), math.min(least, ratio), count + 1
    end
  end
  return most, least, count
end
local function on(hardware) return function(row) return not hardware or row.hardware:find(hardware, 1, true) end end

-- "Up to x" is the largest ratio of the cells, rounded.
local function up_to(name, hardware)
  return function(printed)
    local most, _, count = speedup(name, on(hardware))
    return "count", verdicts.whether(math.floor(most + 0.5) == printed, string.format("largest ring ÷ tree of %d "
      .. "cells: %.2f", count, most)), "H23"
  end
end

local set_up = "what they ran it on"
local tokens, gpus, hidden = item:quoted("latency_example_context"), item:quoted("latency_example_gpus"),
  item:quoted("latency_example_hidden")
local shard = 2 * tokens // gpus * hidden * item:quoted("latency_example_dtype_bytes")
local one_way = item:quoted("nvlink4_bandwidth") * 1e9 / 2
local memory_rate = 3.35e12 -- of an H100, bytes a second

-- A time stated as an order of magnitude: within a factor of √10 of it.
local function same_order_of_magnitude(seconds, printed, how)
  return verdicts.whether(math.abs(math.log(seconds / printed, 10)) <= 0.5, string.format("%s: %s", how,
    seconds_text(seconds)), seconds)
end

local function ratio_of_memory()
  local N, heads = 128000, 16
  local function memory(method)
    return decode_model{ method = method, shards = 2, length = N, heads = heads, dim = 128 }.memory
  end
  return memory("ring") / memory("tree")
end

dofile(folder .. "/../lib/quoted.lua")(item, {
  seq_len_for_x8_speedup = set_up, gpus_for_x8_speedup = set_up, cluster_nodes = set_up, gpus_per_node = set_up,
  nvlink4_bandwidth = set_up, infiniband_ndr_per_gpu = set_up, latency_test_heads = set_up,
  latency_test_head_dim = set_up, relative_time_reference_seq_len = set_up, gpus_one_node = set_up,
  gpus_eight_nodes = set_up, gpus_sixteen_nodes = set_up, latency_example_context = set_up,
  latency_example_gpus = set_up, latency_example_hidden = set_up, latency_example_dtype_bytes = set_up,
  llama_decoded_tokens = set_up, llama_gpus_h100 = set_up, trial_runs = set_up,
  max_speedup_vs_ring = "see Figure 3", speedup_at_128_gpus_5p12M_tokens = "see Figure 3",
  memory_gap_hidden_2048 = "see Figure 4", memory_gap_hidden_4096 = "see Figure 4",
  max_speedup_llama31_8b = up_to("table1"),
  llama_max_speedup_h100 = up_to("table1", "H100"),
  llama_max_speedup_mi300x = up_to("table1", "MI300X"),
  peak_memory_reduction_vs_ring = function(printed)
    local ratio = ratio_of_memory()
    return "count", verdicts.near(ratio, printed, 0.01), "H13"
  end,
  ring_memory_growth_vs_tree = function(printed)
    local ratio = ratio_of_memory()
    return "count", verdicts.near(ratio, printed, 0.01), "H13"
  end,
  node_injection_bandwidth = function(printed)
    local links = item:quoted("gpus_per_node") * item:quoted("infiniband_ndr_per_gpu") / 1000
    return "count", verdicts.near(links, printed, 1e-9)
  end,
  latency_example_flash_attention_time = function(printed)
    return "count", same_order_of_magnitude(shard / memory_rate, printed, "keys and values of a device read once at "
      .. "3.35 TB/s"), "H20"
  end,
  latency_example_kv_move_time = function(printed)
    return "count", same_order_of_magnitude(shard / one_way, printed, "moved once at 450 GB/s, one way"), "H20"
  end,
  llama_gpus_mi300x = function(printed)
    local count = tonumber(item:printed("table1")[2].hardware:match("^%d+"))
    return "count", verdicts.equal(count, printed, "of Table 1"), "H23"
  end,
  llama_speedup_range_low = function(printed)
    local _, least, count = speedup("table1", on(nil))
    return "count", verdicts.whether(math.floor(least + 0.5) >= printed, string.format("least ring ÷ tree of %d cells: "
      .. "%.2f", count, least)), "H23"
  end,
  llama_speedup_range_high = function(printed)
    local one, two = speedup("table1", on(nil)), speedup("table2", on(nil))
    return "count", verdicts.whether(math.floor(math.max(one, two) + 0.5) <= printed, string.format("largest ring ÷ "
      .. "tree: %.2f in Table 1, %.2f in Table 2", one, two)), "H23"
  end,
  rtx4090_speedup_low = function(printed)
    local _, least, count = speedup("table2", on(nil))
    return "count", verdicts.equal(math.floor(least + 0.5), printed, string.format("least of %d cells, rounded",
      count)),
      "I12"
  end,
  rtx4090_speedup_high = up_to("table2"),
})
item:finish()
