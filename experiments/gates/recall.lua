-- What is the delta rule for? Four layers learn to recall values whose keys overlap and are assigned again.
--
--   causeway experiments/gates/recall.lua                  linear, gated, delta, gated_delta; one to two minutes on two
--                                                          cores
--   causeway experiments/gates/recall.lua --quick          a quarter of the steps
--   causeway experiments/gates/recall.lua --check          every gradient of a tiny model against central differences,
--                                                          in Float64
--
--   --pairs 16 --rewrites 32     keys of a sequence, and how many writes follow that assign one of them again
--   --keys 32 --values 16        keys and values there are in all; random guesses are right once in `values`
--   --heads 1 --d 16 --model 32  heads, d_k = d_v of a head, width of the model
--   --steps 4000 --batch 32 --rate 0.005 --seed 1      Adam; the rate falls linearly to zero
--   --updates delta,linear       only these
--   --save results/recall        recall.csv, .json (with machine, versions, seed), curves.csv, loss.svg, accuracy.svg
--
-- Task (multi-query associative recall, Arora et al. 2023, with assignment): a sequence writes pairs (key, value) -
-- first `pairs` different keys in random order, then `rewrites` of these keys drawn with replacement, each with a value
-- drawn anew - and then asks for every key once: the last value counts.
-- Model: token x = key embedding + value embedding (for a question: the embedding of "?"), one layer
--   q = unit(x Wq), k = unit(x Wk), v = x Wv, g = log sigmoid(x Wg + 4), β = sigmoid(x Wβ), o = linear_attention(q, k,
--   v)
--   logits = (x + o Wo) Wc, cross entropy where the questions are; g and β are one number a head and token.
-- All updates get the same parameters to start with, the same sequences in the same order and the same number of steps.
--
-- Why additive memories must fail: without position in x, S = Σ k vᵀ does not depend on the order of the writes. Values
-- are drawn independently, so all that such a memory can do is to name the value that was written most often under the
-- key; that is `order-blind` in the table, computed on the same questions. A gate lets all keys fade alike: age tells
-- the last value from those before it, and what was written long ago is lost with them. The delta rule takes out what
-- the state holds under k, and only that, before it writes (gates).
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  quick = false, check = false, pairs = 16, rewrites = 32, keys = 32, values = 16, heads = 1, d = 16, model = 32,
  steps = 4000, batch = 32, rate = 0.005, seed = 1, updates = { "linear", "gated", "delta", "gated_delta" },
  save = "results/recall",
}, {
  pairs = { 1 }, rewrites = { 0 }, keys = { 1 }, values = { 1 }, heads = { 1 }, d = { 1 }, model = { 1 }, steps = { 1 },
  batch = { 1 },
  rate = { above = 0 }, seed = { 0 }, updates = choices("linear_attention", "update"),
})
if options.quick then options.steps = math.max(1, options.steps // 4) end
if options.pairs > options.keys then
  error(string.format("--pairs: %d, expected at most --keys, %d", options.pairs, options.keys), 0)
end

-- ── Sequences ──

-- Tokens of `count` sequences as one-hot rows: key [count·N, keys], value [count·N, values + 1] (the last: "?"), the
-- answers [count·pairs, values]; and, for what is reported, for each answer how often its key was written and how often
-- the most frequent of its values was.
local function sequences(task, count)
  local key, value, answer, written, most = {}, {}, {}, {}, {}
  local names = {}
  for i = 1, task.keys do names[i] = i end
  for _ = 1, count do
    for i = 1, task.pairs do             -- the keys of this sequence are the first of `names`
      local j = math.random(i, task.keys)
      names[i], names[j] = names[j], names[i]
    end
    local history = {}
    for i = 1, task.pairs + task.rewrites do
      local name = names[i <= task.pairs and i or math.random(task.pairs)]
      history[name] = history[name] or {}
      table.insert(history[name], math.random(task.values))
      key[#key + 1], value[#value + 1] = name, history[name][#history[name]]
    end
    for i = 1, task.pairs do
      local j = math.random(i, task.pairs)
      names[i], names[j] = names[j], names[i]
      local values, times_of, top = history[names[i]], {}, 0
      for _, v in ipairs(values) do
        times_of[v] = (times_of[v] or 0) + 1
        top = math.max(top, times_of[v])
      end
      key[#key + 1], value[#value + 1] = names[i], task.values + 1
      answer[#answer + 1], written[#written + 1], most[#most + 1] = values[#values], #values, top
    end
  end
  local function one_hot(list, width)
    return eq(tensor(list, task.dtype):reshape(#list, 1), range(1, width, task.dtype):reshape(1, width))
  end
  return {
    count = count, key = one_hot(key, task.keys), value = one_hot(value, task.values + 1),
    answer = one_hot(answer, task.values),
    written = tensor(written), most = tensor(most),
  }
end

-- ── The model, forwards and backwards by hand ──

local function parameters(task)
  local D, inner = task.model, task.heads * task.d
  local function random(rows, columns, size) return randn(rows, columns, task.dtype) * size end
  return {
    key = random(task.keys, D, 1), value = random(task.values + 1, D, 1),
    q = random(D, inner, D ^ -0.5), k = random(D, inner, D ^ -0.5), v = random(D, inner, D ^ -0.5),
    gate = random(D, task.heads, 0.1 * D ^ -0.5), beta = random(D, task.heads, 0.1 * D ^ -0.5),
    out = random(inner, D, inner ^ -0.5), classes = random(D, task.values, D ^ -0.5),
  }
end

-- Rows of unit length and their length before; and dX from dY where Y, r = unit(X).
local function unit(X)
  local r = sqrt(sum(times(X, X), 4) + 1e-6)
  return X / r, r
end
local function unit_back(Y, r, dY) return (dY - times(Y, sum(times(Y, dY), 4))) / r end

-- Loss, logits and, if wanted, the gradients under the names of the parameters.
local function evaluate(task, p, data, update, want_gradients)
  local b, h, D = data.count, task.heads, task.model
  local asked = task.pairs
  local N = task.pairs + task.rewrites + asked
  -- [b·N, h·w] to [b, h, N, w]
  local function split(X) return X:reshape(b, N, h, X:size(2) // h):permutedims(1, 3, 2, 4) end
  local function join(X) return X:permutedims(1, 3, 2, 4):reshape(b * N, h * X:size(4)) end
  local function questions(X) return X:reshape(b, N, D)(":", { N - asked + 1, N }, ":"):reshape(b * asked, D) end

  local x = data.key * p.key + data.value * p.value
  local q, q_length = unit(split(x * p.q))
  local k, k_length = unit(split(x * p.k))
  local v = split(x * p.v)
  local layer = { update = update, chunk = 16 }
  -- e^g and β, [b, h, N]
  local open, beta
  if update:find("gated") then
    open = sigmoid(split(x * p.gate) + 4):reshape(b, h, N)
    layer.log_decay = log(open)
  end
  if update:find("delta") then
    beta = sigmoid(split(x * p.beta)):reshape(b, h, N)
    layer.beta = beta
  end
  local o = join((linear_attention(q, k, v, layer)))
  local y = questions(x + o * p.out)
  local logits = y * p.classes
  local likely = softmax(logits)
  local loss = -mean(log(sum(times(likely, data.answer), 2) + 1e-30))
  if not want_gradients then return loss, logits end

  local d_logits = (likely - data.answer) / (b * asked)
  local d_y = (d_logits * p.classes:t()):reshape(b, asked, D)
  local d_x = cat(zeros(b, N - asked, D, task.dtype), d_y, 2):reshape(b * N, D)
  local grads = { classes = y:t() * d_logits, out = o:t() * d_x }
  local back = linear_attention_grad(q, k, v, split(d_x * p.out:t()), layer)
  local function through(name, d_split)
    local d_projected = join(d_split)
    grads[name] = x:t() * d_projected
    d_x = d_x + d_projected * p[name]:t()
  end
  through("q", unit_back(q, q_length, back.dq))
  through("k", unit_back(k, k_length, back.dk))
  through("v", back.dv)
  if open then through("gate", times(back.dlog_decay, 1 - open):reshape(b, h, N, 1)) end
  if beta then through("beta", times(back.dbeta, times(beta, 1 - beta)):reshape(b, h, N, 1)) end
  grads.key, grads.value = data.key:t() * d_x, data.value:t() * d_x
  return loss, logits, grads
end

-- ── Adam (Kingma and Ba 2015) ──

local function adam(p)
  local first, second, step = {}, {}, 0
  return function(grads, rate)
    step = step + 1
    for name, g in pairs(grads) do
      first[name] = (first[name] or zeros({ g:size() })) * 0.9 + g * 0.1
      second[name] = (second[name] or zeros({ g:size() })) * 0.999 + times(g, g) * 0.001
      p[name] = p[name] - first[name] * (rate / (1 - 0.9 ^ step)) / (sqrt(second[name] / (1 - 0.999 ^ step)) + 1e-8)
    end
  end
end

-- ── Are the gradients right? ──

if options.check then
  local task = { pairs = 3, rewrites = 2, keys = 4, values = 3, heads = 2, d = 3, model = 5, dtype = "Float64" }
  local h, rows, worst = 1e-5, {}, 0
  for _, update in ipairs(options.updates) do
    seed(options.seed)
    math.randomseed(options.seed)
    local p, data = parameters(task), sequences(task, 2)
    local _, _, grads = evaluate(task, p, data, update, true)
    for _, name in ipairs({ "key", "value", "q", "k", "v", "gate", "beta", "out", "classes" }) do
      if grads[name] then
        local slopes = similar(p[name])
        for i = 1, p[name]:size(1) do
          for j = 1, p[name]:size(2) do
            local at = p[name](i, j)
            local function loss_at(value)
              p[name]:set(value, i, j)
              return (evaluate(task, p, data, update))
            end
            slopes:set((loss_at(at + h) - loss_at(at - h)) / (2 * h), i, j)
            p[name]:set(at, i, j)
          end
        end
        local err = relative_error(grads[name], slopes)
        rows[#rows + 1] = { update = update, parameter = name, count = length(slopes), largest = maximum(abs(slopes)),
          error = err }
        if not (err <= worst) then worst = err end
      end
    end
  end
  display(text_table(rows, { title = "Gradients of the loss against central differences, Float64", columns = {
    "update", "parameter", "count",
    { key = "largest", title = "largest slope", format = "%.2e" },
    { key = "error", title = "relative error", format = "%.1e" },
  } }))
  if not (worst < 1e-7) then
    error(string.format("a gradient is wrong: relative error %.1e, expected less than 1e-7", worst), 0)
  end
  print(string.format("All gradients are right: relative error at most %.1e.", worst))
  return
end

-- ── Training ──

local task = { dtype = "Float32" }
local sizes = { "pairs", "rewrites", "keys", "values", "heads", "d", "model" }
for _, name in ipairs(sizes) do task[name] = options[name] end
local examined = 512                                            -- sequences of the final examination
local every = math.max(1, options.steps // 100)

-- Shares of right answers; `right` [questions], weighted by the 0-1 tensor `among`.
local function share(right, among) return sum(times(right, among)) / sum(among) end

-- Loss and shares of right answers in sequences other than those of the training, and what an order-blind memory can
-- reach.
local function examine(p, update)
  math.randomseed(options.seed + 1000003)
  local data = sequences(task, examined)
  local loss, logits = evaluate(task, p, data, update)
  local right = eq(argmax(logits, 2), argmax(data.answer, 2)):reshape(length(data.written))
  local likeliest = data.most / data.written
  local once = eq(data.written, 1)
  local again, all = 1 - once, ones(length(once))
  return {
    loss = loss, accuracy = share(right, all), once = share(right, once), again = share(right, again),
    ceiling = share(likeliest, all), ceiling_once = share(likeliest, once), ceiling_again = share(likeliest, again),
  }
end

local curves = {}
-- The sweep has set the seed of rand and randn.
local function train(update)
  math.randomseed(options.seed)
  local p = parameters(task)
  local learn = adam(p)
  local curve = { step = {}, loss = {}, accuracy = {} }
  local loss_since, right_since, since = 0, 0, 0
  local start = clock()
  for step = 1, options.steps do
    local data = sequences(task, options.batch)
    local loss, logits, grads = evaluate(task, p, data, update, true)
    learn(grads, options.rate * (1 - (step - 1) / options.steps))
    loss_since, since = loss_since + loss, since + 1
    right_since = right_since + mean(eq(argmax(logits, 2), argmax(data.answer, 2)))
    if step % every == 0 then
      table.insert(curve.step, step)
      table.insert(curve.loss, loss_since / since)
      table.insert(curve.accuracy, right_since / since)
      loss_since, right_since, since = 0, 0, 0
    end
  end
  local seconds = clock() - start
  curves[update] = curve
  local result = examine(p, update)
  result.seconds = seconds
  return result
end

print(tostring(machine()))
print(string.format("%d keys of %d a sequence, %d writes, %d values; %d head%s, d_k = d_v = %d, model width %d; %d "
  .. "steps of %d sequences, seed %d\n",
  task.pairs, task.keys, task.pairs + task.rewrites, task.values, task.heads, task.heads == 1 and "" or "s", task.d,
  task.model,
  options.steps, options.batch, options.seed))
local settings = { update = options.updates, steps = { options.steps }, batch = { options.batch },
  rate = { options.rate } }
for _, name in ipairs(sizes) do settings[name] = { task[name] } end
local results = sweep({
  grid = settings,
  order = { "update" },
  seed = options.seed,
  save = options.save,
  fresh = true,
  run = function(point) return train(point.update) end,
})

-- ── What came out ──

local lines = {}
for i, row in ipairs(results) do lines[i] = row end
local ceiling = results[1].ceiling                              -- of the same questions, so in every row the same
lines[#lines + 1] = { update = "order-blind", accuracy = ceiling, once = results[1].ceiling_once,
  again = results[1].ceiling_again }
local function percent(x) return x == x and string.format("%.1f", 100 * x) or "–" end
local title = string.format("Right answers in %d new sequences; a random guess is right in %s %% of all cases",
  examined, percent(1 / task.values))
display(text_table(lines, { title = title, columns = {
  "update",
  { key = "accuracy", unit = "%", format = percent, align = "right" },
  { key = "once", title = "written once", unit = "%", format = percent, align = "right" },
  { key = "again", title = "assigned again", unit = "%", format = percent, align = "right" },
  { key = "loss", format = "%.3f", align = "right" },
  { key = "seconds", format = "%.1f", align = "right" },
}, note = "order-blind: the most that a memory can reach that does not know the order of the writes" }))

for _, what in ipairs({ "loss", "accuracy" }) do
  local figure = { title = what == "loss" and "Cross entropy while learning to recall"
    or "Share of right answers while learning to recall",
    xlabel = "step", ylabel = what == "loss" and "nats a question" or "share of right answers",
    yrange = what == "accuracy" and { 0, 1 } or nil }
  for i, update in ipairs(options.updates) do
    figure[i] = { x = curves[update].step, y = curves[update][what], label = update, style = "lines" }
  end
  if what == "accuracy" then
    figure[#figure + 1] = { x = { 0, options.steps }, y = { ceiling, ceiling }, label = "order-blind",
      style = "dashed" }
  end
  local picture = plot(figure)
  print()
  display(picture)
  picture:save(options.save .. "/" .. what .. ".svg")
end
local curve_rows = {}
for _, update in ipairs(options.updates) do
  local curve = curves[update]
  for i, step in ipairs(curve.step) do
    curve_rows[#curve_rows + 1] = { update = update, step = step, loss = curve.loss[i], accuracy = curve.accuracy[i] }
  end
end
save(options.save .. "/curves.csv", curve_rows, { columns = { "update", "step", "loss", "accuracy" } })
local name = options.save:match("[^/]+$")
print(string.format("\n%s: %s.csv, %s.json, curves.csv, loss.svg, accuracy.svg", options.save, name, name))
