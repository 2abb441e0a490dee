-- Whether two values are near: isapprox, with the tolerances of Julia's.
local causeway = ...
local raise, noun = causeway._raise, causeway._noun

causeway._options.isapprox = { rtol = true, atol = true }

-- Distances between 1 and the next larger number.
local spacing = { Float64 = 2.0 ^ -52, Float32 = 2.0 ^ -23, Float16 = 2.0 ^ -10, BFloat16 = 2.0 ^ -7 }

-- The value in Float64, and the spacing of its own type.
local function wide(x, name)
  if type(x) == "number" then return x, spacing.Float64 end
  if not causeway._is_tensor(x) then
    raise("isapprox: " .. name .. ": " .. noun(x) .. ", expected a Tensor or a number")
  end
  return causeway.f64(x), spacing[causeway.eltype(x)]
end

local function check_tolerance(options, name)
  local value = options[name]
  if value ~= nil and not (type(value) == "number" and value >= 0) then
    raise(string.format("isapprox: %s: %s, expected a number, 0 or more", name, tostring(value)))
  end
  return value
end

-- Of a tensor, or of n numbers that are the same.
local function norm(x, n) return type(x) == "number" and math.abs(x) * math.sqrt(n) or causeway.norm(x) end

--- |A - B| <= max(atol, rtol max(|A|, |B|)) with |A| = norm(A); a number stands for a tensor of it. False where one has
--- a NaN, or an infinity and the other not the same.
function causeway.isapprox(A, B, options)
  causeway._check_options("isapprox", options)
  options = options or {}
  local atol, rtol = check_tolerance(options, "atol") or 0, check_tolerance(options, "rtol")
  local a, spacing_of_a = wide(A, "A")
  local b, spacing_of_b = wide(B, "B")
  local n = 1
  if type(a) ~= "number" and type(b) ~= "number" then
    local of_a, of_b = table.concat({ causeway.size(a) }, "×"), table.concat({ causeway.size(b) }, "×")
    if of_a ~= of_b then raise(string.format("isapprox: A is %s and B %s, expected the same sizes", of_a, of_b)) end
  end
  if type(a) ~= "number" then n = causeway.length(a) elseif type(b) ~= "number" then n = causeway.length(b) end
  if a == b then return true end
  rtol = rtol or (atol > 0 and 0 or math.sqrt(math.max(spacing_of_a, spacing_of_b)))
  local distance = norm(a - b, n)
  -- Perhaps of infinities that are the same: they are as far apart as two zeros.
  if distance ~= distance and type(a - b) ~= "number" then
    local infinite = causeway.eq(causeway.abs(type(a) == "number" and b or a), math.huge)
    local same = causeway.times(causeway.eq(a, b), infinite)
    a, b = causeway.where(same, 0, a), causeway.where(same, 0, b)
    distance = norm(a - b, n)
  end
  return distance < math.huge and distance <= math.max(atol, rtol * math.max(norm(a, n), norm(b, n)))
end
