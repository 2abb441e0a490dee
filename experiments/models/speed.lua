-- How fast a language model runs on this machine, beside what the machine can do: a token at a time beside the rate at
-- which memory is read, a prompt beside the rate of products. All on the same threads, in turns.
--
--   causeway experiments/models/speed.lua                        fetches SmolLM2-135M once
--   CAUSEWAY_THREADS=1 causeway experiments/models/speed.lua     on one thread
--
--   --model smollm2      a name, a GGUF file or a folder, as model() takes it
--   --tokens 64          generated in each round
--   --prompt 512         tokens of the prompt that is read
--   --rounds 3
--
-- A token's time is the median of all of them; quartiles stand beside it. The weights are read once for a token, and
-- the goal is 70 % of the read rate; a prompt takes 2 operations a parameter and token (attention not counted), and the
-- goal is 70 % of the product rate. Times beside other programs mean little.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
local options = dofile(folder .. "/../lib/arguments.lua")(arg, { model = "smollm2", tokens = 64, prompt = 512,
  rounds = 3 }, { tokens = { 2 }, prompt = { 16 }, rounds = { 1 } })

local m = model(options.model)
local about = m:about()
local file = assert(io.open(folder .. "/../data/heldout.txt", "rb"))
local text = file:read(8 * options.prompt + 64)
file:close()
local ids = m:tokens(text)
ids = table.move(ids, 1, math.min(options.prompt, #ids), 1, {})
local first = table.move(ids, 1, 16, 1, {})

local times, read, products, prompt = {}, 0, 0, math.huge
for _ = 1, options.rounds do
  read = math.max(read, read_rate(1 << 28))
  local last
  m:generate(first, { tokens = options.tokens, stream = function()
    local now = clock()
    if last then times[#times + 1] = now - last end
    last = now
  end })
  products = math.max(products, product_rate())
  local start = clock()
  m:logits(ids)
  prompt = math.min(prompt, clock() - start)
end
if #times == 0 then error("--tokens: the model ended its text at once, expected one that writes on", 0) end
table.sort(times)
local function at(share) return times[math.max(1, math.ceil(share * #times))] end
local token, rate = at(0.5), 2 * about.parameters * #ids / prompt

print(string.format("%s\n%d threads, %s\n", m, threads(), machine().processor or ""))
print(string.format([[
a token: %.2f ms (quartiles %.2f and %.2f, n = %d)
  %.1f MB of weights at %.1f GB/s, %.0f %% of the %.1f that are read
a prompt of %d tokens with all its logits: %.0f ms
  %.1f GFLOP/s, %.0f %% of the %.1f of a product]],
  1e3 * token, 1e3 * at(0.25), 1e3 * at(0.75), #times, about.bytes / 1e6, about.bytes / token / 1e9,
  100 * about.bytes / token / read, read / 1e9, #ids, 1e3 * prompt, rate / 1e9, 100 * rate / products, products / 1e9))
