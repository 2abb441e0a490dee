-- numpy_control(item, cells, batch, decay, seconds): NumPy's quadratic form beside Vanilla at the lengths of a table of
-- latencies that Vanilla has times of, up to 2048 tokens, as far as its powers of a decay go: a control by a program
-- that is not ours, in the same run. cells as latency.measure returns them, seconds those on a length. Where Python has
-- no NumPy the cells say so.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local measured, available_memory = dofile(folder .. "/measured.lua"), dofile(folder .. "/available_memory.lua")
local longest = 2048

-- One run of NumPy: a row with times and its error, or the reason why there is none.
local function ask(setting, p, decays)
  local pipe = io.popen(string.format("%s%s '%s/../peers/numpy_attention.py' %g %d %d %d %d %s 2>&1", setting, p.python,
    folder, p.seconds, p.batch, p.heads, p.width, p.N, decays))
  local last = "it said nothing"
  for line in pipe:lines() do last = line end
  pipe:close()
  local numbers = {}
  for word in last:gmatch("%S+") do numbers[#numbers + 1] = tonumber(word) end
  if #numbers ~= 5 then return { refused = last } end
  if not (numbers[5] <= 1e-4) then return { wrong = numbers[5] } end
  return { median = numbers[1], lower = numbers[2], upper = numbers[3], samples = numbers[4], error = numbers[5] }
end

-- One length: the quicker of one thread and all, as the threads of NumPy's products wait for each other where the
-- machine has other work too.
local function run(p)
  local needs, free = 4.0 * (5 * p.batch * p.heads * p.N * p.width + 3 * p.N * p.N), 0.9 * available_memory()
  if needs > free then return { needs = needs, free = free } end
  local decays = {}
  if p.decay then
    local values = retnet_decay(p.heads)
    for i = 1, p.heads do decays[i] = string.format("%.17g", values(i)) end
  end
  local one = ask("OPENBLAS_NUM_THREADS=1 ", p, table.concat(decays, ","))
  if not one.median then return one end
  local all = ask("", p, table.concat(decays, ","))
  return all.median and all.median < one.median and all or one
end

return function(item, cells, batch, decay, seconds)
  local options, lengths, ours = item.options, {}, {}
  for _, cell in ipairs(cells) do
    if cell.method == "Vanilla" and cell.ours and cell.N <= longest then
      lengths[#lengths + 1], ours[cell.N] = cell.N, cell.ours
    end
  end
  if #lengths == 0 or options.device ~= "cpu" then return end
  local results = item:sweep{
    grid = { python = { options.python }, batch = { batch }, decay = { decay }, N = lengths,
      heads = { options.heads }, width = { options.width }, seconds = { seconds } },
    order = { "python", "batch", "decay", "heads", "width", "seconds", "N" },
    run = run,
  }
  local rows = {}
  for i, row in ipairs(results) do
    local reason = measured.status_of(row)
    rows[i] = { N = row.N, numpy = reason or row.median, lower = row.lower or "–", upper = row.upper or "–",
      samples = row.samples or 0, here = ours[row.N], ratio = not reason and row.median / ours[row.N] or "–" }
  end
  item:table(rows, { title = "A control: Vanilla by NumPy in the same run", columns = { { key = "N", align = "right" },
    { key = "numpy", title = "NumPy", unit = "s", digits = 3, align = "right" },
    { key = "lower", title = "quartile", digits = 3, align = "right" },
    { key = "upper", title = "quartile", digits = 3, align = "right" },
    { key = "samples", title = "n", align = "right" },
    { key = "here", unit = "s", digits = 3, align = "right" },
    { key = "ratio", title = "NumPy ÷ here", digits = 3, align = "right" } } })
end
