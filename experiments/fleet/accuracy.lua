-- Attention-output error against rank for every factorisation, with the causal mask and without, on real and random
-- inputs.
--
--   causeway experiments/fleet/accuracy.lua                   a minute
--   causeway experiments/fleet/accuracy.lua --inputs random --ranks 8,16 --length 64 --seeds 2
--
--   --length 512                  tokens; heads and width as the real inputs have them: 4 of 64
--   --heads 2                     of the 4
--   --ranks 16,32,64,128,256      where a factorisation has a rank to choose; others have one point at theirs
--   --seeds 3                     for the random ones
--   --inputs random,layer1,layer4
--   --save results/fleet/accuracy rows.jsonl (goes on where it was stopped), .csv, .json, the figure as .svg, figure
--   and table as .html
--
-- The output is D⁻¹ A V, A = exp(q kᵀ/√d) or its lower triangle, D its row sums; of the estimate likewise. The error of
-- a token is |õ − o| / |o|, and 1 where its estimated row sum is not a positive number (no output: the share of such
-- tokens is `lost`). What counts is the median over tokens: factors with both signs have a few rows whose sum nearly
-- vanishes, which would decide every mean. The exact rows of skeinformer's pilot count, but are at most an eighth of
-- all: half of them would make the median 0. Computed densely in Float64, so that only the factors are wrong.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  length = 512, heads = 2, ranks = { 16, 32, 64, 128, 256 }, seeds = 3, inputs = { "random", "layer1", "layer4" },
  save = "results/fleet/accuracy",
}, { length = { 1 }, heads = { 1, 4 }, ranks = { 1 }, seeds = { 1 }, inputs = { "random", "layer1", "layer4" } })
local real, middle = dofile(folder .. "/../lib/real_inputs.lua"), dofile(folder .. "/../lib/middle.lua")
local exact_blocks = dofile(folder .. "/../lib/exact_blocks.lua")
local N, heads = options.length, options.heads
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
    local layer = real.layer(folder .. "/..", tonumber(name:match("%d+")))
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
  return middle(errors), lost / #errors
end

local cases = {}
for _, name in ipairs(methods) do
  for _, rank in ipairs(of[name].default_rank and options.ranks or { 0 }) do
    for s = 1, of[name].seeded and options.seeds or 1 do
      cases[#cases + 1] = string.format("%s %d %d", name, rank, s)
    end
  end
end
local file, finished = dofile(folder .. "/../lib/kept.lua")(options.save)
local results = sweep{
  grid = { input = options.inputs, case = cases, N = { N }, heads = { heads } },
  order = { "N", "heads", "input", "case" },
  save = options.save,
  fresh = finished,
  run = function(p)
    local x = problem(p.input)
    local name, rank, s = p.case:match("^(%S+) (%d+) (%d+)$")
    rank = math.tointeger(rank)
    local given = { rank = rank > 0 and math.min(rank, N) or nil, seed = math.tointeger(s) }
    if name == "skeinformer" then given.v, given.pilot = x.v, math.max(1, math.min(rank, N // 8)) end
    local B, C, extras = lowrank(name, x.q, x.k, given)
    local estimate = B * C:t()
    if name == "hyper" then
      estimate = exact_blocks(estimate, x.A, extras)
    elseif name == "skeinformer" then -- exact in the rows of its pilot
      estimate = estimate + times(extras.exact_rows:reshape(1, heads, N, 1), x.A - estimate)
    end
    local plain, lost = error_of(estimate, x.v, x.plain)
    local masked, lost_masked = error_of(times(estimate, mask), x.v, x.masked)
    return { method = name, columns = B:size(4), rank_asked = rank, unmasked = plain, masked = masked, lost = lost,
      lost_masked = lost_masked }
  end,
}

-- ── The table: for each input, method and rank the median over seeds, and least to most ──
local groups, order = {}, {}
for _, row in ipairs(results) do
  if row.status == "ok" then
    local key = row.input .. " " .. row.method .. " " .. row.columns
    if not groups[key] then
      groups[key] = { input = row.input, method = row.method, rank = row.columns, unmasked = {}, masked = {},
        lost = {} }
      order[#order + 1] = groups[key]
    end
    local g = groups[key]
    g.unmasked[#g.unmasked + 1], g.masked[#g.masked + 1], g.lost[#g.lost + 1] = row.unmasked, row.masked,
      row.lost_masked
  end
end
local function spread(list)
  return #list > 1 and string.format("%s – %s", number_text(list[1], 3), number_text(list[#list], 3)) or ""
end
local rows = {}
for i, g in ipairs(order) do
  rows[i] = { input = g.input, method = g.method, rank = g.rank, unmasked = middle(g.unmasked),
    masked = middle(g.masked), lost = middle(g.lost) }
  rows[i].unmasked_spread, rows[i].masked_spread = spread(g.unmasked), spread(g.masked)
end
local result = text_table(rows, {
  title = string.format("Relative error of the attention output, median token, N = %d, %d heads of width 64", N, heads),
  columns = {
    "input", "method", { key = "rank", align = "right" }, { key = "unmasked", format = "%.3g", align = "right" },
    { key = "unmasked_spread", title = "over seeds" },
    { key = "masked", format = "%.3g", align = "right" }, { key = "masked_spread", title = "over seeds" },
    { key = "lost", title = "lost, masked", format = "%.3f", align = "right" },
  },
  note = "lost: share of tokens whose estimated row sum is not a positive number",
})
display(result)

-- ── The figure: a panel for each input, with the mask above, without below; bars from least to most over seeds ──
local floor = 1e-4 -- of the figure
local kinds = { { key = "masked", text = ", causal mask" }, { key = "unmasked", text = ", no mask" } }
-- A point below the floor is not seen: the legend and a note say so.
local below, below_order = {}, {}
for _, g in ipairs(order) do
  local least = math.min(middle(g.masked), middle(g.unmasked))
  if least < floor then
    if not below[g.method] then below_order[#below_order + 1] = g.method end
    below[g.method] = math.min(below[g.method] or 1, least)
  end
end
for i, name in ipairs(below_order) do below_order[i] = string.format("%s (%.1e)", name, below[name]) end
local unseen = #below_order > 0
  and string.format("Points with an error under %g are below the figure: least errors of %s.", floor,
  table.concat(below_order, ", ")) or nil
if unseen then print("\n" .. unseen) end

-- The curve of a method in a panel, nil where there is none: the median over seeds against the rank.
local function curve_of(input, kind, name)
  local curve = { x = {}, y = {}, error = of[name].seeded and { from = {}, to = {} } or nil }
  for _, g in ipairs(order) do
    if g.input == input and g.method == name then
      local list = g[kind]
      local median = middle(list)
      curve.x[#curve.x + 1], curve.y[#curve.y + 1] = g.rank, median
      if curve.error then
        curve.error.from[#curve.x], curve.error.to[#curve.x] = math.max(list[1], floor), list[#list]
      end
    end
  end
  if #curve.x == 0 then return nil end
  curve.label = name .. (below[name] and " ↓" or "")
  curve.width = name == "svd" and 5 or nil -- rsvd lies on it
  curve.style = name == "svd" and "dashed" or of[name].default_rank and "linespoints" or "points"
  return curve
end

-- The least and the most of what the figure shows.
local function error_range()
  local least, most = math.huge, 2 * floor
  for _, g in ipairs(order) do
    for _, kind in ipairs(kinds) do
      local list = g[kind.key]
      if list[1] >= floor then least = math.min(least, list[1]) end
      most = math.max(most, list[#list] * 1.3)
    end
  end
  return { least == math.huge and floor or math.max(least / 1.3, floor), most }
end

-- Methods first, so that a method has its colour wherever it is drawn.
local function panel_of(input, kind)
  local panel = { title = input:gsub("layer", "layer ") .. kind.text }
  for _, name in ipairs(methods) do panel[#panel + 1] = curve_of(input, kind.key, name) end
  return panel
end

if #order > 0 then
  local ranks, seen = {}, {}
  for _, g in ipairs(order) do
    if not seen[g.rank] then ranks[#ranks + 1], seen[g.rank] = g.rank, true end
  end
  local panels = {}
  for _, kind in ipairs(kinds) do
    for _, input in ipairs(options.inputs) do
      local panel = panel_of(input, kind)
      if #panel > 0 then panels[#panels + 1] = panel end
    end
  end
  local figure = plot({
    panels = panels, columns = #panels // 2, xscale = "log", yscale = "log", xticks = ranks, yrange = error_range(),
    xlabel = "rank", ylabel = "relative error, median token", size = { math.max(720, 120 + 400 * #panels // 2), 900 },
  })
  figure:save(file .. ".svg")
  report({ title = "Attention output of low-rank factors", save = file .. ".html", data = file .. ".csv", figure,
    unseen and unseen .. " They are marked ↓ in the legend." or "",
    "The error of a token is |õ − o| / |o| of the normalised attention output; drawn is that of the median token, the "
      .. "bars go from the least to the most over seeds. svd is the least that a matrix of that rank can have in its "
      .. "norms.",
    result })
  print("\n" .. options.save .. ": rows.jsonl, " .. options.save:match("[^/]+$") .. ".csv, .json, .svg, .html")
end
