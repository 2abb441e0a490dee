-- tpu: the figures quoted in the running text.
--
--   causeway experiments/tpu/quoted.lua                a second; --quick and --full change nothing
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "tpu", name = "quoted",
  title = "figures of the text", rules = { device = { "cpu" } }, differs = "" })
local m = item:quoted("matrix_unit_size")
dofile(folder .. "/../lib/quoted.lua")(item, {
  matrix_unit_size = "what they ran it on", head_dim = "what they ran it on",
  faster_than_every_baseline_from = "see Figure 1", outer_product_slowdown_at_least = "see Figure 1",
  -- A product of m × m matrices has m³ multiply-adds, of which an outer product uses m².
  outer_product_penalty = function(penalty)
    return "count", verdicts.equal(m ^ 3 / m ^ 2 // 1 | 0, penalty, string.format("m³ / m² for m = %d", m)), "G4"
  end,
})
item:finish()
