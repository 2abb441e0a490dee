-- How much faster are p workers on one sequence than one of them?
--
--   ./lab mpi 2 experiments/bench_sharded.lua             two processes; as many as there are cores say something
--   causeway experiments/bench_sharded.lua --shards 2     two threads of one process
--
--   --length 8192 --heads 8 --dim 64      shape of the inputs: standard normal, Float32, one batch
--   --rounds 5                            each worker count is timed so often, in turns; the fastest is shown
--   --shards 2                            threads, where the program is alone
--   --only gated                          the rows whose name contains the word
--
-- Method: results on several workers are first compared with those of one. One worker is this program on one thread;
-- under mpirun rank 0 alone, while the others wait. Each of p workers has one thread too, and under mpirun its own part
-- of the tensors (shard, sharded = true). "waiting" is the most that a worker waited for messages of the others in the
-- last round, "sent" is what all sent.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/lib/arguments.lua")(arg, { length = 8192, heads = 8, dim = 64, rounds = 5,
  shards = 2, only = "" }, { length = { 1 }, heads = { 1 }, dim = { 1 }, rounds = { 1 }, shards = { 1, 64 } })
local mpi = mpi_size() > 1
local N, h, d = options.length, options.heads, options.dim
threads(1)
seed(1)
local q, v = randn(1, h, N, d), randn(1, h, N, d)
local k = randn(1, h, N, d)
k = k / sqrt(sum(pow(k, 2), 4))
local head, channel, beta, dO = -rand(1, h, N), -rand(1, h, N, d), rand(1, h, N), randn(1, h, N, d)

local calls = {
  { "linear_attention, linear", linear_attention, {} },
  { "linear_attention, gated", linear_attention, { update = "gated", log_decay = head } },
  { "linear_attention, gated per channel", linear_attention, { update = "gated", log_decay = channel } },
  { "linear_attention, delta", linear_attention, { update = "delta", beta = beta } },
  { "linear_attention, gated_delta", linear_attention, { update = "gated_delta", log_decay = head, beta = beta } },
  { "linear_attention, gated, heads that forget", linear_attention, { update = "gated", log_decay = head,
    deterministic = "run" } },
  { "causal_linear_attention, decay", causal_linear_attention, { decay = 0.99, method = "lightning-attention-2" } },
  { "gated_delta by all-scan", linear_attention, { update = "gated_delta", log_decay = head, beta = beta },
    { exchange = "all-scan" } },
  { "the same by all-gather", linear_attention, { update = "gated_delta", log_decay = head, beta = beta },
    { exchange = "all-gather" } },
  { "the same by heads", linear_attention, { update = "gated_delta", log_decay = head, beta = beta },
    { exchange = "heads" } },
  { "its gradient", linear_attention_grad, { update = "gated_delta", log_decay = head, beta = beta }, gradient = true },
  { "its gradient, heads that forget", linear_attention_grad, { update = "gated_delta", log_decay = head, beta = beta,
    deterministic = "run" }, gradient = true },
  { "its gradient by all-scan", linear_attention_grad, { update = "gated_delta", log_decay = head, beta = beta },
    { exchange = "all-scan" }, gradient = true },
  { "its gradient by all-gather", linear_attention_grad, { update = "gated_delta", log_decay = head, beta = beta },
    { exchange = "all-gather" }, gradient = true },
  { "its gradient by heads", linear_attention_grad, { update = "gated_delta", log_decay = head, beta = beta },
    { exchange = "heads" }, gradient = true },
  { "the gradient of gated", linear_attention_grad, { update = "gated", log_decay = head }, gradient = true },
  { "the same by all-scan", linear_attention_grad, { update = "gated", log_decay = head }, { exchange = "all-scan" },
    gradient = true },
  { "softmax_attention, causal", softmax_attention, {} },
  { "the same by the ring", softmax_attention, {}, { exchange = "ring" } },
  { "softmax_attention's gradient", softmax_attention_grad, {}, gradient = true },
  { "the same by the ring", softmax_attention_grad, {}, { exchange = "ring" }, gradient = true },
}

local function joined(a, b)
  local out = {}
  for _, t in ipairs({ a, b or {} }) do
    for key, value in pairs(t) do out[key] = value end
  end
  return out
end

-- The arguments of a call as one worker has them, and as this one of p has.
local function arguments(call)
  local whole = call.gradient and { q, k, v, dO } or { q, k, v }
  if not mpi then return whole, whole, joined(joined(call[3], call[4]), { shards = options.shards }) end
  local own, parts = joined(joined(call[3], call[4]), { engine = "mpi", sharded = true }), {}
  for i, x in ipairs(whole) do parts[i] = shard(x) end
  own.log_decay = own.log_decay and shard(own.log_decay, 3)
  own.beta = own.beta and shard(own.beta, 3)
  return whole, parts, own
end

-- Of outputs, or of the gradient of q, which every token of the other parts has a share in.
local function compare(name, whole, part)
  if type(whole) == "table" then whole, part = whole.dq, part.dq end
  local err = relative_error(unshard(part), whole)
  if not (err <= 1e-4) then error(string.format("%s is wrong on several workers: error %.1e", name, err), 0) end
end

local rows = {}
for _, call in ipairs(calls) do
  if not call[1]:find(options.only, 1, true) then goto next end
  local name, f = call[1], call[2]
  local whole, parts, own = arguments(call)
  local count = #whole
  local function with(list, last)
    local all = { table.unpack(list, 1, count) }
    all[count + 1] = last
    return all
  end
  local alone, together = with(whole, call[3]), with(parts, own)
  local function of_one() return f(table.unpack(alone)) end
  local function of_many() return f(table.unpack(together)) end
  compare(name, (of_one()), (of_many()))
  local single, many, report = math.huge, math.huge, nil
  for _ = 1, options.rounds do
    local start = clock()
    if mpi_rank() == 0 then of_one() end
    single = math.min(single, clock() - start)
    unshard(zeros(1, 1)) -- all ranks begin together
    start = clock()
    local results = table.pack(of_many())
    many, report = math.min(many, clock() - start), results[results.n]
  end
  rows[#rows + 1] = { call = name, one = single, many = many, ratio = single / many, waiting = report.communication,
    sent = report.bytes }
  ::next::
end
local enough = 0 -- rows where two workers are what one expects of them
for _, row in ipairs(rows) do if row.ratio >= 1.85 then enough = enough + 1 end end
print(tostring(machine()))
display(text_table(rows, {
  title = string.format("N = %d, %d heads, d = %d, Float32: one worker and %d, one thread each (%s)", N, h, d,
    mpi and mpi_size() or options.shards, mpi and "processes" or "threads"),
  columns = { { key = "call" }, { key = "one", unit = "seconds" }, { key = "many", title = "all", unit = "seconds" },
    { key = "ratio", format = "%.2f", align = "right" }, { key = "waiting", unit = "seconds" },
    { key = "sent", unit = "bytes" } },
  note = string.format("%d of %d rows at 1.85 or more", enough, #rows),
}))
