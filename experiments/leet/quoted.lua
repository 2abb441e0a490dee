-- leet: the figures quoted in the running text, judged by its own tables, by counts and by what runs here.
--
--   causeway experiments/leet/quoted.lua                a second; --quick and --full change nothing
--
-- Statements about the printed tables are recomputed from their cells; what the authors ran is listed and not judged.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "leet", name = "quoted",
  title = "figures of the text", rules = { device = { "cpu" } },
  differs = "Statements about printed tables are recomputed from the printed cells." })

-- {[table] = {[method] = {[N] = seconds}}}, cells without a number left out.
local printed = {}
for i = 3, 6 do
  local t = {}
  for _, row in ipairs(item:printed("table" .. i)) do
    t[row.method] = t[row.method] or {}
    t[row.method][row.seq_len_tokens] = type(row.latency_mean_s) == "number" and row.latency_mean_s or nil
  end
  printed[i] = t
end

-- The least of (time of another method) / (time of `method`) over tables and lengths that fit, and where.
local function lead(method, tables, fits)
  local least, where = math.huge, nil
  for _, i in ipairs(tables) do
    for N, own in pairs(printed[i][method]) do
      for other, times in pairs(printed[i]) do
        if fits(N) and other ~= method and times[N] and times[N] / own < least then
          least, where = times[N] / own, string.format("%s at %d in Table %d", other, N, i)
        end
      end
    end
  end
  return least, where
end

-- Ratios of the times of two methods, or of the same in two tables.
local function ratios(pairs_of)
  local list = {}
  for _, p in ipairs(pairs_of) do
    for N, time in pairs(p[1]) do
      if p[2][N] then list[#list + 1] = { ratio = time / p[2][N], N = N } end
    end
  end
  table.sort(list, function(a, b) return a.ratio < b.ratio end)
  return list
end

local function cuda_ratios()
  local list = {}
  for i = 3, 6 do
    for _, m in ipairs({ "Cdotp", "FA", "LA" }) do list[#list + 1] = { printed[i][m .. "_torch"], printed[i][m] } end
  end
  return ratios(list)
end

local function inside(list, low, high)
  local n = 0
  for _, entry in ipairs(list) do n = n + (entry.ratio >= low and entry.ratio <= high and 1 or 0) end
  return n
end

local set_up = "what they ran it on"
dofile(folder .. "/../lib/quoted.lua")(item, {
  gpu_memory = set_up, replications = set_up, seq_len_min = set_up, seq_len_max = set_up, model_runs = set_up,
  dataset_samples = set_up, dataset_min_length = set_up, dataset_max_length = set_up, retained_layers = set_up,
  la_fastest_above = function(limit)
    local least, where = lead("LA", { 3, 4 }, function(N) return N > limit end)
    return "count", verdicts.whether(least > 1, string.format("nearest in the printed cells: %s, %.2f × LA", where,
      least)), "I3"
  end,
  la_margin_at_least = function(margin)
    local least, where = lead("LA", { 3, 4 }, function(N) return N > 512 end)
    return "count", verdicts.whether(least >= margin, string.format("least in the printed cells: %.2f × (%s)", least,
      where)), "I3"
  end,
  vanilla_best_up_to = function(limit)
    local least, where = lead("Vanilla", { 3, 4 }, function(N) return N <= limit end)
    return "count", verdicts.whether(least > 1, string.format("in the printed cells %s takes %.3g × Vanilla's time",
      where, least)), "I4"
  end,
  cuda_speedup_low = function(low)
    local list = cuda_ratios()
    return "count", verdicts.whether(list[1].ratio >= low, string.format("least in the printed cells: %.2f ×; %d of %d "
      .. "from 2 to 20", list[1].ratio, inside(list, 2, 20), #list)), "I7"
  end,
  cuda_speedup_high = function(high)
    local list = cuda_ratios()
    return "count", verdicts.whether(list[#list].ratio <= high, string.format("most in the printed cells: %.1f ×",
      list[#list].ratio)), "I7"
  end,
  batch_time_growth_below = function(limit)
    local list = {}
    for one, sixteen in pairs({ [3] = 5, [4] = 6 }) do
      for method in pairs(printed[one]) do list[#list + 1] = { printed[sixteen][method], printed[one][method] } end
    end
    local growth = ratios(list)
    return "count", verdicts.whether(growth[#growth].ratio < limit, string.format("most in the printed cells: %.1f ×; "
      .. "%d of %d below", growth[#growth].ratio, inside(growth, 0, limit), #growth)), "I6"
  end,
  recursion_base_length_below = function(length)
    for _, m in ipairs(method_list()) do
      if m.name == "recursion" then
        return "count", verdicts.equal(m.block, length, "longest base case"), "C4"
      end
    end
  end,
  fa_modify_time_ratio = "see Table 9",
})
item:finish()
