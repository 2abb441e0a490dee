local manual = (...).manual

-- Making tensors

manual.tensor = {
  call = "tensor(table[, dtype])",
  text = [[A tensor from nested tables of numbers, up to four deep; of a tensor, a copy, converted if a type is given.
Types are "Float32" (the default), "Float64", and for storage "Float16" and "BFloat16"; also "f32", "f64", "f16",
"bf16".

A(i, j) reads an element, counted from 1. With fewer indices, with ":" (all) or {from, to} (both included) it is a part,
a copy without the dimensions that have a number: A(2) is row 2, A(":", 1) column 1. A:set(value, i, j) writes. #A is
the number of elements. A + B, A - B, A / B and -A work element by element with broadcasting, A * B is the matrix
product, times(A, B) the product element by element. A == B is true for the same type, shape and elements.]],
  example = 'tensor({{1, 2}, {3, 4}}, "Float64")',
}

manual.set = {
  call = "A:set(value, i, j, ...)",
  text = [[Writes a number or a tensor into an element or a part of A, with indices as for reading: A(i, j, ...). The
value is broadcast to the part and converted to A's type. Returns A.]],
  example = 'zeros(2, 3):set(5, 1, ":")',
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
  text = "A tensor with all elements equal to the value. A:fill(value) sets all elements of A and returns A.",
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
k-th call of rand, randn and randperm is a function of n, k and i alone (Philox4x32-10). seed() returns the seed in use;
without one of yours, the system chose it.]],
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
  text = "The tensors joined along a dimension; also cat({A, B, ...}, dim).",
  example = "cat(zeros(1, 3), ones(2, 3), 1)",
}

-- Reductions

local along = [[ With a dimension, a tensor in which that dimension has length 1.]]

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
  text = "The standard deviation, with n - 1; NaN of fewer than two elements." .. along,
  example = "std(tensor{1, 2, 6})",
}

manual.median = {
  call = "median(A[, dim])",
  text = "The middle element in order of size, or the mean of the two in the middle; NaN if there is a NaN." .. along,
  example = "median(tensor{1, 2, 6})",
}

manual.quantile = {
  call = "quantile(A, p[, dim])",
  text = [[The number below which a share p of the elements lies, interpolated linearly between neighbours. With a table
of shares, a tensor of the quantiles of all elements. With a dimension, a tensor in which that dimension has length
1.]],
  example = "quantile(range(1, 11), {0.25, 0.75})",
}

manual.cumsum = {
  call = "cumsum(A, dim)",
  text = "Running sums along a dimension; of a vector, the dimension may be left out.",
  example = "cumsum(tensor{1, 2, 3})",
}

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

manual.clamp = {
  call = "clamp(A, low, high)",
  text = "Each element, or low where it is below, high where it is above. NaN stays NaN.",
  example = "clamp(tensor{-1, 0.5, 2}, 0, 1)",
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
