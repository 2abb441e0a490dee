-- The overview of methods that fleet and leet print as their Tables 1, and what is counted here.
--
--   complexity.rows(item, list)      list: {{label, name, stated}, …}; counts each and judges its stated growth
--
-- Operations are closed forms (cost), which the definition, run on a number type that counts, must equal to the last
-- one.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$")
local verdicts = dofile(folder .. "/verdicts.lua")
local complexity = {}

-- Long enough for what is quadratic to be seen, and counted without running.
local lengths = {}
for power = 12, 20 do lengths[#lengths + 1] = 2 ^ power // 1 | 0 end
local width = 16

-- Differences between counted and closed-form operations at lengths that no block divides.
local function differences(name)
  local sum, compared = 0, 0
  for _, N in ipairs({ 33, 100, 257 }) do
    local x = randn(1, 1, N, width)
    local counted = opcount(function() causal_linear_attention(x, x, x, { method = name }) end)
    local closed = cost(name, { N = N, r = width, d = width })
    for _, what in ipairs({ "multiplies", "adds", "divisions" }) do
      sum, compared = sum + math.abs(counted[what] - closed[what]), compared + 1
    end
  end
  return sum, compared
end

-- The exponent that a statement such as O(N log N) has, and what is divided by first.
local function stated_growth(text)
  if text == "O(N^2)" then return 2, function() return 1 end end
  if text == "O(N log N)" then return 1, function(N) return math.log(N) end end
  return 1, function() return 1 end
end

--- Shows and judges; each of list: label, name, stated, claim of its growth.
function complexity.rows(item, list)
  local rows, curves = {}, { xscale = "log", yscale = "log", xlabel = "length N", ylabel = "multiplies a token",
    title = "Counted multiplies, one head, r = d = " .. width }
  local wrong, all = 0, 0
  for i, m in ipairs(list) do
    local sum, compared = differences(m.name)
    local exponent, divisor = stated_growth(m.stated)
    local counts, shared, curve = {}, {}, { x = {}, y = {}, label = m.name }
    for k, N in ipairs(lengths) do
      counts[k] = cost(m.name, { N = N, r = width, d = width }).multiplies
      shared[k] = counts[k] / divisor(N)
      curve.x[k], curve.y[k] = N, counts[k] / N
    end
    curves[i] = curve
    local verdict = verdicts.exponent_is(verdicts.fit(lengths, shared), exponent)
    if m.stated == "O(N log N)" then verdict.statistic = verdict.statistic .. ", after division by log N" end
    item:judge(m.label .. ": time " .. m.stated, "count", verdict, m.claim)
    wrong, all = wrong + sum, all + compared
    rows[i] = { label = m.label, stated = m.stated, name = m.name,
      per_token = cost(m.name, { N = 65536, r = width, d = width }).multiplies / 65536,
      growth = verdicts.fit(lengths, counts).exponent }
  end
  item:judge("counted operations are the closed form", "count", verdicts.equal(wrong, 0,
    string.format("sum of the differences of %d counts", all)), "B1")
  item:table(rows, { title = "Time of the methods, stated and counted", columns = {
    { key = "label", title = "method" }, { key = "stated", title = "printed" }, { key = "name", title = "here" },
    { key = "per_token", title = "multiplies a token, N = 65536", align = "right" },
    { key = "growth", title = "exponent of N", format = "%.3f", align = "right" } },
    note = string.format("one head, r = d = %d; exponents from N = %d to %d", width, lengths[1], lengths[#lengths]) })
  item:figure(curves)
end

return complexity
