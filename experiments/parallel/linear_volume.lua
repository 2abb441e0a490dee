-- parallel, linear attention: bytes that one sequence's exchange of states sends on up to 1024 GPUs, counted, beside
-- closed forms, and beside calls with data on threads.
--
--   causeway experiments/parallel/linear_volume.lua           some seconds
--   causeway experiments/parallel/linear_volume.lua --quick   fewer numbers of GPUs; --full as without
--
--   --devices 2,4,8,…,1024
--   --length 4194304                tokens
--   --check 1000                    tokens of the same calls with data on threads, whose counts must be the model's
--
-- The gated delta rule, 32 heads of width 128; states and maps Float32, tokens, which Ulysses' exchange of heads sends,
-- of two bytes. No count but that one depends on the length. Rounds are those of states that go one by one.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local gpus = dofile(folder .. "/../lib/several_gpus.lua")
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "parallel", name = "linear_volume",
  title = "linear attention on several GPUs, bytes sent",
  options = { devices = { 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 }, length = 1 << 22, check = 1000 },
  rules = { device = { "cpu" }, devices = { 2, 4096 }, length = { 1 }, check = { 1 } },
  differs = "Counted on schedules without data, the same on any machine." })
local options = item.options
if item.mode == "quick" then options.devices = { options.devices[1], options.devices[#options.devices] } end
local heads, dim = 32, 128
local state = heads * dim * dim * 4
-- Bytes of all GPUs where each has tokens, in whole chunks of 64; all-gather sends a map S ↦ A S + B of every part to
-- every other GPU.
local most_parts = math.ceil(options.length / 64)
local closed = {
  ring = function(p) return (p - 1) * state end,
  ["all-scan"] = function(p) return (p - 1) * state end,
  ["all-gather"] = function(p) return p * (p - 1) * 2 * state end,
  heads = function(p)  -- q, k, v, O, a gate and β of every token, but for heads that are where they are needed
    if options.length % p > 0 or heads % math.min(p, heads) > 0 then return nil end
    return heads * (4 * dim + 2) * (options.length - options.length // p) * 2
  end,
}
local rows, curves, differ = {}, {}, {}
for i, exchange in ipairs(gpus.exchanges) do
  local curve = { x = {}, y = {}, label = exchange.label, style = i % 2 == 0 and "dashed" or nil }
  for _, p in ipairs(options.devices) do
    local report = linear_model{ exchange = exchange.name, update = "gated_delta", shards = p, length = options.length,
      heads = heads, dim = dim, together = 1 }
    local most = 0
    for _, worker in ipairs(report.workers) do most = math.max(most, worker.bytes) end
    local expected = p <= most_parts and closed[exchange.name](p) or nil
    if expected and expected ~= report.bytes then
      differ[#differ + 1] = string.format("%s on %d: %d, expected %d", exchange.name, p, report.bytes, expected)
    end
    rows[#rows + 1] = { way = exchange.label, gpus = p, all = report.bytes, most = most, rounds = report.rounds,
      messages = report.messages }
    curve.x[#curve.x + 1], curve.y[#curve.y + 1] = p, most
  end
  curves[i] = curve
end
item:table(rows, { title = string.format("Bytes sent, %d tokens", options.length), columns = {
  { key = "way", title = "exchange" }, { key = "gpus", title = "GPUs", align = "right" },
  { key = "all", title = "in all", unit = "bytes" }, { key = "most", title = "by one GPU", unit = "bytes" },
  { key = "messages", align = "right" }, { key = "rounds", align = "right" } } })
curves.xscale, curves.yscale, curves.xlabel, curves.ylabel = "log", "log", "GPUs", "bytes by one GPU"
curves.title = "Bytes that one GPU sends at most"
item:figure(curves)

-- ── With data ──
local checked = 0
seed(1)
local N = options.check
local q, k, v = randn(1, 4, N, 8), randn(1, 4, N, 8), randn(1, 4, N, 8)
local o = { update = "gated_delta", log_decay = -rand(1, 4, N), beta = rand(1, 4, N) }
for _, exchange in ipairs(gpus.exchanges) do
  for _, p in ipairs({ 2, 3, 8 }) do
    local _, _, report = linear_attention(q, k, v, gpus.with(o, { shards = p, exchange = exchange.name }))
    local model = linear_model{ exchange = exchange.name, update = "gated_delta", shards = p, length = N, heads = 4,
      dim = 8, element_bytes = 4, together = 1 }
    for _, what in ipairs({ "messages", "elements", "bytes", "rounds" }) do
      if report[what] ~= model[what] then
        error(string.format("%s by %s on %d: %d on threads, %d in the model", what, exchange.name, p, report[what],
          model[what]), 0)
      end
      checked = checked + 1
    end
  end
end
item:judge("counts with data on threads are those of the model", "count", verdicts.whether(true,
  string.format("%d counts", checked)))
item:judge("the bytes are those of the closed forms", "count", verdicts.whether(#differ == 0,
  #differ == 0 and "at every number of GPUs" or table.concat(differ, "; ")))
item:finish()
