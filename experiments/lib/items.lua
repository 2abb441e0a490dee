-- What reproduce.lua runs, in the order of its page: a script DOCUMENT/NAME.lua for each table, figure, listing and
-- group of statements. seconds: of --quick on two cores, by which the time left is told; gpu: it knows --device gpu.
local items = {}

local function add(document, list)
  for _, item in ipairs(list) do
    items[#items + 1] = { document = document, name = item[1], seconds = item.seconds or 1, gpu = item.gpu }
  end
end

add("fleet", {
  { "table1" }, { "table2" }, { "table3" }, { "table4" }, { "table5", seconds = 2 },
  { "figure2", seconds = 30, gpu = true }, { "quoted" },
})
add("leet", {
  { "table1" }, { "table2" }, { "table3", seconds = 30, gpu = true }, { "table4", seconds = 30, gpu = true },
  { "table5", seconds = 40, gpu = true }, { "table6", seconds = 40, gpu = true }, { "table7" }, { "table8" },
  { "table9", seconds = 20, gpu = true }, { "listing1", seconds = 6 }, { "listing2", seconds = 5, gpu = true },
  { "quoted" },
})
add("gates", { { "views" }, { "tradeoff" }, { "rules" } })
add("tpu", { { "figure1", seconds = 8 }, { "quoted" } })
add("tree", {
  { "figure2", seconds = 2 }, { "figure3", seconds = 20 }, { "figure4" }, { "volume", seconds = 3 }, { "table1" },
  { "table2" }, { "quoted" },
})

return items
