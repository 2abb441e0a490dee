-- Linearises the last layers of a language model: each gets feature maps that are fitted to the layer's own attention
-- (attention transfer: Zhang et al. 2024, The Hedgehog & the Porcupine), beside exact weights of the nearest keys (as
-- in LoLCATs: Zhang et al. 2024), and what the model loses is measured before and after the fit.
--
--   causeway experiments/models/linearise.lua                  fetches SmolLM2-135M once
--   causeway experiments/models/linearise.lua --model experiments/data/tiny-llama --layers 2 --quick
--
--   --model smollm2       a name, a GGUF file or a folder, as model() takes it
--   --layers 8            how many of the last layers
--   --features 64         of a head, which count twice: with both signs; at most the width
--   --near 32             so many keys, a token's own and those before it, have their exact weights; 0: none
--   --steps 540 --rate 0.01   Adam, a window of the calibration text a step; the rate falls linearly to zero
--   --windows 45 --window 384   calibration: windows of so many tokens, spread over experiments/data/heldout.txt
--   --tokens 1024         of the same text to measure on, which calibration does not see
--   --quick               a fifteenth of the steps, windows and text of 256 tokens
--   --save results/models/linearise    .csv, .json, .svg, .html
--
-- A head's features are φ(x) = exp([x W, -x W]) / √(2f), of the f columns of W, one W for the queries and another for
-- the keys, whose features each have a factor to fit beside; untrained, W is the identity (with fewer features than the
-- width its first columns) over d^(1/4), as the scores divide by √d, and the factors are 1. Token t gives key j the
-- weight exp(q_t k_j / √d) where t - j < near, φ(q_t) φ(k_j) before that, and divides by the sum. Fitted is
-- |o - o*|² / |o*|², o* the output of the layer's softmax attention in the model as it was, by exact gradients and
-- Adam. No weight of the model changes, and no text says what is right but the model itself. The weights are summed as
-- N×N matrices here, which is short to read; a window and a state would do it in linear time.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  model = "smollm2", layers = 8, features = 64, near = 32, steps = 540, rate = 0.01, windows = 45, window = 384,
  tokens = 1024, quick = false, save = "results/models/linearise",
}, { layers = { 1 }, features = { 1 }, near = { 0 }, steps = { 1 }, rate = { above = 0 }, windows = { 1 },
  window = { 16 }, tokens = { 16 } })
if options.quick then
  options.steps, options.tokens = math.max(1, options.steps // 15), math.min(options.tokens, 256)
  options.windows, options.window = math.min(options.windows, 4), math.min(options.window, 256)
end

local m = model(options.model)
local about = m:about()
if options.layers > about.layers then
  exit(2, string.format("--layers: %d, expected at most the %d of the model", options.layers, about.layers))
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

-- [f, 2f]: the product with it is x beside -x.
local mirrors = {}
local function mirror(f)
  if not mirrors[f] then
    local J = zeros(f, 2 * f)
    for i = 1, f do
      J:set(1, i, i)
      J:set(-1, i, f + i)
    end
    mirrors[f] = J
  end
  return mirrors[f]
end

local function initial(heads, d)
  local f = math.min(options.features, d)
  local W = zeros(1, heads, d, f)
  for h = 1, heads do
    for i = 1, f do W:set(d ^ -0.25, 1, h, i, i) end
  end
  return { q = W, k = copy(W), factors = zeros(1, heads, 1, 2 * f) } -- the logarithms of the factors
end

-- Which keys are near to which tokens, and which lie before those: [N, N] of 0 and 1.
local masks = {}
local function masks_of(N, near)
  local key = N .. " " .. near
  if not masks[key] then
    local at = range(1, N)
    local back = at:reshape(N, 1) - at:reshape(1, N)
    local causal = f32(ge(back, 0))
    local close = times(causal, f32(lt(back, near)))
    masks[key] = { close = close, far = causal - close }
  end
  return masks[key]
end

local function attend(p, q, k, v, near)
  local d, f = q:size(4), p.q:size(4)
  local signs, mask = mirror(f), masks_of(q:size(3), near)
  local B = exp(q * p.q * signs - math.log(2 * f) / 2)
  local C = exp(k * p.k * signs + p.factors - math.log(2 * f) / 2)
  local A = times(B * C:t(), mask.far)
  if near > 0 then A = A + times(exp(q * k:t() / math.sqrt(d)), mask.close) end
  return A * v / sum(A, 4)
end

-- ---- The fit of a layer ----
local function inputs(layer, texts)
  local list = {}
  for i, ids in ipairs(texts) do
    local x = m:capture{ text = ids, layer = layer, what = "q,k,v,output" }
    local heads = x.q:size(2)
    list[i] = { q = x.q, k = repeated(x.k, heads), v = repeated(x.v, heads), o = x.output,
      size = sum(times(x.output, x.output)) }
  end
  return list
end

local function loss_of(p, x)
  local difference = attend(p, x.q, x.k, x.v, options.near) - x.o
  return sum(times(difference, difference)) / x.size
end

local function mean_loss(p, list)
  local total = 0
  for _, x in ipairs(list) do total = total + loss_of(p, x) end
  return total / #list
end

local curves = {}
local function fit(layer)
  local list = inputs(layer, calibration)
  local heads, d = list[1].q:size(2), list[1].q:size(4)
  local untrained, trained = initial(heads, d), initial(heads, d)
  local optimiser, curve = adam{ trained, lr = options.rate }, { x = {}, y = {}, label = "layer " .. layer }
  for step = 1, options.steps do
    local g, loss = grad(loss_of, trained, list[(step - 1) % #list + 1])
    optimiser.lr = options.rate * (1 - (step - 1) / options.steps)
    optimiser:step(g)
    curve.x[step], curve.y[step] = step, loss
  end
  curves[#curves + 1] = curve
  local unseen = inputs(layer, { table.move(measured, 1, math.min(options.window, #measured), 1, {}) })
  return { layer = layer, before = mean_loss(untrained, unseen), after = mean_loss(trained, unseen),
    untrained = untrained, trained = trained }
end

-- Bits per byte and accuracy with the layers of `fits` replaced by these maps and so many exact keys.
local function with_layers(fits, which, near)
  m:reset()
  for _, f in ipairs(fits) do
    m:attention{ layers = f.layer, with = function(q, k, v) return attend(f[which], q, k, v, near) end }
  end
  return m:predict(measured)
end

-- ---- The work ----
local start = clock()
local original = m:predict(measured)
print(string.format("%s\nmeasured on %d tokens: %.4f bits per byte, accuracy of the next token %.1f %%\n", m, #measured,
  original.bits_per_byte, 100 * original.accuracy))
local fits = {}
for i, layer in ipairs(layers) do
  fits[i] = fit(layer)
  print(string.format("layer %d: relative square error of its output on new text %.3f, fitted %.3f   (%.0f s)", layer,
    fits[i].before, fits[i].after, clock() - start))
end

-- From the last layer down: what the first n of them cost.
local kinds = {
  { key = "alone", title = "untrained features", which = "untrained", near = 0 },
  { key = "untrained", title = "and near keys", which = "untrained", near = options.near },
  { key = "trained", title = "and trained", which = "trained", near = options.near },
}
-- Without near keys the second is the first.
if options.near == 0 then
  table.remove(kinds, 2)
  kinds[2].title = "trained"
end
local worst = kinds[1].key
local rows = { { replaced = 0, accuracy = original.accuracy } }
for _, kind in ipairs(kinds) do rows[1][kind.key] = original.bits_per_byte end
local some = {}
for i = #fits, 1, -1 do
  some[#some + 1] = fits[i]
  if #some == #fits or #some & (#some - 1) == 0 then
    local row = { replaced = #some }
    for _, kind in ipairs(kinds) do
      local got = with_layers(some, kind.which, kind.near)
      row[kind.key], row.accuracy = got.bits_per_byte, got.accuracy
    end
    row.recovered = (row[worst] - row.trained) / (row[worst] - original.bits_per_byte)
    rows[#rows + 1] = row
  end
end
m:reset()

local function percent(x) return type(x) == "number" and string.format("%.1f", 100 * x) or "" end
local columns = { { key = "replaced", title = "layers", align = "right" } }
for _, kind in ipairs(kinds) do
  columns[#columns + 1] = { key = kind.key, title = kind.title, format = "%.4f", align = "right" }
end
columns[#columns + 1] = { key = "recovered", unit = "%", format = percent, align = "right" }
columns[#columns + 1] = { key = "accuracy", title = "next token", unit = "%", format = percent, align = "right" }
local result = text_table(rows, {
  title = string.format("%s, %d tokens, bits per byte with the last layers linearised", about.path:match("[^/]+$"),
    #measured),
  columns = columns,
  note = string.format("recovered: share of what untrained features alone lose; next token: trained; %d near keys; "
    .. "%.0f s in all", options.near, clock() - start),
})
print()
display(result)

local losses = { title = "fitting each layer", xlabel = "step", ylabel = "relative square error", yscale = "log" }
for i, curve in ipairs(curves) do
  curve.style = "lines"
  losses[i] = curve
end
local bits = { title = "bits per byte", xlabel = "layers replaced", ylabel = "bits per byte" }
for _, kind in ipairs(kinds) do
  local curve = { label = kind.title, x = {}, y = {}, style = "linespoints" }
  for i, row in ipairs(rows) do curve.x[i], curve.y[i] = row.replaced, row[kind.key] end
  bits[#bits + 1] = curve
end
local path = options.save .. "/" .. options.save:match("[^/]+$")
mkpath(options.save)
local figures = { plot(bits), plot(losses) }
display(figures[1])
figures[1]:save(path .. ".svg")
figures[2]:save(path .. "_losses.svg")
save(path .. ".csv", rows, { columns = { "replaced", "alone", "untrained", "trained", "recovered", "accuracy" } })
save(path .. ".json", { rows = rows, options = options, model = about, machine = tostring(machine()) })
report({ title = "A linearised language model", save = path .. ".html", data = path .. ".csv",
  string.format("%s: %d layers, features fitted to each layer's own attention.", about.path:match("[^/]+$"),
    options.layers), result, figures[1], figures[2] })
print("\n" .. options.save .. ": " .. options.save:match("[^/]+$") .. ".csv, .json, .svg, _losses.svg, .html")
