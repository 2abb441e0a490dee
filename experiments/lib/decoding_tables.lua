-- Tables 1 and 2 of the tree document: decoding times of whole models with tree and ring attention.
--   decoding_tables(item, rows, cluster)    cluster(row) -> {machine =, devices =, layers =, dim =}, of the model
--
-- Cells of a whole model wait for the model runner. What the tables say of the two algorithms is recomputed from the
-- cells, and the part of the difference that moving keys and values explains is that of the cluster model: ten tokens,
-- the same prefill in both columns, p shifts of the ring (the document's footnote 2).
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local verdicts, reference = dofile(folder .. "/verdicts.lua"), dofile(folder .. "/reference.lua")

return function(item, rows, cluster)
  local reason = item:model_runner("decoding times of the whole model")
  local lines, rounded, faster, cells = {}, 0, 0, {}
  for i, row in ipairs(rows) do
    local N = reference.tokens(row.sequence_length_tokens_as_printed or row.sequence_length_tokens)
    local c = cluster(row)
    local function step(method, more)
      local o = { method = method, cluster = c.machine, shards = c.devices, length = N, heads = 32, dim = c.dim }
      for name, value in pairs(more) do o[name] = value end
      return decode_model(o).time
    end
    local modelled = 10 * c.layers * (step("ring", { home = true }) - step("tree", { algorithm = 3 }))
    local ratio = row.ring_time_s / row.tree_time_s
    if math.floor(ratio + 0.5) == row.speedup_printed_x then rounded = rounded + 1 end
    if ratio > 1 then faster = faster + 1 end
    local difference = row.ring_time_s - row.tree_time_s
    cells[#cells + 1] = { N = N, method = row.hardware, ours = modelled, printed = difference }
    lines[i] = { N = N, hardware = row.hardware, tree = row.tree_time_s, ring = row.ring_time_s,
      speedup = row.speedup_printed_x, ratio = ratio, difference = difference, model = modelled,
      shift = (difference - modelled) / (10 * c.layers * c.devices) * 1e3, here = reason }
  end
  item:table(lines, { title = "Seconds, printed; ring less tree, printed and modelled; and here", columns = {
    { key = "N", align = "right" }, "hardware", { key = "tree", format = "%.2f" }, { key = "ring", format = "%.2f" },
    { key = "speedup", title = "speedup" }, { key = "ratio", title = "ring ÷ tree", format = "%.2f" },
    { key = "difference", title = "ring less tree", format = "%.2f" }, { key = "model", format = "%.2f" },
    { key = "shift", title = "ms a shift", format = "%.2f" }, "here" },
    note = "ms a shift: printed less model, for each of the ring's shifts" })
  item:judge("the printed speedups are ring ÷ tree, rounded", "count", verdicts.equal(rounded, #rows, "rows"), "I12")
  item:judge("tree attention is the faster one", "count", verdicts.equal(faster, #rows, "rows"), "H23")
  local by, order = {}, {}
  for _, cell in ipairs(cells) do
    if not by[cell.method] then
      by[cell.method] = { x = {}, printed = {}, ours = {} }
      order[#order + 1] = cell.method
    end
    local list = by[cell.method]
    list.x[#list.x + 1], list.printed[#list.printed + 1], list.ours[#list.ours + 1] = cell.N, cell.printed, cell.ours
  end
  local curves = { xscale = "log", yscale = "log", xlabel = "length N", ylabel = "seconds",
    title = "Ring less tree, printed and modelled" }
  for _, hardware in ipairs(order) do
    local list = by[hardware]
    item:judge("ring less tree grows with the length as the model says, " .. hardware, "count",
      verdicts.same_exponent(verdicts.fit(list.x, list.ours), verdicts.fit(list.x, list.printed)), "H20")
    curves[#curves + 1] = { x = list.x, y = list.ours, label = hardware .. ", model" }
    curves[#curves + 1] = { x = list.x, y = list.printed, label = hardware .. ", printed", style = "points",
      like = hardware .. ", model" }
  end
  item:figure(curves)
end
