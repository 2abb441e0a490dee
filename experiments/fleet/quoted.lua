-- fleet: the figures quoted in the running text, judged by its own tables, by formulas of memory and by counts.
--
--   causeway experiments/fleet/quoted.lua                a second; --quick and --full change nothing
--
-- Lengths at which memory runs out are judged by what a method has to hold on a GPU of 48 GB, at 32 heads of width 128
-- in Float32: B, C, V and O, and what its algorithm adds.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "fleet", name = "quoted",
  title = "figures of the text", rules = { device = { "cpu" } },
  differs = "Memory is by formula, on the document's GPU of 48 GB; k is 1024." })
local reference = dofile(folder .. "/../lib/reference.lua")
local heads, width, room = 32, 128, 48e9

-- Bytes of the four tensors and of `extra` scalars a head.
local function bytes(N, extra) return 4 * heads * (4 * N * width + extra) end

-- It runs out beyond a length: there is room for it, and none for twice of it.
local function runs_out(text, extra)
  local N = reference.tokens(text, 1024)
  local here, beyond = bytes(N, extra(N)), bytes(2 * N, extra(2 * N))
  return verdicts.whether(here <= room and beyond > room, string.format("by formula %.1f GB at %s, %.1f GB at "
    .. "twice of it", here / 1e9, text, beyond / 1e9), beyond)
end

local set_up = "what they ran it on"
dofile(folder .. "/../lib/quoted.lua")(item, {
  gpu_memory = set_up, seq_len_min = set_up, seq_len_max = set_up, repetitions = set_up, dim = set_up, heads = set_up,
  batch = set_up, mmlu_longest_prompt = set_up, mmlu_max_sequence_length = set_up, replaced_layers = set_up,
  mmlu_shots = set_up, throughput_prompt_length_low = set_up, throughput_prompt_length_high = set_up,
  fleet_fastest_beyond = "see Figure 2",
  recursion_base_length_below = function(length)
    for _, m in ipairs(method_list()) do
      if m.name == "recursion" then return "count", verdicts.equal(m.block, length, "longest base case"), "C4" end
    end
  end,
  -- Scores, and their product with the mask.
  oom_length_vanilla = function(text) return "count", runs_out(text, function(N) return 2 * N * N end), "B1" end,
  oom_length_lightning_attention_2 = function(text)
    return "count", runs_out(text, function(N)
      return cost("lightning-attention-2", { N = N, r = width, d = width }).memory
    end), "B2"
  end,
  oom_length_causal_dot_product = function(text)
    return "count", runs_out(text, function(N)
      return cost("causal-dot-product", { N = N, r = width, d = width }).memory
    end), "B1"
  end,
  -- O1, O2 and O3 before they are put together.
  oom_length_recursion = function(text)
    return "count", runs_out(text, function(N) return (N + N // 2) * width end), "B1"
  end,
  max_length_fleet = function(text)
    local N = reference.tokens(text, 1024)
    local here = bytes(N, cost("fleet", { N = N, r = width, d = width }).memory)
    return "count", verdicts.whether(here <= room, string.format("by formula %.1f GB of %d GB", here / 1e9,
      room / 1e9)),
      "B1"
  end,
  accuracy_margin = function(margin)
    local worst, vanilla = 0, nil
    for _, row in ipairs(item:printed("table2")) do
      vanilla = vanilla or row
      for name, value in pairs(row) do
        if name ~= "method" then worst = math.max(worst, math.abs(value - vanilla[name]) / vanilla[name] * 100) end
      end
    end
    return "count", verdicts.whether(worst <= margin, string.format("relative to vanilla, in the printed cells: up to "
      .. "%.1f %%; in points up to 4.9", worst)), "I1"
  end,
})
item:finish()
