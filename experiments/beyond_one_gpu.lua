-- A text that one GPU cannot hold: the gated delta rule and its gradient, on the GPUs of several processes.
--
--   ./lab mpi 2 experiments/beyond_one_gpu.lua        a process for each of two GPUs
--   ./lab mpi 1 experiments/beyond_one_gpu.lua        says what one GPU says
--
--   --length 5242880 --heads 16 --dim 128   standard normal in BFloat16, keys of length 1: q, k, v, dO and the
--                                           gradients of the first three take 150 GB, one GPU has 141 or less
--   --window 8192                           tokens whose gradients are compared with a call on them alone
--
-- Method: every process makes its own part of the tokens on its GPU (sharded = true), and computes outputs, then all
-- gradients. Heads forget within some hundred tokens, so the last quarter of a part's last tokens has the outputs, and
-- the gradient of q, that a call on these tokens alone has, and on the last process the other gradients too. They are
-- compared; a part that is further off than BFloat16 explains is an error.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/lib/arguments.lua")(arg, { length = 5 << 20, heads = 16, dim = 128, window = 8192 },
  { length = { 1 }, heads = { 1 }, dim = { 1, 128 }, window = { 4 } })
local there, why = has_gpu()
if not there then
  print("nothing is computed: " .. why)
  return
end
local p, rank, h, d = mpi_size(), mpi_rank(), options.heads, options.dim
local n, window = options.length // p, options.window
if window > n then error(string.format("--window: %d, expected at most a part's %d tokens", window, n), 0) end
seed(rank)

local function random() return gpu_randn(1, h, n, d, "bf16") end
local q, k, v, dO = random(), l2norm(random()), random(), random()
local g, beta = -0.1 * rand(1, h, n), rand(1, h, n)
local function rule_of(gates, steps, more)
  local out = { update = "gated_delta", log_decay = gates:gpu(), beta = steps:gpu() }
  for key, value in pairs(more or {}) do out[key] = value end
  return out
end
-- The tokens behind the first n - window of a part, and the last quarter of them.
local function last(x) return x:cpu()(":", ":", { n - window + 1, n }) end
local first_compared = window - window // 4 + 1
local function apart(name, whole, alone)
  local x, y = last(whole):f64(), alone:cpu():f64()
  x, y = x(":", ":", { first_compared, window }), y(":", ":", { first_compared, window })
  local off = norm(x - y) / norm(y)
  if not (off < 2e-2) then error(string.format("%s of process %d: %.1e apart from a call on its tokens", name, rank,
    off), 0) end
  return string.format("%s %.1e", name, off)
end
local function of_gib(bytes) return string.format("%.1f GiB", bytes / 2 ^ 30) end

local whole = rule_of(g, beta, { sharded = true })
local small = rule_of(last(g), last(beta))
local few = {}
for i, x in ipairs { q, k, v, dO } do few[i] = last(x):gpu() end
local forward, errors
do -- the outputs make room for the gradients
  local O, _, report = linear_attention(q, k, v, whole)
  forward, errors = report, { apart("O", O, (linear_attention(few[1], few[2], few[3], small))) }
end
collectgarbage()
local grads, backward = linear_attention_grad(q, k, v, dO, whole)
local alone = linear_attention_grad(few[1], few[2], few[3], few[4], small)
for _, name in ipairs(rank == p - 1 and { "dq", "dk", "dv" } or { "dq" }) do
  errors[#errors + 1] = apart(name, grads[name], alone[name])
end
if rank > 0 then return end
print(tostring(machine()))
print(string.format("%d tokens, %d heads, d = %d, on %d GPU%s: q, k, v, dO and three gradients are %s", options.length,
  h, d, p, p == 1 and "" or "s", of_gib(7 * 2 * h * d * options.length)))
print(string.format("forward %.1f ms, gradient %.1f ms; the first process's tokens beside a call on them alone: %s",
  forward.time * 1e3, backward.time * 1e3, table.concat(errors, ", ")))
