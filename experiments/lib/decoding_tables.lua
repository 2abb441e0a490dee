-- Tables 1 and 2 of the tree document: decoding times of whole models with tree and ring attention.
--   decoding_tables(item, rows, cluster, llama)    cluster(row) -> {machine =, devices =, layers =, dim =}; llama:
--                                                  {size =, shards =} of the printed model and its devices
--
-- What the tables say of the two algorithms is recomputed from the cells, and the part of the difference that moving
-- keys and values explains is that of the cluster model: ten tokens, the same prefill in both columns, p shifts of the
-- ring (the document's footnote 2). Here a Llama with random weights generates ten tokens, its keys and values in
-- shards of one memory, a worker a thread: a small one, and with --full the printed one at the lengths that fit. What
-- the printed one took on several GPUs stands beside it, as experiments/data/measured keeps it.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local verdicts, reference = dofile(folder .. "/verdicts.lua"), dofile(folder .. "/reference.lua")
local models, with_quartiles = dofile(folder .. "/model_runner.lua"), dofile(folder .. "/cells.lua").with_quartiles
local available_memory = dofile(folder .. "/available_memory.lua")

-- The printed models: parameters, and scalars of keys and values a token.
local llamas = {
  ["1b"] = { parameters = 1235814400, cached = 2 * 16 * 8 * 64 },
  ["8b"] = { parameters = 8030261248, cached = 2 * 32 * 8 * 128 },
}
local most_operations = 3e13 -- of a prompt that --full reads: about ten minutes on two cores

-- Why the printed model does not run here at a length; nil where it does.
local function reason_without(item, size, N)
  local printed = llamas[size]
  local needs, free = 2.0 * printed.parameters + 4.0 * printed.cached * N, available_memory()
  if needs > free then return string.format("OOM (%s of %s)", bytes_text(needs), bytes_text(free)) end
  local operations = 2.0 * printed.parameters * N
  if operations > most_operations then return string.format("the prompt takes %.0e operations", operations) end
  if item.mode ~= "full" then return "left to --full" end
end

-- Times of a model here, shown and judged.
local function measure(item, what)
  local rows, cells = models.decoding(item, what)
  local ratios, x, differences = {}, {}, {}
  for _, row in ipairs(rows) do
    row.ratio = "–"
    if type(row.tree) == "number" and type(row.ring) == "number" then
      row.ratio = row.ring / row.tree
      ratios[#ratios + 1] = row.ratio
      if row.ring > row.tree then x[#x + 1], differences[#differences + 1] = row.N, row.ring - row.tree end
    end
  end
  local about = models.title(what)
  item:table(rows, { title = string.format("Seconds for ten tokens here: %s, %d shards", about, what.shards),
    columns = { { key = "N", align = "right" }, { key = "tree", digits = 3 }, { key = "ring", digits = 3 },
      { key = "ratio", title = "ring ÷ tree", format = "%.2f" } },
    note = "without the prompt: what eleven tokens take less what one takes" })
  item:table(cells, { title = "Every cell, " .. about, columns = with_quartiles({ "method",
    { key = "N", align = "right" }, { key = "time", title = "seconds", format = "%.3g", align = "right" } }) }, true)
  item:judge("tree attention is the faster one here, " .. about, "time",
    verdicts.always_faster(ratios, "lengths"), "H23")
  item:judge("ring less tree grows in proportion to the length here, " .. about, "time",
    verdicts.exponent_is(verdicts.fit(x, differences), 1), "H20")
end

-- The printed model on several GPUs, as it was measured.
local function show_on_gpus(item, size)
  local rows = {}
  for _, row in ipairs(load(folder .. "/../data/measured/sharded_model.csv")) do
    if row.size == size then
      row.ratio = row.ring / row.tree
      rows[#rows + 1] = row
    end
  end
  item:table(rows, { title = string.format("Seconds for ten tokens on several GPUs over NCCL: llama %s, random weights "
    .. "in BFloat16, measured before", size),
    columns = { { key = "tokens", title = "N", align = "right" }, "machine", { key = "tree", format = "%.4f" },
      { key = "ring", format = "%.4f" }, { key = "ratio", title = "ring ÷ tree", format = "%.2f" },
      { key = "alone", title = "one GPU alone", format = "%.4f" }, "date", "command" } })
end

return function(item, rows, cluster, llama)
  local fitting = {}
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
      shift = (difference - modelled) / (10 * c.layers * c.devices) * 1e3,
      here = reason_without(item, llama.size, N) or "below" }
    if lines[i].here == "below" then fitting[#fitting + 1] = N end
  end
  item:table(lines, { title = "Seconds, printed; ring less tree, printed and modelled; whether here", columns = {
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
  show_on_gpus(item, llama.size)
  measure(item, { arch = "llama", size = "tiny", shards = llama.shards, lengths = ({ quick = { 256, 512, 1024 },
    standard = { 512, 1024, 2048, 4000 }, full = { 512, 1024, 2048, 4000 } })[item.mode] })
  if #fitting > 0 then
    measure(item, { arch = "llama", size = llama.size, shards = llama.shards, lengths = fitting })
  end
end
