-- How much sooner are calls done by several threads, with many heads and with one?
--
--   causeway experiments/threads.lua                                 1, 2, 4 ... up to the threads there are
--   causeway experiments/threads.lua --heads 1 --length 32768
--
--   --length 8192 --heads 8,1 --dim 128   standard normal, keys of length 1, Float32, one batch
--   --threads 1,2,4                       the numbers of threads
--   --rounds 9                            calls of which the fastest is shown, after one to warm up
--   --calls all                           forward, backward or all
--
-- Method: every call has the bits of one thread, which is compared first. Forward: the methods of
-- causal_linear_attention that carry a state from block to block; backward: linear_attention_grad of every update, with
-- a gate per head and per channel.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local counts, there = {}, threads()
for power = 0, 10 do
  if 1 << power < there then counts[#counts + 1] = 1 << power end
end
counts[#counts + 1] = there
local options = dofile(folder .. "/lib/arguments.lua")(arg, { length = 8192, heads = { 8, 1 }, dim = 128,
  threads = counts, rounds = 9, calls = "all" }, { length = { 1 }, heads = { 1 }, dim = { 1 }, threads = { 1, 1024 },
  rounds = { 1 }, calls = { "forward", "backward", "all" } })
local N, d = options.length, options.dim

local function same(a, b)
  if type(a) ~= "table" then return a == b end
  for key, x in pairs(b) do
    if a[key] ~= x then return false end
  end
  return true
end

local rows = {}
local function measure(name, h, call)
  local row, want, first = { call = name, heads = h }, nil, nil
  for _, n in ipairs(options.threads) do
    threads(n)
    local result = call()
    want = want or result
    if not same(result, want) then error(("%s: other bits with %d threads"):format(name, n)) end
    local least = math.huge
    for _ = 1, options.rounds do
      local start = clock()
      call()
      least = math.min(least, clock() - start)
    end
    first = first or least
    row["t" .. n], row["x" .. n] = least, first / least
  end
  rows[#rows + 1] = row
end

seed(1)
for _, h in ipairs(options.heads) do
  local q, k, v, dO = randn(1, h, N, d), l2norm(randn(1, h, N, d)), randn(1, h, N, d), randn(1, h, N, d)
  if options.calls ~= "backward" then
    for _, method in ipairs { "lightning-attention-2", "causal-dot-product", "fleet", "row-based", "hybrid" } do
      measure(method, h, function() return (causal_linear_attention(q, k, v, { method = method })) end)
    end
  end
  if options.calls ~= "forward" then
    local per_head, per_channel, beta = -0.1 * rand(1, h, N), -0.1 * rand(1, h, N, d), rand(1, h, N)
    local rules = {
      { "linear", {} }, { "gated", { log_decay = per_head } },
      { "gated, per channel", { log_decay = per_channel } }, { "delta", { beta = beta } },
      { "gated_delta", { log_decay = per_head, beta = beta } },
      { "gated_delta, per channel", { log_decay = per_channel, beta = beta } },
    }
    for _, rule in ipairs(rules) do
      rule[2].update = rule[1]:match("^[%a_]+")
      measure(rule[1] .. ", gradient", h, function() return linear_attention_grad(q, k, v, dO, rule[2]) end)
    end
  end
end

local columns = { { key = "call" }, { key = "heads" } }
for i, n in ipairs(options.threads) do
  columns[#columns + 1] = { key = "t" .. n, title = n == 1 and "1 thread" or n .. " threads", unit = "seconds" }
  if i > 1 then columns[#columns + 1] = { key = "x" .. n, title = "×" } end
end
print(tostring(machine()))
display(text_table(rows, { title = ("N = %d, d = %d, Float32"):format(N, d), columns = columns }))
