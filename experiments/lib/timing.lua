-- timing(call, {seconds =, most = 15, gpu =}): the time of call() after a warm-up, as {median, lower, upper
-- (quartiles), samples}. It is called until `seconds` are spent or `most` samples are there, at least three times, or
-- once where a call takes longer than all of `seconds` ten times over.
local function quantile(sorted, share)
  local at = 1 + share * (#sorted - 1)
  local low = math.floor(at)
  return sorted[low] + (at - low) * (sorted[math.min(low + 1, #sorted)] - sorted[low])
end

return function(call, options)
  local most = options.most or 15
  local function once()
    if options.gpu then return gpu_time(call, { repeats = 1 }) end
    local start = clock()
    call()
    return clock() - start
  end
  local first = once() -- the warm-up
  local times, spent = {}, 0
  local least = first > 10 * options.seconds and 1 or 3
  while #times < most and (#times < least or spent < options.seconds) do
    collectgarbage()
    times[#times + 1] = once()
    spent = spent + times[#times]
  end
  table.sort(times)
  return { median = quantile(times, 0.5), lower = quantile(times, 0.25), upper = quantile(times, 0.75),
    samples = #times }
end
