-- controls(item, cells, batch, decay, seconds): the quadratic form of NumPy and of PyTorch beside Vanilla at the
-- lengths of a table of latencies that Vanilla has times of, up to 2048 tokens, as far as their powers of a decay go:
-- controls by programs that are not ours, in the same run; on a GPU by PyTorch on it. cells as latency.measure returns
-- them, seconds those on a length. Where Python has no such package the cells say so.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local measured, available_memory = dofile(folder .. "/measured.lua"), dofile(folder .. "/available_memory.lua")
local longest = 2048

-- One run of a program: a row with times and its error, or the reason why there is none.
local function ask(setting, p, decays)
  local pipe = io.popen(string.format("%s%s '%s/../peers/quadratic_attention.py' %s %s %g %d %d %d %d %s 2>&1", setting,
    p.python, folder, p.package:lower(), p.device, p.seconds, p.batch, p.heads, p.width, p.N, decays))
  local last = "it said nothing"
  for line in pipe:lines() do last = line end
  pipe:close()
  local numbers = {}
  for word in last:gmatch("%S+") do numbers[#numbers + 1] = tonumber(word) end
  if #numbers ~= 5 then return { refused = last } end
  if not (numbers[5] <= 1e-4) then return { wrong = numbers[5] } end
  return { median = numbers[1], lower = numbers[2], upper = numbers[3], samples = numbers[4], error = numbers[5] }
end

-- One length: on the CPU the quicker of one thread and all, as the threads of such products wait for each other where
-- the machine has other work too.
local function run(p)
  local needs, free = 4.0 * (5 * p.batch * p.heads * p.N * p.width + 3 * p.N * p.N), 0.9 * available_memory()
  if needs > free then return { needs = needs, free = free } end
  local values = {}
  if p.decay then
    local decays = retnet_decay(p.heads)
    for i = 1, p.heads do values[i] = string.format("%.17g", decays(i)) end
  end
  local all = ask("", p, table.concat(values, ","))
  if not all.median or p.device == "gpu" then return all end
  local one = ask("OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 ", p, table.concat(values, ","))
  return one.median and one.median < all.median and one or all
end

return function(item, cells, batch, decay, seconds)
  local options, lengths, ours = item.options, {}, {}
  for _, cell in ipairs(cells) do
    if cell.method == "Vanilla" and cell.ours and cell.N <= longest then
      lengths[#lengths + 1], ours[cell.N] = cell.N, cell.ours
    end
  end
  if #lengths == 0 then return end
  local packages = options.device == "gpu" and { "PyTorch" } or { "NumPy", "PyTorch" }
  local results = item:sweep{
    grid = { device = { options.device }, python = { options.python }, package = packages, batch = { batch },
      decay = { decay }, N = lengths, heads = { options.heads }, width = { options.width }, seconds = { seconds } },
    order = { "device", "python", "package", "batch", "decay", "heads", "width", "seconds", "N" },
    run = run,
  }
  local rows = {}
  for i, row in ipairs(results) do
    local reason = measured.status_of(row)
    rows[i] = { package = row.package, N = row.N, time = reason or row.median, lower = row.lower or "–",
      upper = row.upper or "–", samples = row.samples or 0, here = ours[row.N],
      ratio = not reason and row.median / ours[row.N] or "–" }
  end
  item:table(rows, { title = "Controls: Vanilla by " .. table.concat(packages, " and ") .. " in the same run",
    columns = { { key = "package", title = "by" }, { key = "N", align = "right" },
      { key = "time", unit = "s", digits = 3, align = "right" },
      { key = "lower", title = "quartile", digits = 3, align = "right" },
      { key = "upper", title = "quartile", digits = 3, align = "right" },
      { key = "samples", title = "n", align = "right" },
      { key = "here", unit = "s", digits = 3, align = "right" },
      { key = "ratio", title = "÷ here", digits = 3, align = "right" } } })
end
