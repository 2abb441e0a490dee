-- gates: the update rules - decay gate, delta rule, gated delta network - as printed, a token at a time, beside the
-- library's chunkwise forms.
--
--   causeway experiments/gates/rules.lua                seconds; --quick and --full change nothing
--
--   --length 96                     tokens of the comparison, one head of 8
--
-- The printed recurrences are run in Float64 with matrix products; unit keys, α and β in (0, 1). What they are for is
-- experiments/gates/recall.lua.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "gates", name = "rules",
  title = "the update rules as printed", options = { length = 96 },
  rules = { device = { "cpu" }, length = { 2 } },
  differs = "The printed recurrences in Float64, beside the chunkwise forms of the library in Float64." })
local n, d = item.options.length, 8
seed(1)
local q, k, v = f64(randn(n, d)), f64(randn(n, d)), f64(randn(n, d))
k = k / sqrt(sum(times(k, k), 2))
local alpha, beta = 0.7 + 0.3 * f64(rand(n)), f64(rand(n))
local one = zeros(d, d, "f64")
for i = 1, d do one:set(1, i, i) end

-- S_t of each rule, from S_{t-1}; column k, row v.
local printed = {
  linear = function(S, kt, vt) return S + kt * vt end,
  gated = function(S, kt, vt, a) return a * S + kt * vt end,
  delta = function(S, kt, vt, _, b) return (one - b * (kt * kt:t())) * S + b * (kt * vt) end,
  gated_delta = function(S, kt, vt, a, b) return (a * (one - b * (kt * kt:t()))) * S + b * (kt * vt) end,
}

-- The outputs and the last state of a printed rule.
local function run(rule, written)
  local S, out = zeros(d, d, "f64"), zeros(n, d, "f64")
  for t = 1, n do
    local kt, vt = copy(k(t, ":")):reshape(d, 1), copy(v(t, ":")):reshape(1, d)
    S = rule(S, kt, vt, alpha(t), written or beta(t))
    out:set((copy(q(t, ":")):reshape(1, d) * S):reshape(d), t, ":")
  end
  return out, S
end

local function four(x, width) return x:reshape(1, 1, n, width) end
local rows = {}
for i, update in ipairs({ "linear", "gated", "delta", "gated_delta" }) do
  local out, S = run(printed[update])
  local claim = ({ linear = "F3", gated = "E4", delta = "F6", gated_delta = "F8" })[update]
  local x = { q = four(q, d), k = four(k, d), v = four(v, d), update = update, chunk = 32 }
  if update:find("gated") then x.log_decay = log(alpha):reshape(1, 1, n) end
  if update:find("delta") then x.beta = beta:reshape(1, 1, n) end
  local o, state = linear_attention(x)
  local off, state_off = relative_error(o, four(out, d)), relative_error(state, S:reshape(1, 1, d, d))
  rows[i] = { update = update, error = off, state = state_off }
  item:judge("the rule " .. update, "count", verdicts.whether(math.max(off, state_off) <= 1e-12,
    string.format("error %.1e of outputs, %.1e of the state", off, state_off)), claim)
end
item:table(rows, { title = "Printed recurrences and the library's chunks", columns = { "update", { key = "error",
  title = "error of outputs", format = "%.1e" }, { key = "state", title = "error of the last state",
  format = "%.1e" } } })
-- Written with full strength, a unit key gives back the value just written.
local _, S = run(printed.delta, 1)
local last = copy(k(n, ":")):reshape(1, d) * S
local back = relative_error(last:reshape(d), copy(v(n, ":")))
item:judge("with β = 1 the state gives back the value just written", "count", verdicts.whether(back <= 1e-12,
  string.format("error %.1e", back)), "F6")
item:finish()
