-- fleet, Table 4: throughput of a whole model on random tokens, prompts of 2k to 3k, by each method.
--
--   causeway experiments/fleet/table4.lua                --quick: half a minute; five minutes; --full: four
--   causeway experiments/fleet/table4.lua --device gpu   the prompts of --full
--
-- The document names neither the model nor the unit. Here a TransNormer with random weights reads a prompt of random
-- tokens, and tokens a second are counted: --quick a small one, 256 tokens; otherwise two layers of the width of the 7B
-- model, 512 tokens, with --full 2500. What the document says of its own cells is recomputed.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts, models = dofile(folder .. "/../lib/verdicts.lua"), dofile(folder .. "/../lib/model_runner.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "fleet", name = "table4",
  title = "throughput of a whole model",
  differs = "Printed: a model that is not named, on an A6000, without a unit. Here: tokens a second of a TransNormer "
    .. "with random weights; on a GPU, in Float32, the prompts of --full, and logits of the last token alone, as "
    .. "copying all takes longer than reading." })
local what = models.size(item, {
  quick = { arch = "transnormer", size = "tiny", length = 256 },
  standard = { arch = "transnormer", size = "7b", layers = 2, length = 512 },
  full = { arch = "transnormer", size = "7b", layers = 2, length = 2500 },
})
what.batches, what.methods = { 1 }, {}
local names = { FleetAttention = "fleet" }
for i, row in ipairs(item:printed()) do what.methods[i] = names[row.method] or row.method end

local time_of = models.times(item, what)
local rows, cells, times, best = {}, {}, {}, nil
for i, row in ipairs(item:printed()) do
  local time = time_of(what.methods[i], 1)
  local measured = type(time) == "table"
  rows[i] = { method = row.method, printed = row.throughput_unit_not_stated, here = measured
    and what.length / time.seconds or time, samples = measured and time.samples or 0,
    slow = measured and what.length / time.upper or "–", fast = measured and what.length / time.lower or "–",
    attention = measured and 100 * time.attention or "–" }
  cells[i] = { method = row.method, N = what.length, printed = 1 / rows[i].printed, ours = measured
    and 1 / rows[i].here or time, lower = measured and 1 / rows[i].fast or nil, upper = measured and 1 / rows[i].slow
      or nil }
  if not best or rows[i].printed > best.printed then best = rows[i] end
  times[i] = { method = row.method, time = cells[i].ours }
end
item:table(rows, { title = string.format("Throughput; here: tokens a second, %s, prompts of %d", models.title(what),
  what.length), columns = { "method", { key = "printed", align = "right" },
  { key = "here", format = "%.4g", align = "right" }, { key = "slow", title = "quartile", format = "%.4g" },
  { key = "fast", title = "quartile", format = "%.4g" }, { key = "samples", title = "n", align = "right" },
  { key = "attention", unit = "%", format = "%.1f", align = "right" } },
  note = "attention: its share in the counted operations of the model; the rest are products with weights" })
item:judge("FleetAttention has the highest of the printed throughputs", "count",
  verdicts.whether(best.method == "FleetAttention", string.format("%s, %d", best.method, best.printed)), "I1")
item:judge("FleetAttention has the highest throughput here", "time",
  models.small(what) or verdicts.fastest("FleetAttention", times))
models.judge_times(item, cells, what)
item:finish()
