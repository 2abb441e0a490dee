-- The same tokens as one sequence and as many that are packed one after the other: the bits of separate calls, and the
-- time of each way.
--
--   causeway experiments/gates/packed.lua                     some seconds
--
--   --tokens 8192 --heads 8 --d 64      of each head
--   --sequences 1,8,1000                into how many the tokens are cut, of lengths drawn at random (0 too)
--   --call linear_attention             or causal_linear_attention, whose method is --method, or softmax_attention
--   --update gated_delta                linear, gated, delta or gated_delta, of linear_attention
--   --method block-based
--   --device cpu                        or gpu
--   --type f32                          f16 or bf16
--   --seed 1
local options = dofile((arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../lib/arguments.lua")(arg, {
  tokens = 8192, heads = 8, d = 64, sequences = { 1, 8, 1000 }, call = "linear_attention", update = "",
  method = "", device = "cpu", type = "f32", seed = 1,
}, { tokens = { 1 }, heads = { 1 }, d = { 1 }, sequences = { 1 }, seed = { 0 },
  device = { "cpu", "gpu" }, type = { "f32", "f16", "bf16" },
  call = { "linear_attention", "causal_linear_attention", "softmax_attention" },
  update = { "", table.unpack(choices("linear_attention", "update")) },
  method = { "", table.unpack(choices("causal_linear_attention", "method")) } })
-- Each of the two belongs to one call; beside another it would change nothing.
for name, call in pairs({ update = "linear_attention", method = "causal_linear_attention" }) do
  if options[name] ~= "" and options.call ~= call then
    exit(2, string.format("--%s: given with --call %s, expected --call %s", name, options.call, call))
  end
end
if options.update == "" then options.update = "gated_delta" end
if options.method == "" then options.method = "block-based" end
local N, h, d = options.tokens, options.heads, options.d

seed(options.seed)
math.randomseed(options.seed)
local q, k, v = randn(1, h, N, d), randn(1, h, N, d), randn(1, h, N, d)
k = k / sqrt(sum(pow(k, 2), 4))
q, k, v = q[options.type](q), k[options.type](k), v[options.type](v)
local call = _G[options.call]
local given, what = {}, options.call
if options.call == "linear_attention" then
  given.update, what = options.update, what .. ", " .. options.update
  if options.update:find("gated") then given.log_decay = -rand(1, h, N) * 0.1 end
  if options.update:find("delta") then given.beta = rand(1, h, N) end
elseif options.call == "causal_linear_attention" then
  given.method, what = options.method, what .. ", " .. options.method
end

-- Offsets of n sequences: 0, n - 1 random cuts, N.
local function offsets_of(n)
  local cuts = { 0, N }
  for _ = 2, n do cuts[#cuts + 1] = math.random(0, N) end
  table.sort(cuts)
  return cuts
end

-- Tokens from + 1 to `to` of a tensor [1, h, N] or [1, h, N, d].
local function part(A, from, to)
  if A:ndims() == 4 then return A(":", ":", { from + 1, to }, ":") end
  return A(":", ":", { from + 1, to })
end

local function there(A) return options.device == "gpu" and A:gpu() or A end

-- The inputs and options of tokens from + 1 to `to`, where the calls run.
local function inputs(from, to)
  local o = {}
  for name, value in pairs(given) do o[name] = type(value) == "string" and value or there(part(value, from, to)) end
  return { from = from, to = to, q = there(part(q, from, to)), k = there(part(k, from, to)),
    v = there(part(v, from, to)), options = o }
end

-- Those of every sequence, without those of no tokens.
local function separate(offsets)
  local parts = {}
  for i = 1, #offsets - 1 do
    if offsets[i + 1] > offsets[i] then parts[#parts + 1] = inputs(offsets[i], offsets[i + 1]) end
  end
  return parts
end

local function run(x) return (call(x.q, x.k, x.v, x.options)) end
local function seconds(f) return btime(f, { show = false }).minimum end

local rows = {}
for i, n in ipairs(options.sequences) do
  local offsets, packed, differ = offsets_of(n), inputs(0, N), 0
  packed.options.cu_seqlens = offsets
  local parts, O = separate(offsets), run(packed):cpu()
  for _, one in ipairs(parts) do differ = differ + sum(ne(part(O, one.from, one.to), run(one):cpu())) end
  rows[i] = { sequences = n, packed = seconds(function() run(packed) end),
    separate = seconds(function() for _, one in ipairs(parts) do run(one) end end), differ = differ }
end
display(text_table(rows, {
  title = string.format("%s, %d tokens, %d heads, d = %d, %s on %s", what, N, h, d, eltype(q),
    options.device == "gpu" and "the GPU" or "the CPU"),
  columns = { { key = "sequences", align = "right" }, { key = "packed", unit = "s" },
    { key = "separate", title = "separate calls", unit = "s" },
    { key = "differ", title = "elements that differ", format = "%d", align = "right" } } }))
