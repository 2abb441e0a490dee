-- Which chunk length is best: the one with the fewest operations, or the one with the least time?
--
--   causeway experiments/gates/chunk.lua                   linear, gated, delta, gated_delta at N = 4096; about a
--                                                          minute
--   causeway experiments/gates/chunk.lua --quick           N = 1024, chunks up to 256, two rounds
--
--   --length 4096 --heads 8 --d 64      shape: one batch, d_k = d_v = d, Float32; unit keys, g = -rand/16, β = rand
--   --chunks 1,2,4,8,16,32,64,128,256,512,1024
--   --updates delta,linear              only these
--   --rounds 10 --seconds 0.1           how often all points are measured, and the time spent on one beyond warm-up;
--                                       the least
--                                       time of all rounds counts, so that another program spoils no point
--   --save results/chunk                chunk.csv, .json (with machine, versions, seed), fit.csv, time.svg,
--                                       operations.svg
--
-- Operations are multiply-adds, counted as the adds that the definition of the chunkwise form executes (opcount; a
-- gate's multiplications by themselves are not among them). With chunks of length C that divide n they are n (α + κ C)
-- exactly - for delta α = 3 d_k d_v + d_v and κ = d_k + d_v (claim F8: n (C (d_k + d_v) + 3 d_k d_v), and d_v
-- subtractions for v - Sᵀk) -, so α and κ come from two short counts of one head, and a third one must agree to the
-- last add. The count grows with C: by operations C = 1, the recurrence, is always best (F5). Time is not operations: a
-- chunk is one sequential step, which costs something whatever its length, and short matrix products are slow
-- ones. The model
--   time = operations / ρ + (chunks of all heads) σ        ρ multiply-adds a second, σ seconds a step
-- is fitted to the measured times by least squares of the relative error; its best chunk is C* = sqrt(σ ρ / κ). Every
-- call is first compared with the recurrence; a time is the minimum over the calls of all rounds.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  quick = false, length = 4096, heads = 8, d = 64, chunks = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 },
  updates = { "linear", "gated", "delta", "gated_delta" }, rounds = 10, seconds = 0.1, save = "results/chunk",
}, { length = { 1 }, heads = { 1 }, d = { 1 }, chunks = { 1 }, updates = choices("linear_attention", "update"),
  rounds = { 1 }, seconds = { above = 0 } })
local cells = dofile(folder .. "/../lib/cells.lua")
local N, h, d = options.length, options.heads, options.d
if options.quick then
  N, options.rounds, options.seconds = math.min(N, 1024), 2, math.min(options.seconds, 0.1)
  options.chunks = dofile(folder .. "/../lib/at_most.lua")(options.chunks, 256, "chunks")
end
for _, C in ipairs(options.chunks) do
  if N % C ~= 0 then exit(2, string.format("--chunks: %d, expected divisors of --length, %d", C, N)) end
end

local function problem(update, heads, n)
  local k = randn(1, heads, n, d)
  local x = { q = randn(1, heads, n, d), k = k / sqrt(sum(times(k, k), 4)), v = randn(1, heads, n, d), update = update,
    mode = "chunkwise" }
  if update:find("gated") then x.log_decay = -rand(1, heads, n) / 16 end
  if update:find("delta") then x.beta = rand(1, heads, n) end
  return x
end

-- ── Operations ──

-- α and κ of a token: multiply-adds α + κ C.
local function operations(update)
  local function per_token(C)
    local x = problem(update, 1, C)
    x.chunk = C
    return opcount(function() linear_attention(x) end).adds / C
  end
  local slope = (per_token(16) - per_token(8)) / 8
  local constant = per_token(8) - 8 * slope
  if per_token(32) ~= constant + 32 * slope then error(update .. ": the count is not affine in the chunk length", 0) end
  return constant, slope
end

local counted = {}
for _, update in ipairs(options.updates) do
  local constant, slope = operations(update)
  counted[update] = { constant = constant, slope = slope }
end

-- ── Time ──

print(tostring(machine()))
print(string.format("N = %d, 1 batch, %d head%s, d_k = d_v = %d, Float32; Eigen's product: %.1f GFLOP/s\n",
  N, h, h == 1 and "" or "s", d, product_rate() / 1e9))
local current = {}                                    -- the problem of one update, kept while the chunks take turns
local rounds = {}
for i = 1, options.rounds do rounds[i] = i end
local results = sweep({
  grid = { round = rounds, update = options.updates, chunk = options.chunks, N = { N }, heads = { h }, d = { d } },
  order = { "round", "N", "heads", "d", "update", "chunk" },
  save = options.save,
  fresh = true,
  run = function(p)
    if current.update ~= p.update or current.round ~= p.round then
      local x = problem(p.update, h, N)
      x.mode = "recurrent"
      current = { round = p.round, update = p.update, x = x, reference = (linear_attention(x)) }
      current.recurrent = btime(function() return (linear_attention(x)) end,
        { seconds = options.seconds, show = false }).minimum
      x.mode = "chunkwise"
    end
    local x = current.x
    x.chunk = p.chunk
    local err = relative_error((linear_attention(x)), current.reference)
    if not (err <= 1e-4) then
      error(string.format("%s with chunk %d is wrong: error %.1e, expected at most 1e-4", p.update, p.chunk, err), 0)
    end
    local t = btime(function() return (linear_attention(x)) end, { seconds = options.seconds, show = false })
    local count = counted[p.update]
    return { time = t.minimum, median = t.median, std = t.std, samples = t.samples,
      operations = h * N * (count.constant + count.slope * p.chunk),
      recurrent = current.recurrent }
  end,
})

-- One row for each chunk of the update, with the least times of all rounds.
local function fastest(update)
  local rows = {}
  for i, C in ipairs(options.chunks) do
    for _, row in ipairs(results:where({ update = update, chunk = C })) do
      rows[i] = rows[i] or { chunk = C, operations = row.operations, time = row.time, recurrent = row.recurrent }
      rows[i].time = math.min(rows[i].time, row.time)
      rows[i].recurrent = math.min(rows[i].recurrent, row.recurrent)
    end
  end
  return rows
end

-- ── The model ──

-- 1/ρ and σ that minimise Σ (1 - (operations/ρ + steps σ) / time)²: two linear equations.
local function fit(rows)
  local aa, ab, bb, a1, b1 = 0, 0, 0, 0, 0
  for _, row in ipairs(rows) do
    local a, b = row.operations / row.time, h * N / row.chunk / row.time
    aa, ab, bb, a1, b1 = aa + a * a, ab + a * b, bb + b * b, a1 + a, b1 + b
  end
  local det = aa * bb - ab * ab
  local inverse_rate, step = (a1 * bb - b1 * ab) / det, (b1 * aa - a1 * ab) / det
  local function time(count, chunk) return count * inverse_rate + h * N / chunk * step end
  local misfit = 0
  for _, row in ipairs(rows) do misfit = misfit + (1 - time(row.operations, row.chunk) / row.time) ^ 2 end
  return inverse_rate, step, math.sqrt(misfit / #rows), time
end

local lines, figure, operation_figure, by_count = {}, {}, {}, {}
local marks = { fewest = { x = {}, y = {} }, least = { x = {}, y = {} }, predicted = { x = {}, y = {} } }
local function mark(which, x, y)
  table.insert(marks[which].x, x)
  table.insert(marks[which].y, y)
end
for i, update in ipairs(options.updates) do
  local rows = fastest(update)
  local fewest, least = rows[1], rows[1]
  for _, row in ipairs(rows) do
    if row.operations < fewest.operations then fewest = row end
    if row.time < least.time then least = row end
  end
  local inverse_rate, step, misfit, model = fit(rows)
  local line = { update = update, fewest = fewest.chunk, fewest_time = fewest.time, least = least.chunk,
    least_time = least.time,
    recurrent = rows[1].recurrent, misfit = misfit }
  mark("fewest", fewest.chunk, fewest.time)
  mark("least", least.chunk, least.time)
  if inverse_rate > 0 and step > 0 then                -- otherwise the best chunk of the model is an end of the range
    local count = counted[update]
    line.rate, line.step, line.predicted = 1 / inverse_rate, step, math.sqrt(step / inverse_rate / count.slope)
    mark("predicted", line.predicted, model(h * N * (count.constant + count.slope * line.predicted), line.predicted))
  end
  lines[i] = line
  local curve = { x = {}, y = {}, label = update, style = "lines" }
  local count = { x = curve.x, y = {}, label = update, style = "lines" }
  for k, row in ipairs(rows) do curve.x[k], curve.y[k], count.y[k] = row.chunk, row.time, row.operations / (h * N) end
  figure[i] = curve
  local same = by_count[count.y[#rows]]                -- a gate adds no multiply-adds: one curve for both
  if same then
    same.label = same.label .. ", " .. update
  else
    by_count[count.y[#rows]] = count
    operation_figure[#operation_figure + 1] = count
  end
end

-- ── What came out ──

display(text_table(lines, { title = "Best chunk by operations and by time", columns = {
  "update",
  { key = "fewest", title = "fewest operations C" },
  { key = "fewest_time", title = "its time", unit = "ms", format = cells.scaled(1e3, 3) },
  { key = "recurrent", title = "recurrent", unit = "ms", format = cells.scaled(1e3, 3) },
  { key = "least", title = "least time C" },
  { key = "least_time", title = "its time", unit = "ms", format = cells.scaled(1e3, 3) },
  { key = "predicted", title = "predicted C*", format = cells.scaled(1, 3) },
  { key = "rate", title = "ρ", unit = "G/s", format = cells.scaled(1e-9, 3) },
  { key = "step", title = "σ", unit = "ns", format = cells.scaled(1e9, 3) },
  { key = "misfit", unit = "%", format = cells.scaled(100, 2) },
}, note = "C* = sqrt(σρ/κ) of the fitted model; misfit: its root mean square relative error" }))

local about = string.format("N = %d, %d heads, d = %d", N, h, d)
for _, which in ipairs({ { "least", "least time" }, { "fewest", "fewest operations" },
  { "predicted", "C* of the model" } }) do
  local key, label = table.unpack(which)
  if #marks[key].x > 0 then
    table.insert(figure, { x = marks[key].x, y = marks[key].y, label = label, style = "points" })
  end
end
figure.xscale, figure.yscale, figure.xlabel, figure.ylabel, figure.title = "log", "log", "chunk length C", "seconds",
  "Time of one call, " .. about
operation_figure.xscale, operation_figure.yscale, operation_figure.title = "log", "log", "Counted operations, d = " .. d
operation_figure.xlabel, operation_figure.ylabel = "chunk length C", "multiply-adds a token"
local time_picture, operation_picture = plot(figure), plot(operation_figure)
print()
display(time_picture)
time_picture:save(options.save .. "/time.svg")
print()
display(operation_picture)
operation_picture:save(options.save .. "/operations.svg")
save(options.save .. "/fit.csv", lines, {
  columns = { "update", "fewest", "fewest_time", "recurrent", "least", "least_time", "predicted", "rate", "step",
    "misfit" },
})
local name = options.save:match("[^/]+$")
print(string.format("\n%s: %s.csv, %s.json, fit.csv, time.svg, operations.svg", options.save, name, name))
