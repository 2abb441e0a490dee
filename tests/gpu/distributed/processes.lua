-- Every call that processes under mpirun share, on the GPU of each, against the same call on one GPU:
--   mpirun -n 2 causeway tests/gpu/distributed/processes.lua
-- "narrow" after it: narrow heads, for GPUs that do not exist and whose kernels are definitions on the CPU. A pattern
-- after that: the calls whose names have it.
local p, me, narrow, wanted = mpi_size(), mpi_rank(), arg[1] == "narrow", arg[2] or ""
local checks = 0

local function check(name, got, want, bound)
  local function here(x) return x:device() == "cpu" and x or x:cpu() end
  local a, b = here(got):f64(), here(want):f64()
  local apart, largest = maximum(abs(a - b)), maximum(abs(b))
  checks = checks + 1
  if not (apart <= bound * math.max(largest, 1e-30)) then
    error(("%s on rank %d: %g apart, of %g"):format(name, me, apart, largest))
  end
end

-- The rank's tokens of [1, heads, N, width] or [1, heads, N]: the first rank has `first` of them, the others share the
-- rest.
local function part(x, first)
  local n = size(x, 3)
  local rest = p > 1 and (n - first) // (p - 1) or 0
  local from = me == 0 and 1 or first + (me - 1) * rest + 1
  local to = me == 0 and first or me == p - 1 and n or from + rest - 1
  if p == 1 then from, to = 1, n end
  return (x:ndims() == 4 and x(':', ':', {from, to}, ':') or x(':', ':', {from, to})):gpu()
end

local function options_of(given, more)
  local out = {}
  for k, v in pairs(given) do out[k] = v end
  for k, v in pairs(more) do out[k] = v end
  return out
end

local function on_gpu(xs)
  local out = {}
  for key, x in pairs(xs) do out[key] = type(x) == "userdata" and x:gpu() or x end
  return out
end

local sequences = {}
for _, name in ipairs { "O", "dq", "dk", "dv", "dB", "dC", "dV", "dlog_decay", "dbeta" } do sequences[name] = true end

-- Every rank has to take them in the same order.
local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

-- Gradients that any exchange of states makes.
local by_maps = {}

-- The results of a call by name: on whole tensors, and, unless only "whole" is wanted, or one
-- exchange of whole tensors, on parts, of which those that are as long as the sequence are joined.
local function compare(name, bound, N, call, tensors, options, only)
  if not name:find(wanted) then return end
  local on, whole = on_gpu(tensors), on_gpu(options)
  local want = call(on, whole)
  local keys = sorted_keys(want)
  -- The gradient of a decay is a sum over all tokens in which most of it cancels.
  local function bound_of(key) return key == "ddecay" and 8 * bound or bound end
  -- Causal softmax attention goes by heads of itself where the processes get as many, and else by the ring.
  local exchanges = name:find("softmax") and { "auto", "ring", "heads" }
    or by_maps[call] and { "auto", "all-scan", "all-gather", "heads" } or { "auto", "heads" }
  for _, exchange in ipairs(only and only ~= "whole" and { only } or exchanges) do
    local got = call(on, options_of(whole, { engine = "nccl", exchange = exchange }))
    for _, key in ipairs(keys) do
      check(("%s %s, %s"):format(name, key, exchange), got[key], want[key], bound_of(key))
    end
  end
  if only then return end
  for _, first in ipairs { N // p, math.min(N, 37), 0 } do
    local mine, own = {}, {}
    for i, x in ipairs(tensors) do mine[i] = part(x, first) end
    for k, x in pairs(options) do
      own[k] = x
      if k == "log_decay" or k == "beta" then own[k] = part(x, first) elseif k == "state" then own[k] = x:gpu() end
    end
    for _, exchange in ipairs(exchanges) do
      local parts = call(mine, options_of(own, { sharded = true, exchange = exchange }))
      for _, key in ipairs(keys) do
        local y = sequences[key] and unshard(parts[key], 3) or parts[key]
        check(("%s %s, %s, parts of %d"):format(name, key, exchange, first), y, want[key], bound_of(key))
      end
    end
  end
end

-- What heads that forget hand on goes once, and once back in a gradient: nothing goes round after all.
local function check_sent(name, tensors, rule)
  local on, o = on_gpu(tensors), on_gpu(options_of(rule, { engine = "nccl" }))
  local state = size(tensors[1], 2) * size(tensors[1], 4) * size(tensors[3], 4) * 4
  local _, _, forward = linear_attention(on[1], on[2], on[3], o)
  local _, backward = linear_attention_grad(on[1], on[2], on[3], on[4], o)
  local ranks = forward.shards
  if size(tensors[1], 3) // ranks < 1024 then return end -- too short to forget in a quarter
  checks = checks + 2
  if forward.bytes ~= (ranks - 1) * state or backward.bytes ~= 2 * (ranks - 1) * state then
    error(("%s: %d and %d bytes were sent"):format(name, forward.bytes, backward.bytes))
  end
end

-- Messages are counted by their elements, here of Float32: own parts of softmax attention, which change places first.
local function check_counted(name, q, k, v, rule)
  local first = size(q, 3) // p
  local results = table.pack(softmax_attention(part(q, first), part(k, first), part(v, first),
    options_of(rule, { sharded = true, exchange = "ring" })))
  local report = results[results.n]
  checks = checks + 1
  if report.bytes ~= 4 * report.elements then
    error(("%s: %d elements of %d bytes were counted"):format(name, report.elements, report.bytes))
  end
end

-- Which exchange a call takes where none is asked for: want(ranks).
local function check_exchange(name, call, tensors, rule, want)
  local on = on_gpu(tensors)
  local results = table.pack(call(on[1], on[2], on[3], on_gpu(options_of(rule, { engine = "nccl" }))))
  local report = results[results.n]
  checks = checks + 1
  local wants = want(report.shards)
  if report.algorithm ~= wants then error(("%s went by %s, not by %s"):format(name, report.algorithm, wants)) end
end

local function linear(x, o)
  local O, state = linear_attention(x[1], x[2], x[3], o)
  return { O = O, state = state }
end
local function linear_grad(x, o)
  local g = linear_attention_grad(x[1], x[2], x[3], x[4], o)
  return { dq = g.dq, dk = g.dk, dv = g.dv, dlog_decay = g.dlog_decay, dbeta = g.dbeta, dstate = g.dstate }
end
local function causal(x, o)
  local O, state = causal_linear_attention(x[1], x[2], x[3], options_of(o, { return_state = true }))
  return { O = O, state = state }
end
local function causal_grad(x, o)
  local g = causal_linear_attention_grad(x[1], x[2], x[3], x[4], o)
  return { dB = g.dB, dC = g.dC, dV = g.dV, ddecay = g.ddecay and tensor { g.ddecay } }
end
by_maps[linear_grad], by_maps[causal_grad] = true, true
local function softmax(x, o)
  return { O = (softmax_attention(x[1], x[2], x[3], o)) }
end
local function softmax_grad(x, o)
  local g = softmax_attention_grad(x[1], x[2], x[3], x[4], o)
  return { dq = g.dq or g.dB, dk = g.dk or g.dC, dv = g.dv or g.dV }
end

local function softmax_exchange(masked, k)
  return function(ranks) return masked and ranks > 1 and size(k, 2) % ranks == 0 and "heads" or "ring" end
end

local heads, d = 3, narrow and 16 or 64
for _, N in ipairs(narrow and { 100, 2304 } or { 1000, 100, 2304 }) do
  for _, type in ipairs { "f32", "bf16" } do
    local function random(...) local x = randn(...) return x[type](x) end
    local k = l2norm(randn(1, heads, N, d))
    local q, v, dO = random(1, heads, N, d), random(1, heads, N, d), random(1, heads, N, d)
    k = k[type](k)
    local bound = type == "f32" and 2e-3 or 4e-2
    local state = randn(1, heads, d, d):f32()
    local strong, weak = (rand(1, heads, N) * -0.5):f32(), (rand(1, heads, N) * -0.001):f32()
    local channels = (rand(1, heads, N, d) * -0.2):f32()
    local beta = rand(1, heads, N):f32()
    local mixed = times(strong, tensor { { { 1 }, { 0 }, { 1 } } }):f32() -- the head in the middle keeps everything
    local rules = {
      { update = "linear" },
      { update = "gated", log_decay = strong },
      { update = "gated", log_decay = channels },
      { update = "delta", beta = beta },
      { update = "gated_delta", log_decay = strong, beta = beta },
      { update = "gated_delta", log_decay = weak, beta = beta },
      { update = "gated_delta", log_decay = mixed, beta = beta },
    }
    for i, rule in ipairs(rules) do
      local name = ("%s %s %d, N = %d"):format(type, rule.update, i, N)
      compare(name, bound, N, linear, { q, k, v }, options_of(rule, { state = state }))
      compare(name .. ", gradient", bound, N, linear_grad, { q, k, v, dO }, rule)
      for _, exchange in ipairs { "ring", "all-scan", "all-gather" } do
        compare(name, bound, N, linear, { q, k, v }, options_of(rule, { state = state }), exchange)
      end
      -- Heads that do not forget go in steps, which kernels on tensor cores have.
      if rule.beta and (not rule.log_decay or rule.log_decay == weak) then
        check_exchange(name, linear_attention, { q, k, v }, rule,
          function() return type == "bf16" and "all-scan" or "ring" end)
      end
      if rule.log_decay == strong or rule.log_decay == channels then check_sent(name, { q, k, v, dO }, rule) end
    end
    for _, decay in ipairs { 1, 0.9, 0.9999 } do
      local o = decay < 1 and { decay = decay } or {}
      local name = ("%s causal %g, N = %d"):format(type, decay, N)
      compare(name, bound, N, causal, { q, k, v }, o)
      compare(name .. ", gradient", bound, N, causal_grad, { q, k, v, dO }, o)
      -- What is divided by has no sign.
      local B, C, normalized = abs(q), abs(k), options_of(o, { normalize = true })
      B, C = B[type](B), C[type](C)
      compare(name .. ", normalize", bound, N, causal, { B, C, v }, normalized)
      compare(name .. ", normalize, gradient", bound, N, causal_grad, { B, C, v, dO }, normalized)
    end
    -- Packed sequences, some of them empty.
    for _, offsets in ipairs { { 0, N }, { 0, N // 3, N // 3, N // 2 + 1, N }, { 0, 0, 5, 70, 71, N - 1, N } } do
      local states = randn(#offsets - 1, heads, d, d):f32()
      for i, rule in ipairs(rules) do
        local name = ("%s %s %d, N = %d in %d"):format(type, rule.update, i, N, #offsets - 1)
        local packed = options_of(rule, { cu_seqlens = offsets })
        compare(name, bound, N, linear, { q, k, v }, options_of(packed, { state = states }))
        compare(name .. ", gradient", bound, N, linear_grad, { q, k, v, dO }, packed)
      end
      for _, decay in ipairs { 1, 0.9 } do
        local o = options_of(decay < 1 and { decay = decay } or {}, { cu_seqlens = offsets })
        local name = ("%s causal %g, N = %d in %d"):format(type, decay, N, #offsets - 1)
        compare(name, bound, N, causal, { q, k, v }, o)
        for _, exchange in ipairs { "all-scan", "all-gather" } do
          compare(name, bound, N, causal, { q, k, v }, o, exchange)
        end
        compare(name .. ", gradient", bound, N, causal_grad, { q, k, v, dO }, o)
      end
      for _, masked in ipairs { true, false } do
        local name = ("%s softmax %s, N = %d in %d"):format(type, masked, N, #offsets - 1)
        local o = { causal = masked, cu_seqlens = offsets }
        compare(name, bound, N, softmax, { q, k, v }, o)
        check_exchange(name, softmax_attention, { q, k, v }, o, softmax_exchange(masked, k))
        compare(name .. ", gradient", bound, N, softmax_grad, { q, k, v, dO }, o)
      end
    end
    for _, masked in ipairs { true, false } do
      local name = ("%s softmax %s, N = %d"):format(type, masked, N)
      compare(name, bound, N, softmax, { q, k, v }, { causal = masked })
      check_exchange(name, softmax_attention, { q, k, v }, { causal = masked }, softmax_exchange(masked, k))
      if type == "f32" then check_counted(name, q, k, v, { causal = masked }) end
      compare(name .. ", gradient", bound, N, softmax_grad, { q, k, v, dO }, { causal = masked })
    end
    -- Four heads of values that share two of keys and queries, which the exchange of heads alone has.
    local shared = function(x) return x(':', { 1, 2 }, ':', ':') end
    local values, gates = random(1, 4, N, d), (rand(1, 4, N) * -0.1):f32()
    local o = { update = "gated_delta", log_decay = gates, beta = rand(1, 4, N):f32() }
    local name = ("%s shared heads, N = %d"):format(type, N)
    compare(name, bound, N, linear, { shared(q), shared(k), values }, o, "heads")
    compare(name .. ", gradient", bound, N, linear_grad, { shared(q), shared(k), values, values }, o, "heads")
    name = ("%s others, N = %d"):format(type, N)
    local two, B, C = { 0, 70, N }, abs(q), abs(k)
    compare(name .. ", packed", bound, N, linear, { q, k, v },
      { update = "gated_delta", log_decay = weak, beta = beta, cu_seqlens = two }, "all-scan")
    compare(name .. ", packed and normalized", bound, N, causal, { B[type](B), C[type](C), v },
      { decay = 0.99, normalize = true, cu_seqlens = two })
    -- Fewer dimensions.
    local function flat(x) return x(1) end
    compare(name .. ", three dimensions", bound, N, causal, { flat(q), flat(k), flat(v) }, { decay = 0.99 }, "whole")
    for _, decays in ipairs { { decay = 0.99 }, { decay = 0.99, normalize = true } } do
      compare(name .. ", gradient in three dimensions", bound, N, causal_grad,
        { flat(B[type](B)), flat(C[type](C)), flat(v), flat(dO) }, decays, "whole")
    end
    compare(name .. ", softmax in three dimensions", bound, N, softmax, { flat(q), flat(k), flat(v) }, {}, "whole")
    compare(name .. ", its gradient", bound, N, softmax_grad, { flat(q), flat(k), flat(v), flat(dO) }, {}, "whole")
    local one = random(1, heads, 1, d):gpu()
    local want = softmax_attention(one, k:gpu(), v:gpu(), { causal = false })
    check("tree_decode", (tree_decode(one, k:gpu(), v:gpu(), {})), want, bound)
  end
end
print(("%d comparisons"):format(checks))
