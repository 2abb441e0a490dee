-- How much the causal mask can enlarge the error of a low-rank attention matrix: the operator norm of M ⊙ (A − B Cᵀ)
-- over that of A − B Cᵀ against N, for random and real queries and keys and for the worst matrices there are, beside
-- the constant U_N that no matrix exceeds (fleet, Theorem 4.1; claims A2, A6).
--
--   causeway experiments/fleet/masked_error.lua               minutes
--   causeway experiments/fleet/masked_error.lua --lengths 64,128 --heads 1
--
--   --lengths 64,…,2048                 tokens; real inputs have 2048
--   --methods favor+,nystrom            factorisations
--   --rank 64                           of them, at most N/2
--   --heads 2                           heads of real and random inputs; the largest ratio of them counts
--   --save results/fleet/masked_error   rows.jsonl (goes on where it was stopped), .csv, .json, .html, ratio.svg
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local known = {}
for i, m in ipairs(lowrank_method_list()) do known[i] = m.name end
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  lengths = { 64, 128, 256, 512, 1024, 2048 }, methods = { "favor+", "nystrom" }, rank = 64, heads = 2,
  save = "results/fleet/masked_error",
}, { lengths = { 2 }, methods = known, rank = { 1 }, heads = { 1, 4 } })
local real = dofile(folder .. "/../lib/real_inputs.lua")
local heads = options.heads
local worst = { W = true, G = true, H = true }
local cases = { "W", "G", "H" }
for _, input in ipairs({ "random", "layer 1", "layer 4" }) do
  for _, method in ipairs(options.methods) do cases[#cases + 1] = input .. ", " .. method end
end

local layers = {}
local function inputs_of(name, N)
  if name == "random" then
    seed(1)
    return randn(1, heads, N, 64), randn(1, heads, N, 64)
  end
  local number = tonumber(name:match("%d"))
  layers[number] = layers[number] or real.layer(folder .. "/..", number)
  local function part(x) return copy(real.tokens(x, N)(":", { 1, heads }, ":", ":")) end
  return part(layers[number].q), part(layers[number].k)
end

local file, finished = dofile(folder .. "/../lib/kept.lua")(options.save)
local results = sweep{
  grid = { N = options.lengths, case = cases, rank = { options.rank }, heads = { heads } },
  order = { "rank", "heads", "N", "case" },
  save = options.save,
  fresh = finished,
  run = function(p)
    if worst[p.case] then
      local norms = masked_norms(masked_worst_case(p.N, p.case))
      return { ratio = norms.operator.ratio, frobenius_ratio = norms.frobenius.ratio,
        bound = norms.operator.ratio_bound }
    end
    local input, method = p.case:match("^(.*), (.*)$")
    local q, k = inputs_of(input, p.N)
    local B, C, extras = lowrank(method, q, k, { rank = math.min(p.rank, p.N // 2), seed = 1 })
    local e = lowrank_error(q, k, B, C, { extras = extras, tolerance = 1e-4 })
    local ratio, frobenius = 0, 0
    for _, head in ipairs(e.heads) do
      ratio, frobenius = math.max(ratio, head.operator.ratio), math.max(frobenius, head.frobenius.ratio)
    end
    return { ratio = ratio, frobenius_ratio = frobenius, relative = e.operator.relative,
      relative_masked = e.operator.relative_masked, bound = e.operator.ratio_bound }
  end,
}

local ratio_of, above = {}, 0
for _, row in ipairs(results) do
  if row.status == "ok" then
    ratio_of[row.case] = ratio_of[row.case] or {}
    ratio_of[row.case][row.N] = row.ratio
    if row.ratio > row.bound * (1 + 1e-6) or row.frobenius_ratio > 1 + 1e-12 then above = above + 1 end
  end
end
local lines, columns = {}, { { key = "case" } }
for _, N in ipairs(options.lengths) do
  columns[#columns + 1] = { key = "N" .. N, title = "N = " .. N, format = "%.3f", align = "right" }
end
local function line(name, value)
  local cells = { case = name }
  for _, N in ipairs(options.lengths) do cells["N" .. N] = value(N) end
  lines[#lines + 1] = cells
end
for _, case in ipairs(cases) do line(case, function(N) return ratio_of[case] and ratio_of[case][N] end) end
line("U_N", masking_constant)
line("1 + ln(N)/π", function(N) return 1 + math.log(N) / math.pi end)
local result = text_table(lines, { title = "Operator norm of the masked error over that of the unmasked one",
  columns = columns })
local verdict = string.format("%d measurements, %d above their bound (operator norm: U_N, Frobenius norm: 1).",
  #results, above)
display(result)
print("\n" .. verdict)

local curves = { xscale = "log", xlabel = "length N", ylabel = "masked / unmasked operator norm",
  title = "What the mask does to the error" }
local function curve(label, value, style)
  local one = { x = {}, y = {}, label = label, style = style }
  for _, N in ipairs(options.lengths) do
    if value(N) then one.x[#one.x + 1], one.y[#one.y + 1] = N, value(N) end
  end
  if #one.x > 0 then curves[#curves + 1] = one end
end
curve("U_N, no matrix exceeds it", masking_constant, "dashed")
curve("ln(N)/π", function(N) return math.log(N) / math.pi end, "dashed")
for _, case in ipairs(cases) do
  curve(worst[case] and "worst case " .. case or case, function(N) return ratio_of[case] and ratio_of[case][N] end)
end
local figure = plot(curves)
display(figure)
figure:save(options.save .. "/ratio.svg")
report({ title = "The error of masked low-rank attention", save = file .. ".html", data = file .. ".csv",
  verdict, result, figure,
  "Random: normal queries and keys of width 64. Layers 1 and 4: those of the small Llama in experiments/data. The "
    .. "largest ratio of the heads is shown." })
print("\n" .. options.save .. ": rows.jsonl, " .. options.save:match("[^/]+$") .. ".csv, .json, .html, ratio.svg")
if above > 0 then error("a bound is exceeded", 0) end
