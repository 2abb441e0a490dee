-- The derivatives of what is done with tensors and numbers (lua/lib/grad.lua says what a rule is). Where there is none,
-- a convention: at ties the greatest and the least elements share what arrives, abs, norm, std and relu have 0 at 0,
-- clamp has 1 at its ends, rounding to 16 bits counts as no change, and sign, floor, ceil and round have 0 everywhere.
local causeway = ...
local known = causeway._gradients
local rules, filled = known.rules, known.filled
local times, sum, eq, gt, ge, le = causeway.times, causeway.sum, causeway.eq, causeway.gt, causeway.ge, causeway.le
local size, ndims, pow, log = causeway.size, causeway.ndims, causeway.pow, causeway.log

-- 1 or 0: comparisons of numbers are true or false.
local function one_where(x)
  if type(x) == "boolean" then return x and 1 or 0 end
  return x
end

local function passed(g) return g end

-- ── Operators ──

rules["A + B"] = function() return passed, passed end
rules["A - B"] = function() return passed, function(g) return -g end end
rules["A / B"] = function(y, _, b)
  return function(g) return g / b end, function(g) return -known.fitted(times(g, y), b, y) / b, true end
end
rules["-A"] = function() return function(g) return -g end end

local function product(_, a, b)
  return function(g) return times(g, b) end, function(g) return times(g, a) end
end

local function square(_, a) return function(g) return times(2 * g, a) end end
known.squares.times = square

-- A vector is a row on the left and a column on the right, and its dimension is absent from the product.
local function as_matrix(x, left)
  if type(x) == "table" then x = causeway.tensor(x, "f64") end
  if ndims(x) ~= 1 then return x end
  return left and x:reshape(1, size(x, 1)) or x:reshape(size(x, 1), 1), true
end

-- Whether all leading dimensions are the same.
local function same_leading(X, Y)
  if ndims(X) ~= ndims(Y) then return false end
  for k = 1, ndims(X) - 2 do
    if size(X, k) ~= size(Y, k) then return false end
  end
  return true
end

-- The sum of Xᵀ Y over the leading dimensions, as one product.
local function summed_product(X, Y)
  local m, n = size(X, ndims(X)), size(Y, ndims(Y))
  if causeway.length(X) == 0 or n == 0 then return filled(causeway.zeros(m, n, causeway.eltype(Y)), 0) end
  return X:reshape(-1, m):t() * Y:reshape(-1, n)
end

local function matrix_product(y, a, b)
  local A, row = as_matrix(a, true)
  local B, column = as_matrix(b, false)
  local shape = { size(y) }
  if column then shape[#shape + 1] = 1 end
  if row then table.insert(shape, #shape, 1) end
  return function(g) return g:reshape(shape) * B:t() end, function(g)
    g = g:reshape(shape)
    local one = ndims(B) == 2 and ndims(A) > 2 and same_leading(A, g)
    local d = one and summed_product(A, g) or A:t() * g
    if not column then return d end
    local short = { size(d) }
    table.remove(short)
    return d:reshape(short)
  end
end

rules["A * B"] = function(y, a, b)
  local scales = type(a) == "number" or type(b) == "number"
  return (scales and product or matrix_product)(y, a, b)
end

rules["A(i, j)"] = function(_, x, ...)
  local at = table.pack(...)
  return function(g) return causeway._add_part(filled(x, 0), g, table.unpack(at, 1, at.n)) end
end

-- ── Element by element ──

rules.plus, rules.times = rules["A + B"], product
local function no_slope() return function(g) return times(g, 0) end end
rules.sign, rules.floor, rules.ceil, rules.round = no_slope, no_slope, no_slope, no_slope
function rules.abs(_, x)
  return function(g) return times(g, causeway.sign(x)) end
end
function rules.exp(y) return function(g) return times(g, y) end end
function rules.log(_, x) return function(g) return g / x end end
function rules.sqrt(y) return function(g) return g / (2 * y) end end
function rules.sin(_, x) return function(g) return times(g, causeway.cos(x)) end end
function rules.cos(_, x) return function(g) return -times(g, causeway.sin(x)) end end
function rules.tanh(y) return function(g) return times(g, 1 - times(y, y)) end end
function rules.sigmoid(y) return function(g) return times(g, times(y, 1 - y)) end end
function rules.relu(_, x) return function(g) return times(g, one_where(gt(x, 0))) end end
-- exp(x) = elu(x) + 1 where x <= 0.
function rules.elu(y, x) return function(g) return times(g, 1 + times(one_where(le(x, 0)), y)) end end
function rules.clamp(_, x, low, high)
  return function(g) return times(g, times(one_where(ge(x, low)), one_where(le(x, high)))) end
end

local function greater(compare)
  return function(_, a, b)
    local tie = times(one_where(eq(a, b)), 0.5)
    return function(g) return times(g, one_where(compare(a, b)) + tie) end,
      function(g) return times(g, one_where(compare(b, a)) + tie) end
  end
end
rules.max, rules.min = greater(gt), greater(causeway.lt)

function rules.where(_, mask)
  return false, function(g) return causeway.where(mask, g, 0) end, function(g) return causeway.where(mask, 0, g) end
end

-- 0 where an exponent is 0, and where a base of 0 makes a constant of the power of every positive exponent.
function rules.pow(y, a, b)
  return function(g)
    local zero = one_where(eq(b, 0))
    return times(g, times(b, pow(a + times(one_where(eq(a, 0)), zero), b - 1)))
  end, function(g) return times(g, times(y, log(a + one_where(eq(a, 0))))) end
end

function rules.softmax(y)
  return function(g) return times(y, g - sum(times(g, y), ndims(y))) end
end

-- The dimension of x counted from the first, which may be given counted backwards from the last: -1.
local function from_front(x, dim) return dim < 0 and dim + ndims(x) + 1 or dim end

-- ── Reductions: of y or g a number, or along a dimension that both keep with length 1 ──

function rules.sum() return passed end

function rules.mean(y, x)
  local count = causeway.length(x) / (type(y) == "number" and 1 or causeway.length(y))
  return function(g) return g / count end
end

-- The product of the others: with one zero among the factors it is that of the rest there and 0 elsewhere.
function rules.prod(_, x, dim)
  return function(g)
    local zero = eq(x, 0)
    local rest, zeros = causeway.prod(x + zero, dim), sum(zero, dim)
    local others = times(one_where(eq(zeros, 0)), 1 - zero) + times(one_where(eq(zeros, 1)), zero)
    return times(g, times(others, rest / (x + zero)))
  end
end

local function extreme(y, x, dim)
  return function(g)
    local there = eq(x, y)
    return times(there, g / sum(there, dim))
  end
end
rules.maximum, rules.minimum = extreme, extreme

-- x / y, and 0 where the length y is.
local function direction(x, y)
  local zero = one_where(eq(y, 0))
  return x / (y + zero)
end

function rules.norm(y, x) return function(g) return times(g, direction(x, y)) end end

function rules.std(y, x, dim)
  local count = dim and size(x, dim) or causeway.length(x)
  return function(g) return times(g, direction(x - causeway.mean(x, dim), times(y, count - 1))) end
end

function rules.dot(_, a, b)
  return function(g) return times(b, g) end, function(g) return times(a, g) end
end

-- The sum from here to the end; in Float64, as it is a difference.
function rules.cumsum(_, x, dim)
  dim = dim or ndims(x)
  return function(g)
    g = g:f64()
    return sum(g, dim) - causeway.cumsum(g, dim) + g
  end
end

-- Of the k-th factor: the product of those before it times R_k = g_k + x_{k+1} R_{k+1}. No division, so zeros are like
-- other factors.
function rules.cumprod(y, x, dim)
  dim = from_front(x, dim or -1)
  local n, at = size(x, dim), {}
  for k = 1, ndims(x) do at[k] = ":" end
  local function slice(of, k)
    at[dim] = { k, k }
    return of(table.unpack(at))
  end
  return function(g)
    if n == 0 then return g end
    local parts, R = {}, nil
    for k = n, 1, -1 do
      R = R and slice(g, k) + times(slice(x, k + 1), R) or slice(g, k)
      parts[k] = k > 1 and times(slice(y, k - 1), R) or R
    end
    return causeway.cat(parts, dim)
  end
end

-- ── Arrangement ──

function rules.reshape(_, x)
  local shape = { size(x) }
  return function(g) return g:reshape(shape) end
end

function rules.permutedims(_, x, first, ...)
  local order = type(first) == "table" and first or first and { first, ... }
  if not order and ndims(x) == 1 then return rules.reshape(nil, x) end
  local inverse = {}
  for k, from in ipairs(order or { 2, 1 }) do inverse[math.tointeger(from_front(x, from))] = k end
  return function(g) return g:permutedims(inverse) end
end

function rules.t() return function(g) return g:t() end end

known.lists.cat = true
function rules.cat(y, ...)
  local args = table.pack(...)
  local parts = args.n == 2 and type(args[1]) == "table" and args[1] or { table.unpack(args, 1, args.n - 1) }
  local dim = from_front(y, args[args.n])
  local index, from = {}, {}
  for k = 1, ndims(y) do index[k] = ":" end
  from[1] = 1
  for i, part in ipairs(parts) do
    from[i + 1] = from[i] + size(type(part) == "table" and causeway.tensor(part) or part, dim)
  end
  local function slice(g, i)
    index[dim] = { from[i], from[i + 1] - 1 }
    return g(table.unpack(index))
  end
  local derivatives = {}
  for i = 1, #parts do derivatives[i] = function(g, key) return slice(g, key or i) end end
  return table.unpack(derivatives)
end

-- ── Copies, types and places ──

local function same() return passed end
rules.copy, rules.f32, rules.f64, rules.f16, rules.bf16, rules.tensor = same, same, same, same, same, same
function rules.fill(_, x)
  if type(x) == "number" then return sum end
end
function rules.cpu() return function(g) return g:gpu() end end
function rules.gpu() return function(g) return g:cpu() end end
function rules.scaled(_, _, factor) return function(g) return g:scaled(factor) end end

-- ── Linear algebra, computed in Float64 ──

-- The diagonal of ones of a matrix like x.
local function identity(x)
  local n = size(x, 1)
  return eq(causeway.range(1, n, "f64"):reshape(n, 1), causeway.range(1, n, "f64"))
end

function rules.tr(_, x) return function(g) return times(identity(x), g) end end

-- Of a vector the matrix, of a matrix the vector.
function rules.diag(y, x)
  return function(g)
    if ndims(x) == 1 then return causeway.diag(g) end
    local n = size(y, 1)
    return filled(x, 0):set(causeway.diag(g), { 1, n }, { 1, n })
  end
end

-- With a further dimension of length 1 at the end or before it.
local function with_one(x, before_last)
  if type(x) == "table" then x = causeway.tensor(x, "f64") end
  local shape = { size(x) }
  table.insert(shape, before_last and #shape or #shape + 1, 1)
  return x:reshape(shape)
end

function rules.outer(_, a, b)
  local function without(g, dim)
    local d = sum(g, dim)
    local shape = { size(d) }
    table.remove(shape, dim)
    return d:reshape(shape)
  end
  return function(g) return without(times(g, with_one(b, true)), ndims(g)) end,
    function(g) return without(times(g, with_one(a, false)), ndims(g) - 1) end
end

-- The letters of each operand, and those of the output: where the formula has none, those that occur once, sorted.
local function letters_of(formula)
  local left, right = formula:gsub("%s", ""):match("^(.-)%->(.*)$")
  left = left or formula:gsub("%s", "")
  local operands = {}
  for letters in (left .. ","):gmatch("(.-),") do operands[#operands + 1] = letters end
  if right then return operands, right end
  local once = {}
  for letter in left:gmatch("%a") do
    if select(2, left:gsub(letter, "")) == 1 then once[#once + 1] = letter end
  end
  table.sort(once)
  return operands, table.concat(once)
end

-- What arrives at an operand is a sum of products too, of g and the other operands; a letter that only this operand has
-- is a dimension of ones.
function rules.einsum(_, formula, ...)
  local operands, output = letters_of(formula)
  local tensors, derivatives = { ... }, { false }
  for i, letters in ipairs(operands) do
    derivatives[i + 1] = function(g)
      local names, values, seen = {}, {}, ""
      local function add(name, value)
        names[#names + 1], values[#values + 1], seen = name, value, seen .. name
      end
      if output ~= "" then add(output, g) end
      for k, other in ipairs(operands) do
        if k ~= i then add(other, tensors[k]) end
      end
      for k = 1, #letters do
        local letter = letters:sub(k, k)
        if letters:find(letter, k + 1, true) then
          causeway._raise("einsum: " .. letters .. ": grad has no rule for a diagonal")
        end
        if not seen:find(letter, 1, true) then
          add(letter, causeway.ones(size(tensors[i], k), causeway.eltype(tensors[i]) == "Float64" and "f64" or "f32"))
        end
      end
      local d = causeway.einsum(table.concat(names, ",") .. "->" .. letters, table.unpack(values))
      return output == "" and d * g or d
    end
  end
  return table.unpack(derivatives)
end

function rules.inv(y)
  return function(g) return -(y:t() * g * y:t()) end
end

function rules.svdvals(_, x)
  return function(g)
    local U, _, V = causeway.svd(x)
    return times(U, g) * V:t()
  end
end

function rules.opnorm(_, x)
  return function(g)
    local U, _, V = causeway.svd(x)
    return U(":", { 1, 1 }) * V(":", { 1, 1 }):t() * g
  end
end

-- Murray 2016: Φ keeps the lower triangle and half of the diagonal; the matrix counts as symmetric.
function rules.cholesky(L)
  return function(g)
    local n, Linv = size(L, 1), causeway.inv(L)
    local row, column = causeway.range(1, n, "f64"):reshape(n, 1), causeway.range(1, n, "f64")
    local P = times(L:t() * g, gt(row, column) + eq(row, column) / 2)
    local S = Linv:t() * P * Linv
    return (S + S:t()) / 2
  end
end

-- ── Which of them broadcast ──

for _, name in ipairs({ "A + B", "A - B", "A / B", "-A", "max", "min", "plus", "times", "pow", "abs", "sign", "exp",
  "log", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "round", "relu", "elu", "sigmoid", "clamp", "softmax", "copy",
  "where", "f32", "f64", "f16", "bf16", "tensor" }) do
  known.each[name] = true
end
for _, name in ipairs({ "sum", "mean", "maximum", "minimum", "prod", "std" }) do known.lazy[name] = true end

-- ── No number to compute with, or no derivative ──

-- The last operators here are those that a tensor refuses.
for _, name in ipairs({ "size", "length", "ndims", "eltype", "_is_tensor", "device", "#A", "eq", "ne", "lt", "le",
  "gt", "ge", "isnan", "isfinite", "argmax", "argmin", "any", "all", "similar", "A == B", "A < B", "A <= B",
  "A ^ B" }) do
  known.constant[name] = true
end

for _, name in ipairs({ "tostring", "A.name", "display", "_show", "_present", "_status", "_noun" }) do
  known.seen[name] = true
end

known.writes = { set = true, fill = true }
local written = "what is written into a tensor is not recorded, parts are joined with cat"
known.refused = {
  set = written,
  map = "it does not see into a function of numbers, which exp, times, pow and the others replace",
  fill = written,
  ["A[i] = x"] = written,
  scan = "recurrence has one",
  totable = "numbers in a table of Lua are constants",
  svd = "the singular vectors have none, svdvals and opnorm have",
  qr = "it is not known for Q and R",
  eigvals = "it is not known, svdvals of a symmetric matrix are the absolute values",
  cummax = "it depends on few elements alone",
  cummin = "it depends on few elements alone",
  median = "it depends on one or two elements alone",
  quantile = "it depends on one or two elements alone",
}
