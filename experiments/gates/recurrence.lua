-- A rule of one's own for the state: written down in a few lines, it runs in chunks, has its gradient and its count of
-- operations, and learns beside the built-in ones.
--   causeway experiments/gates/recurrence.lua            some minutes
--   --length 131072              tokens of the long run, one head of 64
--   --lengths 512,2048,8192,32768   tokens of the times, eight heads of 64
--   --steps 2000 --seed 1        of training on recall
--   --seconds 0.5                of measuring each time
--   --quick                      a quarter of the steps, a fifth of the seconds: a minute
--   --save results/recurrence    recall.csv, .json (with machine, versions, seed), times.csv, accuracy.svg, times.svg
--
-- The rule has no name yet. The gated delta rule lets the whole state fade by one number a head; here the channels that
-- the key of the token uses are spared, k ⊙ k being what the key has in each of them, and the others fade:
--   S ← diag(e^(g (1 - k ⊙ k))) S,  S ← S + β k (v - Sᵀ k)ᵀ
-- Task and model of the recall are those of experiments/gates/recall.lua.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  quick = false, length = 131072, lengths = { 512, 2048, 8192, 32768 }, steps = 2000, seed = 1, seconds = 0.5,
  save = "results/recurrence",
}, { length = { 1 }, lengths = { 1 }, steps = { 1 }, seed = { 0 }, seconds = { above = 0 } })
if options.quick then
  options.steps, options.seconds = math.max(1, options.steps // 4), options.seconds / 5
end

local spared = function(x) return exp(times(x.g, 1 - times(x.k, x.k))) end
local rule = recurrence { name = "spared keys",
  a = spared,
  u = function(x) return times(x.b, x.k) end,
  w = function(x) return times(spared(x), x.k) end,
  k = function(x) return times(x.b, x.k) end }

print(machine())
display(rule)

local function unit(x) return x / sqrt(sum(times(x, x), 4)) end
local function inputs(h, N, d)
  seed(options.seed)
  return { q = unit(randn(1, h, N, d)), k = unit(randn(1, h, N, d)), v = randn(1, h, N, d), g = -rand(1, h, N),
    b = rand(1, h, N) }
end
local function with(x, more)
  local all = {}
  for key, value in pairs(x) do all[key] = value end
  for key, value in pairs(more) do all[key] = value end
  return all
end

-- ── It is what is written above: a token at a time, in Float64 ──

local n, d = 100, 8
local x = inputs(1, n, d)
for key, value in pairs(x) do x[key] = f64(value) end
local S, off = zeros(d, d):f64(), 0
local o = rule(x)
for t = 1, n do
  local function row(X) return copy(X(1, 1, t, ":")):reshape(1, d) end
  local k, v, g, b = row(x.k), row(x.v), x.g(1, 1, t), x.b(1, 1, t)
  S = times(exp(g * (1 - times(k, k))):reshape(d, 1), S)
  S = S + b * (k:t() * (v - k * S))
  off = math.max(off, maximum(abs(row(x.q) * S - row(o))))
end
print(("\nWith a plain loop in Float64, %d tokens: largest difference %.1e"):format(n, off))
if not (off < 1e-12) then error("the chunks are not the rule that is written down", 0) end

-- ── It runs on many tokens at once, with its gradient and its operations ──

x = inputs(1, options.length, 64)
local start = clock()
rule(x)
local forward = clock() - start
start = clock()
local g = grad(function(p) return mean((rule(with(x, p)))) end, { k = x.k, g = x.g, b = x.b })
local backward = clock() - start
print(("%d tokens, one head of 64: %.2f s; with the gradient %.2f s, |dg| = %.2e"):format(options.length, forward,
  backward, norm(g.g)))
local few = inputs(1, 240, 64)
for _, mode in ipairs { "recurrent", "chunkwise" } do
  local count = opcount(function() rule(with(few, { mode = mode })) end)
  print(("%-9s %d multiplies and %d adds a token"):format(mode, count.multiplies // 240, count.adds // 240))
end

-- ── Its times beside those of the built-in rules ──

local timed = {
  { name = "linear", run = function(y, more) return linear_attention(with({ q = y.q, k = y.k, v = y.v }, more)) end },
  { name = "gated_delta", run = function(y, more)
    return linear_attention(with({ q = y.q, k = y.k, v = y.v, log_decay = y.g, beta = y.b, update = "gated_delta" },
      more))
  end },
  { name = "general, a per head", run = function(y, more)
    return general_linear_attention(with({ q = y.q, k = y.k, v = y.v, a = y.a, u = y.k, w = y.k }, more))
  end },
  { name = "general, a per channel", run = function(y, more)
    return general_linear_attention(with({ q = y.q, k = y.k, v = y.v, a = y.channels, u = y.k, w = y.k }, more))
  end },
  { name = "spared keys", run = function(y, more)
    return rule(with({ q = y.q, k = y.k, v = y.v, g = y.g, b = y.b }, more))
  end },
}
local times_of, curves = {}, { xscale = "log", yscale = "log", xlabel = "tokens", ylabel = "seconds",
  title = "Eight heads of 64, Float32, in chunks" }
for _, N in ipairs(options.lengths) do
  local y = inputs(8, N, 64)
  y.a, y.channels = exp(y.g), exp(-rand(1, 8, N, 64))
  for i, one in ipairs(timed) do
    local row = { rule = one.name, tokens = N }
    for _, mode in ipairs { "recurrent", "chunkwise" } do
      row[mode] = btime(function() one.run(y, { mode = mode }) end, { seconds = options.seconds, show = false }).minimum
    end
    row.ratio = row.recurrent / row.chunkwise
    times_of[#times_of + 1] = row
    curves[i] = curves[i] or { x = {}, y = {}, label = one.name }
    table.insert(curves[i].x, N)
    table.insert(curves[i].y, row.chunkwise)
  end
end
print()
local function milliseconds(s) return ("%.2f"):format(1e3 * s) end
display(text_table(times_of, { title = "Times in ms, eight heads of 64, Float32", columns = { "rule",
  { key = "tokens", align = "right" }, { key = "recurrent", format = milliseconds, align = "right" },
  { key = "chunkwise", format = milliseconds, align = "right" },
  { key = "ratio", title = "recurrent / chunkwise", format = "%.1f", align = "right" } } }))
local picture = plot(curves)
display(picture)

-- ── It learns to recall, beside the built-in rules ──

local task = dofile(folder .. "/../lib/recall_task.lua") { pairs = 8, rewrites = 16, keys = 16, values = 8, heads = 1,
  d = 8, model = 24 }
local attends = {
  linear = function(q, k, v) return (linear_attention(q, k, v, { chunk = 16 })) end,
  gated_delta = function(q, k, v, gates)
    return (linear_attention(q, k, v, { update = "gated_delta", chunk = 16, log_decay = gates.log_decay(),
      beta = gates.beta() }))
  end,
  ["spared keys"] = function(q, k, v, gates) return (rule(q, k, v, { g = gates.log_decay(), b = gates.beta() })) end,
}
local learned = {}
local function train(name)
  math.randomseed(options.seed)
  local p, every = task.parameters(), math.max(1, options.steps // 50)
  local optimiser, curve, right = adam { p, lr = 0.01 }, { x = {}, y = {}, label = name, style = "lines" }, 0
  for step = 1, options.steps do
    local data = task.sequences(16)
    local dp, _, logits = grad(task.evaluate, p, data, attends[name])
    optimiser.lr = 0.01 * (1 - (step - 1) / options.steps)
    optimiser:step(dp)
    right = right + mean(task.right_answers(logits, data))
    if step % every == 0 then
      table.insert(curve.x, step)
      table.insert(curve.y, right / every)
      right = 0
    end
  end
  learned[#learned + 1] = curve
  math.randomseed(options.seed + 1000003)
  local data = task.sequences(256)
  local loss, logits = task.evaluate(p, data, attends[name])
  return { accuracy = mean(task.right_answers(logits, data)), loss = loss }
end
local results = sweep({ grid = { rule = { "linear", "gated_delta", "spared keys" }, steps = { options.steps } },
  order = { "rule" }, seed = options.seed, save = options.save .. "/recall", fresh = true,
  run = function(point) return train(point.rule) end })
print()
display(text_table(results, { title = "Right answers in 256 new sequences", columns = { "rule",
  { key = "accuracy", unit = "%", format = function(a) return ("%.1f"):format(100 * a) end, align = "right" },
  { key = "loss", format = "%.3f", align = "right" } } }))
learned.title, learned.xlabel, learned.ylabel = "Share of right answers while learning to recall", "step", "share"
learned.yrange = { 0, 1 }
local accuracy = plot(learned)
display(accuracy)
picture:save(options.save .. "/times.svg")
accuracy:save(options.save .. "/accuracy.svg")
save(options.save .. "/times.csv", times_of, { columns = { "rule", "tokens", "recurrent", "chunkwise", "ratio" } })
print((options.save:gsub(".-([^/]+)$", "\n%0: recall, times.csv, times.svg, accuracy.svg")))
