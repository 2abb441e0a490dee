-- Attention-output error against rank for every factorisation, with the causal mask and without, on real and random inputs.
--
--   causeway experiments/fleet/accuracy.lua                   minutes
--   causeway experiments/fleet/accuracy.lua --inputs random --ranks 8,16 --length 64 --seeds 2
--
--   --length 512                  tokens; heads and width as the real inputs have them: 4 of 64
--   --heads 2                     of the 4
--   --ranks 16,32,64,128,256      where a factorisation has a rank to choose; others have one point at theirs
--   --seeds 3                     for the random ones
--   --inputs random,layer1,layer4
--   --save results/fleet/accuracy rows.jsonl (goes on where it was stopped), .csv, .json, .html, a figure for each input
--
-- The output is D⁻¹ A V, A = exp(q kᵀ/√d) or its lower triangle, D its row sums; of the estimate likewise. The error of a token is
-- |õ − o| / |o|, and 1 where its estimated row sum is not a positive number (no output: the share of such tokens is `lost`). What counts is
-- the median over tokens: factors with both signs have a few rows whose sum nearly vanishes, which would decide every mean.
-- Computed densely in Float64, so that only the factors are wrong.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  length = 512, heads = 2, ranks = { 16, 32, 64, 128, 256 }, seeds = 3, inputs = { "random", "layer1", "layer4" }, save = "results/fleet/accuracy",
})
local real = dofile(folder .. "/../lib/real_inputs.lua")
local N, heads = math.tointeger(options.length), math.max(1, math.min(4, math.tointeger(options.heads) or 2))
local of = {}
local methods = {}
for i, m in ipairs(lowrank_method_list()) do
  of[m.name] = m
  methods[i] = m.name
end

local mask = zeros(N, N, "f64")
for i = 1, N do mask:set(1, i, { 1, i }) end

local function output(A, v) return A * v / sum(A, 4) end

local made = {}
local function problem(name)
  if made[name] then return made[name] end
  local q, k, v
  if name == "random" then
    seed(1)
    q, k, v = randn(1, heads, N, 64), randn(1, heads, N, 64), randn(1, heads, N, 64)
  else
    local number = tonumber(name:match("^layer(%d+)$")) or error(string.format("--inputs: %q, expected random, layer1 or layer4", name), 0)
    local layer = real.layer(folder .. "/..", number)
    local function part(x) return copy(real.tokens(x, N)(":", { 1, heads }, ":", ":")) end
    q, k, v = part(layer.q), part(layer.k), part(layer.V)
  end
  q, k, v = f64(q), f64(k), f64(v)
  local A = exp(q * k:t() / 8)
  made = { [name] = { q = q, k = k, v = v, A = A, plain = output(A, v), masked = output(times(A, mask), v) } }
  return made[name]
end

-- Median error of a token, and the share of tokens without output.
local function error_of(estimate, v, exact)
  local sums = sum(estimate, 4)
  local difference = estimate * v / sums - exact
  local relative = sqrt(sum(times(difference, difference), 4) / sum(times(exact, exact), 4)):reshape(heads * N)
  sums = sums:reshape(heads * N)
  local errors, lost = {}, 0
  for i = 1, heads * N do
    local bad = not (sums(i) > 0)
    errors[i] = bad and 1 or relative(i)
    lost = lost + (bad and 1 or 0)
  end
  table.sort(errors)
  return errors[(#errors + 1) // 2], lost / #errors
end

local cases = {}
for _, name in ipairs(methods) do
  for _, rank in ipairs(of[name].default_rank and options.ranks or { 0 }) do
    for s = 1, of[name].seeded and options.seeds or 1 do cases[#cases + 1] = string.format("%s %d %d", name, rank, s) end
  end
end
local file = options.save .. "/" .. options.save:match("[^/]+$")
local finished = io.open(file .. ".json")
if finished then finished:close() end
local results = sweep{
  grid = { input = options.inputs, case = cases, N = { N }, heads = { heads } },
  order = { "N", "heads", "input", "case" },
  save = options.save,
  fresh = finished ~= nil,
  run = function(p)
    local x = problem(p.input)
    local name, rank, s = p.case:match("^(%S+) (%d+) (%d+)$")
    rank = math.tointeger(rank)
    local B, C, extras = lowrank(name, x.q, x.k, { rank = rank > 0 and math.min(rank, N) or nil, seed = math.tointeger(s) })
    local estimate = B * C:t()
    if name == "hyper" then -- inside of its blocks it is exact
      local same = causeway.eq(extras.query_block:reshape(1, heads, N, 1), extras.key_block:reshape(1, heads, 1, N))
      estimate = estimate + times(f64(same), x.A - estimate)
    end
    local plain, lost = error_of(estimate, x.v, x.plain)
    local masked, lost_masked = error_of(times(estimate, mask), x.v, x.masked)
    return { method = name, columns = B:size(4), rank_asked = rank, unmasked = plain, masked = masked, lost = lost, lost_masked = lost_masked }
  end,
}

-- ── The table: for each input, method and rank the median over seeds, and least to most ──
local groups, order = {}, {}
for _, row in ipairs(results) do
  if row.status == "ok" then
    local key = row.input .. " " .. row.method .. " " .. row.columns
    if not groups[key] then
      groups[key] = { input = row.input, method = row.method, rank = row.columns, unmasked = {}, masked = {}, lost = {} }
      order[#order + 1] = groups[key]
    end
    local g = groups[key]
    g.unmasked[#g.unmasked + 1], g.masked[#g.masked + 1], g.lost[#g.lost + 1] = row.unmasked, row.masked, row.lost_masked
  end
end
local function middle(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end
local function spread(list) return #list > 1 and string.format("%s – %s", causeway.number_text(list[1], 3), causeway.number_text(list[#list], 3)) or "" end
local rows = {}
for i, g in ipairs(order) do
  rows[i] = { input = g.input, method = g.method, rank = g.rank, unmasked = middle(g.unmasked), masked = middle(g.masked), lost = middle(g.lost) }
  rows[i].unmasked_spread, rows[i].masked_spread = spread(g.unmasked), spread(g.masked)
end
local result = causeway.text_table(rows, {
  title = string.format("Relative error of the attention output, median token, N = %d, %d heads of width 64", N, heads),
  columns = {
    "input", "method", { key = "rank", align = "right" }, { key = "unmasked", format = "%.3g", align = "right" }, { key = "unmasked_spread", title = "over seeds" },
    { key = "masked", format = "%.3g", align = "right" }, { key = "masked_spread", title = "over seeds" }, { key = "lost", title = "lost, masked", format = "%.3f", align = "right" },
  },
  note = "lost: share of tokens whose estimated row sum is not a positive number",
})
display(result)

-- ── The figures ──
local page = { result }
for _, input in ipairs(options.inputs) do
  for _, kind in ipairs({ "masked", "unmasked" }) do
    local curves = { xscale = "log", yscale = "log", xlabel = "rank", ylabel = "relative error, median token", title = string.format("%s, %s", input, kind), size = { 900, 560 } }
    for i, name in ipairs(methods) do
      local one = { x = {}, y = {}, error = {}, label = name }
      for _, g in ipairs(order) do
        if g.input == input and g.method == name then
          local list = g[kind]
          one.x[#one.x + 1], one.y[#one.y + 1] = g.rank, middle(list)
          one.error[#one.error + 1] = math.min((list[#list] - list[1]) / 2, 0.9 * middle(list))
        end
      end
      one.style = i <= 8 and "linespoints" or #one.x > 1 and "dashed" or "points" -- eight colours and marks are told apart
      if #one.x > 0 then curves[#curves + 1] = one end
    end
    if #curves > 0 then
      local figure = plot(curves)
      figure:save(string.format("%s/%s-%s.svg", options.save, input, kind))
      page[#page + 1] = figure
    end
  end
end
page.title, page.save = "Attention output of low-rank factors", file .. ".html"
causeway.report(page)
print("\n" .. options.save .. ": rows.jsonl, " .. options.save:match("[^/]+$") .. ".csv, .json, .html, " .. #page - 1 .. " figures")
