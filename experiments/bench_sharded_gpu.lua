-- How long does one sequence take on the GPUs of several processes?
--
--   ./lab mpi 2 experiments/bench_sharded_gpu.lua         a process for each of two GPUs
--   ./lab mpi 1 experiments/bench_sharded_gpu.lua         one GPU, to compare with
--
--   --length 131072 --heads 32 --dim 128  standard normal, keys of length 1, BFloat16, one batch
--   --queries 32768 --softmax 16          of softmax attention the length and the heads
--   --exchange auto                       what processes exchange: auto, ring, all-scan, all-gather, heads; several too
--   --packed 1                            sequences of the same length that the tokens are, one behind the other
--   --whole                               every process has the whole tensors, not its part of them alone
--   --rounds 9                            the median is shown, of calls behind three that are not counted
--
-- Method: every process has its own part of the tensors (sharded = true), on its GPU. A time is the report's: that of
-- the slowest process from the first kernel to the last, with what is moved between them, but of whole tensors without
-- giving every process the results of all. "waiting" and "sent" are the last round's. That the results are right is a
-- test (tests/gpu/distributed/processes.lua).
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/lib/arguments.lua")(arg, { length = 131072, queries = 32768, heads = 32,
  softmax = 16, dim = 128, rounds = 9, packed = 1, exchange = { "auto" }, whole = false }, { length = { 1 },
  queries = { 1 }, heads = { 1 }, softmax = { 1 }, dim = { 1 }, rounds = { 1 }, packed = { 1 },
  exchange = { "auto", "ring", "all-scan", "all-gather", "heads" } })
local there, why = has_gpu()
if not there then
  print("nothing is measured: " .. why)
  return
end

local p, h, d = mpi_size(), options.heads, options.dim
local parts = not options.whole
local n, m = options.length // (parts and p or 1), options.queries // (parts and p or 1)
seed(parts and mpi_rank() or 0)
local function bf16(x) return x:bf16():gpu() end
local x = randn(1, h, n, d)
local q, k = bf16(x), bf16(l2norm(x))
local v = bf16(randn(1, h, n, d))
local g, beta = (-0.1 * rand(1, h, n)):f32():gpu(), rand(1, h, n):f32():gpu()
local function softmax_input() return bf16(randn(1, options.softmax, m, d)) end
local a, b, c = softmax_input(), softmax_input(), softmax_input()
local slopes = {} -- ALiBi's
for i = 1, h do slopes[i] = math.exp(-2 ^ (-8 * i / h)) end

-- The offsets of the packed sequences in the tokens of all processes; nil where there is one.
local function offsets(own)
  if options.packed == 1 then return nil end
  local all, out = parts and own * p or own, {}
  for i = 0, options.packed do out[i + 1] = all * i // options.packed end
  return out
end
local of_tokens, of_queries = offsets(n), offsets(m)

local rows = {}
local function row(name, exchange, call)
  local times, report = {}, nil
  for _ = 1, 3 do call() end -- clocks rise, memory is found
  for i = 1, options.rounds do
    local results = table.pack(call())
    report = results[results.n]
    times[i] = report.time
  end
  table.sort(times)
  local median = times[(#times + 1) // 2]
  if exchange == "auto" then exchange = "auto: " .. report.algorithm end
  rows[#rows + 1] = { call = name, exchange = exchange, time = median,
    waiting = report.communication, sent = report.bytes }
end
for _, exchange in ipairs(options.exchange) do
  local function with(more)
    local out = { exchange = exchange, cu_seqlens = of_tokens }
    if parts then out.sharded = true else out.engine = "nccl" end
    for key, value in pairs(more) do out[key] = value end
    return out
  end
  local delta = with { update = "delta", beta = beta }
  local gated_delta = with { update = "gated_delta", log_decay = g, beta = beta }
  local rings = exchange == "auto" or exchange == "ring" or exchange == "heads" -- what is not a scan of states
  row("causal_linear_attention, 0-1 mask", exchange, function() return causal_linear_attention(q, k, v, with {}) end)
  row("causal_linear_attention, decays", exchange, function()
    return causal_linear_attention(q, k, v, with { decay = slopes })
  end)
  row("linear_attention, delta", exchange, function() return linear_attention(q, k, v, delta) end)
  row("its gradient", exchange, function() return linear_attention_grad(q, k, v, v, delta) end)
  row("linear_attention, gated_delta", exchange, function() return linear_attention(q, k, v, gated_delta) end)
  row("its gradient", exchange, function() return linear_attention_grad(q, k, v, v, gated_delta) end)
  if rings then
    local causal = with { cu_seqlens = of_queries }
    row("softmax_attention, causal", exchange, function() return softmax_attention(a, b, c, causal) end)
    row("its gradient, causal", exchange, function() return softmax_attention_grad(a, b, c, c, causal) end)
  end
end

print(tostring(machine()))
display(text_table(rows, {
  title = string.format("%d process%s with a GPU each: N = %d, %d heads (softmax %d, %d), d = %d, BFloat16%s", p,
    p == 1 and "" or "es", options.length, h, options.queries, options.softmax, d,
    options.packed > 1 and string.format(", %d packed sequences", options.packed) or ""),
  columns = { { key = "call" }, { key = "exchange" }, { key = "time", unit = "seconds" },
    { key = "waiting", unit = "seconds" }, { key = "sent", unit = "bytes" } },
}))
