local manual = (...).manual

-- Making tensors

manual.tensor = {
  call = "tensor(table[, dtype])",
  text = [[A tensor from nested tables of numbers, up to four deep; of a tensor, a copy, converted if a type is given.
Types are "Float32" (the default), "Float64", and for storage "Float16" and "BFloat16"; also "f32", "f64", "f16",
"bf16".

A(i, j) reads an element, counted from 1. With fewer indices, with ":" (all) or {from, to} (both included) it is a part,
a copy without the dimensions that have a number: A(2) is row 2, A(":", 1) column 1. Places one by one stand in a list
or a tensor inside of braces, in any order: A({{1, 3, 5}}) are rows 1, 3 and 5, A(":", {p}) columns. A mask of 0 and 1,
as gt(A, 0) makes it, chooses the elements where it is 1, A(mask), or with one number a row, rows. All of them are
copies; A:set(value, i, j) writes, through places and masks too.

#A is the number of elements. A + B, A - B, A / B and -A work element by element with broadcasting, A * B is the matrix
product, times(A, B) the product element by element; A:add_(B) and the like (?add_) change A in place. A == B is true
for the same type, shape and elements.]],
  example = 'tensor({{1, 2}, {3, 4}}, "Float64")',
}

manual.set = {
  call = "A:set(value, i, j, ...)",
  text = [[Writes a number or a tensor into an element or a part of A, with indices as for reading: A(i, j, ...), ranges
{from, to}, places {{1, 3}} and masks (?tensor). The value is broadcast to the part and converted to A's type; of a
place that is named twice the last value stays. Returns A.]],
  example = 'A = randn(2, 3):set(5, 1, ":")\nA:set(0, lt(A, 0))',
}

manual.zeros = {
  call = "zeros(n, m, ...[, dtype])",
  text = 'A tensor of zeros. The dimensions may also be one table: zeros({2, 3}, "Float64").',
  example = 'zeros(2, 3, "Float64")',
}

manual.ones = {
  call = "ones(n, m, ...[, dtype])",
  text = "A tensor of ones.",
  example = "ones(2, 3)",
}

manual.fill = {
  call = "fill(value, n, m, ...[, dtype])",
  text = "A tensor with all elements equal to the value. A:fill(value), also A:fill_(value), sets all elements of A "
    .. "and returns A.",
  example = "fill(0.5, 2, 3)",
}

manual.rand = {
  call = "rand(n, m, ...[, dtype])",
  text = "Random numbers, uniform in [0, 1). See seed.",
  example = "rand(2, 3)",
}

manual.randn = {
  call = "randn(n, m, ...[, dtype])",
  text = "Random numbers with the standard normal distribution. See seed.",
  example = "randn(2, 3)",
}

manual.randperm = {
  call = "randperm(n[, dtype])",
  text = [[The numbers 1 to n in random order, each order equally likely; Float32, or Float64 where n is above 2^24 and
would not be exact. See seed.]],
  example = "randperm(5)",
}

manual.seed = {
  call = "seed(n)",
  text = [[Makes every later random number the same on every machine and for every number of threads: element i of the
k-th call of rand, randn and randperm is a function of n, k and i alone (Philox4x32-10). math.random
begins anew too, from n. seed() returns the seed in use; without one of yours, the system chose it.]],
  example = "seed(42)  print(rand(3))",
}

manual.range = {
  call = "range(first, last[, {step =, length =}][, dtype])",
  text = "The numbers first, first + step, ... up to last, which is included. The step is 1 if not given, and may be "
    .. "negative. {length = n} gives n numbers at equal distances, from first to last. A number alone as the third "
    .. "argument is refused: it is a length in Julia, a step in Python.",
  example = "range(0, 1, {step = 0.25})",
}

manual.similar = {
  call = "similar(A[, n, m, ...][, dtype])",
  text = "A new tensor with the type and shape of A where no others are given. Its elements are not set.",
  example = 'size(similar(zeros(2, 3), 4, 5))',
}

manual.copy = {
  call = "copy(A)",
  text = "A tensor with the same elements in memory of its own.",
  example = "copy(ones(2, 2))",
}

manual.totable = {
  call = "totable(A)",
  text = "The elements as nested Lua tables.",
  example = "totable(ones(2, 2))",
}

for name, type in pairs { f32 = "Float32", f64 = "Float64", f16 = "Float16", bf16 = "BFloat16" } do
  manual[name] = {
    call = name .. "(A)",
    text = "A converted to " .. type .. [[; A itself if it has that type. A number is rounded to the type. Float32 with
Float64 gives Float64; the 16-bit types are for storage, arithmetic on them gives Float32.]],
    example = name .. "(tensor{1, 1/3})",
  }
end

-- Shape

manual.eltype = {
  call = "eltype(A)",
  text = 'The element type: "Float32", "Float64", "Float16" or "BFloat16".',
  example = "eltype(zeros(2))",
}

manual.size = {
  call = "size(A[, k])",
  text = "All dimensions of A, as several values, or dimension k.",
  example = "size(zeros(2, 3))",
}

manual.length = {
  call = "length(A)",
  text = "The number of elements of A, also #A.",
  example = "length(zeros(2, 3))",
}

manual.ndims = {
  call = "ndims(A)",
  text = "The number of dimensions of A.",
  example = "ndims(zeros(2, 3))",
}

manual.reshape = {
  call = "reshape(A, n, m, ...)",
  text = [[A with other dimensions and the same number of elements, in the same order (the last dimension runs fastest).
One dimension may be -1 or ":": what the others leave. It shares its elements with A: writing to one writes to both.]],
  example = "range(1, 6):reshape(2, 3)",
}

manual.permutedims = {
  call = "permutedims(A, i, j, ...)",
  text = [[The tensor whose dimensions are the dimensions i, j, ... of A. Without an order, the transpose of a matrix,
or a vector as a row.]],
  example = "size(permutedims(zeros(2, 3, 4), 3, 1, 2))",
}

manual.t = {
  call = "A:t()",
  text = "A with its last two dimensions swapped.",
  example = "tensor{{1, 2}, {3, 4}}:t()",
}

manual.cat = {
  call = "cat(A, B, ..., dim)",
  text = "The tensors joined along a dimension; also cat({A, B, ...}, dim). A list of numbers will do beside a tensor.",
  example = "cat(zeros(1, 3), ones(2, 3), 1)",
}

-- Reductions

local along_one = [[ With a dimension, counted from 1 or as -1 from the last, a tensor in which it has length 1.]]
local along = along_one:gsub("1%.$", "1; with a list, as in {1, 2}, several have.")

manual.sum = {
  call = "sum(A[, dim])",
  text = "The sum of all elements, accumulated pairwise in double precision." .. along,
  example = "sum(tensor{{1, 2}, {3, 4}}, 1)",
}

manual.prod = {
  call = "prod(A[, dim])",
  text = "The product of all elements." .. along,
  example = "prod(tensor{2, 3, 4})",
}

manual.maximum = {
  call = "maximum(A[, dim])",
  text = "The greatest element; NaN if there is a NaN." .. along .. " A table of numbers will do: maximum{1, 3, 2}.",
  example = "maximum(tensor{{1, 2}, {3, 4}}, 2)",
}

manual.minimum = {
  call = "minimum(A[, dim])",
  text = "The least element; NaN if there is a NaN." .. along,
  example = "minimum(tensor{3, 1, 2})",
}

manual.argmax = {
  call = "argmax(A[, dim])",
  text = [[The position of the first greatest element (or of the first NaN), counted from 1 in the order of reshape; for
a vector, its index. With a dimension, a Float64 tensor of the positions along it.]],
  example = "argmax(tensor{3, 9, 4})",
}

manual.argmin = {
  call = "argmin(A[, dim])",
  text = "The position of the first least element, as for argmax.",
  example = "argmin(tensor{3, 1, 4})",
}

manual.mean = {
  call = "mean(A[, dim])",
  text = "The mean of all elements." .. along,
  example = "mean(tensor{1, 2, 6})",
}

manual.std = {
  call = "std(A[, dim])",
  text = "The standard deviation, with n - 1; NaN of fewer than two elements." .. along_one,
  example = "std(tensor{1, 2, 6})",
}

manual.median = {
  call = "median(A[, dim])",
  text = "The middle element in order of size, or the mean of the two in the middle; NaN if there is a NaN."
    .. along_one,
  example = "median(tensor{1, 2, 6})",
}

manual.quantile = {
  call = "quantile(A, p[, dim])",
  text = [[The number below which a share p of the elements lies, interpolated linearly between neighbours. With a table
of shares, a tensor of the quantiles of all elements. With a dimension, a tensor in which that dimension has length
1.]],
  example = "quantile(range(1, 11), {0.25, 0.75})",
}

local running = {
  cumsum = { "sums", "cumsum(tensor{1, 2, 3})" },
  cumprod = { "products", "cumprod(tensor{0.9, 0.5, 0.8})" },
  cummax = { "maxima", "cummax(tensor{1, 3, 2})" },
  cummin = { "minima", "cummin(tensor{2, 1, 3})" },
}
for name, entry in pairs(running) do
  manual[name] = {
    call = name .. "(A, dim)",
    text = "Running " .. entry[1] .. " along a dimension, accumulated in double precision; of a vector, the dimension "
      .. "may be left out.",
    example = entry[2],
  }
end

manual.any = {
  call = "any(A[, dim]), any(f, A)",
  text = "Whether an element is not zero, or f of it is neither false nor zero. With a dimension, a tensor of ones and "
    .. "zeros in which that dimension has length 1.",
  example = "any(isnan(tensor{1, 0/0}))",
}

manual.all = {
  call = "all(A[, dim]), all(f, A)",
  text = "Whether every element is not zero, or f of it neither false nor zero. With a dimension, a tensor of ones and "
    .. "zeros in which that dimension has length 1.",
  example = "all(function(x) return x > 0 end, tensor{1, 2})",
}

-- Linear algebra

manual.norm = {
  call = "norm(A)",
  text = "The square root of the sum of the squares of all elements.",
  example = "norm(tensor{3, 4})",
}

manual.opnorm = {
  call = "opnorm(A)",
  text = "The operator norm of a matrix: its largest singular value, to a relative error of 1e-10.",
  example = "opnorm(tensor{{3, 0}, {0, 4}})",
}

manual.svd = {
  call = "U, S, V = svd(A)",
  text = [[The singular value decomposition A = U diag(S) Vᵀ of a matrix: k = min(m, n) orthonormal columns in U and in
V, k descending singular values in S. Like all of the linear algebra it is computed in Float64. The low-rank
factorisation of attention of the same name is lowrank("svd", q, k, {rank = r}).]],
  example = "A = randn(4, 3)  U, S, V = svd(A)  print(norm(U * times(S, V):t() - A))",
}

manual.svdvals = {
  call = "svdvals(A)",
  text = "The singular values of a matrix, descending.",
  example = "svdvals(tensor{{3, 0}, {0, 4}})",
}

manual.qr = {
  call = "Q, R = qr(A)",
  text = "A = Q R with orthonormal columns in Q and R upper triangular; Q has min(m, n) columns.",
  example = "Q, R = qr(tensor{{3, 1}, {4, 2}})  print(Q * R)",
}

manual.cholesky = {
  call = "cholesky(A)",
  text = "The lower triangular L with A = L Lᵀ, for a symmetric positive definite matrix.",
  example = "cholesky(tensor{{4, 2}, {2, 3}})",
}

manual.eigvals = {
  call = "eigvals(A)",
  text = [[The eigenvalues of a square matrix. Of a symmetric one, a tensor, ascending; of another, two tensors: the
real and the imaginary parts.]],
  example = "eigvals(tensor{{2, 1}, {1, 2}})",
}

manual.inv = {
  call = "inv(A)",
  text = "The inverse of a matrix. A singular matrix is an error.",
  example = "inv(tensor{{2, 0}, {0, 4}})",
}

manual.tr = {
  call = "tr(A)",
  text = "The trace of a square matrix: the sum of its diagonal.",
  example = "tr(tensor{{1, 2}, {3, 4}})",
}

manual.outer = {
  call = "outer(a, b)",
  text = [[Every element of a times every element of b, a bᵀ: of vectors of m and n elements a matrix of m × n. Leading
dimensions are broadcast: [..., m] and [..., n] give [..., m, n].]],
  example = "outer(tensor{1, 2}, tensor{3, 4, 5})",
}

manual.diag = {
  call = "diag(v)  diag(A)",
  text = "Of a vector the matrix with it on its diagonal, of a matrix the vector of its diagonal.",
  example = "diag(tensor{1, 2})",
}

manual.tril = {
  call = "tril(X[, diagonal])",
  text = [[X on and below the diagonal, else 0, of the matrices in the last two dimensions: the causal mask on scores
[..., N, N]. diagonal moves the line, to the right by 1, to the left, so that the diagonal is 0 too, by -1. What is left
out may be Inf or NaN. grad goes through it.]],
  example = "tril(ones(3, 3))\nq, k, v = randn(1, 2, 8, 4), randn(1, 2, 8, 4), randn(1, 2, 8, 4)\n"
    .. "relative_error(tril(q * k:t()) * v, causal_oracle(q, k, v))",
}

manual.triu = {
  call = "triu(X[, diagonal])",
  text = [[X on and above the diagonal, else 0, of the matrices in the last two dimensions; diagonal moves the line to
the right by 1, so that the diagonal is 0 too. See tril.]],
  example = "triu(ones(3, 3), 1)",
}

manual.einsum = {
  call = "einsum(formula, A, B, ...)",
  text = [[Sums of products over named dimensions, as in NumPy and PyTorch: in "bhnd,bhmd->bhnm" a letter names a
dimension of the operands, and an element of the result is the sum, over all letters that the output has not, of the
products of the operands' elements. A letter twice in an operand takes its diagonal. Without "->" the output has the
letters that occur once, in alphabetical order; without letters in the output the result is a number.

Any number of operands, up to four letters in the output. Several are multiplied two at a time, in the order that takes
the fewest multiplications, as matrix products wherever they are some. Sums are in the type of the operands; sum and
mean accumulate in double precision.]],
  example = 'einsum("hnd,hmd->hnm", randn(2, 3, 4), randn(2, 3, 4))',
}

manual.dot = {
  call = "dot(A, B)",
  text = "The sum of the products of corresponding elements of two tensors of the same shape.",
  example = "dot(tensor{1, 2}, tensor{3, 4})",
}

-- Element by element

local each = {
  exp = { "The exponential", "exp(1)" },
  log = { "The natural logarithm (NaN of a negative number)", "log(tensor{1, 10})" },
  sqrt = { "The square root (NaN of a negative number)", "sqrt(tensor{4, 9})" },
  sin = { "The sine", "sin(tensor{0, 1})" },
  cos = { "The cosine", "cos(tensor{0, 1})" },
  tanh = { "The hyperbolic tangent", "tanh(tensor{0, 1})" },
  abs = { "The absolute value", "abs(tensor{-1, 2})" },
  sign = { "The sign, -1, 0 or 1,", "sign(tensor{-3, 0, 5})" },
  floor = { "The whole number at or below", "floor(tensor{1.5, -1.5})" },
  ceil = { "The whole number at or above", "ceil(tensor{1.5, -1.5})" },
  round = { "The nearest whole number, of two the even one,", "round(tensor{0.5, 1.5, 1.7})" },
  relu = { "The greater of 0 and the value, relu(x),", "relu(tensor{-1, 2})" },
  elu = { "elu(x) = x where x > 0, exp(x) - 1 elsewhere,", "elu(tensor{-1, 2})" },
  sigmoid = { "The logistic function 1 / (1 + exp(-x))", "sigmoid(tensor{-1, 0, 1})" },
  isnan = { "1 for NaN and 0 otherwise (of a number true or false),", "isnan(tensor{1, 0/0})" },
  isfinite = { "0 for NaN and the infinities and 1 otherwise (of a number true or false),",
    "isfinite(tensor{1, 1/0})" },
}
for name, entry in pairs(each) do
  manual[name] = {
    call = name .. "(A)",
    text = entry[1] .. " of each element, or of a number.",
    example = entry[2],
  }
end

local comparisons = { eq = "equal to", ne = "other than", lt = "less than", le = "at most", gt = "greater than",
  ge = "at least" }
for name, words in pairs(comparisons) do
  manual[name] = {
    call = name .. "(A, B)",
    text = "1 where the element of A is " .. words
      .. " that of B, 0 elsewhere, with broadcasting. Either may be a number.",
    example = name .. "(tensor{1, 2, 3}, 2)",
  }
end

manual.plus = {
  call = "plus(A, B)",
  text = "The sum element by element, with broadcasting: A + B.",
  example = "plus(tensor{1, 2}, tensor{{10}, {20}})",
}

manual.times = {
  call = "times(A, B)",
  text = "The product element by element, with broadcasting. (A * B is the matrix product.)",
  example = "times(tensor{1, 2}, tensor{3, 4})",
}

manual.pow = {
  call = "pow(A, B)",
  text = "The power of each element, with broadcasting. Either may be a number.",
  example = "pow(tensor{1, 2, 3}, 2)",
}

for name, word in pairs { max = "greater", min = "lesser" } do
  manual[name] = {
    call = name .. "(A, B)",
    text = "The " .. word .. " of two elements, with broadcasting; NaN where one of them is. Either may be a number. "
      .. "Of all elements of one tensor it is " .. name .. "imum(A), along a dimension " .. name .. "imum(A, 2); A:"
      .. name .. "(2), which is that elsewhere, is refused.",
    example = name .. "(tensor{1, 5, 3}, 2)",
  }
end

manual.clamp = {
  call = "clamp(A, low, high)",
  text = "Each element, or low where it is below, high where it is above. NaN stays NaN.",
  example = "clamp(tensor{-1, 0.5, 2}, 0, 1)",
}

manual.where = {
  call = "where(mask, a, b)",
  text = "An element of a where the mask is not 0, else of b. All three broadcast, a and b may be numbers, and "
    .. "lt, eq and the like make masks. What is not taken may be Inf or NaN and leaves no trace, where a product with "
    .. "0 would be NaN. A NaN in the mask takes a. Of results of a sweep, where(results, filter) is "
    .. "results:where(filter): the rows that fit.",
  example = "x = tensor{-1, 0, 2}; where(gt(x, 0), log(x), -math.huge)",
}

manual.softmax = {
  call = "softmax(A)",
  text = "exp(x) divided by its sum over the last dimension.",
  example = "softmax(tensor{{1, 2, 3}, {0, 0, 0}})",
}

manual.map = {
  call = "map(f, A, ...)",
  text = "The tensor of f(element), for a Lua function f; of several tensors of one shape, f of corresponding "
    .. "elements. Also A:map(f).",
  example = "map(function(x) return x^2 + 1 end, tensor{1, 2, 3})",
}

-- In place

local in_place = [[

A keeps its memory, its shape and its type; B is broadcast to that shape, converted where its type differs, and each
result is rounded once to the type of A. What shares elements with A (A:reshape(...), f32(A) of a Float32) changes with
it; parts A(i, j), A:t() and all other functions are copies, so A:add_(A:t()) adds the transpose as it was. Tensors on a
GPU have no operations in place.]]

local assigning = {
  add_ = { "A:add_(B[, factor])", "A + factor B (factor 1 if not given)", "ones(2, 2):add_(tensor{1, 2}, 0.5)" },
  sub_ = { "A:sub_(B[, factor])", "A - factor B (factor 1 if not given)", "ones(2, 2):sub_(0.25)" },
  times_ = { "A:times_(B)", "the product element by element", "ones(2, 2):times_(tensor{{2}, {3}})" },
  div_ = { "A:div_(B)", "the quotient element by element", "ones(2, 2):div_(4)" },
  pow_ = { "A:pow_(B)", "the power of each element", "tensor{1, 2, 3}:pow_(2)" },
  max_ = { "A:max_(B)", "the greater of two elements", "tensor{1, 5, 3}:max_(2)" },
  min_ = { "A:min_(B)", "the lesser of two elements", "tensor{1, 5, 3}:min_(2)" },
  copy_ = { "A:copy_(B)", "the elements of B", "zeros(2, 3):copy_(range(1, 3))" },
  fill_ = { "A:fill_(x)", "the number x", "zeros(2, 2):fill_(0.5)" },
  clamp_ = { "A:clamp_(low, high)", "low where it is below, high where it is above, itself elsewhere",
    "tensor{-1, 0.5, 2}:clamp_(0, 1)" },
}
for name, entry in pairs(assigning) do
  manual[name] = {
    call = entry[1],
    text = "Writes into every element of A " .. entry[2] .. ", and returns A. ?exp_ has the functions of one element."
      .. in_place,
    example = entry[3],
  }
end

for _, name in ipairs { "abs", "sign", "exp", "log", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "round", "relu",
  "elu", "sigmoid", "neg" } do
  manual[name .. "_"] = {
    call = "A:" .. name .. "_()",
    text = "Writes " .. (name == "neg" and "-x" or name .. "(x)") .. " over every element x of A, and returns A. So do "
      .. "abs_, sign_, exp_, log_, sqrt_, sin_, cos_, tanh_, floor_, ceil_, round_, relu_, elu_, sigmoid_ and neg_; "
      .. "?add_ has those of two tensors." .. in_place,
    example = "tensor{0.5, 1}:" .. name .. "_()",
  }
end

-- A method of one's own

manual.scan = {
  call = "output, state = scan{step =, inputs =, state =, ...}",
  text = [[Carries a state over the tokens by a step of yours, at the speed of C++: linear recurrences with gates of
every kind, delta rules, running maxima. step(S, x) gets the state S and the inputs of the token as x.q, x.k ..., for
one head, and returns the output of the token and the new state. It is called once, with values that record what is
done with them; what it recorded then runs for all tokens, in parallel over batch and heads. Ctrl-C and time limits
stop it.

For inputs [batch, heads, N, d], x.q is a vector of d; for [batch, heads, N] a number; and a state [batch, heads, m, n]
is a matrix. The output is a vector or a number, or a table of them by name; nil for none. A state may be a table by
name too, and the step returns one: {S = S, m = m}.

On values work + - / and -x, * (the matrix product, with vectors on either side), outer(k, v), diag(a) * S and
S * diag(b), which scale rows and columns without a matrix, plus, times, pow, max, min, clamp, eq, ne, lt, le, gt, ge,
exp, log and all functions of one element, sum, prod, maximum, minimum, mean, std, dot, norm, softmax, t, reshape and
size. They mean what they mean for tensors; numbers, and tensors from outside of up to two dimensions, are constants.
Since the step is called once, `if` and `for` see no token: use lt(...) and times, or max.

Sums of scaled matrices and outer products are one pass over the state, in which factors are multiplied in an order of
their own. Float32 or Float64, that of inputs and state; on the CPU.]],
  example = [[q, k, a = randn(1, 2, 5, 4), randn(1, 2, 5, 4), rand(1, 2, 5, 4)
v, b = randn(1, 2, 5, 3), rand(1, 2, 5, 3)
step = function(S, x)
  S = diag(x.a) * S * diag(x.b) + outer(x.k, x.v)
  return x.q * S, S
end
inputs = {q = q, k = k, v = v, a = a, b = b}
o, S = scan{step = step, inputs = inputs, state = zeros(1, 1, 4, 3)}
print(size(o))]],
}
