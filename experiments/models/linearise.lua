-- Linearises the last layers of a language model: each gets a feature map that is fitted to the layer's own attention
-- (attention transfer: Zhang et al. 2024, The Hedgehog & the Porcupine), and what the model loses is measured before
-- and after the fit.
--
--   causeway experiments/models/linearise.lua                  fetches SmolLM2-135M once
--   causeway experiments/models/linearise.lua --model experiments/data/tiny-llama --layers 2 --quick
--
--   --model smollm2       a name, a GGUF file or a folder, as model() takes it
--   --layers 8            how many of the last layers
--   --features 64         of a head, which count twice: with both signs; at most twice the width
--   --steps 150 --rate 0.01   Adam, a window of the calibration text a step; the rate falls linearly to zero
--   --windows 12 --window 256   calibration: windows of so many tokens, spread over experiments/data/heldout.txt
--   --tokens 1024         of the same text to measure on, which calibration does not see
--   --seed 1
--   --quick               a fifth of the steps, 256 tokens
--   --save results/models/linearise    .csv, .json, .svg, .html
--
-- A head's features are φ(x) = softmax([x W, -x W]), of the queries with one W and of the keys with another; untrained,
-- W is the identity (with fewer features than the width its first columns) over d^(1/4), as the scores divide by √d.
-- The layer then is o = causal linear attention of φ(q), φ(k), v, each row divided by its sum of weights. Fitted is
-- |o - o*|² / |o*|², o* the output of the layer's softmax attention in the model as it was, by exact gradients and
-- Adam. No weight of the model changes, and no text says what is right but the model itself.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  model = "smollm2", layers = 8, features = 64, steps = 150, rate = 0.01, windows = 12, window = 256, tokens = 1024,
  seed = 1, quick = false, save = "results/models/linearise",
}, { layers = { 1 }, features = { 1 }, steps = { 1 }, rate = { above = 0 }, windows = { 1 }, window = { 16 },
  tokens = { 16 }, seed = { 0 } })
if options.quick then
  options.steps, options.tokens = math.max(1, options.steps // 5), math.min(options.tokens, 256)
  options.windows = math.min(options.windows, 4)
end

local m = model(options.model)
local about = m:about()
if options.layers > about.layers then
  error(string.format("--layers: %d, expected at most the %d of the model", options.layers, about.layers), 0)
end
local layers = {}
for i = 1, options.layers do layers[i] = about.layers - options.layers + i end

-- ---- Texts: windows to calibrate on from the first two thirds, what is measured from the last third ----
local file = assert(io.open(folder .. "/../data/heldout.txt", "rb"))
local text = file:read("a")
file:close()
local third = #text // 3
local function first_tokens(from, count)
  local ids = m:tokens(text:sub(from, from + 8 * count + 64))
  return table.move(ids, 1, math.min(count, #ids), 1, {})
end
local calibration = {}
for i = 1, options.windows do
  local apart = (2 * third - 8 * options.window - 64) // options.windows
  calibration[i] = first_tokens(1 + (i - 1) * apart, options.window)
end
local measured = first_tokens(2 * third + 1, options.tokens)

-- ---- Feature maps ----
-- The heads of k and v as often as heads of q share them: [1, h_k, N, d] -> [1, h, N, d].
local function repeated(A, heads)
  local own, N, d = A:size(2), A:size(3), A:size(4)
  return (A:reshape(own, 1, N, d) + zeros(own, heads // own, 1, 1)):reshape(1, heads, N, d)
end

local function mirror(f)
  local J = zeros(f, 2 * f)
  for i = 1, f do
    J:set(1, i, i)
    J:set(-1, i, f + i)
  end
  return J
end

local function initial(heads, d)
  local f = math.min(options.features, d)
  local W = zeros(1, heads, d, f)
  for h = 1, heads do
    for i = 1, f do W:set(d ^ -0.25, 1, h, i, i) end
  end
  return { q = W, k = copy(W), signs = mirror(f) }
end

local function attend(p, q, k, v)
  local B, C = softmax(q * p.q * p.signs), softmax(k * p.k * p.signs)
  return causal_linear_attention(B, C, v, { normalize = true, method = "lightning-attention-2" })
end

-- ---- The fit of a layer ----
local function inputs(layer)
  local list = {}
  for i, ids in ipairs(calibration) do
    local x = m:capture{ text = ids, layer = layer, what = "q,k,v,output" }
    local heads = x.q:size(2)
    list[i] = { q = x.q, k = repeated(x.k, heads), v = repeated(x.v, heads), o = x.output,
      size = sum(times(x.output, x.output)) }
  end
  return list
end

local function loss_of(trained, signs, x)
  local difference = attend({ q = trained.q, k = trained.k, signs = signs }, x.q, x.k, x.v) - x.o
  return sum(times(difference, difference)) / x.size
end

local function mean_loss(p, list)
  local total = 0
  for _, x in ipairs(list) do total = total + loss_of(p, p.signs, x) end
  return total / #list
end

local curves = {}
local function fit(layer)
  local list = inputs(layer)
  local untrained = initial(list[1].q:size(2), list[1].q:size(4))
  local signs, trained = untrained.signs, { q = copy(untrained.q), k = copy(untrained.k) }
  local optimiser, curve = adam{ trained, lr = options.rate }, { x = {}, y = {} }
  for step = 1, options.steps do
    local g, loss = grad(loss_of, trained, signs, list[(step - 1) % #list + 1])
    optimiser.lr = options.rate * (1 - (step - 1) / options.steps)
    optimiser:step(g)
    curve.x[step], curve.y[step] = step, loss
  end
  curve.label = "layer " .. layer
  curves[#curves + 1] = curve
  trained.signs = signs
  return { layer = layer, before = mean_loss(untrained, list), after = mean_loss(trained, list),
    untrained = untrained, trained = trained }
end

local function put(fits, which)
  m:reset()
  for _, f in ipairs(fits) do
    m:attention{ layers = f.layer, with = function(q, k, v) return attend(f[which], q, k, v) end }
  end
end

-- ---- The work ----
seed(options.seed)
local start = clock()
local original = m:predict(measured)
print(string.format("%s\nmeasured on %d tokens: %.4f bits per byte, accuracy of the next token %.1f %%\n", m, #measured,
  original.bits_per_byte, 100 * original.accuracy))
local fits = {}
for i, layer in ipairs(layers) do
  fits[i] = fit(layer)
  print(string.format("layer %d: relative square error of its output %.3f, fitted %.3f   (%.0f s)", layer,
    fits[i].before, fits[i].after, clock() - start))
end

-- From the last layer down: what the first n of them cost.
local rows = { { replaced = 0, untrained = original.bits_per_byte, trained = original.bits_per_byte,
  accuracy = original.accuracy } }
local some = {}
for i = #fits, 1, -1 do
  some[#some + 1] = fits[i]
  if #some == #fits or #some & (#some - 1) == 0 then
    local row = { replaced = #some }
    for _, which in ipairs({ "untrained", "trained" }) do
      put(some, which)
      local got = m:predict(measured)
      row[which], row.accuracy = got.bits_per_byte, got.accuracy
    end
    row.recovered = (row.untrained - row.trained) / (row.untrained - original.bits_per_byte)
    rows[#rows + 1] = row
  end
end
m:reset()

local function percent(x) return type(x) == "number" and string.format("%.1f", 100 * x) or "" end
local result = text_table(rows, {
  title = string.format("%s, %d tokens, bits per byte with the last layers linearised", about.path:match("[^/]+$"),
    #measured),
  columns = { { key = "replaced", title = "layers", align = "right" },
    { key = "untrained", format = "%.4f", align = "right" }, { key = "trained", format = "%.4f", align = "right" },
    { key = "recovered", unit = "%", format = percent, align = "right" },
    { key = "accuracy", title = "next token", unit = "%", format = percent, align = "right" } },
  note = string.format("recovered: share of what untrained features lose; next token: trained; %.0f s in all",
    clock() - start),
})
print()
display(result)

local losses = { title = "fitting each layer", xlabel = "step", ylabel = "relative square error", yscale = "log" }
for i, curve in ipairs(curves) do
  curve.style = "lines"
  losses[i] = curve
end
local bits = { title = "bits per byte", xlabel = "layers replaced", ylabel = "bits per byte" }
for _, which in ipairs({ "untrained", "trained" }) do
  local curve = { label = which, x = {}, y = {}, style = "linespoints" }
  for i, row in ipairs(rows) do curve.x[i], curve.y[i] = row.replaced, row[which] end
  bits[#bits + 1] = curve
end
local path = options.save .. "/" .. options.save:match("[^/]+$")
mkpath(options.save)
local figures = { plot(bits), plot(losses) }
display(figures[1])
figures[1]:save(path .. ".svg")
figures[2]:save(path .. "_losses.svg")
save(path .. ".csv", rows, { columns = { "replaced", "untrained", "trained", "recovered", "accuracy" } })
save(path .. ".json", { rows = rows, options = options, model = about, machine = tostring(machine()) })
report({ title = "A linearised language model", save = path .. ".html", data = path .. ".csv",
  string.format("%s: %d layers, features fitted to each layer's own attention.", about.path:match("[^/]+$"),
    options.layers), result, figures[1], figures[2] })
print("\n" .. options.save .. ": " .. options.save:match("[^/]+$") .. ".csv, .json, .svg, _losses.svg, .html")
