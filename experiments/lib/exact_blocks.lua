-- exact_blocks(estimate, exact, extras): what the factors of hyper stand for: the estimate B Cᵀ, but the exact weights
-- where query and key are in one block. All [1, h, N, N] and of one element type; extras: what lowrank returns third.
return function(estimate, exact, extras)
  local heads, N = exact:size(2), exact:size(3)
  local same = eq(extras.query_block:reshape(1, heads, N, 1), extras.key_block:reshape(1, heads, 1, N))
  return estimate + times((eltype(exact) == "Float64" and f64 or f32)(same), exact - estimate)
end
