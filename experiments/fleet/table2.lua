-- fleet, Table 2: accuracy on MMLU with low-rank attention in a part of the layers of a 7B model.
--
--   causeway experiments/fleet/table2.lua                some minutes; --quick: half a minute
--
--   --mmlu PATH          asks SmolLM2 the questions of MMLU too: the folder "data" of its files (?evaluate)
--   --model PATH         with --mmlu another model in its place, as model() takes it
--   --limit 20           of each subject's questions, --shots 5 examples before each
--
-- Layers 23 to 30 of 32 were replaced, a quarter, the last one kept. So is done here, untrained and with the
-- hyper-parameters of Table 5, in the small Llama of this repository and, where it is on the machine, in SmolLM2-135M
-- (--full fetches it; --quick leaves it out), on four passages of held-out text in which every token is a question.
-- What the document says of its own cells is recomputed.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts, models = dofile(folder .. "/../lib/verdicts.lua"), dofile(folder .. "/../lib/model_runner.lua")
local measured = dofile(folder .. "/../lib/measured.lua")
local hyper_attention = dofile(folder .. "/../lib/hyper_attention.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "fleet", name = "table2",
  title = "accuracy with low-rank attention in some layers",
  options = { mmlu = "", model = "smollm2", limit = 20, shots = 5 },
  rules = { device = { "cpu" }, limit = { 1 }, shots = { 0 } },
  differs = "Printed: vicuna-7b on MMLU. Here: small models, the next token of four held-out passages. Statements "
    .. "about the printed cells are recomputed from them." })
if item.options.mmlu ~= "" then -- before the tables, which take minutes
  local there, why = io.open(item.options.mmlu)
  if not there then exit(2, "--mmlu: " .. why) end
  there:close()
end
local subjects = { "stem", "humanities", "social_science", "other" }
local rows, by, worst, where, means = {}, {}, 0, "", 0
for i, row in ipairs(item:printed()) do
  rows[i] = { method = row.method, average = row.avg_accuracy_percent }
  by[row.method] = row
  local sum = 0
  for _, s in ipairs(subjects) do
    rows[i][s] = row[s .. "_accuracy_percent"]
    sum = sum + row[s .. "_accuracy_percent"] / 4
    local off = by.VanillaAttention[s .. "_accuracy_percent"] - row[s .. "_accuracy_percent"]
    if math.abs(off) > worst then worst, where = math.abs(off), row.method .. ", " .. s:gsub("_", " ") end
  end
  means = math.max(means, math.abs(sum - row.avg_accuracy_percent))
end
item:table(rows, { title = "Accuracy in %, printed", columns = { "method", { key = "stem", format = "%.1f" },
  { key = "humanities", format = "%.1f" }, { key = "social_science", title = "social science", format = "%.1f" },
  { key = "other", format = "%.1f" }, { key = "average", format = "%.1f" } } })
item:judge("the averages are the means of the four subjects", "count", verdicts.whether(means <= 0.0501,
  string.format("largest difference %.3f", means)), "I1")
item:judge("low-rank attention is within 5 % of vanilla, in points", "count", verdicts.whether(worst <= 5,
  string.format("largest difference %.1f points (%s)", worst, where)), "I1")

-- ── Here ──

local tokens = ({ quick = 256, standard = 1024, full = 3480 })[item.mode]

-- What stands in the place of attention, with the values of Table 5.
local replacements = {
  ["FlashAttention-2"] = { with = "flash" },
  HyperAttention = { with = hyper_attention({ rank = 64, block = 64, lsh_num_projs = 7, seed = 1 }) },
  ["FAVOR+"] = { with = "favor+", options = { rank = 256, seed = 1 } },
  LARA = { with = "lara", options = { rank = 256, seed = 1 } },
}

-- A quarter of the layers, rounded up, before the last one.
local function replaced_layers(count)
  local list = {}
  for i = 1, (count + 3) // 4 do list[i] = count - (count + 3) // 4 + i - 1 end
  return list
end

-- What the loss comes from, by one method whose error falls with its rank: the number of layers, and the rank.
local function depends_on(m, name, passages, layers, own)
  local list = {}
  for _, few in ipairs({ { layers[#layers] }, layers }) do
    for _, rank in ipairs({ 64, 256, 1024 }) do
      m:attention({ layers = few, with = "favor+", options = { rank = rank, seed = 1 } })
      local got = models.accuracy(m, passages)
      m:reset()
      list[#list + 1] = { layers = #few, rank = rank, average = got.average, lost = own.average - got.average }
    end
  end
  item:table(list, { title = "What FAVOR+ loses, by layers and rank, " .. name, columns = {
    { key = "layers", align = "right" }, { key = "rank", align = "right" }, { key = "average", format = "%.1f" },
    { key = "lost", title = "points lost", format = "%.1f" } } })
end

-- Accuracy by method in a model, as rows, and the verdicts.
local function measure(m, name)
  local passages = models.passages(item.experiments, m, tokens)
  local layers = replaced_layers(m:about().layers)
  local own, off, flash, farthest = {}, {}, nil, 0
  for i, row in ipairs(rows) do
    local given = replacements[row.method]
    if given then m:attention({ layers = layers, with = given.with, options = given.options }) end
    local got = models.accuracy(m, passages)
    m:reset()
    own[i] = { method = row.method, average = got.average, bits = got.bits }
    for j = 1, #passages do own[i]["text" .. j] = got[j] end
    off[row.method] = own[1].average - got.average
    if row.method == "FlashAttention-2" then flash = own[i] end
    if row.method ~= "VanillaAttention" and row.method ~= "FlashAttention-2" then
      farthest = math.max(farthest, math.abs(off[row.method]))
    end
    own[i].tokens = got.tokens
  end
  item:table(own, { title = string.format("Accuracy in %%, here: %s, layers %d to %d of %d", name, layers[1],
    layers[#layers], m:about().layers), columns = { "method", { key = "text1", format = "%.1f" },
    { key = "text2", format = "%.1f" }, { key = "text3", format = "%.1f" }, { key = "text4", format = "%.1f" },
    { key = "average", format = "%.1f" }, { key = "bits", title = "bits/byte", format = "%.3f" } },
    note = string.format("%d tokens in all; the factors of LARA and HyperAttention look at later tokens too",
      own[1].tokens) })
  depends_on(m, name, passages, layers, own[1])
  item:judge("FlashAttention-2 has the accuracy of vanilla, " .. name, "count", verdicts.whether(
    math.abs(off["FlashAttention-2"]) <= 0.05, string.format("%.1f and %.1f %%", own[1].average, flash.average)))
  item:judge("low-rank attention is within 5 points of vanilla, " .. name, "count", verdicts.whether(farthest <= 5,
    string.format("%.1f %%; lost: FAVOR+ %.1f, LARA %.1f, HyperAttention %.1f points", own[1].average, off["FAVOR+"],
      off.LARA, off.HyperAttention)))
end

-- The same on the questions of MMLU, in the groups of the table. A rank may be more than a short prompt has tokens.
local function measure_on_mmlu(m, name)
  local layers, own, farthest = replaced_layers(m:about().layers), {}, 0
  for i, row in ipairs(rows) do
    local given = replacements[row.method]
    if given then m:attention({ layers = layers, with = given.with, options = given.options }) end
    local asked, refused = measured.unless_refused(function()
      return m:evaluate({ mmlu = item.options.mmlu, limit = item.options.limit, shots = item.options.shots })
    end)
    m:reset()
    if i == 1 and refused then error(refused, 0) end
    own[i] = { method = row.method, average = "–", interval = refused }
    for _, group in ipairs({ "stem", "humanities", "social_sciences", "other" }) do
      own[i][group] = asked and "no questions" or "–"
    end
    if asked then
      own[i].n, own[i].average = asked.all.n, 100 * asked.all.accuracy
      own[i].interval = string.format("%.1f – %.1f", 100 * asked.all.lower, 100 * asked.all.upper)
      for _, group in ipairs(asked.groups) do own[i][group.subject:lower():gsub(" ", "_")] = 100 * group.accuracy end
      farthest = math.max(farthest, math.abs(own[1].average - own[i].average))
    end
  end
  item:table(own, { title = string.format("Accuracy in %% on MMLU, here: %s, layers %d to %d of %d", name, layers[1],
    layers[#layers], m:about().layers), columns = { "method", { key = "stem", format = "%.1f" },
    { key = "humanities", format = "%.1f" }, { key = "social_sciences", title = "social science", format = "%.1f" },
    { key = "other", format = "%.1f" }, { key = "average", title = "all", format = "%.1f" },
    { key = "interval", title = "95 %", align = "right" } },
    note = string.format("%d questions, %d shots; all: of all questions, not the mean of the groups; a guess is right "
      .. "in 25 %%", own[1].n, item.options.shots) })
  item:judge("low-rank attention is within 5 points of vanilla on MMLU, " .. name, "count", verdicts.whether(
    farthest <= 5, string.format("%.1f %% of %d questions; farthest %.1f points", own[1].average, own[1].n, farthest)))
end

measure(model(item.experiments .. "/data/tiny-llama"), "tiny-llama")
local smollm2, reason = models.smollm2(item)
if smollm2 then
  measure(smollm2, "SmolLM2-135M")
else
  item:judge("low-rank attention is within 5 points of vanilla, SmolLM2-135M", "count", verdicts.not_run(reason))
end
if item.options.mmlu ~= "" then
  measure_on_mmlu(model(item.options.model), item.options.model:match("([^/]+)/*$"))
end
item:finish()
