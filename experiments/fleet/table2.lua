-- fleet, Table 2: accuracy on MMLU with low-rank attention in a part of the layers of a 7B model.
--
--   causeway experiments/fleet/table2.lua                a second; --quick and --full change nothing
--
-- Cells of a whole model wait for the model runner. What the document says of its own cells is recomputed.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "fleet", name = "table2",
  title = "accuracy with low-rank attention in some layers", rules = { device = { "cpu" } },
  differs = "Printed: vicuna-7b on MMLU. Statements about the printed cells are recomputed from them." })
local subjects = { "stem", "humanities", "social_science", "other" }
local reason = item:model_runner("accuracy of each method")
local rows, by, worst, where, means = {}, {}, 0, "", 0
for i, row in ipairs(item:printed()) do
  rows[i] = { method = row.method, average = row.avg_accuracy_percent, here = reason }
  by[row.method] = row
  local sum = 0
  for _, s in ipairs(subjects) do
    rows[i][s] = row[s .. "_accuracy_percent"]
    sum = sum + row[s .. "_accuracy_percent"] / 4
    local off = by.VanillaAttention[s .. "_accuracy_percent"] - row[s .. "_accuracy_percent"]
    if math.abs(off) > worst then worst, where = math.abs(off), row.method .. ", " .. s:gsub("_", " ") end
  end
  means = math.max(means, math.abs(sum - row.avg_accuracy_percent))
end
item:table(rows, { title = "Accuracy in %, printed, and here", columns = { "method", "stem", "humanities",
  { key = "social_science", title = "social science" }, "other", "average", "here" } })
item:judge("the averages are the means of the four subjects", "count", verdicts.whether(means <= 0.0501,
  string.format("largest difference %.3f", means)), "I1")
item:judge("low-rank attention is within 5 % of vanilla, in points", "count", verdicts.whether(worst <= 5,
  string.format("largest difference %.1f points (%s)", worst, where)), "I1")
item:finish()
