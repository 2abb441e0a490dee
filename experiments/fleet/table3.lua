-- fleet, Table 3: accuracy of a linear transformer on MMLU by each exact method.
--
--   causeway experiments/fleet/table3.lua                seconds; --quick and --full change nothing
--
--   --length 1024                   tokens of that layer
--
-- Cells of a whole model wait for the model runner. What the table is to show, that the methods are mathematically
-- equivalent, is measured on one layer: the outputs of all of them beside the Float64 definition.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "fleet", name = "table3",
  title = "accuracy of the exact methods", options = { length = 1024 },
  rules = { device = { "cpu" }, length = { 1 } },
  differs = "Printed: TransNormerLLM2-3B on MMLU. Here: the difference between the methods on one layer." })
local reason = item:model_runner("accuracy of each method")
local N = item.options.length
seed(1)
local B, C, V = randn(1, 2, N, 64), randn(1, 2, N, 64), randn(1, 2, N, 64)
local reference = causal_oracle(B, C, V, { decay = 0.99 })
local names = { FleetAttention = "fleet" }
local rows, worst, accuracies, same = {}, 0, nil, true
for i, row in ipairs(item:printed()) do
  local label = row.low_rank_computation_method
  local O = causal_linear_attention(B, C, V, { method = names[label] or label, decay = 0.99 })
  local off = relative_error(O, reference)
  worst = math.max(worst, off)
  rows[i] = { method = label, stem = row.stem_accuracy_percent, humanities = row.humanities_accuracy_percent,
    social = row.social_sciences_accuracy_percent, other = row.other_accuracy_percent, here = reason, error = off }
  if label ~= "vanilla" then
    local line = string.format("%s %s %s %s", rows[i].stem, rows[i].humanities, rows[i].social, rows[i].other)
    accuracies = accuracies or line
    same = same and line == accuracies
  end
end
item:table(rows, { title = "Accuracy in %, printed, and here; error of one layer", columns = { "method", "stem",
  "humanities", { key = "social", title = "social sciences" }, "other", "here", { key = "error", format = "%.1e" } },
  note = "error: relative to the Float64 definition, decay 0.99" })
item:judge("the printed cells of the five methods are equal", "count", verdicts.whether(same, accuracies), "I1")
item:judge("the methods are mathematically equivalent", "count", verdicts.whether(worst <= 1e-5,
  string.format("largest error %.1e in Float32", worst)), "B7")
item:finish()
