-- How long does one sequence take on the GPUs of several processes?
--
--   ./lab mpi 2 experiments/bench_sharded_gpu.lua         a process for each of two GPUs
--   ./lab mpi 1 experiments/bench_sharded_gpu.lua         one GPU, to compare with
--
--   --length 131072 --heads 32 --dim 128  standard normal, keys of length 1, BFloat16, one batch
--   --queries 32768 --softmax 16          of softmax attention the length and the heads
--   --rounds 9                            the median is shown
--
-- Method: every process has its own part of the tensors (sharded = true), on its GPU. A time is the report's: that of
-- the slowest process from the first kernel to the last, with what is moved between them. "waiting" and "sent" are the
-- last round's. That the results are right is a test (tests/gpu/distributed/processes.lua).
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/lib/arguments.lua")(arg, { length = 131072, queries = 32768, heads = 32,
  softmax = 16, dim = 128, rounds = 9 }, { length = { 1 }, queries = { 1 }, heads = { 1 },
  softmax = { 1 }, dim = { 1 }, rounds = { 1 } })
local there, why = has_gpu()
if not there then
  print("nothing is measured: " .. why)
  return
end

local p, h, d = mpi_size(), options.heads, options.dim
local n, m = options.length // p, options.queries // p
local function bf16(x) return x:bf16():gpu() end
local q, k, v = bf16(randn(1, h, n, d)), bf16(l2norm(randn(1, h, n, d))), bf16(randn(1, h, n, d))
local g, beta = (-0.1 * rand(1, h, n)):f32():gpu(), rand(1, h, n):f32():gpu()
local function softmax_input() return bf16(randn(1, options.softmax, m, d)) end
local a, b, c = softmax_input(), softmax_input(), softmax_input()
local slopes = {} -- ALiBi's
for i = 1, h do slopes[i] = math.exp(-2 ^ (-8 * i / h)) end
local delta = { update = "gated_delta", log_decay = g, beta = beta, sharded = true }

local rows = {}
local function row(name, call)
  local times, report = {}, nil
  for i = 1, options.rounds do
    local results = table.pack(call())
    report = results[results.n]
    times[i] = report.time
  end
  table.sort(times)
  local median = times[(#times + 1) // 2]
  rows[#rows + 1] = { call = name, time = median, waiting = report.communication, sent = report.bytes }
end
row("causal_linear_attention, 0-1 mask", function() return causal_linear_attention(q, k, v, { sharded = true }) end)
row("causal_linear_attention, decays", function()
  return causal_linear_attention(q, k, v, { sharded = true, decay = slopes })
end)
row("linear_attention, gated_delta", function() return linear_attention(q, k, v, delta) end)
row("its gradient", function() return linear_attention_grad(q, k, v, v, delta) end)
row("softmax_attention, causal", function() return softmax_attention(a, b, c, { sharded = true }) end)

print(tostring(machine()))
display(text_table(rows, {
  title = string.format("%d process%s with a GPU each: N = %d, %d heads (softmax %d, %d), d = %d, BFloat16", p,
    p == 1 and "" or "es", n * p, h, m * p, options.softmax, d),
  columns = { { key = "call" }, { key = "time", unit = "seconds" }, { key = "waiting", unit = "seconds" },
    { key = "sent", unit = "bytes" } },
}))
