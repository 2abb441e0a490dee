-- parallel, decoding: bytes that tree and ring decoding send on up to 128 GPUs, counted on the schedules.
--
--   causeway experiments/parallel/decoding_volume.lua           a second; --quick and --full change nothing
--
--   --devices 2,4,8,…,128
--   --lengths 80000,5120000         keys
--
-- One query, 16 heads of width 128; keys and values of two bytes a number, partial results too, as the model has one
-- size. That counts with data are those of the schedules is shown by experiments/tree/volume.lua.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local verdicts = dofile(folder .. "/../lib/verdicts.lua")
local item = dofile(folder .. "/../lib/item.lua")(arg, { document = "parallel", name = "decoding_volume",
  title = "tree and ring decoding on several GPUs, bytes sent",
  options = { devices = { 2, 4, 8, 16, 32, 64, 128 }, lengths = { 80000, 5120000 } },
  rules = { device = { "cpu" }, devices = { 2, 4096 }, lengths = { 1 } },
  differs = "Counted on schedules without data, the same on any machine." })
local options = item.options
local heads, dim = 16, 128
local rows, curves, grows = {}, { xscale = "log", yscale = "log", xlabel = "GPUs", ylabel = "bytes by one GPU",
  title = "Bytes that one GPU sends at most" }, nil
local tree_of = {}  -- by number of GPUs, at the first length
for _, length in ipairs(options.lengths) do
  for _, method in ipairs({ "tree", "ring" }) do
    local curve = { x = {}, y = {}, label = string.format("%s, %d keys", method, length),
      style = method == "ring" and "dashed" or nil }
    for _, p in ipairs(options.devices) do
      local report = decode_model{ method = method, shards = p, length = length, heads = heads, dim = dim }
      local most = 0
      for _, worker in ipairs(report.workers) do most = math.max(most, worker.bytes) end
      rows[#rows + 1] = { method = method, keys = length, gpus = p, all = report.bytes, most = most,
        rounds = report.rounds }
      curve.x[#curve.x + 1], curve.y[#curve.y + 1] = p, most
      if method == "tree" then
        tree_of[p] = tree_of[p] or report.bytes
        if tree_of[p] ~= report.bytes then
          grows = grows or string.format("on %d GPUs %d bytes with %d keys, %d with %d", p, tree_of[p],
            options.lengths[1], report.bytes, length)
        end
      end
    end
    curves[#curves + 1] = curve
  end
end
item:table(rows, { title = "Bytes sent in one decode", columns = { "method", { key = "keys", align = "right" },
  { key = "gpus", title = "GPUs", align = "right" }, { key = "all", title = "in all", unit = "bytes" },
  { key = "most", title = "by one GPU", unit = "bytes" }, { key = "rounds", align = "right" } } })
item:figure(curves)
item:judge("what the tree sends does not depend on the number of keys", "count", verdicts.whether(not grows,
  grows or "counted at every number of GPUs"))
item:finish()
