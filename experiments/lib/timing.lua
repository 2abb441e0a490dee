-- timing(call, {seconds =, most = 15, gpu =, tells =}): the time of call() after a warm-up, as {median, lower, upper
-- (quartiles), samples}. It is called until `seconds` are spent or `most` samples are there, at least three times.
-- Where the first call takes longer than all of `seconds` ten times over, it is the one sample, as a warm-up is nothing
-- beside it. tells = true: the time is what call() returns, that of a part of what it does.
local function quantile(sorted, share)
  local at = 1 + share * (#sorted - 1)
  local low = math.floor(at)
  return sorted[low] + (at - low) * (sorted[math.min(low + 1, #sorted)] - sorted[low])
end

return function(call, options)
  local most = options.most or 15
  local function once()
    local start = clock()
    local time
    if options.gpu then time = gpu_time(call, { repeats = 1 }) else time = call() end
    local taken = clock() - start
    return (options.gpu or options.tells) and time or taken, taken
  end
  local first, lasted = once()
  if lasted > 10 * options.seconds then return { median = first, lower = first, upper = first, samples = 1 } end
  local times, spent = {}, 0
  while #times < most and (#times < 3 or spent < options.seconds) do
    collectgarbage()
    local taken
    times[#times + 1], taken = once()
    spent = spent + taken
  end
  table.sort(times)
  return { median = quantile(times, 0.5), lower = quantile(times, 0.25), upper = quantile(times, 0.75),
    samples = #times }
end
