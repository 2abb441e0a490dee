-- Queries, keys and values of the small Llama in experiments/data, as inputs of causal linear attention.
local inputs = {}

--- The non-negative features of the linear transformers: elu(x) + 1.
function inputs.features(x) return elu(x) + 1 end

--- q, k, v of a layer (1 or 4), Float32 [1, 4, 2048, 64], with B and C, the features of q and k.
function inputs.layer(folder, number)
  local file = load(folder .. "/data/tiny-llama/qkv.safetensors")
  local function part(name) return f32(file["layer" .. number .. "." .. name]) end
  local layer = { q = part("q"), k = part("k"), V = part("v") }
  layer.B, layer.C = inputs.features(layer.q), inputs.features(layer.k)
  return layer
end

--- The first N tokens; past the end of the text it starts again.
function inputs.tokens(x, N)
  local have = x:size(3)
  if N <= have then return copy(x(":", ":", { 1, N }, ":")) end
  local pieces = {}
  for _ = 1, N // have do pieces[#pieces + 1] = x end
  if N % have > 0 then pieces[#pieces + 1] = x(":", ":", { 1, N % have }, ":") end
  return cat(pieces, 3)
end

return inputs
