-- leet, Table 7: wall time of TransNormerLLM-7B over 100 prompts, by each method, batch 1 and 2.
--
--   causeway experiments/leet/table7.lua                 --quick: half a minute; ten minutes; --full: 13 on 16 cores
--   causeway experiments/leet/table7.lua --device gpu    the prompts of --full
--
-- A model with random weights reads prompts of random tokens. --quick: the small TransNormer of this repository, 128
-- tokens; otherwise two layers of the width of the 7B model, which is what the document kept of it, with prompts of 512
-- tokens, and with --full of 7000. What the document says of its own cells is recomputed.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "leet", name = "table7",
  title = "wall time of TransNormerLLM-7B",
  differs = "Printed: two layers of TransNormerLLM-7B over 100 prompts of 6k to 8k tokens on an A6000. Here: random "
    .. "weights, shorter prompts without --full, and with --quick a small model; on a GPU, in Float32, the prompts of "
    .. "--full, and logits of the last token alone, as copying all takes longer than reading." })
dofile(folder .. "/../lib/wall_times.lua")(item, {
  quick = { arch = "transnormer", size = "tiny", length = 128 },
  standard = { arch = "transnormer", size = "7b", layers = 2, length = 512 },
  full = { arch = "transnormer", size = "7b", layers = 2, length = 7000 },
})
item:finish()
