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
--   --seed 1
local options = dofile((arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../lib/arguments.lua")(arg, {
  tokens = 8192, heads = 8, d = 64, sequences = { 1, 8, 1000 }, call = "linear_attention", update = "",
  method = "", seed = 1,
}, { tokens = { 1 }, heads = { 1 }, d = { 1 }, sequences = { 1 }, seed = { 0 },
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

-- Every sequence in a call of its own, without those of no tokens; the outputs in a list.
local function alone(offsets)
  local outputs = {}
  for i = 1, #offsets - 1 do
    local from, to = offsets[i], offsets[i + 1]
    if to > from then
      local o = {}
      for name, value in pairs(given) do o[name] = type(value) == "string" and value or part(value, from, to) end
      outputs[#outputs + 1] = { from = from, to = to,
        O = call(part(q, from, to), part(k, from, to), part(v, from, to), o) }
    end
  end
  return outputs
end

local rows = {}
for i, n in ipairs(options.sequences) do
  local packed = { cu_seqlens = offsets_of(n) }
  for name, value in pairs(given) do packed[name] = value end
  local O = call(q, k, v, packed)
  local differ = 0
  for _, one in ipairs(alone(packed.cu_seqlens)) do
    differ = differ + sum(ne(part(O, one.from, one.to), one.O))
  end
  rows[i] = { sequences = n, packed = btime(function() return call(q, k, v, packed) end,
    { show = false }).minimum, separate = btime(function() return alone(packed.cu_seqlens) end,
    { show = false }).minimum, differ = differ }
end
display(text_table(rows, {
  title = string.format("%s, %d tokens, %d heads, d = %d", what, N, h, d),
  columns = { { key = "sequences", align = "right" }, { key = "packed", unit = "s" },
    { key = "separate", title = "separate calls", unit = "s" },
    { key = "differ", title = "elements that differ", format = "%d", align = "right" } } }))
