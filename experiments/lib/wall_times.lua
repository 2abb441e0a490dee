-- Tables 7 and 8 of leet: wall times of whole models by method, batch 1 and 2. Cells wait for the model runner; what
-- the document says of them, that two prompts together mostly take less time, is recomputed.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local verdicts = dofile(folder .. "/verdicts.lua")

return function(item)
  local reason = item:model_runner("wall time of each method")
  local rows, by, order = {}, {}, {}
  for i, row in ipairs(item:printed()) do
    rows[i] = { method = row.method, batch = row.batch_size, printed = row.avg_time_s, std = row.std_s, here = reason }
    if not by[row.method] then
      by[row.method] = {}
      order[#order + 1] = row.method
    end
    by[row.method][row.batch_size] = row.avg_time_s
  end
  item:table(rows, { title = "Seconds", columns = { "method", { key = "batch", align = "right" },
    { key = "printed", align = "right" }, { key = "std", align = "right" }, "here" } })
  local quicker, not_quicker, best = 0, {}, { nil, nil }
  for _, method in ipairs(order) do
    local one, two = by[method][1], by[method][2]
    if type(two) == "number" and two < one then quicker = quicker + 1 else not_quicker[#not_quicker + 1] = method end
    for batch, time in pairs(by[method]) do
      if type(time) == "number" and not (best[batch] and by[best[batch]][batch] <= time) then best[batch] = method end
    end
  end
  item:judge("batch 2 mostly takes less time", "count", verdicts.whether(quicker > #order / 2,
    string.format("%d of %d methods%s", quicker, #order, #not_quicker > 0 and "; not " .. table.concat(not_quicker,
      ", ") or "")), "I10")
  item:tell(string.format("Fastest of the printed cells: %s with batch 1, %s with batch 2.", best[1], best[2]))
end
