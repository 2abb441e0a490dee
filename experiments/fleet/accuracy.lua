-- Attention-output error against rank for every factorisation, with the causal mask and without, on real and random inputs.
--
--   causeway experiments/fleet/accuracy.lua                   a minute
--   causeway experiments/fleet/accuracy.lua --inputs random --ranks 8,16 --length 64 --seeds 2
--
--   --length 512                  tokens; heads and width as the real inputs have them: 4 of 64
--   --heads 2                     of the 4
--   --ranks 16,32,64,128,256      where a factorisation has a rank to choose; others have one point at theirs
--   --seeds 3                     for the random ones
--   --inputs random,layer1,layer4
--   --save results/fleet/accuracy rows.jsonl (goes on where it was stopped), .csv, .json, the figure as .svg, figure and table as .html
--
-- The output is D⁻¹ A V, A = exp(q kᵀ/√d) or its lower triangle, D its row sums; of the estimate likewise. The error of a token is
-- |õ − o| / |o|, and 1 where its estimated row sum is not a positive number (no output: the share of such tokens is `lost`). What counts is
-- the median over tokens: factors with both signs have a few rows whose sum nearly vanishes, which would decide every mean.
-- The exact rows of skeinformer's pilot count, but are at most an eighth of all: half of them would make the median 0.
-- Computed densely in Float64, so that only the factors are wrong.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  length = 512, heads = 2, ranks = { 16, 32, 64, 128, 256 }, seeds = 3, inputs = { "random", "layer1", "layer4" }, save = "results/fleet/accuracy",
}, { length = { 1 }, heads = { 1, 4 }, ranks = { 1 }, seeds = { 1 }, inputs = { "random", "layer1", "layer4" } })
local real = dofile(folder .. "/../lib/real_inputs.lua")
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
  table.sort(errors)
  return errors[(#errors + 1) // 2], lost / #errors
end

local cases = {}
for _, name in ipairs(methods) do
  for _, rank in ipairs(of[name].default_rank and options.ranks or { 0 }) do
    for s = 1, of[name].seeded and options.seeds or 1 do cases[#cases + 1] = string.format("%s %d %d", name, rank, s) end
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
    if name == "hyper" then -- inside of its blocks it is exact
      local same = causeway.eq(extras.query_block:reshape(1, heads, N, 1), extras.key_block:reshape(1, heads, 1, N))
      estimate = estimate + times(f64(same), x.A - estimate)
    elseif name == "skeinformer" then -- and it in the rows of its pilot
      estimate = estimate + times(extras.exact_rows:reshape(1, heads, N, 1), x.A - estimate)
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

-- ── The figure: a panel for each input, with the mask above, without below; bars from least to most over seeds ──
local colours = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a5c00" }
local marks = { 7, 5, 9, 13, 11, 15 }
local floor = 1e-4 -- of the figure
local drawn, extent = {}, { math.huge, 0, math.huge, 0 } -- a curve of a panel as a block of data; least and most rank and error
for _, g in ipairs(order) do
  for _, kind in ipairs({ "masked", "unmasked" }) do
    local list = g[kind]
    local key = g.input .. " " .. kind .. " " .. g.method
    drawn[key] = drawn[key] or {}
    drawn[key][#drawn[key] + 1] = string.format("%d %.9g %.9g %.9g", g.rank, middle(list), list[1], list[#list])
    extent = { math.min(extent[1], g.rank), math.max(extent[2], g.rank), math.min(extent[3], list[1] >= floor and list[1] or math.huge), math.max(extent[4], list[#list]) }
  end
end
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
local unseen = #below_order > 0 and string.format("Points with an error under %g are below the figure: least errors of %s.", floor, table.concat(below_order, ", ")) or nil
if unseen then print("\n" .. unseen) end

-- The legend: as many columns as the width takes, and room for its rows.
local width = math.max(720, 120 + 400 * #options.inputs)
local legend_rows = math.max(3, math.ceil(#methods / (width // 240)))
local function script(kind)
  local marked, labels = {}, {}
  for _, g in ipairs(order) do
    if not marked[g.rank] then
      marked[g.rank] = true
      labels[#labels + 1] = string.format("'%d' %d", g.rank, g.rank)
    end
  end
  local lines = {
    "set logscale xy",
    string.format("set xrange [%g:%g]\nset yrange [%g:%g]", extent[1] / 1.2, extent[2] * 1.2, extent[3] == math.huge and floor or math.max(extent[3] / 1.3, floor), math.max(extent[4] * 1.3, 2 * floor)),
    "set xtics (" .. table.concat(labels, ", ") .. ")" .. (kind == "text" and "" or " rotate by 60 right font ',11'"),
  }
  local names = {}
  for _, input in ipairs(options.inputs) do
    for _, mask_kind in ipairs({ "masked", "unmasked" }) do
      for _, name in ipairs(methods) do
        local key = input .. " " .. mask_kind .. " " .. name
        if drawn[key] then
          names[key] = string.format("$d%d", #lines)
          lines[#lines + 1] = names[key] .. " << END\n" .. table.concat(drawn[key], "\n") .. "\nEND"
        end
      end
    end
  end
  lines[#lines + 1] = string.format("set multiplot layout 2,%d margins screen %.4f, 0.99, %.4f, 0.955 spacing screen 0.02, 0.1", #options.inputs, 86 / width, (100 + 22 * legend_rows) / 900)
  local first = true
  for _, mask_kind in ipairs({ "masked", "unmasked" }) do
    for i, input in ipairs(options.inputs) do
      lines[#lines + 1] = first and "set key at screen 0.5, 0.01 center bottom vertical maxrows " .. legend_rows .. " Left reverse noenhanced samplen 2.5 width 1 textcolor rgb '#3c4043'" or "unset key"
      first = false
      lines[#lines + 1] = string.format("set title %s noenhanced", causeway._gnuplot_quoted(input:gsub("layer", "layer ") .. (mask_kind == "masked" and ", causal mask" or ", no mask")))
      lines[#lines + 1] = i == 1 and "set ylabel 'relative error, median token' textcolor rgb '#3c4043'" or "unset ylabel"
      lines[#lines + 1] = i == 1 and "set format y '%g'" or "set format y ''"
      lines[#lines + 1] = mask_kind == "masked" and "unset xlabel" or "set xlabel 'rank' textcolor rgb '#3c4043'" .. (kind == "text" and "" or " offset 0, 0.5")
      local parts, single = {}, {} -- the points of the maps without a choice of rank come on top
      for j, name in ipairs(methods) do
        local data = names[input .. " " .. mask_kind .. " " .. name]
        if data then
          local open = j > #colours -- the second round of colours: dashed, with open marks
          local look = string.format("linewidth %g pointtype %d pointsize 0.7 linecolor rgb '%s'", name == "svd" and 4 or 1.6, marks[(j - 1) % #marks + 1] - (open and 1 or 0), name == "svd" and "#202124" or colours[(j - 1) % #colours + 1])
          local title = string.format("%s using 1:2 title %s", data, causeway._gnuplot_quoted(name .. (below[name] and " ↓" or "")))
          if not of[name].default_rank then single[#single + 1] = title .. " with points " .. look:gsub("pointsize 0.7", "pointsize 1.1"):gsub("linewidth 1.6", "linewidth 2.5") end
          if of[name].seeded then parts[#parts + 1] = string.format("%s using 1:2:3:4 notitle with yerrorbars %s", data, look) end
          if of[name].default_rank then parts[#parts + 1] = title .. " with linespoints " .. look .. (name == "svd" and " dashtype 3" or open and " dashtype 2" or "") end
        end
      end
      lines[#lines + 1] = "plot " .. table.concat(table.move(single, 1, #single, #parts + 1, parts), ", ")
    end
  end
  return table.concat(lines, "\n") .. "\nunset multiplot\n"
end
if #order > 0 then
  local figure = causeway._figure({ script = script, size = { width, 900 } })
  figure:save(file .. ".svg")
  causeway.report({ title = "Attention output of low-rank factors", save = file .. ".html", figure,
    unseen and unseen .. " They are marked ↓ in the legend." or "",
    "The error of a token is |õ − o| / |o| of the normalised attention output; drawn is that of the median token, the bars go from the least to the most over seeds. svd is the least that a matrix of that rank can have in its norms.",
    result })
  print("\n" .. options.save .. ": rows.jsonl, " .. options.save:match("[^/]+$") .. ".csv, .json, .svg, .html")
end
