local manual = (...).manual

manual.grad = {
  call = "g, value = grad(f, params, ...)",
  text = [[The gradient of the number f(params, ...): its derivatives with respect to every tensor and number in params,
exactly, by going through f backwards. params is a tensor, a number, a list or a table of them, nested as you like; g
has the same form, value is the number, and what else f returns comes after it. Further arguments are given to f as they
are, and do not count as parameters.

f is ordinary code: A + B, A * B, A(i, j), exp(A), A:sum(2), cat and the like, and causal_linear_attention,
linear_attention, general_linear_attention, their steps and softmax_attention with their options, whose gates,
strengths, states and decays have derivatives too, and rules of recurrence. In f the parameters are traced values: print
shows them, sizes and comparisons of them are plain numbers. A function that has no rule (map, svd, median, save ...) is
an error that names it.]],
  notes = [[Parameters are Float32 or Float64. At ties the greatest and the least elements share what arrives; abs,
norm, std and relu have 0 at 0, clamp has 1 at its ends; sign, floor, ceil and round have 0 everywhere; rounding to 16
bits counts as no change. math.exp and the like take plain numbers alone: exp(x) is for both. A number in f that == is
to compare with a traced one is never equal to it; lt and <, eq and ge do as elsewhere. There are no second
derivatives. On the GPU, the attention calls, :cpu() and :gpu() are recorded: f = sum(o:cpu()).]],
  example = [[
X, y = randn(50, 3), randn(50, 1)
p = {W = zeros(3, 1), b = zeros(1)}
g, loss = grad(function(p)
  local miss = X * p.W + p.b - y
  return mean(times(miss, miss))
end, p)
g.W]],
}

manual.detach = {
  call = "detach(x)",
  text = [[What a traced value stands for, as a plain tensor or number: a constant in the function of grad. Anything
else comes back as it is; in a table, every value.]],
  example = [[
grad(function(x) return x * detach(x) end, 3)]],
}

manual.adam = {
  call = "adam{params, lr =, betas =, eps =, weight_decay =}",
  text = [[An optimiser for the tensors and numbers in the table params, nested as you like. opt:step(g), with the
gradients that grad returns, puts new ones in their places in that table (Kingma and Ba 2015):

  m ← β1 m + (1 - β1) g,  v ← β2 v + (1 - β2) g²
  w ← w (1 - lr weight_decay) - lr m̂ / (sqrt(v̂) + eps)

with m̂ = m / (1 - β1^t) and v̂ = v / (1 - β2^t) in step t. The defaults are lr = 0.001, betas = {0.9, 0.999}, eps =
1e-8 and weight_decay = 0, which is that of AdamW (Loshchilov and Hutter 2019).]],
  notes = [[opt.lr can be changed between steps; opt.steps says how many there were. A tensor that stands in several
places of params stays one.]],
  example = [[
p = {x = tensor{3, -2}}
opt = adam{p, lr = 0.1}
for _ = 1, 200 do
  opt:step((grad(function(p) return dot(p.x, p.x) end, p)))
end
p.x]],
}

manual.sgd = {
  call = "sgd{params, lr =, momentum =, weight_decay =}",
  text = [[Gradient descent on the tensors and numbers in the table params, nested as you like. opt:step(g), with what
grad returns, puts new ones in their places in that table:

  u ← momentum u + g + weight_decay w,  w ← w - lr u

with u = g + weight_decay w in the first step. The defaults are lr = 0.01, momentum = 0, weight_decay = 0.]],
  notes = [[opt.lr can be changed between steps; opt.steps says how many there were.]],
  example = [[
p = {x = tensor{3, -2}}
opt = sgd{p, lr = 0.1, momentum = 0.5}
for _ = 1, 50 do
  opt:step((grad(function(p) return dot(p.x, p.x) end, p)))
end
opt]],
}
