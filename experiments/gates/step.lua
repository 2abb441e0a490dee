-- How near to the speed of a plain copy of the states is one token of linear attention?
--
--   causeway experiments/gates/step.lua                  states of 2 MiB (32 heads) and 128 MiB (2048 heads), d = 128,
--                                                        Float32
--   causeway experiments/gates/step.lua --quick          less time a point, 256 heads at most
--   causeway experiments/gates/step.lua --heads 1,8,32 --dim 64
--
--   --heads 32,2048                  heads of all batches together
--   --dim 128                        d_k = d_v
--   --seconds 1                      time spent on a point, for the step and for the copy
--   --save results/gates_step        rows.jsonl (goes on where it was stopped), .csv, .json, step.html
--   --fresh                          start again
--
-- Method: a token has to read the state once and to write it once, so its time is compared with that of a plain copy of
-- as many bytes on the same threads (copy_rate: memcpy by one or all threads, the faster one). The two are measured in
-- turns, five each, so that both see the same machine; each is its fastest call, after a warm-up. The step is called
-- with inplace = true; a call from Lua takes about a microsecond, which is part of the time. Every update is first
-- compared with the recurrence in Float64.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, {
  quick = false, fresh = false, heads = { 32, 2048 }, dim = 128, seconds = 1, save = "results/gates_step",
}, { heads = { 1 }, dim = { 1 }, seconds = { above = 0 } })
local updates = dofile(folder .. "/../lib/updates.lua")
local cells = dofile(folder .. "/../lib/cells.lua")
local page, _, show = dofile(folder .. "/../lib/page.lua")()
if options.quick then
  options.seconds = math.min(options.seconds, 0.2)
  for i, h in ipairs(options.heads) do options.heads[i] = math.min(h, 256) end
end
local d = options.dim

local names, by_name = {}, {}
for i, u in ipairs(updates) do names[i], by_name[u.name] = u.name, u end

-- One token of h heads; |k| = 1 and β in (0, 1), so that the state stays where it is however often the token comes.
local function problem(h, u)
  seed(1)
  local x = { q = randn(1, h, 1, d), k = randn(1, h, 1, d), v = randn(1, h, 1, d), state = randn(1, h, d, d),
    update = u.update }
  x.k = x.k / sqrt(sum(pow(x.k, 2), 4))
  if u.gate == "head" then x.log_decay = -rand(1, h, 1) elseif u.gate then x.log_decay = -rand(1, h, 1, d) end
  if u.beta then x.beta = rand(1, h, 1) end
  return x
end

-- ── Right before fast ──
print(tostring(machine()))
for _, u in ipairs(updates) do
  local x = problem(4, u)
  local exact = { update = x.update, mode = "recurrent" }
  for _, key in ipairs({ "log_decay", "beta", "state" }) do exact[key] = x[key] and f64(x[key]) end
  local O, S = linear_attention(f64(x.q), f64(x.k), f64(x.v), exact)
  local got, state = linear_attention_step(x)
  local err = math.max(relative_error(got, O), relative_error(state, S))
  if not (err <= 1e-5) then error(string.format("%s is wrong: error %.1e, expected at most 1e-5", u.name, err), 0) end
end

-- ── The sweep ──
local results = sweep({
  grid = { heads = options.heads, update = names, d = { d } },
  order = { "d", "heads", "update" },
  save = options.save,
  fresh = options.fresh,
  run = function(p)
    local x = problem(p.heads, by_name[p.update])
    x.inplace = true
    local bytes = p.heads * d * d * 4
    local time, median, copied, turns = math.huge, math.huge, 0, 5
    for _ = 1, turns do
      copied = math.max(copied, copy_rate(bytes, { seconds = options.seconds / turns }))
      local t = btime(function() linear_attention_step(x) end, { seconds = options.seconds / turns, show = false })
      time, median = math.min(time, t.minimum), math.min(median, t.median)
    end
    local rate = 2 * bytes / time
    return { time = time, median = median, bytes = bytes, rate = rate, copy_rate = copied, share = rate / copied }
  end,
})

-- ── What came out ──
for _, h in ipairs(options.heads) do
  show(text_table(results:where({ heads = h }), {
    title = string.format("%d heads, d = %d: states of %s", h, d, bytes_text(h * d * d * 4)),
    columns = {
      { key = "update" },
      { key = "time", unit = "µs", format = cells.scaled(1e6), align = "right" },
      { key = "rate", title = "read + write", unit = "GB/s", format = cells.scaled(1e-9, 3), align = "right" },
      { key = "copy_rate", title = "copy", unit = "GB/s", format = cells.scaled(1e-9, 3), align = "right" },
      { key = "share", title = "of copy", unit = "%", format = cells.scaled(100, 3), align = "right" },
    },
  }))
end
report({ title = "One token of linear attention beside a copy of the states", save = options.save .. "/step.html",
  data = options.save .. "/" .. options.save:match("[^/]+$") .. ".csv", table.unpack(page) })
print("\n" .. results.folder .. ": rows.jsonl, " .. options.save:match("[^/]+$") .. ".csv, .json, step.html")
