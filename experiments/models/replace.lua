-- What a language model loses when the attention of its last layers is replaced by low-rank factors: the question of
-- Table 2 of the fleet document (Vicuna-7B, MMLU, the last quarter of the layers), on a model that everyone has.
--
--   causeway experiments/models/replace.lua                         fetches SmolLM2-135M once
--   causeway experiments/models/replace.lua --model experiments/data/tiny-llama --quick
--
--   --model smollm2      a name, a GGUF file or a folder, as model() takes it
--   --layers 0           how many of the last layers; 0: a quarter
--   --methods favor+,lara,hyper,nystrom,hedgehog,taylor
--   --ranks 16,32,64,128 where a factorisation has a rank to choose; others have one point
--   --shown 64           rank of the table by layers
--   --tokens 512         of experiments/data/heldout.txt, from its byte 20000 on
--   --seeds 3            of the random ones
--   --mmlu PATH          asks the questions of MMLU too: the folder "data" of its files (?evaluate)
--   --limit 20           of each subject's questions, --shots 5 examples before each
--   --quick              128 tokens, two ranks, one seed
--   --save results/models/replace    rows.jsonl (goes on where it was stopped), .csv, .json, .svg, .html
--
-- What differs from the table: the model, and the measure (bits per byte and accuracy of the next token on text that is
-- in every token a question, instead of 14042 questions). Features are used as their papers draw them: nothing is
-- trained here; linearise.lua trains. The factors of a layer see what the layers before it make of replaced layers.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local middle = dofile(folder .. "/../lib/middle.lua")
local hyper_attention = dofile(folder .. "/../lib/hyper_attention.lua")
local names = { "favor+", "lara", "hyper", "nystrom", "hedgehog", "taylor" }
local all_names = {}
local of = {}
for i, m in ipairs(lowrank_method_list()) do
  of[m.name], all_names[i] = m, m.name
end
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  model = "smollm2", layers = 0, methods = names, ranks = { 16, 32, 64, 128 }, shown = 64, tokens = 512, seeds = 3,
  mmlu = "", limit = 20, shots = 5, quick = false, save = "results/models/replace",
}, { layers = { 0 }, methods = all_names, ranks = { 1 }, shown = { 1 }, tokens = { 16 }, seeds = { 1 }, limit = { 1 },
  shots = { 0 } })
if options.quick then
  options.tokens, options.ranks, options.seeds = math.min(options.tokens, 128), { 16, 64 }, 1
end

local m = model(options.model)
local about = m:about()
local count = options.layers > 0 and options.layers or (about.layers + 3) // 4
if count > about.layers then
  exit(2, string.format("--layers: %d, expected at most the %d of the model", count, about.layers))
end
local layers = {}
for i = 1, count do layers[i] = about.layers - count + i end

-- The first tokens of the text, each of which but the first is a question.
local file = assert(io.open(folder .. "/../data/heldout.txt", "rb"))
file:seek("set", 20000)
local ids = m:tokens(file:read(8 * options.tokens + 64))
file:close()
ids = table.move(ids, 1, math.min(options.tokens, #ids), 1, {})

local on_mmlu = options.mmlu ~= ""
local function mmlu_accuracy()
  if not on_mmlu then return nil end
  local asked = m:evaluate{ mmlu = options.mmlu, limit = options.limit, shots = options.shots }
  return asked.all.accuracy, asked.all.n
end

local before = m:predict(ids)
local before_mmlu, mmlu_questions = mmlu_accuracy()
print(string.format("%s\n%d tokens: %.4f bits per byte, next tokens right %.1f %%; layers %d to %d replaced\n",
  m, #ids, before.bits_per_byte, 100 * before.accuracy, layers[1], layers[#layers]))

local function given(name, rank, s)
  return { rank = of[name].default_rank and rank or nil, seed = of[name].seeded and s or nil }
end

-- What stands in the place of attention: the factorisation by its name, but hyper with its exact blocks.
local function replacement(name, o)
  if name == "hyper" then return hyper_attention(o) end
  return name, o
end

-- ---- The whole model: what is lost, by method and rank ----
local cases = {}
for _, name in ipairs(options.methods) do
  for _, rank in ipairs(of[name].default_rank and options.ranks or { 0 }) do
    for s = 1, of[name].seeded and options.seeds or 1 do
      cases[#cases + 1] = string.format("%s %d %d", name, rank, s)
    end
  end
end
local path, finished = dofile(folder .. "/../lib/kept.lua")(options.save)
local grid = { case = cases, model = { about.path:match("[^/]+$") }, tokens = { #ids }, layers = { count } }
local order = { "model", "layers", "tokens", "case" }
if on_mmlu then
  for _, name in ipairs({ "mmlu", "limit", "shots" }) do
    grid[name] = { options[name] }
    table.insert(order, #order, name)
  end
end
local results = sweep{
  grid = grid,
  order = order,
  save = options.save,
  fresh = finished,
  run = function(p)
    local name, rank, s = p.case:match("^(%S+) (%d+) (%d+)$")
    m:reset()
    local with, o = replacement(name, given(name, math.tointeger(rank), math.tointeger(s)))
    m:attention{ layers = layers, with = with, options = o }
    local after, mmlu_after = m:predict(ids), (mmlu_accuracy())
    m:reset()
    return { method = name, rank = math.tointeger(rank), bits_per_byte = after.bits_per_byte,
      accuracy = after.accuracy, mmlu_accuracy = mmlu_after }
  end,
}

local groups, in_order = {}, {}
for _, row in ipairs(results) do
  if row.status == "ok" then
    local key = row.method .. " " .. row.rank
    if not groups[key] then
      groups[key] = { method = row.method, rank = row.rank, bits = {}, accuracy = {}, mmlu = {} }
      in_order[#in_order + 1] = groups[key]
    end
    local g = groups[key]
    g.bits[#g.bits + 1], g.accuracy[#g.accuracy + 1] = row.bits_per_byte, row.accuracy
    g.mmlu[#g.mmlu + 1] = row.mmlu_accuracy
  end
end
local rows = { { method = "softmax, as it was", bits = before.bits_per_byte, lost = 0, accuracy = before.accuracy,
  mmlu = before_mmlu } }
for _, g in ipairs(in_order) do
  local bits = middle(g.bits)
  rows[#rows + 1] = { method = g.method, rank = g.rank > 0 and g.rank or nil, bits = bits,
    lost = bits - before.bits_per_byte, accuracy = middle(g.accuracy),
    mmlu = on_mmlu and middle(g.mmlu) or nil,
    spread = #g.bits > 1 and string.format("%.3f – %.3f", g.bits[1], g.bits[#g.bits]) or "" }
end
local columns = { "method", { key = "rank", align = "right" },
  { key = "bits", title = "bits per byte", format = "%.4f", align = "right" },
  { key = "lost", title = "lost", format = "%+.4f", align = "right" },
  { key = "spread", title = "over seeds" },
  { key = "accuracy", title = "next token", format = "%.3f", align = "right" } }
if on_mmlu then columns[#columns + 1] = { key = "mmlu", title = "MMLU", format = "%.3f", align = "right" } end
local whole = text_table(rows, {
  title = string.format("Layers %d to %d of %s replaced, %d tokens", layers[1], layers[#layers],
    about.path:match("[^/]+$"), #ids),
  columns = columns,
  note = "Medians over seeds; next token: share of tokens that were the likeliest"
    .. (on_mmlu and string.format("; MMLU: %d questions, %d shots", mmlu_questions, options.shots) or ""),
})
display(whole)

-- ---- Layer by layer: the scores without and with the mask, beside the bound ----
-- hyper has no row: its factors alone, without the exact blocks, leave tokens without weights.
local by_layer = {}
for _, name in ipairs(options.methods) do
  local errors = name == "hyper" and {} or m:attention_errors(ids,
    { layers = layers, with = name, options = given(name, options.shown, 1) })
  for _, e in ipairs(errors) do
    by_layer[#by_layer + 1] = { method = name, layer = e.layer, unmasked = e.frobenius.relative,
      masked = e.frobenius.relative_masked, operator = e.operator.masked, bound = e.operator.bound,
      output = e.output == e.output and e.output or nil } -- NaN: a token without weights
  end
end
local layer_table = text_table(by_layer, {
  title = string.format("Errors of exp(scale q kᵀ), rank %d where there is one to choose", options.shown),
  columns = { "method", "layer", { key = "unmasked", format = "%.3g", align = "right" },
    { key = "masked", format = "%.3g", align = "right" },
    { key = "operator", title = "masked, op", format = "%.3g", align = "right" },
    { key = "bound", title = "bound (A2)", format = "%.3g", align = "right" },
    { key = "output", format = "%.3g", align = "right" } },
  note = "unmasked, masked: over the Frobenius norm of the scores; op: operator norm; output: of the layer's "
    .. "attention; hyper: no row, as its factors without its exact blocks leave tokens without weights",
})
print()
display(layer_table)

-- ---- The figure ----
local lost, errors = { title = "what the model loses" }, { title = "masked error of the scores, by layer" }
for _, name in ipairs(options.methods) do
  local curve = { label = name, x = {}, y = {}, style = "linespoints" }
  for _, g in ipairs(in_order) do
    if g.method == name then
      local bits = math.max(middle(g.bits) - before.bits_per_byte, 1e-4)
      for _, rank in ipairs(g.rank > 0 and { g.rank } or options.ranks) do
        curve.x[#curve.x + 1], curve.y[#curve.y + 1] = rank, bits
      end
    end
  end
  if not of[name].default_rank then curve.style = "dashed" end
  lost[#lost + 1] = curve
  local depth = { label = name, x = {}, y = {}, style = "linespoints" }
  for _, e in ipairs(by_layer) do
    if e.method == name and e.masked > 0 and e.masked < math.huge then
      depth.x[#depth.x + 1], depth.y[#depth.y + 1] = e.layer, e.masked
    end
  end
  if #depth.x > 0 then errors[#errors + 1] = depth end
end
lost.xscale, lost.xlabel, lost.ylabel = "log", "rank", "bits per byte lost"
errors.xscale, errors.xlabel, errors.ylabel = "linear", "layer", "relative error"
local figures = {}
for i, panel in ipairs({ lost, errors }) do
  if #panel > 0 and #panel[1].x > 0 then
    local spec = { title = panel.title, xscale = panel.xscale, yscale = "log", xlabel = panel.xlabel,
      ylabel = panel.ylabel, xticks = i == 1 and options.ranks or nil, legend = "right" }
    for _, curve in ipairs(panel) do spec[#spec + 1] = curve end
    figures[#figures + 1] = plot(spec)
    figures[#figures]:save(path .. (i == 1 and "" or "_layers") .. ".svg")
    print()
    display(figures[#figures])
  end
end
report({ title = "A language model with low-rank attention in its last layers", save = path .. ".html",
  data = path .. ".csv",
  string.format("%s; %d tokens of held-out text, %.4f bits per byte as it was.", about.path:match("[^/]+$"), #ids,
    before.bits_per_byte), whole, figures[1], layer_table,
  figures[2] })
print("\n" .. options.save .. ": rows.jsonl, " .. options.save:match("[^/]+$") .. ".csv, .json, .svg, .html")
