-- What is the delta rule for? Four layers learn to recall values whose keys overlap and are assigned again.
--   causeway experiments/gates/recall.lua                  all four updates; one to two minutes on two cores
--   causeway experiments/gates/recall.lua --quick          a quarter of the steps
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
--   q = unit(x Wq), k = unit(x Wk), v = x Wv, g = log sigmoid(x Wg + 4), β = sigmoid(x Wβ), o = linear_attention(...)
--   logits = (x + o Wo) Wc, cross entropy where the questions are; g and β are one number a head and token.
-- All updates get the same parameters to start with, the same sequences in the same order and the same number of steps.
-- Additive memories must fail: Σ k vᵀ does not depend on the order of the writes, so it can at best name the value
-- written most often under the key (order-blind). A gate lets all keys fade alike. The delta rule takes out what the
-- state holds under k, and only that, before it writes (gates).
local options = dofile((arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../lib/arguments.lua")(arg, {
  quick = false, pairs = 16, rewrites = 32, keys = 32, values = 16, heads = 1, d = 16, model = 32, steps = 4000,
  batch = 32, rate = 0.005, seed = 1, updates = { "linear", "gated", "delta", "gated_delta" }, save = "results/recall",
}, {
  pairs = { 1 }, rewrites = { 0 }, keys = { 1 }, values = { 1 }, heads = { 1 }, d = { 1 }, model = { 1 }, steps = { 1 },
  batch = { 1 }, rate = { above = 0 }, seed = { 0 }, updates = choices("linear_attention", "update"),
})
if options.quick then options.steps = math.max(1, options.steps // 4) end
if options.pairs > options.keys then
  exit(2, ("--pairs: %d, expected at most --keys, %d"):format(options.pairs, options.keys))
end

local task = dofile((arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../lib/recall_task.lua")(options)
local sequences, parameters, right_answers = task.sequences, task.parameters, task.right_answers

-- The loss of the model with parameters p, and its logits.
local function evaluate(p, data, update)
  return task.evaluate(p, data, function(q, k, v, x)
    local gates = { update = update, chunk = 16 }
    if update:find("gated") then gates.log_decay = x.log_decay() end
    if update:find("delta") then gates.beta = x.beta() end
    return linear_attention(q, k, v, gates)
  end)
end

-- Of sequences other than those of the training; the ceilings are what an order-blind memory can reach.
local examined = 512
local function examine(p, update)
  math.randomseed(options.seed + 1000003)
  local data = sequences(examined)
  local loss, logits = evaluate(p, data, update)
  local right, row = right_answers(logits, data):reshape(-1), { loss = loss }
  local likeliest, once = data.most / data.written, eq(data.written, 1)
  for name, among in pairs({ accuracy = ones(#once), once = once, again = 1 - once }) do
    row[name] = dot(right, among) / sum(among)
    row[name == "accuracy" and "ceiling" or "ceiling_" .. name] = dot(likeliest, among) / sum(among)
  end
  return row
end

local curves, curve_rows = {}, {}
-- The sweep has set the seed of rand and randn.
local function train(update)
  math.randomseed(options.seed)
  local p = parameters()
  local optimiser, every = adam { p, lr = options.rate }, math.max(1, options.steps // 100)
  local curve, loss_since, right_since, start = { step = {}, loss = {}, accuracy = {} }, 0, 0, clock()
  for step = 1, options.steps do
    local data = sequences(options.batch)
    local g, loss, logits = grad(evaluate, p, data, update)
    optimiser.lr = options.rate * (1 - (step - 1) / options.steps)
    optimiser:step(g)
    loss_since, right_since = loss_since + loss, right_since + mean(right_answers(logits, data))
    if step % every == 0 then
      local row = { update = update, step = step, loss = loss_since / every, accuracy = right_since / every }
      for key, list in pairs(curve) do list[#list + 1] = row[key] end
      curve_rows[#curve_rows + 1], loss_since, right_since = row, 0, 0
    end
  end
  local seconds, result = clock() - start, examine(p, update)
  curves[update], result.seconds = curve, seconds
  return result
end

print(machine())
print(string.format("%d keys of %d a sequence, %d writes, %d values; %d head%s, d_k = d_v = %d, model width %d; %d "
  .. "steps of %d sequences, seed %d\n", options.pairs, options.keys, options.pairs + options.rewrites, options.values,
  options.heads, options.heads == 1 and "" or "s", options.d, options.model, options.steps, options.batch,
  options.seed))
local grid = { update = options.updates }
for k in ("pairs rewrites keys values heads d model steps batch rate"):gmatch("%a+") do grid[k] = { options[k] } end
local results = sweep({ grid = grid, order = { "update" }, seed = options.seed, save = options.save, fresh = true,
  run = function(point) return train(point.update) end })

local lines, first = table.move(results, 1, #results, 1, {}), results[1]
lines[#lines + 1] = { update = "order-blind", accuracy = first.ceiling, once = first.ceiling_once,
  again = first.ceiling_again }
local function percent(x) return x == x and string.format("%.1f", 100 * x) or "–" end
local function share(key, title) return { key = key, title = title, unit = "%", format = percent, align = "right" } end
display(text_table(lines, {
  title = string.format("Right answers in %d new sequences; a random guess is right in %s %% of all cases", examined,
    percent(1 / options.values)),
  columns = { "update", share("accuracy"), share("once", "written once"), share("again", "assigned again"),
    { key = "loss", format = "%.3f", align = "right" }, { key = "seconds", format = "%.1f", align = "right" } },
  note = "order-blind: the most that a memory can reach that does not know the order of the writes" }))

local function draw_curves(what, title, ylabel, figure)
  for i, update in ipairs(options.updates) do
    table.insert(figure, i, { x = curves[update].step, y = curves[update][what], label = update, style = "lines" })
  end
  figure.title, figure.xlabel, figure.ylabel = title .. " while learning to recall", "step", ylabel
  local picture = plot(figure)
  print()
  display(picture)
  picture:save(options.save .. "/" .. what .. ".svg")
end
draw_curves("loss", "Cross entropy", "nats a question", {})
draw_curves("accuracy", "Share of right answers", "share of right answers", { yrange = { 0, 1 },
  { x = { 0, options.steps }, y = { first.ceiling, first.ceiling }, label = "order-blind", style = "dashed" } })
save(options.save .. "/curves.csv", curve_rows, { columns = { "update", "step", "loss", "accuracy" } })
print((options.save:gsub(".-([^/]+)$", "\n%0: %1.csv, %1.json, curves.csv, loss.svg, accuracy.svg")))
