-- parallel, decoding: memory of a GPU in tree and ring decoding on up to 128 GPUs, counted on the schedules.
--
--   causeway experiments/parallel/decoding_memory.lua           a second; --quick and --full change nothing
--
--   --devices 1,2,4,…,128
--   --length 5120000                keys
--
-- One query, 16 heads of width 128, two bytes a number.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "parallel", name = "decoding_memory",
  title = "tree and ring decoding on several GPUs, memory of a GPU",
  options = { devices = { 1, 2, 4, 8, 16, 32, 64, 128 }, length = 5120000 },
  rules = { device = { "cpu" }, devices = { 1, 4096 }, length = { 1 } },
  differs = "Counted on schedules without data, the same on any machine." })
local options = item.options
local heads, dim = 16, 128
local rows, tree, ring = {}, { x = {}, y = {}, label = "tree" }, { x = {}, y = {}, label = "ring", style = "dashed" }
local least = math.huge
for i, p in ipairs(options.devices) do
  local function memory(method)
    return decode_model{ method = method, shards = p, length = options.length, heads = heads, dim = dim }.memory
  end
  local row = { gpus = p, tree = memory("tree"), ring = memory("ring"),
    shard = 2 * heads * dim * 2 * math.ceil(options.length / p) }
  row.ratio = row.ring / row.tree
  if p > 1 then least = math.min(least, row.ratio) end
  rows[i] = row
  tree.x[i], tree.y[i], ring.x[i], ring.y[i] = p, row.tree, p, row.ring
end
item:table(rows, { title = string.format("Memory of a GPU, %d keys", options.length), columns = {
  { key = "gpus", title = "GPUs", align = "right" }, { key = "shard", title = "its keys and values", unit = "bytes" },
  { key = "tree", unit = "bytes" }, { key = "ring", unit = "bytes" },
  { key = "ratio", title = "ring ÷ tree", format = "%.2f", align = "right" } } })
item:figure({ tree, ring, xscale = "log", yscale = "log", xlabel = "GPUs", ylabel = "bytes",
  title = "Memory of a GPU in one decode" })
if least < math.huge then
  item:judge("the ring holds a second shard on its way, the tree does not", "count", verdicts.whether(least > 1.5,
    string.format("ring ÷ tree at least %.2f", least)))
end
item:finish()
