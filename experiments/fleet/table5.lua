-- fleet, Table 5: the hyper-parameters of the low-rank methods of Table 2.
--
--   causeway experiments/fleet/table5.lua                seconds; --quick and --full change nothing
--
--   --length 512                    tokens of the factors that are made with them
--
-- Each method is run with the printed values, and has to give factors of that many columns; the relative error of the
-- matrix that they stand for is shown beside.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "fleet", name = "table5",
  title = "hyper-parameters of the low-rank methods", options = { length = 512 },
  rules = { device = { "cpu" }, length = { 64 } },
  differs = "Printed: what the authors set. Here: factors made with these values, on normal queries and keys." })
local N = item.options.length
-- What the printed names are called here; min_seq_len is where their program turns to exact attention.
local own = { HyperAttention = { name = "hyper", lsh_num_projs = "lsh_num_projs", block_size = "block",
  sample_size = "rank" }, ["FAVOR+"] = { name = "favor+", nb_features = "rank" },
  LARA = { name = "lara", nb_features = "rank" } }
local given, order, rows = {}, {}, {}
for i, row in ipairs(item:printed()) do
  local here = own[row.method]
  if not given[row.method] then
    given[row.method] = { seed = 1 }
    order[#order + 1] = row.method
  end
  local option = here[row.hyper_parameter]
  if option then given[row.method][option] = row.value end
  rows[i] = { method = row.method, printed = row.hyper_parameter, value = row.value, here = option
    and here.name .. ", " .. option or "no option: factors are made at any length" }
end
item:table(rows, { title = "Hyper-parameters", columns = { "method", { key = "printed", title = "hyper-parameter" },
  "value", "here" } })
seed(1)
local q, k = randn(1, 2, N, 64), randn(1, 2, N, 64)
local results = {}
for i, method in ipairs(order) do
  local options = given[method]
  options.rank = math.min(options.rank, N)
  local B, C, extras = lowrank(own[method].name, q, k, options)
  local err = lowrank_error(q, k, B, C, { extras = extras }).frobenius.relative
  results[i] = { method = method, columns = B:size(4), error = err }
  item:judge(method .. " runs with the printed values", "count", verdicts.equal(B:size(4), options.rank, "columns"))
end
item:table(results, { title = "Factors with these values", columns = { "method", "columns", { key = "error",
  title = "relative error of the scores", format = "%.3g" } },
  note = string.format("N = %d, 2 heads of 64, normal queries and keys; error of exp(q kᵀ / 8) in the "
    .. "Frobenius norm", N) })
item:finish()
