-- Linearises the last layers of a language model: each gets feature maps that are fitted to the layer's own attention
-- (attention transfer: Zhang et al. 2024, The Hedgehog & the Porcupine), beside exact weights of the nearest keys (as
-- in LoLCATs: Zhang et al. 2024), and what the model loses is measured before and after the fit.
--
--   causeway experiments/models/linearise.lua                  fetches SmolLM2-135M once
--   causeway experiments/models/linearise.lua --model experiments/data/tiny-llama --layers 2 --quick
--
--   --model smollm2       a name, a GGUF file or a folder, as model() takes it
--   --layers 8            how many of the last layers
--   --map hedgehog        the features: hedgehog, favor+, taylor or gated_delta (below)
--   --features 64         of a head, at most the width; of several, 16,32,64, the last are those of the layers shown,
--                         and what all of them make of the layers together stands in a table and a figure
--   --near 32             so many keys, a token's own and those before it, have their exact weights; 0: none
--   --steps 540 --rate 0.01   Adam, a window of the calibration text a step; the rate falls linearly to zero
--   --windows 45 --window 384   calibration: windows of so many tokens, spread over experiments/data/heldout.txt
--   --tokens 1024         of the same text to measure on, which calibration does not see
--   --quick               a fifteenth of the steps, windows and text of 256 tokens
--   --save results/models/linearise    .csv, .json, .svg, .html
--
-- Token t gives key j the weight exp(q_t k_j / √d) where t - j < near, φ(q_t) φ(k_j) before that, and divides by the
-- sum. Each head has features of its own, one W, [d, f], for the queries and another for the keys; untrained, both are
-- the identity (with fewer features than the width its first columns) over d^(1/4), as the scores divide by √d.
--   hedgehog      φ(x) = exp([x W, -x W]) / √(2f), and of the keys each with a factor to fit
--   favor+        φ(x) = exp(y Ω - |y|²/2) / √(2f), Ω [d, 2f] normal numbers, y = x over d^(1/4) and times a scale of
--                 each column, which is fitted, and of the keys each with a factor too, which begins where the far
--                 keys of a window have the sum of weights that they should have
--   taylor        1 + s + s²/2 of s = (q W)(k W), which are 1 + f + f² features, and one factor of all to fit
--   gated_delta   the features of hedgehog divided by their length go through the gated delta rule, with a decay and a
--                 strength of each head to fit; it does not divide by a sum, so that the output is a mixture, to fit as
--                 well, of its own and that of the near keys
-- Fitted is
-- |o - o*|² / |o*|², o* the output of the layer's softmax attention in the model as it was, by exact gradients and
-- Adam. No weight of the model changes, and no text says what is right but the model itself. The weights are summed as
-- N×N matrices here, which is short to read; a window and a state would do it in linear time.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  model = "smollm2", layers = 8, map = "hedgehog", features = { 64 }, near = 32, steps = 540, rate = 0.01, windows = 45,
  window = 384, tokens = 1024, quick = false, save = "results/models/linearise",
}, { map = { "hedgehog", "favor+", "taylor", "gated_delta" }, layers = { 1 }, features = { 1 }, near = { 0 },
  steps = { 1 }, rate = { above = 0 }, windows = { 1 }, window = { 16 }, tokens = { 16 } })
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

-- The first f columns of the identity over d^(1/4), for every head.
local function first_columns(heads, d, f)
  local W = zeros(1, heads, d, f)
  for h = 1, heads do
    for i = 1, f do W:set(d ^ -0.25, 1, h, i, i) end
  end
  return W
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

-- exp(q kᵀ / √d) of the keys of a mask, [1, h, N, N].
local function exact_weights(q, k, mask) return times(exp(q * k:t() / math.sqrt(q:size(4))), mask) end

-- Attention by weights(p, q, k) of all pairs, before the mask.
local function by_weights(weights)
  return function(p, q, k, v, near)
    local mask = masks_of(q:size(3), near)
    local A = times(weights(p, q, k), mask.far)
    if near > 0 then A = A + exact_weights(q, k, mask.close) end
    return A * v / sum(A, 4)
  end
end

local function hedgehog_features(x, W, more)
  local f = W:size(4)
  return exp(x * W * mirror(f) + more - math.log(2 * f) / 2)
end

local omega -- [d, 2f], of favor+, of the fits at hand

local function of_length_one(x) return x / sqrt(sum(times(x, x), 4)) end

local function random_weights(p, q, k)
  local d, count = omega:size(1), omega:size(2)
  local function features(x, scale, more)
    local y = times(x, exp(scale)) * d ^ -0.25
    return exp(y * omega - sum(times(y, y), 4) / 2 + more - math.log(count) / 2)
  end
  return features(q, p.q, 0) * features(k, p.k, p.factors):t()
end

-- initial(heads, d, f) are the numbers to fit, untrained; begin(p, x), where there is one, brings them near what fits a
-- first text; attend(p, q, k, v, near) is the output with them.
local maps = {
  hedgehog = {
    initial = function(heads, d, f)
      local W = first_columns(heads, d, f)
      return { q = W, k = copy(W), factors = zeros(1, heads, 1, 2 * f) } -- the logarithms of the factors
    end,
    attend = by_weights(function(p, q, k)
      return hedgehog_features(q, p.q, 0) * hedgehog_features(k, p.k, p.factors):t()
    end),
  },
  ["favor+"] = {
    initial = function(heads, d, f)
      seed(1)
      omega = randn(d, 2 * f)
      -- The logarithms of the scales and of the factors.
      return { q = zeros(1, heads, 1, d), k = zeros(1, heads, 1, d), factors = zeros(1, heads, 1, 2 * f) }
    end,
    -- The far keys of a head get in all the weight that they should have, of which few directions miss most.
    begin = function(p, x)
      local far = masks_of(x.q:size(3), options.near).far
      local function all(A) return sum(sum(A, 4), 3) end
      p.factors = p.factors + log(all(exact_weights(x.q, x.k, far)) / all(times(random_weights(p, x.q, x.k), far)))
    end,
    attend = by_weights(random_weights),
  },
  taylor = {
    initial = function(heads, d, f)
      local W = first_columns(heads, d, f)
      return { q = W, k = copy(W), factor = zeros(1, heads, 1, 1) } -- its logarithm
    end,
    attend = by_weights(function(p, q, k)
      local s = (q * p.q) * (k * p.k):t()
      return times(exp(p.factor), 1 + s + times(s, s) / 2)
    end),
  },
  gated_delta = {
    initial = function(heads, d, f)
      local W = first_columns(heads, d, f)
      local function of_each_head(x) return zeros(1, heads, 1) + x end
      -- Untrained, a state keeps e^-0.02 of itself a token, a token writes half of what it could, and half is near.
      return { q = W, k = copy(W), decay = of_each_head(math.log(0.02)), strength = of_each_head(0),
        mixture = zeros(1, heads, 1, 1) }
    end,
    attend = function(p, q, k, v, near)
      local N, heads = q:size(3), q:size(2)
      local every = zeros(1, heads, N)
      local far = linear_attention(of_length_one(hedgehog_features(q, p.q, 0)),
        of_length_one(hedgehog_features(k, p.k, 0)), v, { update = "gated_delta", scale = 1,
          log_decay = every - exp(p.decay), beta = every + sigmoid(p.strength) })
      if near == 0 then return far end
      local A = exact_weights(q, k, masks_of(N, near).close)
      local share = sigmoid(p.mixture)
      return times(A * v / sum(A, 4), share) + times(far, 1 - share)
    end,
  },
}
local map = maps[options.map]
local function attend(p, ...) return map.attend(p, ...) end
local function initial(heads, d, features) return map.initial(heads, d, math.min(features, d)) end

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
local function fit(layer, features)
  local list = inputs(layer, calibration)
  local heads, d = list[1].q:size(2), list[1].q:size(4)
  local untrained, trained = initial(heads, d, features), initial(heads, d, features)
  if map.begin then map.begin(trained, list[1]) end
  local optimiser = adam{ trained, lr = options.rate }
  local curve = { x = {}, y = {}, label = string.format("layer %d, %d features", layer, features) }
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
local function fit_all(features)
  local fits = {}
  m:reset()
  for i, layer in ipairs(layers) do
    fits[i] = fit(layer, features)
    print(string.format("%s, %d features, layer %d: relative square error of its output on new text %.3f, fitted %.3f"
      .. "   (%.0f s)", options.map, features, layer, fits[i].before, fits[i].after, clock() - start))
  end
  return fits
end

-- What all layers together cost, by the number of features; the last fits are those of what follows.
local by_features, fits = {}, nil
for i, features in ipairs(options.features) do
  fits = fit_all(features)
  by_features[i] = { features = features,
    untrained = with_layers(fits, "untrained", options.near).bits_per_byte,
    trained = with_layers(fits, "trained", options.near).bits_per_byte }
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
  title = string.format("%s, %d tokens, bits per byte with the last layers linearised by %s",
    about.path:match("[^/]+$"), #measured, options.map),
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
local sweep
if #by_features > 1 then
  sweep = text_table(by_features, {
    title = string.format("layers replaced: %d; bits per byte by features of a head, %d near keys", #fits,
      options.near),
    columns = { { key = "features", align = "right" }, { key = "untrained", format = "%.4f" },
      { key = "trained", format = "%.4f" } },
  })
  local lines = { title = "all layers together", xlabel = "features of a head", ylabel = "bits per byte",
    xscale = "log" }
  for i, key in ipairs{ "untrained", "trained" } do
    lines[i] = { label = key, x = {}, y = {}, style = "linespoints" }
    for j, row in ipairs(by_features) do lines[i].x[j], lines[i].y[j] = row.features, row[key] end
  end
  figures[3] = plot(lines)
  print()
  display(sweep)
  display(figures[3])
  figures[3]:save(path .. "_features.svg")
end
save(path .. ".csv", rows, { columns = { "replaced", "alone", "untrained", "trained", "recovered", "accuracy" } })
save(path .. ".json", { rows = rows, by_features = by_features, options = options, model = about,
  machine = tostring(machine()) })
report({ title = "A linearised language model", save = path .. ".html", data = path .. ".csv",
  string.format("%s: %d layers, features fitted to each layer's own attention.", about.path:match("[^/]+$"),
    options.layers), result, figures[1], figures[2], sweep, figures[3] })
print("\n" .. options.save .. ": " .. options.save:match("[^/]+$") .. ".csv, .json, .svg, _losses.svg, .html")
