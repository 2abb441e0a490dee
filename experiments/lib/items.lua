-- What reproduce.lua runs, in the order of its page: a script DOCUMENT/NAME.lua for each table, figure, listing and
-- group of statements. seconds: of processors, with --quick, by which the time left is told; gpu: it knows --device
-- gpu.
local items = {}

local function add(document, list)
  for _, item in ipairs(list) do
    items[#items + 1] = { document = document, name = item[1], seconds = item.seconds or 1, gpu = item.gpu }
  end
end

add("fleet", {
  { "table1" }, { "table2", seconds = 4 }, { "table3", seconds = 4 }, { "table4", seconds = 2, gpu = true },
  { "table5" }, { "figure2", seconds = 9, gpu = true }, { "quoted" },
})
add("leet", {
  { "table1" }, { "table2" }, { "table3", seconds = 10, gpu = true }, { "table4", seconds = 11, gpu = true },
  { "table5", seconds = 25, gpu = true }, { "table6", seconds = 27, gpu = true }, { "table7", seconds = 4, gpu = true },
  { "table8", seconds = 5, gpu = true }, { "table9", seconds = 13, gpu = true }, { "listing1" },
  { "listing2", seconds = 3, gpu = true },
  { "quoted" },
})
add("gates", { { "views" }, { "tradeoff" }, { "rules" } })
add("tpu", { { "figure1", seconds = 2 }, { "quoted" } })
add("tree", {
  { "figure2" }, { "figure3", seconds = 13 }, { "figure4" }, { "volume" }, { "table1", seconds = 10 },
  { "table2", seconds = 5 }, { "quoted" },
})

return items
