-- A tour: real queries, keys and values of a trained language model go through every exact method for causal linear
-- attention. Half a minute on two cores.
--
--   causeway experiments/tour.lua [--quick] [--device gpu] [--save results/tour] [--seconds 0.15]
--
--   --quick    short lengths, a few seconds
--   --device   cpu (the default) or gpu: the methods that run there, with their inputs in its memory
--   --seconds  time spent on each measured point
-- It leaves results/tour: tour.csv and tour.json (every row with the machine that made it), time.svg, tour.html.
-- Stopped in the middle, it goes on where it was; finished, it starts again.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/lib/arguments.lua")(arg, { quick = false, device = "cpu", save = "results/tour",
  seconds = 0.15 },
  { device = { "cpu", "gpu" }, seconds = { above = 0 } })
local on_gpu = options.device == "gpu"
if on_gpu then
  local available, why = has_gpu()
  if not available then exit(2, "--device: gpu cannot be used, no GPU: " .. why) end
end
local inputs, wrapped = dofile(folder .. "/lib/real_inputs.lua"), dofile(folder .. "/lib/wrapped.lua")

local tokens = options.quick and 256 or 2048
local lengths = options.quick and { 128, 256, 512 } or { 128, 512, 2048, 8192 }
local started = clock()
local page = {}                 -- the parts of the HTML page, in the order in which they are told

local function tell(text)
  print(wrapped(text, math.min((terminal_size()), 100)))
  page[#page + 1] = text
end

local function heading(text)
  print("\n── " .. text .. " " .. string.rep("─", math.max(0, 76 - utf8.len(text))))
  page[#page + 1] = { heading = text }
end

local function show(value)
  display(value)
  page[#page + 1] = value
end

-- ── 1 ──
heading("1. Real inputs")
local layers = { [1] = inputs.layer(folder, 1), [4] = inputs.layer(folder, 4) }
for _, layer in pairs(layers) do
  for name, x in pairs(layer) do layer[name] = inputs.tokens(x, tokens) end
end
local heads, width = layers[4].q:size(2), layers[4].q:size(4)
tell(string.format(
  "q, k and v come from layers 1 and 4 of a Llama of 4.7 million parameters that has read %d bytes of the New "
    .. "Testament: %d heads, width %d. Softmax attention is replaced by its linear form: O = (B Cᵀ ⊙ M) V "
    .. "with B = elu(q) + 1, C = elu(k) + 1 and M the causal mask.",
  tokens, heads, width))
local first = 48
local function rows(x) return f64(x(1, 1, { 1, first }, ":")) end
local weights = rows(layers[4].B) * rows(layers[4].C):t()
local causal = zeros(first, first)
for i = 1, first do
  for j = 1, i do causal:set(weights(i, j), i, j) end
end
tell(string.format("\nB Cᵀ ⊙ M of layer 4, head 1, its first %d tokens:", first))
show(heatmap(causal, { xlabel = "attended token j", ylabel = "token i" }))

-- ── 2 ──
heading("2. Is every method right?")
tell("Each method computes the same sum in another order. The largest error of its Float32 result beside the "
  .. "definition in Float64, relative to the largest entry, over both layers; with a decay mask γ^(i-j) (RetNet's γ "
  .. "for each head), divided by the row sums, and with both:")
local decay = retnet_decay(heads)
local settings = {
  { key = "plain", options = {} },
  { key = "decay", options = { decay = decay } },
  { key = "normalised", options = { normalize = true } },
  { key = "both", options = { decay = decay, normalize = true } },
}
local methods_here = {}
for _, method in ipairs(method_list()) do
  if not on_gpu or method.device[2] then methods_here[#methods_here + 1] = method end
end
local errors, worst = {}, 0
local progress = progress(#methods_here * #settings)
for _, setting in ipairs(settings) do
  local references = {}
  for number, layer in pairs(layers) do
    references[number] = causal_oracle(layer.B, layer.C, layer.V, setting.options)
  end
  for m, method in ipairs(methods_here) do
    errors[m] = errors[m] or { method = method.name }
    progress:show(method.name .. ", " .. setting.key)
    local given = { method = method.name, device = options.device }
    for key, value in pairs(setting.options) do given[key] = value end
    local largest = 0
    for number, layer in pairs(layers) do
      local err = relative_error(causal_linear_attention(layer.B, layer.C, layer.V, given), references[number])
      if not (err <= largest) then largest = err end
    end
    errors[m][setting.key] = largest
    if not (largest <= worst) then worst = largest end
    progress:step()
  end
end
progress:finish()
local function error_text(x) return number_text(x, 2) end
local error_columns = { "method" }
for _, setting in ipairs(settings) do error_columns[#error_columns + 1] = { key = setting.key, format = error_text } end
show(text_table(errors, { columns = error_columns }))
if on_gpu then
  tell("On " .. select(2, has_gpu())
    .. ". Products of lightning-attention-2 are made of operands split into two BFloat16.")
end
if not (worst < 1e-4) then
  error(string.format("a method is wrong: its error is %.1e, expected less than 1e-4; no time is measured", worst))
end
if not on_gpu then
  tell("Float32 has a relative precision of 6e-8: " .. error_text(worst) .. " at most is rounding, and nothing else.")
end

-- ── 3 ──
heading("3. How does the time grow with the length?")
tell(string.format("The same tokens, cropped and repeated to N = %d … %d, layer 4, %d heads, r = d = %d, %d "
  .. "thread%s.\nAdding up N² products grows with exponent 2; carrying a state of r·d numbers along, with exponent "
  .. "1; halving again and again, a little above 1.",
  lengths[1], lengths[#lengths], heads, width, threads(), threads() == 1 and "" or "s"))
local names = {}
for i, method in ipairs(methods_here) do names[i] = method.name end

local function bytes_of(x) return length(x) * 4 end   -- Float32
local inputs_of = dofile(folder .. "/lib/one_length.lua")(function(N)
  local x = {}
  for _, name in ipairs({ "B", "C", "V" }) do
    x[name] = inputs.tokens(layers[4][name], N)
    if on_gpu then x[name] = x[name]:gpu() end
  end
  return x
end)

local file, finished = dofile(folder .. "/lib/kept.lua")(options.save)
local results = sweep({
  grid = { N = lengths, method = names },
  order = { "N", "method" },
  timeout = 20,
  save = options.save,
  fresh = finished,
  run = function(p)
    local x = inputs_of(p.N)
    local function call() return (causal_linear_attention(x.B, x.C, x.V, { method = p.method })) end
    local _, _, memory = measured_call(call)
    if on_gpu then
      collectgarbage()
      local before = gpu_memory("reset").used
      local out = call()
      memory = gpu_memory().peak - before - bytes_of(out)
    end
    local t = btime(call, { seconds = options.seconds, show = false })
    return { time = t.minimum, std = t.std, memory = memory }
  end,
})

local lines = {}
for i, name in ipairs(names) do
  local line = { method = name }
  for _, row in ipairs(results:where({ method = name })) do
    line[row.N] = row.status == "ok" and row.time * 1e3 or row.status
    if row.N == lengths[#lengths] then line.memory = row.status == "ok" and row.memory or row.status end
  end
  local long = results:where(function(row) return row.method == name and row.status == "ok"
    and row.N >= lengths[#lengths] / 16 end)
  local n, t = {}, {}
  for k, row in ipairs(long) do n[k], t[k] = row.N, row.time end
  line.exponent = #n >= 2 and growth_exponent(n, t) or nil
  lines[i] = line
end
local columns = { "method" }
for _, N in ipairs(lengths) do
  columns[#columns + 1] = { key = N, title = "N=" .. N, digits = 3, align = "right" }
end
columns[#columns + 1] = { key = "exponent", format = "%.2f" }
columns[#columns + 1] = { key = "memory", unit = "bytes", align = "right" }
print()
show(text_table(lines, { columns = columns, title = "Milliseconds a call (the fastest of several)",
  note = "exponent of the growth over the three longest N; memory beside inputs and output" }))
local curve = results:plot("N", "time", { by = "method", error = "std", xscale = "log", yscale = "log",
  title = "Time of one call, real inputs", xlabel = "length N", ylabel = "seconds" })
print()
show(curve)

-- ── 4 ──
heading("4. What is left behind")
local drawn, problem = pcall(curve.save, curve, options.save .. "/time.svg")
if not drawn then
  if error_kind(problem) ~= "I/O" then error(problem, 0) end -- otherwise the drawing program is missing
  print("time.svg is missing: " .. tostring(problem):gsub("^[^:]*:%d+: ", ""))
end
report({ title = "A tour of causal linear attention", save = file .. ".html",
  data = { file .. ".csv", file .. ".json" }, table.unpack(page) })
print(string.format("%s.csv, .json: every row, with machine, versions and seed\n%s%s.html", file,
  drawn and options.save .. "/time.svg, " or "", file))
print(string.format("\n%s\n%.0f seconds. Next: `./lab`, then ?causal_linear_attention or methods().",
  tostring(machine()), clock() - started))
