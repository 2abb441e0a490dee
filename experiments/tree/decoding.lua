-- tree, Tables 1 and 2, with the keys and values of a whole model on several processes: what ten tokens of a Llama with
-- random weights take with tree and with ring attention in all layers, side by side.
--
--   ./lab mpi 2 experiments/tree/decoding.lua                       a minute
--   ./lab mpi 4 experiments/tree/decoding.lua --lengths 512 --size 135m
--
--   --size tiny               of the model (?model)
--   --lengths 512,1024,2048   tokens of the prompt
--   --tokens 10               tokens behind it
--   --rounds 3                each is timed so often, in turns; the fastest is shown
--
-- Every process runs the whole model, all of it but attention alone. The prompt is read by each, as in the document it
-- is the same for both; with the first token behind it each keeps its share of the keys and values of every layer and
-- lets go of the rest (?replace_attention, engine). Before the times 24 tokens are compared with those of the model's
-- own attention. What is shown is the time of a prompt and tokens + 1 tokens less that of the prompt and one token. On
-- GPUs over NCCL the same is build/gpu/bench_sharded_model.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, { size = "tiny", lengths = { 512, 1024, 2048 },
  tokens = 10, rounds = 3 }, { lengths = { 2 }, tokens = { 1 }, rounds = { 1 } })
if mpi_size() < 2 then
  exit(2, "expected several processes: ./lab mpi 2 experiments/tree/decoding.lua")
end
local m = model{ arch = "llama", size = options.size, weights = "random" }
local vocabulary = m:about().vocabulary

local function prompt_of(length)
  seed(1)
  local drawn, ids = rand(length), {}
  for i = 1, length do ids[i] = math.min(math.floor(drawn(i) * vocabulary), vocabulary - 1) end
  return ids
end

local function put(method) m:attention{ with = method, options = { engine = "mpi" } } end

local function greedy() return m:generate(prompt_of(40), { tokens = 24, stream = false }) end
local own = greedy()
for _, method in ipairs{ "tree", "ring" } do
  put(method)
  if greedy() ~= own then error(method .. " gives other tokens than the model's own attention", 0) end
end

-- The fastest of some rounds, of as many on every process.
local function seconds(prompt, tokens)
  local best = math.huge
  for _ = 1, options.rounds do
    local start = clock()
    m:generate(prompt, { tokens = tokens, stream = false })
    best = math.min(best, clock() - start)
  end
  return best
end

local rows = {}
for i, length in ipairs(options.lengths) do
  local prompt = prompt_of(length)
  rows[i] = { N = length }
  for _, method in ipairs{ "tree", "ring" } do
    put(method)
    rows[i][method] = seconds(prompt, options.tokens + 1) - seconds(prompt, 1)
  end
  rows[i].ratio = rows[i].ring / rows[i].tree
end
print(tostring(machine()))
display(text_table(rows, {
  title = string.format("Seconds for %d tokens of a Llama (%s), keys and values on %d processes", options.tokens,
    options.size, mpi_size()),
  columns = { { key = "N", align = "right" }, { key = "tree", digits = 3 }, { key = "ring", digits = 3 },
    { key = "ratio", title = "ring ÷ tree", format = "%.2f", align = "right" } },
}))
