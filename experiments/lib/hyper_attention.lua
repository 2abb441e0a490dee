-- hyper_attention(options): softmax attention by hyper's factors, to be put in the place of a layer's attention;
-- options as lowrank takes them. The factors are for the pairs of queries and keys that are not in one block; those in
-- one are exact. A token whose weights have no positive sum gets 0.
local exact_blocks = dofile(debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") .. "/exact_blocks.lua")

return function(options)
  return function(q, k, v, scale)
    local N = q:size(3)
    local asked = { scale = scale }
    for name, value in pairs(options) do asked[name] = value end
    if asked.rank then asked.rank = math.min(asked.rank, N) end
    local B, C, extras = lowrank("hyper", q, k, asked)
    local A = exact_blocks(B * C:t(), exp(scale * (q * k:t())), extras)
    local at = range(1, N)
    A = times(A, f32(ge(at:reshape(N, 1), at:reshape(1, N))))
    local sums = sum(A, 4)
    local good = f32(gt(sums, 0))
    return times(good, A * v / (sums + (1 - good)))
  end
end
