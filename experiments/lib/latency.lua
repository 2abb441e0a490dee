-- Latencies of one layer of causal linear attention, by the methods and lengths of a printed table, beside it.
--
--   latency.options, latency.rules      of the scripts' command lines
--   latency.measure(item, tables)       tables: {batch =, decay =, printed = {{method =, N =, time =}, …}}; returns the
--                                       cells of each: {method, name, N, printed, ours or status, lower, upper, n}
--   latency.show(item, cells, batch, decay)     both tables, all cells, operations a second, and the figure
--   latency.judge(item, cells, batch, decay)    the verdicts
--   latency.with_notes(rows, options)   a table whose reasons are letters, told below it
--   latency.printed_table(arg, name, batch, decay)      all of it, for a table of leet
--
-- A method is compared with the Float64 definition before it is timed, at 300 tokens of the same heads; a wrong one has
-- its error in place of a time. Inputs that would not fit in what memory is free are recorded as OOM before they are
-- made, so that the machine never swaps. A call that would be over the timeout by the growth of the method's times so
-- far is not begun.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local verdicts, timing = dofile(folder .. "/verdicts.lua"), dofile(folder .. "/timing.lua")
local available_memory, measured = dofile(folder .. "/available_memory.lua"), dofile(folder .. "/measured.lua")
local controls = dofile(folder .. "/controls.lua")
local latency = {}

latency.options = { lengths = { 128, 512, 2048, 8192, 12800, 25600, 100000 }, heads = 32, width = 128, seconds = 0.3,
  timeout = 30 }
latency.rules = { lengths = { 1 }, heads = { 1 }, width = { 1 }, seconds = { above = 0 }, timeout = { above = 0 } }

-- How far each mode goes: the most tokens of all sequences together, and seconds on a point.
local modes = {
  quick = { tokens = 8192, longest = 2048, seconds = 0.05, timeout = 30 },
  standard = { tokens = 65536, longest = 25600 },
  full = { tokens = math.huge, longest = math.huge, seconds = 2, timeout = 300 },
}

-- The printed labels are the short names of the methods here.
local method_of = {}
for _, m in ipairs(method_list()) do method_of[m.short] = m.name end
method_of["FlashAttention-2"] = "flash"
local unmeasured = {
  LA_torch = "here LA has one form on the CPU",
  FA_modify = "FA here adds no ranks atomically, so it is FA_modify",
}

local function reason_without(item, table_, label, N)
  local mode = modes[item.mode]
  if not method_of[label] and not (label == "LA_torch" and item.options.device == "gpu") then
    return unmeasured[label] or "has no form here"
  end
  if N > mode.longest or N * table_.batch > mode.tokens then
    return item.mode == "quick" and "longer than --quick goes" or "left to --full"
  end
end

-- A call by label; on the GPU the PyTorch form of LA, in whole Float32 products, is the exact one. FlashAttention-2 is
-- of softmax attention, which has no decay.
local function call_of(label, x, decay)
  if label == "FlashAttention-2" then
    return function() return (softmax_attention(x.B, x.C, x.V, { causal = true })) end
  end
  local given = { method = method_of[label] or "lightning-attention-2", decay = decay,
    precision = label == "LA_torch" and "exact" or nil }
  return function() return (causal_linear_attention(x.B, x.C, x.V, given)) end
end

local function error_of(label, heads, width, decay, gpu)
  seed(1)
  local B, C, V = randn(1, heads, 300, width), randn(1, heads, 300, width), randn(1, heads, 300, width)
  local x = gpu and { B = B:gpu(), C = C:gpu(), V = V:gpu() } or { B = B, C = C, V = V }
  local got = call_of(label, x, decay)()
  local reference = label == "FlashAttention-2" and softmax_attention(f64(B), f64(C), f64(V), { method = "standard",
    causal = true }) or causal_oracle(B, C, V, { decay = decay })
  return relative_error(gpu and got:cpu() or got, reference)
end

-- The seconds of a call at N tokens by times at fewer, {N =, median =} each: by the power of the length between the
-- last two, in proportion where there is one, 0 where there is none.
local function expected_at(N, before)
  local last, previous = before[#before], before[#before - 1]
  if not last then return 0 end
  local power = previous and math.log(last.median / previous.median) / math.log(last.N / previous.N) or 1
  return last.median * (N / last.N) ^ math.max(1, math.min(power, 2))
end

-- The function that a sweep runs at {batch, decay, N, method, heads, width, seconds}.
local function runner(gpu, timeout)
  local current, times = {}, {}
  local function inputs(p, N)
    local key = p.batch .. " " .. N
    if current.key ~= key then
      current = {}
      collectgarbage()
      local function normal()
        if gpu then return gpu_randn(p.batch, p.heads, N, p.width, "f32") end
        return randn(p.batch, p.heads, N, p.width)
      end
      seed(1)
      current = { key = key, B = normal(), C = normal(), V = normal() }
    end
    return current
  end
  return function(p)
    local few, kind = math.min(p.heads, 4), string.format("%d %s %s", p.batch, p.decay, p.method)
    local off, refused = measured.unless_refused(function()
      return error_of(p.method, few, p.width, p.decay and retnet_decay(few) or nil, gpu)
    end)
    if refused then return { refused = refused } end
    if not (off <= 1e-4) then return { wrong = off } end
    local held = current.key == p.batch .. " " .. p.N and 3 or 0
    local needs = (4 - held) * 4.0 * p.batch * p.heads * p.N * p.width
    local free = gpu and gpu_memory().free or 0.9 * available_memory()
    if needs > free then return { needs = needs, free = free } end
    local function time_at(N, seconds)
      local t = timing(call_of(p.method, inputs(p, N), p.decay and retnet_decay(p.heads) or nil), { seconds = seconds,
        gpu = gpu })
      table.insert(times[kind], { N = N, median = t.median })
      return t
    end
    if not times[kind] then
      -- A sweep that goes on has not seen the shorter lengths.
      times[kind] = {}
      if p.N >= 8192 then
        time_at(p.N // 16, 0)
        time_at(p.N // 8, 0)
      end
    end
    local expected = expected_at(p.N, times[kind])
    if expected > timeout then return { expected = expected } end
    local t = time_at(p.N, p.seconds)
    return { median = t.median, lower = t.lower, upper = t.upper, samples = t.samples, error = off }
  end
end

function latency.measure(item, tables)
  local options, mode, gpu = item.options, modes[item.mode], item.options.device == "gpu"
  local seconds, timeout = mode.seconds or options.seconds, mode.timeout or options.timeout
  local wanted = {}
  for _, N in ipairs(options.lengths) do wanted[N] = true end
  local run, out = runner(gpu, timeout), {}
  for t, table_ in ipairs(tables) do
    local cells, lengths, labels, seen = {}, {}, {}, {}
    for _, printed in ipairs(table_.printed) do
      local cell = { method = printed.method, name = method_of[printed.method], N = printed.N, printed = printed.time,
        n = 0 }
      cell.status = not wanted[cell.N] and "not among --lengths" or reason_without(item, table_, cell.method, cell.N)
      cells[#cells + 1] = cell
      if not cell.status then
        if not seen[cell.N] then lengths[#lengths + 1], seen[cell.N] = cell.N, true end
        if not seen[cell.method] then labels[#labels + 1], seen[cell.method] = cell.method, true end
      end
    end
    table.sort(lengths)
    local results = #lengths > 0 and item:sweep{
      grid = { batch = { table_.batch }, decay = { table_.decay }, N = lengths, method = labels,
        heads = { options.heads }, width = { options.width }, seconds = { seconds } },
      order = { "batch", "decay", "heads", "width", "seconds", "N", "method" },
      timeout = timeout,
      run = run,
    } or {}
    local at = {}
    for _, row in ipairs(results) do at[row.method .. " " .. row.N] = row end
    for _, cell in ipairs(cells) do
      local row = at[cell.method .. " " .. cell.N]
      if row and not cell.status then
        cell.status = measured.status_of(row, timeout)
        if not cell.status then
          cell.ours, cell.lower, cell.upper, cell.n = row.median, row.lower, row.upper, row.samples
        end
      end
    end
    out[t] = cells
  end
  return out
end

-- ── What is shown ──

function latency.about(batch, decay) return "batch " .. batch .. (decay and ", decay" or "") end

local function ordered(cells, key)
  local list, seen = {}, {}
  for _, cell in ipairs(cells) do
    if not seen[cell[key]] then list[#list + 1], seen[cell[key]] = cell[key], true end
  end
  return list
end

-- A line a method, a column a length, as the document has it.
local function wide(cells, what, title)
  local rows, row_of = {}, {}
  for _, cell in ipairs(cells) do
    local row = row_of[cell.method]
    if not row then
      row = { method = cell.method }
      row_of[cell.method], rows[#rows + 1] = row, row
    end
    local value = cell[what]
    if value == nil then value = what == "ours" and cell.status or "" end
    row["N" .. cell.N] = type(value) == "number" and string.format("%.3g", value) or value
  end
  local columns = { "method" }
  for _, N in ipairs(ordered(cells, "N")) do
    columns[#columns + 1] = { key = "N" .. N, title = tostring(N), align = "right" }
  end
  return rows, { title = title, columns = columns }
end

-- The reasons in a table of methods and lengths take little room: a letter each, told below.
local function with_notes(rows, options)
  local letters, told = {}, {}
  for _, row in ipairs(rows) do
    for key, value in pairs(row) do
      if key ~= "method" and type(value) == "string" and not tonumber(value) and value ~= "OOM" then
        letters[value] = true
      end
    end
  end
  for reason in pairs(letters) do told[#told + 1] = reason end
  table.sort(told)
  for i, reason in ipairs(told) do letters[reason] = "(" .. string.char(96 + i) .. ")" end
  for _, row in ipairs(rows) do
    for key, value in pairs(row) do if key ~= "method" and letters[value] then row[key] = letters[value] end end
  end
  for i, reason in ipairs(told) do told[i] = letters[reason] .. " " .. reason end
  options.note = #told > 0 and table.concat(told, "; ") or nil
  return rows, options
end
latency.with_notes = with_notes

-- What explains a ratio of times that is not the machine factor: the operations a second that each form reaches, here
-- and there, at the largest length that has times of both.
local function rates(item, cells, batch, decay, about)
  local o, at = item.options, {}
  for _, cell in ipairs(cells) do
    local both = cell.ours and type(cell.printed) == "number" and cell.name and cell.name ~= "flash"
    if both and not (at[cell.method] and at[cell.method].N >= cell.N) then at[cell.method] = cell end
  end
  local rows = {}
  for _, label in ipairs(ordered(cells, "method")) do
    local cell = at[label]
    if cell then
      local count = cost(cell.name, { N = cell.N, r = o.width, d = o.width, decay = decay })
      local operations = batch * o.heads * (count.multiplies + count.adds)
      rows[#rows + 1] = { method = label, N = cell.N, here = operations / cell.ours / 1e9,
        printed = operations / cell.printed / 1e9 }
      rows[#rows].share = rows[#rows].here / rows[#rows].printed
    end
  end
  if #rows == 0 then return end
  item:table(rows, { title = "Operations a second, " .. about, columns = { "method", { key = "N", align = "right" },
    { key = "here", unit = "10⁹/s", digits = 3 }, { key = "printed", unit = "10⁹/s", digits = 3 },
    { key = "share", title = "here ÷ printed", digits = 3 } },
    note = "multiplies and adds of each definition; a method whose share stands out is the one that differs" })
end

local torch = { Cdotp_torch = true, FA_torch = true, LA_torch = true }

local function figure(item, cells, about)
  local factor = verdicts.machine_factor(cells)
  local curves = {}
  for _, label in ipairs(ordered(cells, "method")) do
    if not torch[label] then
      local name = method_of[label] or label
      local ours, printed = { x = {}, y = {}, label = name, style = "lines" }, { x = {}, y = {}, like = name,
        label = label .. " printed", style = "points" }
      for _, cell in ipairs(cells) do
        if cell.method == label then
          if cell.ours then
            ours.x[#ours.x + 1], ours.y[#ours.y + 1] = cell.N, cell.ours
          end
          if factor and type(cell.printed) == "number" then
            printed.x[#printed.x + 1], printed.y[#printed.y + 1] = cell.N, cell.printed * factor
          end
        end
      end
      curves[#curves + 1] = ours
      curves[#curves + 1] = printed
    end
  end
  curves.title = "Latency, " .. about .. (factor and string.format("; printed × %s, the machine factor",
    number_text(factor, 3)) or "")
  curves.xscale, curves.yscale, curves.xlabel, curves.ylabel = "log", "log", "length N", "seconds"
  item:figure(curves)
end

function latency.show(item, cells, batch, decay)
  local about = latency.about(batch, decay)
  item:table(with_notes(wide(cells, "ours", "Here: seconds, median, " .. about)))
  item:table(wide(cells, "printed", "Printed: seconds, mean, " .. about))
  local factor = verdicts.machine_factor(cells)
  local rows = {}
  for i, cell in ipairs(cells) do
    local ratio = cell.ours and type(cell.printed) == "number" and cell.ours / cell.printed or nil
    rows[i] = { method = cell.method, N = cell.N, printed = cell.printed, ours = cell.ours or cell.status,
      lower = cell.lower or "–", upper = cell.upper or "–", samples = cell.n, ratio = ratio or "–",
      after = ratio and ratio / factor or "–" }
  end
  item:table(rows, { title = "Every cell, " .. about, columns = {
    "method", { key = "N", align = "right" }, { key = "printed", unit = "s", format = "%.3g", align = "right" },
    { key = "ours", title = "here", unit = "s", format = "%.3g", align = "right" },
    { key = "lower", title = "quartile", format = "%.3g", align = "right" },
    { key = "upper", title = "quartile", format = "%.3g", align = "right" },
    { key = "samples", title = "n", align = "right" }, { key = "ratio", format = "%.3g", align = "right" },
    { key = "after", title = "÷ factor", format = "%.3g", align = "right" },
  }, note = factor and "ratio: here ÷ printed; factor: its median, " .. number_text(factor, 3) or nil }, true)
  rates(item, cells, batch, decay, about)
  figure(item, cells, about)
end

-- ── Verdicts ──

-- {[N] = seconds} of a method, ours with {lower =, upper =} of the same form, and the lists of those lengths that have
-- both times.
local function times_of(cells, label)
  local ours, printed, x, y, y_printed = { lower = {}, upper = {} }, {}, {}, {}, {}
  for _, cell in ipairs(cells) do
    if cell.method == label then
      ours[cell.N], ours.lower[cell.N], ours.upper[cell.N] = cell.ours, cell.lower, cell.upper
      printed[cell.N] = type(cell.printed) == "number" and cell.printed or nil
      if cell.ours and printed[cell.N] then
        x[#x + 1], y[#y + 1], y_printed[#y_printed + 1] = cell.N, cell.ours, cell.printed
      end
    end
  end
  return ours, printed, x, y, y_printed
end

function latency.judge(item, cells, batch, decay)
  local about = latency.about(batch, decay)
  local own = {}
  for _, label in ipairs(ordered(cells, "method")) do
    if method_of[label] then own[#own + 1] = label end
  end
  if #own > 1 then item:judge("order of methods, " .. about, "time", verdicts.same_order(cells)) end
  item:judge("ratio to the document, " .. about, "time", verdicts.constant_ratio(cells))
  local vanilla_ours, vanilla_printed = times_of(cells, "Vanilla")
  for _, label in ipairs(own) do
    local ours, printed, x, y, y_printed = times_of(cells, label)
    item:judge("growth of " .. label .. ", " .. about, "time", verdicts.same_exponent(verdicts.fit(x, y),
      verdicts.fit(x, y_printed)), "I2")
    if label ~= "Vanilla" and not torch[label] and next(vanilla_printed) then
      item:judge(string.format("where %s overtakes Vanilla, %s", label, about), "time",
        verdicts.same_crossover(verdicts.overtakes(vanilla_ours, ours), verdicts.overtakes(vanilla_printed, printed),
          verdicts.overtakes(vanilla_ours.upper, ours.lower), verdicts.overtakes(vanilla_ours.lower, ours.upper)))
    end
  end
end

function latency.printed_table(given, name, batch, decay)
  local options = { python = "python3" }
  for option, value in pairs(latency.options) do options[option] = value end
  local item = dofile(folder .. "/item.lua")(given, { document = "leet", name = name,
    title = string.format("latency of one layer, batch %d, %s", batch, decay and "with exponential decay"
      or "without decay"),
    options = options, rules = latency.rules,
    differs = "Printed: an A6000 of 48 GB, means of 15 runs. Here: this machine, medians." })
  local printed = {}
  for i, row in ipairs(item:printed()) do
    printed[i] = { method = row.method, N = row.seq_len_tokens, time = row.latency_mean_s }
  end
  local cells = latency.measure(item, { { batch = batch, decay = decay, printed = printed } })[1]
  latency.show(item, cells, batch, decay)
  controls(item, cells, batch, decay, modes[item.mode].seconds or item.options.seconds)
  latency.judge(item, cells, batch, decay)
  item:finish()
end

return latency
