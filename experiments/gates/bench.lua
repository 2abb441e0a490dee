-- What do gates and delta rules cost beside plain linear attention, forward and backward?
--
--   causeway experiments/gates/bench.lua                 every update, 8 heads, N = 8192, d = 128, Float32
--   causeway experiments/gates/bench.lua --lengths 512,2048,8192,32768 --heads 1
--
--   --lengths 8192 --heads 8 --dim 128   shape; d_k = d_v, one batch
--   --seconds 0.5                        time spent on a point beyond warm-up, at least three calls
--   --product 512                        side of the matrix product that rates are compared with
--   --turns 3                            rounds over all points of a length; each keeps its best time
--   --save results/gates_bench           gates_bench.csv, .json, bench.html
--
-- Method: each update is first compared with the recurrence in Float64, its gradients with those of the recurrence. A
-- time is the minimum over all calls. "of linear" is the time over that of update = "linear" in the same run; "backward
-- / forward" is linear_attention_grad, which computes again what the forward pass had, over linear_attention. Useful
-- multiply-adds of a token and head in chunks of C = 64: C (d_k + d_v) / 2 + 2 d_k d_v, with the delta rule
-- C (d_k + d_v) + 3 d_k d_v (claims F5, F8); their rate is compared with that of Eigen's product of this side, 512,
-- beside it.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  lengths = { 8192 }, heads = 8, dim = 128, seconds = 0.5, product = 512, turns = 3, save = "results/gates_bench",
}, { lengths = { 1 }, heads = { 1 }, dim = { 1 }, seconds = { above = 0 }, product = { 1, 4096 }, turns = { 1 } })
local updates = dofile(folder .. "/../lib/updates.lua")
local cells = dofile(folder .. "/../lib/cells.lua")
local page, _, show = dofile(folder .. "/../lib/page.lua")()
local h, d, C = options.heads, options.dim, 64

-- Unit keys, gates around e^-0.05, β in (0, 1).
local function problem(heads, N, u)
  seed(1)
  local x = { q = randn(1, heads, N, d), k = randn(1, heads, N, d), v = randn(1, heads, N, d), update = u.update }
  x.k = x.k / sqrt(sum(pow(x.k, 2), 4))
  if u.gate == "head" then x.log_decay = -0.1 * rand(1, heads, N) elseif u.gate then x.log_decay = -0.1 * rand(1, heads,
    N, d) end
  if u.beta then x.beta = rand(1, heads, N) end
  return x
end

local function with(x, extra)
  local out = {}
  for key, value in pairs(x) do out[key] = value end
  for key, value in pairs(extra) do out[key] = value end
  return out
end

-- ── Right before fast ──
print(tostring(machine()))
for _, u in ipairs(updates) do
  local x = problem(1, 300, u)
  local G = randn(1, 1, 300, d)
  local exact = { mode = "recurrent" }
  for key, value in pairs(x) do exact[key] = type(value) == "string" and value or f64(value) end
  local err = relative_error((linear_attention(x)), (linear_attention(exact)))
  local got, want = linear_attention_grad(with(x, { dO = G })), linear_attention_grad(with(exact, { dO = f64(G) }))
  for key, value in pairs(want) do err = math.max(err, relative_error(got[key], value)) end
  if not (err <= 1e-4) then error(string.format("%s is wrong: error %.1e, expected at most 1e-4", u.name, err), 0) end
end

-- ── The measurement: points take turns, so that all of them see the same machine ──
local rows = {}
for _, N in ipairs(options.lengths) do
  local points = {}
  for _ = 1, options.turns do
    for i, u in ipairs(updates) do
      local x = problem(h, N, u)
      local p = points[i] or { N = N, heads = h, d = d, update = u.name, forward = math.huge, backward = math.huge,
        product_rate = 0 }
      local backward = with(x, { dO = x.v })
      local budget = { seconds = options.seconds / options.turns, show = false }
      p.product_rate = math.max(p.product_rate, product_rate(options.product, { seconds = options.seconds / 2 }))
      p.forward = math.min(p.forward, btime(function() linear_attention(x) end, budget).minimum)
      local b = btime(function() linear_attention_grad(backward) end, budget)
      p.backward, p.memory = math.min(p.backward, b.minimum), b.memory
      points[i] = p
      x, backward = nil, nil
      collectgarbage()
    end
  end
  for i, p in ipairs(points) do
    local macs = updates[i].beta and C * 2 * d + 3 * d * d or C * d + 2 * d * d
    p.ratio, p.backward_ratio = p.forward / points[1].forward, p.backward / p.forward
    p.share = 2 * h * N * macs / p.forward / p.product_rate
    p.token = p.forward / N
    rows[#rows + 1] = p
  end
end

-- ── What came out ──
for _, N in ipairs(options.lengths) do
  local shown_rows = {}
  for _, p in ipairs(rows) do
    if p.N == N then shown_rows[#shown_rows + 1] = p end
  end
  show(text_table(shown_rows, {
    title = string.format("N = %d, %d heads, d = %d, Float32, chunks of %d", N, h, d, C),
    columns = {
      { key = "update" },
      { key = "forward", unit = "ms", format = cells.scaled(1e3, 3), align = "right" },
      { key = "ratio", title = "of linear", format = cells.scaled(1, 3), align = "right" },
      { key = "share", title = "of product rate", unit = "%", format = cells.scaled(100, 2), align = "right" },
      { key = "backward", unit = "ms", format = cells.scaled(1e3, 3), align = "right" },
      { key = "backward_ratio", title = "backward / forward", format = cells.scaled(1, 3), align = "right" },
    },
  }))
end
mkpath(options.save)
save(options.save .. "/gates_bench.csv", rows)
save(options.save .. "/gates_bench.json", rows)
report({ title = "Gates and delta rules beside plain linear attention", save = options.save .. "/bench.html",
  data = { options.save .. "/gates_bench.csv", options.save .. "/gates_bench.json" }, table.unpack(page) })
print("\n" .. options.save .. ": gates_bench.csv, .json, bench.html")
