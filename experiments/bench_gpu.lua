-- How near to the limits of the GPU is everything that runs on it?
--
--   causeway experiments/bench_gpu.lua                      the table of kernels, then LeetDecoding's tables
--   causeway experiments/bench_gpu.lua --part kernels       one of kernels, leet, all
--   causeway experiments/bench_gpu.lua --quick              lengths up to 8192
--   causeway experiments/bench_gpu.lua --only delta         the rows whose name contains the word
--
--   --repeats 15              times of which the median is taken
--   --seconds 2               LeetDecoding's tables leave out a call that would take longer
--   --save results/bench_gpu  kernels.csv, leet.csv, .json beside them
--
-- A row is first compared with the definition in Float64 on the CPU, at 1000 tokens (factors at 300); a wrong one is
-- not timed. The floor is the time to read every input and write every output once at the rate of a plain copy, which
-- is measured in the same run. Times are the GPU's own, between events; calls follow each other on fresh outputs.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/lib/arguments.lua")(arg, { part = "all", quick = false, only = "", repeats = 15,
  seconds = 2, save = "results/bench_gpu" },
  { part = { "all", "kernels", "leet" }, repeats = { 1 }, seconds = { above = 0 } })
local available, device = has_gpu()
if not available then
  print("no GPU: " .. device)
  os.exit(0, true)
end
local rate = gpu_copy_rate()
print(tostring(machine()))
print(string.format("%s; copies at %.2f TB/s\n", device, rate / 1e12))

local calls = dofile(folder .. "/lib/gpu_calls.lua")
local bytes = calls.bytes

-- ── Calls ──
local unit = 1 / math.sqrt(128)
local function alibi_decay(h) return exp(-alibi_slopes(h)) end

-- q, k and v of a shape
local function inputs_of(type, shape, N)
  local b, h = shape.batch or 1, shape.heads or 32
  local r, d = shape.r or 128, shape.d or 128
  return { gpu_randn(b, h, N, r, type):scaled(unit), gpu_randn(b, h, N, r, type), gpu_randn(b, h, N, d, type) }
end

-- A call by name: make(N) -> f, floor bytes, operations; check() -> error, bound
local function causal(method, type, shape)
  local b, h = shape.batch or 1, shape.heads or 32
  local r, d = shape.r or 128, shape.d or 128
  local decay = shape.decay and alibi_decay(h) or nil
  local given = { method = method, decay = decay, precision = shape.precision }
  return {
    make = function(N, inputs)
      local q, k, v = table.unpack(inputs or inputs_of(type, shape, N))
      return function() return (causal_linear_attention(q, k, v, given)) end, bytes({ q, k, v, v }),
        b * h * N * 4 * r * d
    end,
    check = function()
      local q, k, v = randn(1, h, 1000, r), randn(1, h, 1000, r), randn(1, h, 1000, d)
      local x = { q[type](q):gpu(), k[type](k):gpu(), v[type](v):gpu() }
      local got = f64(causal_linear_attention(x[1], x[2], x[3], given):cpu())
      local want = causal_linear_attention(f64(x[1]:cpu()), f64(x[2]:cpu()), f64(x[3]:cpu()),
        { method = "row-based", decay = decay })
      return norm(got - want) / norm(want), type == "f32" and 1e-5 or 3.5e-3
    end,
  }
end

local function gates(h, N)
  -- Mean of log α: -0.075.
  local log_decay, beta = rand(1, h, N, "f32"), rand(1, h, N, "f32")
  return (log_decay * -0.15):gpu(), beta:gpu()
end

local function gradient(decay)
  local h = 32
  local given = { decay = decay and alibi_decay(h) or nil, ddecay = false }
  local forward = { decay = given.decay }
  local function inputs(N)
    return gpu_randn(1, h, N, 128, "bf16"):scaled(unit), gpu_randn(1, h, N, 128, "bf16"),
      gpu_randn(1, h, N, 128, "bf16"), gpu_randn(1, h, N, 128, "bf16")
  end
  return {
    make = function(N)
      local q, k, v, dO = inputs(N)
      return function()
        causal_linear_attention(q, k, v, forward)
        causal_linear_attention_grad(q, k, v, dO, given)
      end, bytes({ q, k, v, v, q, k, v, dO, q, k, v }), h * N * 16 * 128 * 128
    end,
    check = function()
      local q, k, v, dO = inputs(1000)
      local got = causal_linear_attention_grad(q, k, v, dO, given)
      local want = causal_linear_attention_grad(f64(q:cpu()), f64(k:cpu()), f64(v:cpu()), f64(dO:cpu()), forward)
      return calls.worst(got, want, { "dq", "dk", "dv" }), 3.5e-3
    end,
  }
end

local function step(heads)
  local function inputs()
    local q, k, v = gpu_randn(1, heads, 1, 128):scaled(unit), gpu_randn(1, heads, 1, 128):scaled(unit),
      gpu_randn(1, heads, 1, 128)
    local log_decay, beta = gates(heads, 1)
    return q, k, v, gpu_randn(1, heads, 128, 128), { update = "gated_delta", log_decay = log_decay, beta = beta,
      inplace = true }
  end
  return {
    make = function()
      local q, k, v, state, given = inputs()
      return function() linear_attention_step(q, k, v, state, given) end, bytes({ q, k, v, v, state, state }),
        heads * 6 * 128 * 128
    end,
    check = function()
      local q, k, v, state, given = inputs()
      local before = f64(state:cpu())
      local got = f64(linear_attention_step(q, k, v, state, given):cpu())
      local want = linear_attention_step(f64(q:cpu()), f64(k:cpu()), f64(v:cpu()), before,
        { update = "gated_delta", log_decay = f64(given.log_decay:cpu()), beta = f64(given.beta:cpu()) })
      return norm(got - want) / norm(want), 1e-5
    end,
  }
end

local function decoding()
  local h = 16
  local function inputs(M)
    return gpu_randn(1, h, 1, 128, "bf16"), gpu_randn(1, h, M, 128, "bf16"), gpu_randn(1, h, M, 128, "bf16")
  end
  return {
    make = function(M)
      local q, k, v = inputs(M)
      return function() return (softmax_attention(q, k, v)) end, bytes({ k, v }), h * M * 4 * 128
    end,
    check = function()
      local q, k, v = inputs(1000)
      local got = f64(softmax_attention(q, k, v):cpu())
      local want = softmax_attention(f64(q:cpu()), f64(k:cpu()), f64(v:cpu()))
      return norm(got - want) / norm(want), 6e-3
    end,
  }
end

local function delta(update) return calls.forward({ update = update, checked_heads = 32 }) end

local LA = "lightning-attention-2"
-- Whose roof a row stands under (roofline.lua); 16-bit tensor cores where none is named.
local tensor, split, fma = "tensor cores, 16 bits", "tensor cores, Float32", "FMA units, Float32"
local rows = {
  { name = "lightning-attention-2, decay, bf16", N = 100000, call = causal(LA, "bf16", { decay = true }), ratio = 1.45,
    aim = 1.15, peer = "fla 3.2" },
  { name = "lightning-attention-2, 0-1 mask, bf16", N = 100000, call = causal(LA, "bf16", {}), ratio = 1.6, aim = 1.3,
    peer = "fla 3.05" },
  { name = "lightning-attention-2, decay, bf16", N = 8192, call = causal(LA, "bf16", { decay = true }), ratio = 1.8,
    aim = 1.35, peer = "fla 4.5" },
  { name = "lightning-attention-2, 0-1 mask, bf16", N = 8192, call = causal(LA, "bf16", {}), ratio = 1.8, aim = 1.35,
    peer = "fla 4.5" },
  { name = "lightning-attention-2, decay, bf16, B = 16", N = 8192,
    call = causal(LA, "bf16", { decay = true, batch = 16 }), ratio = 1.3, aim = 1.1, peer = "fla 3.0" },
  { name = "lightning-attention-2, decay, bf16, h = 8", N = 100000,
    call = causal(LA, "bf16", { decay = true, heads = 8 }), ratio = 1.8, aim = 1.3 },
  { name = "lightning-attention-2, 0-1 mask, bf16, h = 8", N = 100000, call = causal(LA, "bf16", { heads = 8 }),
    ratio = 1.8, aim = 1.3 },
  { name = "lightning-attention-2, decay, f32 (bf16x3)", N = 100000, call = causal(LA, "f32", { decay = true }),
    ratio = 1.6, aim = 1.3, peer = "leet 3.2 (tf32)", units = split },
  { name = "lightning-attention-2, 0-1 mask, f32 (bf16x3)", N = 100000, call = causal(LA, "f32", {}), ratio = 1.6,
    aim = 1.3, peer = "leet 6.1 (tf32)", units = split },
  { name = "gated delta rule, bf16", N = 100000, call = delta("gated_delta"), must = 2.2, aim_ms = 1.2,
    peer = "fla 6.58 ms" },
  { name = "gated delta rule, bf16", N = 8192, call = delta("gated_delta"), must = 0.22, aim_ms = 0.12,
    peer = "fla 0.670 ms" },
  { name = "delta rule, bf16", N = 100000, call = delta("delta"), peer = "fla 6.48 ms" },
  { name = "fleet, f32", N = 100000, call = causal("fleet", "f32", {}), must = 8, aim_ms = 5, peer = "leet 364 ms",
    units = fma },
  { name = "fleet, decay, f32", N = 100000, call = causal("fleet", "f32", { decay = true }), must = 8, aim_ms = 5,
    peer = "leet 364 ms", units = fma },
  { name = "causal-dot-product, f32", N = 100000, call = causal("causal-dot-product", "f32", {}), must = 8, aim_ms = 5,
    peer = "leet 54.5 ms", units = fma },
  { name = "causal-dot-product, decay, f32", N = 100000, call = causal("causal-dot-product", "f32", { decay = true }),
    must = 8, aim_ms = 5, peer = "leet 54.6 ms", units = fma },
  { name = "lightning-attention-2 and its gradient, decay, bf16", N = 25600, call = gradient(true), must = 1.6,
    aim_ms = 1.1, peer = "fla 3.32 ms" },
  { name = "lightning-attention-2 and its gradient, 0-1 mask, bf16", N = 25600, call = gradient(false), must = 1.6,
    aim_ms = 1.1 },
  { name = "one token, gated delta rule, 2048 heads, f32 state", N = 1, call = step(2048), ratio = 1 / 0.85,
    aim = 1 / 0.93, units = fma },
  { name = "one token, gated delta rule, 32 heads, f32 state", N = 1, call = step(32), units = fma },
  { name = "flash-decoding, h = 16, bf16", N = 640000, call = decoding(), ratio = 1.05, aim = 1.0,
    peer = "SDPA 1.139 ms" },
}

-- What else runs there, without goals of its own: the gated family and its gradients, the general rule, softmax
-- attention, factors of low rank, and the other methods of causal linear attention.
local function add(name, N, call, units) rows[#rows + 1] = { name = name, N = N, call = call, units = units } end
local function family(call, what, shape) add(what, 8192, call(shape), shape.type == "f32" and fma or tensor) end
family(calls.forward, "a gate per head, bf16", { update = "gated" })
family(calls.forward, "a gate per channel, bf16", { update = "gated", channels = true })
family(calls.forward, "a gate per channel, delta rule, bf16", { update = "gated_delta", channels = true })
family(calls.forward, "gated delta rule, bf16, 8 packed texts", { update = "gated_delta", texts = 8 })
family(calls.forward, 'gated delta rule, bf16, "prefix"', { update = "gated_delta", deterministic = "prefix" })
family(calls.forward, "a gate per head, f32", { update = "gated", type = "f32" })
family(calls.forward, "gated delta rule, f32", { update = "gated_delta", type = "f32" })
family(calls.forward, "a gate per channel, delta rule, f32", { update = "gated_delta", type = "f32", channels = true })
family(calls.gradient, "gradient, linear, bf16", { update = "linear" })
family(calls.gradient, "gradient, a gate per head, bf16", { update = "gated" })
family(calls.gradient, "gradient, a gate per channel, bf16", { update = "gated", channels = true })
family(calls.gradient, "gradient, delta rule, bf16", { update = "delta" })
family(calls.gradient, "gradient, gated delta rule, bf16", { update = "gated_delta" })
family(calls.gradient, "gradient, a gate per channel, delta rule, bf16", { update = "gated_delta", channels = true })
family(calls.gradient, "gradient, gated delta rule, f32", { update = "gated_delta", type = "f32" })
add("general rule, f32", 8192, calls.general(32), fma)
add("gradient, general rule, f32", 2048, calls.general_gradient(32), fma)
add("softmax, causal, h = 16, bf16", 8192, calls.softmax("bf16", 16), tensor)
add("softmax, causal, h = 16, f32", 8192, calls.softmax("f32", 16), fma)
add("gradient, softmax, causal, h = 16, bf16", 8192, calls.softmax_gradient("bf16", 16), tensor)
add("gradient, softmax, causal, h = 16, f32", 4096, calls.softmax_gradient("f32", 16), fma)
add("factors favor+, d = 64, f32", 8192, calls.features("favor+", 64, 64, 2 * 64 * 64), fma)
add("factors rfa, d = 64, f32", 8192, calls.features("rfa", 64, 64, 2 * 64 * 64), fma)
add("factors hedgehog, d = 64, f32", 8192, calls.features("hedgehog", 64, nil, 2 * 64 * 64), fma)
add("factors taylor, d = 16, f32", 8192, calls.features("taylor", 16, nil, 153), fma)
for _, method in ipairs({ "vanilla", "row-based", "block-based", "recursion", "fleet-untiled", "inner-product",
  "outer-product", "outer-product-blockwise", "hybrid" }) do
  add(method .. ", decay, f32", 8192, causal(method, "f32", { decay = true }), fma)
end

local function number(x, digits) return x and number_text(x, digits or 3) or "" end
local wrong = {}

local function kernels()
  local out = {}
  for _, row in ipairs(rows) do
    local too_long = options.quick and row.N > 8192
    if row.name:find(options.only, 1, true) and not too_long then
      seed(1)
      local err, bound = row.call.check()
      local line = { name = row.name, N = row.N, error = err, bound = bound, peer = row.peer or "",
        units = row.units or tensor }
      out[#out + 1] = line
      if err <= bound then
        collectgarbage()
        local f, moved, operations = row.call.make(row.N)
        local before = gpu_memory("reset").used
        f()
        line.memory = gpu_memory().peak - before
        -- The floor of decoding is reading alone, which is as fast as copying on this measure.
        line.floor = moved / rate
        line.time = gpu_time(f, { repeats = options.repeats, calls = line.floor < 2e-4 and 10 or 2 })
        line.ratio = line.time / line.floor
        line.bandwidth, line.rate = moved / line.time, operations / line.time
        line.must = row.must and row.must .. " ms" or row.ratio and string.format("%.2f ×", row.ratio) or ""
        line.reached = row.must and (line.time * 1e3 <= row.must and "yes" or "NO") or row.ratio
          and (line.ratio <= row.ratio and "yes" or "NO") or ""
      else
        line.reached = "WRONG"
        wrong[#wrong + 1] = string.format("%s is wrong: error %.2e, expected at most %.1e", row.name, err, bound)
      end
    end
  end
  display(text_table(out, { title = "One call on " .. device, columns = {
    "name", { key = "N", align = "right" },
    { key = "floor", title = "floor", unit = "ms", format = function(x) return number(x * 1e3) end, align = "right" },
    { key = "time", unit = "ms", format = function(x) return number(x * 1e3) end, align = "right" },
    { key = "ratio", title = "× floor", format = "%.2f", align = "right" },
    { key = "must", align = "right" }, "reached", "peer",
    { key = "bandwidth", title = "TB/s", format = function(x) return number(x / 1e12) end, align = "right" },
    { key = "rate", title = "TFLOP/s", format = function(x) return number(x / 1e12) end, align = "right" },
    { key = "error", format = function(x) return string.format("%.1e", x) end, align = "right" },
    { key = "memory", title = "extra memory", unit = "bytes", align = "right" },
  }, note = "FLOP of the recurrence: 4 r d a token, 6 r d with the delta rule, 8 r d of the general one; of a gradient "
      .. "10 r d, 16 and 20; softmax 2 N d, its gradient 5; extra memory: output and workspace" }))
  return out
end

-- ── LeetDecoding's tables ──
-- FA_modify is FA without the atomic additions that its ranks need; fleet has no use for them.
local own = {
  Vanilla = { "vanilla" }, Bb = { "block-based" }, Cdotp = { "causal-dot-product" }, Cdotp_torch = { "row-based" },
  FA = { "fleet" }, FA_modify = { "fleet" },
  FA_torch = { "fleet-untiled" }, LA = { LA }, LA_torch = { LA, "exact" }, Recur = { "recursion" },
}
local tables = {
  { file = "table3", batch = 1, decay = false, title = "leet, Table 3: batch 1" },
  { file = "table4", batch = 1, decay = true, title = "leet, Table 4: batch 1, decay" },
  { file = "table5", batch = 16, decay = false, title = "leet, Table 5: batch 16" },
  { file = "table6", batch = 16, decay = true, title = "leet, Table 6: batch 16, decay" },
  { file = "table9", batch = 1, decay = false, title = "leet, Table 9: batch 1" },
  { file = "table9", batch = 1, decay = true, title = "leet, Table 9: batch 1, decay" },
  { file = "table9", batch = 16, decay = false, title = "leet, Table 9: batch 16" },
  { file = "table9", batch = 16, decay = true, title = "leet, Table 9: batch 16, decay" },
}

local function leet_rows(t)
  local list = {}
  for _, printed in ipairs(load(folder .. "/data/reference/leet/" .. t.file .. ".csv")) do
    if printed.batch_size == nil or printed.batch_size == t.batch and (printed.exp_decay == "yes") == t.decay then
      list[#list + 1] = printed
    end
  end
  return list
end

-- {time, ratio to the floor} or {status}; what two tables have in common is measured once. Calls that would last too
-- long, going by the growth of the last two lengths, are left out.
local measured, checked = {}, {}
local function time_of(method, precision, t, N, inputs)
  local line = string.format("%s %s %d %s", method, precision or "", t.batch, t.decay)
  local known = measured[line] or {}
  measured[line] = known
  if known[N] then return known[N] end
  local last, before = known.last, known.before
  if before then
    local expected = last.time * (last.time / before.time) ^ (math.log(N / last.N) / math.log(last.N / before.N))
    if expected > options.seconds then return { status = string.format("about %.0f s", expected) } end
  end
  local here = {}
  local ok, problem = pcall(function()
    local f, moved = causal(method, "f32", { decay = t.decay, batch = t.batch, precision = precision }).make(N,
      inputs())
    -- Of large outputs there is room for one.
    local function call()
      if moved > 2 ^ 33 then collectgarbage() end
      f()
    end
    here.time = gpu_time(call, { repeats = 1 })
    if here.time < 0.1 then here.time = gpu_time(call, { repeats = math.min(options.repeats, 5) }) end
    here.ratio = here.time / (moved / rate)
    known.before, known.last = last, { N = N, time = here.time }
  end)
  if not ok then here.status = error_kind(problem) == "out of memory" and "out of memory" or tostring(problem) end
  known[N] = here
  return here
end

local function right(method, precision, t)
  local line = string.format("%s %s %s", method, precision or "", t.decay)
  if checked[line] == nil then
    local err, bound = causal(method, "f32", { decay = t.decay, precision = precision }).check()
    checked[line] = err <= bound
    if not checked[line] then
      wrong[#wrong + 1] = string.format("%s%s is wrong: error %.2e, expected at most %.1e", method,
        t.decay and ", decay," or "", err, bound)
    end
  end
  return checked[line]
end

local function leet(keep)
  local out = {}
  for _, t in ipairs(tables) do
    local lines, lengths = {}, {}
    for _, printed in ipairs(leet_rows(t)) do
      local method, precision = table.unpack(own[printed.method])
      local N = printed.seq_len_tokens
      if method:find(options.only, 1, true) and not (options.quick and N > 8192) then
        local paper = printed.latency_mean_s or printed.runtime_s
        local line = { table = t.file, method = printed.method, name = method, precision = precision, batch = t.batch,
          decay = t.decay, N = N, paper = paper }
        lines[#lines + 1] = line
        out[#out + 1] = line
        if not lengths[N] then lengths[#lengths + 1], lengths[N] = N, {} end
        table.insert(lengths[N], line)
      end
    end
    -- Length by length: all methods share the inputs.
    table.sort(lengths)
    for _, N in ipairs(lengths) do
      local made
      local function inputs()
        if not made then
          collectgarbage()
          made = inputs_of("f32", { batch = t.batch }, N)
        end
        return made
      end
      for _, line in ipairs(lengths[N]) do
        local here = right(line.name, line.precision, t) and time_of(line.name, line.precision, t, N, inputs)
          or { status = "WRONG" }
        line.time, line.ratio, line.status = here.time, here.ratio, here.status or line.precision
        line.faster = type(line.paper) == "number" and line.time and line.paper / line.time or nil
      end
    end
    if #lines > 0 then
      display(text_table(lines, { title = t.title .. " (printed on an A6000; here Float32 on " .. device .. ")",
        columns = {
        "method", "name", { key = "N", align = "right" },
        { key = "paper", title = "printed", unit = "ms", format = function(x) return type(x) == "number"
          and number(x * 1e3) or x end, align = "right" },
        { key = "time", title = "here", unit = "ms", format = function(x) return number(x * 1e3) end, align = "right" },
        { key = "faster", title = "printed / here", format = function(x) return number(x) end, align = "right" },
        { key = "ratio", title = "× floor", format = "%.2f", align = "right" }, "status",
      } }))
      print()
      keep("leet", out)
    end
  end
end

local function keep(name, lines)
  if #lines == 0 then return end
  mkpath(options.save)
  save(options.save .. "/" .. name .. ".csv", lines)
  save(options.save .. "/" .. name .. ".json", { device = device, copy_rate = rate, date = os.date("%Y-%m-%d"),
    rows = lines })
end

if options.part ~= "leet" then keep("kernels", kernels()) end
if options.part ~= "kernels" then leet(keep) end
for _, sentence in ipairs(wrong) do print(sentence) end
if #wrong > 0 then os.exit(1, true) end
