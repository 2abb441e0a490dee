-- Tables 7 and 8 of leet: wall times of whole models by method, batch 1 and 2.
--   wall_times(item, sizes)     sizes: of each mode {arch =, size =, layers =, length =}, length being that of a prompt
--
-- Measured: the time in which the model reads prompts of random tokens, for a hundred of them. The document kept two
-- layers of its models; so is done here with their widths. What it says of its own cells is recomputed. On a GPU the
-- prompts are those of --full.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local verdicts, models = dofile(folder .. "/verdicts.lua"), dofile(folder .. "/model_runner.lua")
local with_quartiles = dofile(folder .. "/cells.lua").with_quartiles

local prompts = 100

-- What stands at `batch` in a list of rows of one method, under `key`; nil where there is no number.
local function number_at(row, key)
  return row and type(row[key]) == "number" and row[key] or nil
end

-- How many methods take less time with two prompts together, of those with both numbers.
local function quicker_together(by, order, key)
  local quicker, of, not_quicker = 0, 0, {}
  for _, method in ipairs(order) do
    local one, two = number_at(by[method][1], key), number_at(by[method][2], key)
    if one then
      of = of + 1
      if two and two < one then quicker = quicker + 1 else not_quicker[#not_quicker + 1] = method end
    end
  end
  return verdicts.whether(quicker > of / 2, string.format("%d of %d methods%s", quicker, of, #not_quicker > 0
    and "; not " .. table.concat(not_quicker, ", ") or ""))
end

local function fastest(rows, key, batch)
  local best
  for _, row in ipairs(rows) do
    if row.batch == batch and number_at(row, key) and not (best and best[key] <= row[key]) then best = row end
  end
  return best and best.method or "none"
end

-- The rows of the table with the times of this machine, and by method and batch.
local function measured_rows(item, what)
  local time_of = models.times(item, { arch = what.arch, size = what.size, layers = what.layers, length = what.length,
    batches = { 1, 2 }, methods = what.methods })
  local rows, by, order = {}, {}, {}
  for i, printed in ipairs(item:printed()) do
    local row = { method = printed.method, batch = printed.batch_size, printed = printed.avg_time_s,
      std = printed.std_s }
    local name = row.method == "Original" and "own" or models.method_of[row.method]
    local time = name and time_of(name, row.batch) or "LA has one form " .. (item.options.device == "gpu"
      and "in a model" or "on the CPU")
    if type(time) == "table" then
      local scale = prompts / row.batch
      row.here, row.lower, row.upper = time.seconds * scale, time.lower * scale, time.upper * scale
      row.samples, row.attention = time.samples, time.attention and 100 * time.attention
    else
      row.here, row.lower, row.upper, row.samples = time, "–", "–", 0
    end
    rows[i] = row
    if not by[row.method] then
      by[row.method] = {}
      order[#order + 1] = row.method
    end
    by[row.method][row.batch] = row
    local own = by.Original[row.batch]
    row.printed_share = number_at(row, "printed") and row.printed / own.printed or "–"
    row.share = number_at(row, "here") and number_at(own, "here") and row.here / own.here or "–"
  end
  return rows, by, order
end

return function(item, sizes)
  local what = models.size(item, sizes)
  what.methods = { "own" }
  for _, row in ipairs(item:printed()) do
    local name = models.method_of[row.method]
    if name and row.batch_size == 1 then what.methods[#what.methods + 1] = name end
  end
  local rows, by, order = measured_rows(item, what)
  local about = models.title(what)
  item:table(rows, { title = string.format("Seconds for %d prompts; here: %s, %d tokens a prompt", prompts, about,
    what.length), columns = { "method", { key = "batch", align = "right" }, { key = "printed", align = "right" },
    { key = "here", format = "%.3g", align = "right" },
    { key = "printed_share", title = "÷ Original", format = "%.3g", align = "right" },
    { key = "share", title = "here", format = "%.3g", align = "right" } } })
  item:table(rows, { title = "Every cell", columns = with_quartiles({ "method", { key = "batch", align = "right" },
    { key = "printed", align = "right" }, { key = "std", align = "right" },
    { key = "here", format = "%.3g", align = "right" } }) }, true)
  local shares = {}
  for _, row in ipairs(rows) do
    if row.batch == 1 and row.attention then shares[#shares + 1] = row end
  end
  item:table(shares, { title = "Attention in the operations of the model, " .. about, columns = { "method",
    { key = "attention", unit = "%", format = "%.2f", align = "right" } },
    note = "counted; the rest are products with weights: the less attention is, the nearer are the methods' times" })
  local together = quicker_together(by, order, "printed")
  item:judge("batch 2 mostly takes less time", "count", together, "I10")
  item:judge("batch 2 mostly takes less time here", "time", quicker_together(by, order, "here"))
  local cells = {}
  for i, row in ipairs(rows) do
    cells[i] = { method = row.method, N = row.batch, ours = row.here, printed = row.printed,
      lower = number_at(row, "lower"), upper = number_at(row, "upper") }
  end
  models.judge_times(item, cells, what)
  item:tell(string.format("Fastest of the printed cells: %s with batch 1, %s with batch 2; here %s and %s.",
    fastest(rows, "printed", 1), fastest(rows, "printed", 2), fastest(rows, "here", 1), fastest(rows, "here", 2)))
end
