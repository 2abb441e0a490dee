-- fleet, Table 3: accuracy of a linear transformer on MMLU by each exact method.
--
--   causeway experiments/fleet/table3.lua                a minute; --quick: seconds; --full: minutes
--
--   --length 1024                   tokens of the layer that is compared beside the model
--
-- What the table is to show, that the methods are mathematically equivalent, is measured twice: on the small
-- TransNormer of this repository, which was trained, each method in the place of its attention in all layers, on four
-- passages of held-out text in which every byte is a question; and on one layer, against the Float64 definition.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts, models = dofile(folder .. "/../lib/verdicts.lua"), dofile(folder .. "/../lib/model_runner.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "fleet", name = "table3",
  title = "accuracy of the exact methods", options = { length = 1024 },
  rules = { device = { "cpu" }, length = { 1 } },
  differs = "Printed: TransNormerLLM2-3B on MMLU. Here: a TransNormer of five million parameters, the next byte of "
    .. "four held-out passages." })
local N = item.options.length
seed(1)
local B, C, V = randn(1, 2, N, 64), randn(1, 2, N, 64), randn(1, 2, N, 64)
local reference = causal_oracle(B, C, V, { decay = 0.99 })
local m = model(item.experiments .. "/data/tiny-transnormer")
local passages = models.passages(item.experiments, m, ({ quick = 512, standard = 1024, full = 4096 })[item.mode])
local before = models.accuracy(m, passages)

local names = { FleetAttention = "fleet" }
local rows, own, worst, accuracies, same = {}, {}, 0, nil, true
local same_here, farthest = true, 0
for i, row in ipairs(item:printed()) do
  local label = row.low_rank_computation_method
  local name = names[label] or label
  local off = relative_error(causal_linear_attention(B, C, V, { method = name, decay = 0.99 }), reference)
  worst = math.max(worst, off)
  rows[i] = { method = label, stem = row.stem_accuracy_percent, humanities = row.humanities_accuracy_percent,
    social = row.social_sciences_accuracy_percent, other = row.other_accuracy_percent }
  m:attention({ with = name })
  local here = models.accuracy(m, passages)
  m:reset()
  own[i] = { method = label, average = here.average, bits = here.bits, error = off }
  for j = 1, #passages do
    own[i]["text" .. j] = here[j]
    same_here = same_here and string.format("%.1f", here[j]) == string.format("%.1f", before[j])
  end
  farthest = math.max(farthest, math.abs(here.bits - before.bits))
  if label ~= "vanilla" then
    local line = string.format("%s %s %s %s", rows[i].stem, rows[i].humanities, rows[i].social, rows[i].other)
    accuracies = accuracies or line
    same = same and line == accuracies
  end
end
item:table(rows, { title = "Accuracy in %, printed", columns = { "method", { key = "stem", format = "%.1f" },
  { key = "humanities", format = "%.1f", align = "right" },
  { key = "social", title = "social sciences", format = "%.1f" }, { key = "other", format = "%.1f" } } })
item:table(own, { title = "Accuracy in %, here, next byte of four texts", columns = { "method",
  { key = "text1", format = "%.1f" }, { key = "text2", format = "%.1f" }, { key = "text3", format = "%.1f" },
  { key = "text4", format = "%.1f" }, { key = "average", format = "%.2f" },
  { key = "bits", title = "bits/byte", format = "%.6f" }, { key = "error", title = "layer", format = "%.1e" } },
  note = string.format("%d bytes in all; layer: error of one layer relative to the Float64 definition, N = %d, decay "
    .. "0.99", before.tokens, N) })
item:judge("the printed cells of the five methods are equal", "count", verdicts.whether(same, accuracies), "I1")
item:judge("the methods are mathematically equivalent", "count", verdicts.whether(worst <= 1e-5,
  string.format("largest error %.1e in Float32", worst)), "B7")
item:judge("the same accuracy with every method in a trained model", "count", verdicts.whether(same_here,
  string.format("%.1f %.1f %.1f %.1f; bits a byte differ by %.0e at most", before[1], before[2], before[3], before[4],
    farthest)), "B7")
item:finish()
