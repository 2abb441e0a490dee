-- Whole models for the cells of the tables that are of whole models: on the CPU, and their times on a GPU too.
--
--   models.passages(experiments, m, tokens)     four lists of ids of the held-out text, no passage in another
--   models.accuracy(m, passages)                share in % of next tokens that were the likeliest: a number a passage,
--                                               average =, bits = (a byte), tokens =
--   models.size(item, sizes)                    the model and prompt of {quick =, standard =, full =} that a run takes
--   models.smollm2(item)                        that model; nil and a reason where it is not to be had
--   models.times(item, what)                    times of passes over prompts by exact method: see there
--   models.judge_times(item, cells, what)       order and ratio of such times
--   models.decoding(item, what)                 times of ten tokens with tree and with ring attention: see there
--
-- Times are of models with random weights: they do not depend on the numbers.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local timing, measured = dofile(folder .. "/timing.lua"), dofile(folder .. "/measured.lua")
local verdicts = dofile(folder .. "/verdicts.lua")
local available_memory = dofile(folder .. "/available_memory.lua")
local models = {}

-- ── Accuracy ──

function models.passages(experiments, m, tokens)
  local file = assert(io.open(experiments .. "/data/heldout.txt", "rb"))
  local text = file:read("a")
  file:close()
  local list, quarter = {}, #text // 4
  for i = 1, 4 do
    local ids = m:tokens(text:sub((i - 1) * quarter + 1, math.min((i - 1) * quarter + 8 * tokens + 64, i * quarter)))
    list[i] = table.move(ids, 1, math.min(tokens, #ids), 1, {})
  end
  return list
end

function models.accuracy(m, passages)
  local out, right, tokens, bits, bytes = {}, 0, 0, 0, 0
  for i, ids in ipairs(passages) do
    local got = m:predict(ids)
    out[i] = 100 * got.accuracy
    right, tokens = right + got.accuracy * got.tokens, tokens + got.tokens
    bits, bytes = bits + got.bits, bytes + got.bytes
  end
  out.average, out.bits, out.tokens = 100 * right / tokens, bits / bytes, tokens
  return out
end

function models.smollm2(item)
  if item.mode == "quick" then return nil, "left out by --quick" end
  local m, refused = measured.unless_refused(function()
    return model("smollm2", { download = item.mode == "full" })
  end)
  if not m then return nil, refused end
  return m
end

-- ── Times ──

models.modes = {
  quick = { seconds = 0.05, timeout = 30 },
  standard = { seconds = 0.3, timeout = 300 },
  full = { seconds = 2, timeout = 3600 },
}

-- The labels of the tables are the short names of the methods here; LA has one form on the CPU.
models.method_of = {}
for _, method in ipairs(method_list()) do models.method_of[method.short] = method.name end

--- "transnormer 7b, 2 layers".
function models.title(what)
  return string.format("%s %s%s", what.arch, what.size, what.layers and string.format(", %d layers", what.layers) or "")
end

-- `count` prompts of random tokens.
local function prompts_of(count, length, vocabulary)
  local list = {}
  for b = 1, count do
    seed(b)
    local drawn, ids = rand(length), {}
    for i = 1, length do ids[i] = math.min(math.floor(drawn(i) * vocabulary), vocabulary - 1) end
    list[b] = ids
  end
  return list
end

--- Of sizes by mode what is run: a GPU takes those of --full without it too.
function models.size(item, sizes)
  return sizes[item.options.device == "gpu" and item.mode ~= "quick" and "full" or item.mode]
end

-- The share of attention in all operations of a model that reads a prompt: those of the method in each layer, beside a
-- product with every weight but the table of embeddings, of which a row is looked up; where only the last token has
-- logits, with those of the layers alone (the models of these tables have an output table of their own). nil for the
-- model's own attention.
local function attention_share(m, method, length, last)
  if method == "own" then return nil end
  local about, attention = m:about(), 0
  for _, layer in ipairs(m:layers()) do
    local count = cost(method, { N = length, r = layer.width, d = layer.value_width, decay = true })
    attention = attention + layer.heads * (count.multiplies + count.adds)
  end
  local tables = about.vocabulary * about.width * (last and 2 or 1)
  return attention / (attention + 2 * length * (about.parameters - tables))
end

-- The model at hand, on a GPU in Float32; a sweep of one model makes it once, at its first point.
local function keeper()
  local held
  return function(p)
    if not held then
      local gpu = p.device == "gpu"
      held = model({ arch = p.arch, size = p.size, layers = p.layers > 0 and p.layers or nil, weights = "random",
        device = p.device, type = gpu and "f32" or nil })
    end
    return held
  end
end

--- The times in which a model reads prompts by each method: what has arch, size, layers (nil: all), length (tokens of a
--- prompt), batches, and methods by name, "own" being the model as it is. Returns a function of method and batch that
--- gives {seconds (of the batch), lower, upper, samples, attention (its share in the operations)} or a text: the reason
--- why there is none. A method is first compared with the model as it is, on 64 tokens. A prompt on the CPU gives the
--- logits of all its tokens; on a GPU those of its last one, as copying all to the CPU takes longer than reading it.
function models.times(item, what)
  local mode, model_at = models.modes[item.mode], keeper()
  local results = item:sweep{
    grid = { device = { item.options.device }, arch = { what.arch }, size = { what.size },
      layers = { what.layers or 0 }, length = { what.length }, batch = what.batches, method = what.methods },
    order = { "device", "arch", "size", "layers", "length", "batch", "method" },
    timeout = mode.timeout,
    run = function(p)
      local m, last = model_at(p), p.device == "gpu"
      local vocabulary = m:about().vocabulary
      local needs, free = 4.0 * p.batch * p.length * vocabulary, 0.9 * available_memory()
      if not last and needs > free then return { needs = needs, free = free } end
      m:reset()
      local few = prompts_of(1, 64, vocabulary)
      local own = m:logits(few)
      if p.method ~= "own" then
        local off, refused = measured.unless_refused(function()
          m:attention({ with = p.method })
          return relative_error(m:logits(few), own)
        end)
        if refused then return { refused = refused } end
        if not (off <= 1e-3) then return { wrong = off } end
      end
      local prompts = prompts_of(p.batch, p.length, vocabulary)
      local t = timing(function() return m:logits(prompts, { last = last }) end, { seconds = mode.seconds })
      m:reset()
      return { median = t.median, lower = t.lower, upper = t.upper, samples = t.samples,
        attention = attention_share(m, p.method, p.length, last) }
    end,
  }
  local at = {}
  for _, row in ipairs(results) do at[row.method .. " " .. row.batch] = row end
  return function(method, batch)
    local row = at[method .. " " .. batch]
    if not row then return "has no form here" end
    return measured.status_of(row, mode.timeout) or { seconds = row.median, lower = row.lower, upper = row.upper,
      samples = row.samples, attention = row.attention }
  end
end

--- The verdict on times of a small model, which are not judged; nil of another.
function models.small(what)
  return what.size == "tiny" and verdicts.not_run("a small model in the place of the printed one: without --quick")
    or nil
end

--- Order and ratio of times beside the printed ones, cells as for verdicts.same_order; of a small model they say
--- nothing of the printed one.
function models.judge_times(item, cells, what)
  local small = models.small(what)
  item:judge("order of methods", "time", small or verdicts.same_order(cells))
  item:judge("ratio to the document", "time", small or verdicts.constant_ratio(cells))
end

--- The times of ten tokens behind a prompt with tree and with ring attention in all layers: what has arch, size,
--- lengths, shards. The prompt itself is taken off: what is measured is eleven tokens less one. Each is first compared
--- with the model as it is, on 64 tokens. Returns a list of {N, tree, ring}, each a number of seconds or a reason, and
--- one of {N, method, time, lower, upper (quartiles), samples}.
function models.decoding(item, what)
  local mode, model_at = models.modes[item.mode], keeper()
  local results = item:sweep{
    grid = { device = { item.options.device }, arch = { what.arch }, size = { what.size }, layers = { 0 },
      shards = { what.shards }, N = what.lengths, method = { "tree", "ring" } },
    order = { "device", "arch", "size", "layers", "shards", "N", "method" },
    timeout = mode.timeout,
    run = function(p)
      local m = model_at(p)
      local few = prompts_of(1, 64, m:about().vocabulary)
      m:reset()
      local own = m:logits(few)
      m:attention({ with = p.method, options = { shards = p.shards } })
      local off = relative_error(m:logits(few), own)
      if not (off <= 1e-3) then return { wrong = off } end
      local prompt = prompts_of(1, p.N, m:about().vocabulary)[1]
      local function time_of(tokens)
        local start = clock()
        m:generate(prompt, { tokens = tokens, stream = false })
        return clock() - start
      end
      local t = timing(function() return time_of(11) - time_of(1) end, { seconds = mode.seconds, most = 5,
        tells = true })
      m:reset()
      return { ten = t.median, lower = t.lower, upper = t.upper, samples = t.samples }
    end,
  }
  local rows, row_of, cells = {}, {}, {}
  for i, row in ipairs(results) do
    if not row_of[row.N] then
      row_of[row.N] = { N = row.N }
      rows[#rows + 1] = row_of[row.N]
    end
    local time = measured.status_of(row, mode.timeout) or row.ten
    row_of[row.N][row.method] = time
    cells[i] = { N = row.N, method = row.method, time = time, lower = row.lower or "–", upper = row.upper or "–",
      samples = row.samples or 0 }
  end
  return rows, cells
end

return models
