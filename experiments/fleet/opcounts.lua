-- Operations of every method of causal linear attention, counted by running its definition on a counting number type,
-- beside their closed form. The difference has to be 0, or the experiment fails.
--
--   causeway experiments/fleet/opcounts.lua                   seconds
--   causeway experiments/fleet/opcounts.lua --lengths 64,4096
--
--   --lengths 64,100,256,1000,1024   tokens, one head
--   --width 16                       r = d
--   --save results/fleet/opcounts    opcounts.csv, .svg, .html
--
-- It settles two contradictions (claims B1, C1): recursion is N log N, as the fleet document says; Lightning
-- Attention-2 is linear in N, which its own source says and the fleet document's table 1 does not.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, { width = 16, lengths = { 64, 100, 256, 1000, 1024 },
  save = "results/fleet/opcounts" },
  { width = { 1 }, lengths = { 1 } })
local w = options.width

local function counted(method, N, normalize, decay)
  local x = abs(randn(1, 1, N, w)) + 0.1
  return opcount(function() causal_linear_attention(x, x, x, { method = method, normalize = normalize, decay = decay
    and 0.9 or 1 }) end)
end

local rows, wrong, compared = {}, 0, 0
for _, m in ipairs(method_list()) do
  if m.built_in then
    local before
    for _, N in ipairs(options.lengths) do
      local difference = 0
      for _, variant in ipairs({ {}, { normalize = true }, { decay = true }, { normalize = true, decay = true } }) do
        local c = counted(m.name, N, variant.normalize or false, variant.decay)
        local f = cost(m.name, { N = N, r = w, d = w, normalize = variant.normalize or false, decay = variant.decay
          or false })
        for _, what in ipairs({ "multiplies", "adds", "divisions" }) do
          difference = difference + math.abs(c[what] - f[what])
          compared = compared + 1
        end
      end
      wrong = wrong + difference
      local c, f = counted(m.name, N, false, false), cost(m.name, { N = N, r = w, d = w })
      rows[#rows + 1] = {
        method = m.name, time = m.time, N = N, multiplies = c.multiplies, closed_multiplies = f.multiplies,
        adds = c.adds, closed_adds = f.adds, difference = difference,
        per_token = c.multiplies / (N * w * w), growth = before
          and math.log(c.multiplies / before.multiplies) / math.log(N / before.N),
      }
      before = { N = N, multiplies = c.multiplies }
    end
  end
end
local result = text_table(rows, {
  title = string.format("One head, r = d = %d, default blocks: operations counted and in closed form", w),
  columns = {
    "method", "time", { key = "N", align = "right" }, { key = "multiplies", align = "right" },
    { key = "closed_multiplies", title = "closed form", align = "right" },
    { key = "adds", align = "right" }, { key = "closed_adds", title = "closed form", align = "right" },
    { key = "difference", align = "right" },
    { key = "per_token", title = "multiplies/(Nrd)", format = "%.3f", align = "right" },
    { key = "growth", title = "exponent", format = "%.2f", align = "right" },
  },
  note = "difference: of multiplies, adds and divisions together, plain, normalised, decayed and both; exponent: "
    .. "growth of multiplies with N since the row above",
})
display(result)
local verdict = string.format("%d counts compared, sum of differences %d.", compared, wrong)
print("\n" .. verdict)
local file = options.save .. "/" .. options.save:match("[^/]+$")
mkpath(options.save)
result:save(file .. ".csv")
local curves = { xscale = "log", yscale = "log", xlabel = "length N", ylabel = "multiplies / (N r d)",
  title = string.format("Counted multiplies a token, r = d = %d", w), size = { 900, 560 } }
for _, row in ipairs(rows) do
  local last = curves[#curves]
  if not last or last.label ~= row.method then
    last = { x = {}, y = {}, label = row.method, style = #curves < 8 and "linespoints" or "dashed" }
    curves[#curves + 1] = last
  end
  last.x[#last.x + 1], last.y[#last.y + 1] = row.N, row.per_token
end
local figure = plot(curves)
figure:save(file .. ".svg")
report({ title = "Counted operations", save = file .. ".html", data = file .. ".csv", verdict, figure,
  "A level line is linear in N; recursion climbs by a logarithm, vanilla and inner-product by N itself. Lines at 2 lie "
    .. "on one another: all forms that only carry the state.", result })
print(file .. ".csv, .svg, .html")
if wrong ~= 0 then error("counted operations differ from their closed form", 0) end
