-- Whether a reproduction agrees with what a document prints, each rule with the statistic that it decides by. A verdict
-- is {verdict = WORD, statistic = TEXT, value = NUMBER or nil}, WORD one of
--   holds      by the rule
--   differs    by the rule
--   undecided  what was measured allows both
--   not run    a reason stands in place of the statistic
-- Times of two machines are compared only through what one factor of speed does not change.
local verdicts = {}

verdicts.margin = 0.25         -- of ratios after the machine factor, and of what counts as a different time
verdicts.exponent_margin = 0.25

local function number(x, digits) return number_text(x, digits or 3) end

--- How many there are of each: {holds =, differs =, undecided =, ["not run"] =}.
function verdicts.count(list)
  local counts = { holds = 0, differs = 0, undecided = 0, ["not run"] = 0 }
  for _, v in ipairs(list) do counts[v.verdict] = counts[v.verdict] + 1 end
  return counts
end

function verdicts.not_run(reason) return { verdict = "not run", statistic = reason } end

--- A statement that is true or false as it stands.
function verdicts.whether(true_or_false, statistic, value)
  return { verdict = true_or_false and "holds" or "differs", statistic = statistic, value = value }
end

--- A count or a closed form: equal to the last digit.
function verdicts.equal(ours, expected, what)
  return verdicts.whether(ours == expected, string.format("%s%s, expected %s", what and what .. ": " or "",
    number(ours, 6), number(expected, 6)), ours)
end

--- A figure of the text: within a share of it, 25 % unless given.
function verdicts.near(ours, printed, share)
  share = share or verdicts.margin
  local off = ours / printed - 1
  return verdicts.whether(math.abs(off) <= share, string.format("%s here, %s printed: %+.1f %%", number(ours, 4),
    number(printed, 4), 100 * off), ours)
end

-- ── Which is faster ──

--- One of the methods is the fastest: all others take more than 25 % longer; it differs where another one is faster by
--- more. times: a list of {method =, time =}, those without a number left out.
function verdicts.fastest(method, times)
  local own, best, next_best
  for _, t in ipairs(times) do
    if type(t.time) == "number" then
      if t.method == method then own = t end
      if not best or t.time < best.time then best = t end
      if t.method ~= method and not (next_best and next_best.time <= t.time) then next_best = t end
    end
  end
  if not own or not next_best then return verdicts.not_run("that method, or all others, have no time") end
  local ratio = next_best.time / own.time
  local word = ratio > 1 + verdicts.margin and "holds" or 1 / ratio > 1 + verdicts.margin and "differs" or "undecided"
  local text = string.format("%s is the fastest; %s takes %s times as long as %s", best.method, next_best.method,
    number(ratio), method)
  return { verdict = word, value = ratio, statistic = text }
end

--- A ratio of times is as large as stated; it differs where it is more than 25 % less.
function verdicts.at_least(ratio, least, text)
  local word = ratio >= least and "holds" or ratio * (1 + verdicts.margin) < least and "differs" or "undecided"
  return { verdict = word, value = ratio, statistic = text }
end

--- One of two is the faster one everywhere: all ratios of the other's time to its own are above 1.25; it differs where
--- one is below 1 / 1.25.
function verdicts.always_faster(ratios, what)
  if #ratios == 0 then return verdicts.not_run("nothing has both times") end
  local faster, slower, least = 0, 0, math.huge
  for _, ratio in ipairs(ratios) do
    if ratio > 1 + verdicts.margin then faster = faster + 1 end
    if ratio * (1 + verdicts.margin) < 1 then slower = slower + 1 end
    least = math.min(least, ratio)
  end
  local word = slower > 0 and "differs" or faster == #ratios and "holds" or "undecided"
  return { verdict = word, value = least, statistic = string.format(
    "%d of %d %s by more than 25 %%, slower in %d; the least ratio %s", faster, #ratios, what, slower, number(least)) }
end

-- ── Growth ──

-- 97.5 % quantiles of Student's t for 1, 2, … degrees of freedom.
local t_quantiles = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
  2.131, 2.120, 2.110, 2.101, 2.093, 2.086 }
local function t_quantile(freedom)
  if freedom < 1 then return math.huge end
  return t_quantiles[freedom] or 1.96 + 2.4 / freedom
end

--- The line log y = a + p log x of least squares: {exponent = p, error = its standard error, half = half of its 95 %
--- interval, count}; nil for less than two points. Two points have a slope and no interval.
function verdicts.fit(x, y)
  local n = #x
  if n < 2 then return nil end
  local mean_x, mean_y = 0, 0
  for i = 1, n do mean_x, mean_y = mean_x + math.log(x[i]) / n, mean_y + math.log(y[i]) / n end
  local sxx, sxy = 0, 0
  for i = 1, n do
    local dx = math.log(x[i]) - mean_x
    sxx, sxy = sxx + dx * dx, sxy + dx * (math.log(y[i]) - mean_y)
  end
  if sxx == 0 then return nil end
  local p, rest = sxy / sxx, 0
  for i = 1, n do rest = rest + (math.log(y[i]) - mean_y - p * (math.log(x[i]) - mean_x)) ^ 2 end
  local err = n > 2 and math.sqrt(rest / (n - 2) / sxx) or math.huge
  return { exponent = p, error = err, half = err * t_quantile(n - 2), count = n }
end

function verdicts.fit_text(fit)
  if not fit then return "too few points" end
  if fit.half == math.huge then return string.format("%.2f (%d points)", fit.exponent, fit.count) end
  return string.format("%.2f ± %.2f", fit.exponent, fit.half)
end

--- The same growth exponent: the 95 % interval of the difference of two fits lies within 0.25 of zero. It differs where
--- the interval is on one side of zero and the difference is more than 0.25; anything else is undecided.
function verdicts.same_exponent(ours, printed)
  if not ours or not printed then return verdicts.not_run("too few lengths with both a printed and an own time") end
  local difference = ours.exponent - printed.exponent
  local half = t_quantile(math.min(ours.count, printed.count) - 2) * math.sqrt(ours.error ^ 2 + printed.error ^ 2)
  if half ~= half then half = math.huge end -- an infinite quantile of exact fits
  local word = "undecided"
  if math.abs(difference) + half <= verdicts.exponent_margin then
    word = "holds"
  elseif math.abs(difference) > math.max(half, verdicts.exponent_margin) then
    word = "differs"
  end
  return { verdict = word, value = ours.exponent, statistic = string.format("N^%s here, N^%s printed",
    verdicts.fit_text(ours), verdicts.fit_text(printed)) }
end

--- An exponent that a formula states, such as 1 for O(N): the fit's interval lies within 0.25 of it. It differs where
--- the interval is beyond it and the fit is more than 0.25 off; two points, whose interval is infinite, are undecided.
function verdicts.exponent_is(fit, stated)
  if not fit then return verdicts.not_run("too few lengths were measured") end
  local off = math.abs(fit.exponent - stated)
  local word = "undecided"
  if off + fit.half <= verdicts.exponent_margin then
    word = "holds"
  elseif off > math.max(fit.half, verdicts.exponent_margin) then
    word = "differs"
  end
  return { verdict = word, value = fit.exponent, statistic = string.format("N^%s here, N^%g stated",
    verdicts.fit_text(fit), stated) }
end

-- ── Order and ratios; cells: a list of {method, N, ours, printed}, those without both numbers left out ──

local function complete(cells)
  local kept = {}
  for _, cell in ipairs(cells) do
    if type(cell.ours) == "number" and type(cell.printed) == "number" then kept[#kept + 1] = cell end
  end
  return kept
end

--- The same order of methods at each length. Two times within 25 % of each other have no order. Kendall's τ counts all
--- pairs; what decides is that no pair with an order in both is turned around. Where all that are have quartiles
--- (lower, upper) within 25 % of each other, another run may say either: undecided.
function verdicts.same_order(cells)
  cells = complete(cells)
  local close = math.log(1 + verdicts.margin)
  local agree, against, clear, unsure, turned = 0, 0, 0, 0, {}
  for i, a in ipairs(cells) do
    for j = i + 1, #cells do
      local b = cells[j]
      if a.N == b.N then
        local here, there = math.log(a.ours / b.ours), math.log(a.printed / b.printed)
        if here * there > 0 then agree = agree + 1 elseif here * there < 0 then against = against + 1 end
        if math.abs(here) > close and math.abs(there) > close then
          clear = clear + 1
          if here * there < 0 then
            local slower, faster = here > 0 and a or b, here > 0 and b or a
            local least = math.log((slower.lower or slower.ours) / (faster.upper or faster.ours))
            if least <= close then unsure = unsure + 1 end
            turned[#turned + 1] = string.format("%s and %s at %d", faster.method, slower.method, a.N)
          end
        end
      end
    end
  end
  if clear == 0 then return verdicts.not_run("no two methods with a clear order in both") end
  local tau = (agree - against) / (agree + against)
  local text = string.format("τ = %.2f; %d of %d clear pairs turned around", tau, #turned, clear)
  if #turned > 0 then
    text = text .. ": faster here " .. table.concat(turned, ", ", 1, math.min(3, #turned)) .. (#turned > 3 and ", …"
      or "")
  end
  if unsure > 0 then text = text .. string.format("; %d with quartiles within 25 %%", unsure) end
  local verdict = verdicts.whether(#turned == 0, text, tau)
  if #turned > 0 and unsure == #turned then verdict.verdict = "undecided" end
  return verdict
end

--- The factor between two machines, the median of own time over printed one; nil where no cell has both.
function verdicts.machine_factor(cells)
  local ratios = {}
  for i, cell in ipairs(complete(cells)) do ratios[i] = cell.ours / cell.printed end
  return #ratios > 0 and median(ratios) or nil
end

--- Ratios to the document constant: after the one machine factor of the table every cell is within ± 25 %. Of a cell
--- with quartiles (lower, upper) both are to be, and it is off where both are off to one side; where no cell is off and
--- not all are within, another run may say either: undecided.
function verdicts.constant_ratio(cells)
  cells = complete(cells)
  if #cells < 2 then return verdicts.not_run("fewer than two cells have both a printed and an own time") end
  local factor = verdicts.machine_factor(cells)
  local inside, outside, worst, where = 0, 0, 0, nil
  local margin = math.log(1 + verdicts.margin)
  for _, cell in ipairs(cells) do
    local ratio = cell.ours / cell.printed / factor
    local low = math.log((cell.lower or cell.ours) / cell.printed / factor)
    local high = math.log((cell.upper or cell.ours) / cell.printed / factor)
    -- A faster one is off as far as a slower one.
    local off = math.abs(math.log(ratio))
    if low >= -margin and high <= margin then inside = inside + 1 end
    if low > margin or high < -margin then outside = outside + 1 end
    if off > worst then worst, where = off, string.format("%s at %s: × %s", cell.method, cell.N, number(ratio)) end
  end
  local between = #cells - inside - outside
  local text = string.format("machine factor %s; %d of %d cells within ± 25 %% of it", number(factor), inside, #cells)
  if between > 0 then text = text .. string.format(", %d with quartiles on both sides", between) end
  if where then text = text .. "; farthest " .. where end
  local verdict = verdicts.whether(inside == #cells, text, factor)
  if outside == 0 and between > 0 then verdict.verdict = "undecided" end
  return verdict
end

--- The lengths between which method b overtakes a for good: {from, to}, from 0 where it is faster at all lengths, to
--- infinite where it never is; nil without a length that has both. times: {[N] = seconds}.
function verdicts.overtakes(a, b)
  local lengths = {}
  for N, time in pairs(a) do
    if type(time) == "number" and type(b[N]) == "number" then lengths[#lengths + 1] = N end
  end
  if #lengths == 0 then return nil end
  table.sort(lengths)
  local from, to = 0, math.huge
  for _, N in ipairs(lengths) do
    if b[N] >= a[N] then from, to = N, math.huge elseif to == math.huge then to = N end
  end
  return { from, to }
end

local function span(between)
  if between[1] == 0 then return "below " .. number(between[2]) end
  if between[2] == math.huge then return "not up to " .. number(between[1]) end
  return string.format("between %s and %s", number(between[1]), number(between[2]))
end
verdicts.span_text = span

--- The same crossover: the spans of lengths in which b overtakes a have lengths in common. Undecided where what was
--- measured ends before the printed one, and where the quartiles of the times allow both: early and late are the spans
--- of the quartiles that favour b and of those that favour a.
function verdicts.same_crossover(ours, printed, early, late)
  if not ours or not printed then return verdicts.not_run("no length with times of both methods") end
  early, late = early or ours, late or ours
  local text = string.format("%s here, %s printed", span(ours), span(printed))
  if early[1] ~= late[1] or early[2] ~= late[2] then
    text = string.format("%s; by quartiles %s or %s", text, span(early), span(late))
  end
  local function in_common(between) return between[1] < printed[2] and printed[1] < between[2] end
  local verdict = verdicts.whether(in_common(ours), text)
  if in_common(ours) then
    local ended = late[2] == math.huge and printed[2] < math.huge
    if ended or not in_common(early) or not in_common(late) then verdict.verdict = "undecided" end
  elseif early[1] < printed[2] and late[2] > printed[1] then
    verdict.verdict = "undecided"
  end
  return verdict
end

return verdicts
