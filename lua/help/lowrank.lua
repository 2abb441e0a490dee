local causeway = ...
local manual = causeway.manual

manual.lowrank = {
  call = "lowrank(name, q, k, options)",
  text = [[Factors B, C [b, h, N, r] with B Cᵀ ≈ exp(scale q kᵀ), or the factorisation's own kernel; q, k [b, h, N,
d], or without the leading dimensions. A third value, a table, where there is more than B Cᵀ: hand it to lowrank_error
as extras.]],
  notes = [[Each factorisation takes options of its own besides. lowrank_methods() lists them. Ctrl-C is heeded
between heads and steps; it cannot stop the one singular value decomposition or QR of a head that svd, rsvd, nystrom
and skyformer take, a minute for a rank of some thousands. Source: fleet section 3.2, eq. 3.]],
  example = [[
q, k, v = randn(1, 2, 128, 16), randn(1, 2, 128, 16), randn(1, 2, 128, 16)
B, C = lowrank("favor+", q, k, {rank = 256, seed = 1})
causal_linear_attention(B, C, v, {normalize = true});
lowrank_error(q, k, B, C, {v = v}).output.relative_masked]],
}

manual.lowrank_methods = {
  call = "lowrank_methods()",
  text = "Shows every factorisation that lowrank has: formula, source, time of one head, what the rank option means "
    .. "and its default, whether a row may depend on later tokens, whether it is random. Returns the list; "
    .. "its methods :table(), :markdown() and :latex() give the table.",
  example = "lowrank_methods()",
}

manual.lowrank_method_list = {
  call = "lowrank_method_list()",
  text = "The registry of factorisations as a list of tables with name, source, formula, time, rank, default_rank, "
    .. "future, seeded and options; nothing is printed.",
  example = "lowrank_method_list()[1].formula",
}

manual.lowrank_error = {
  call = "lowrank_error(q, k, B, C, options)",
  text = [[How wrong B Cᵀ is as exp(scale q kᵀ) = A, with the causal mask M and without: a table with

  frobenius  unmasked, masked: the norms of Δ = A − B Cᵀ and M ⊙ Δ; relative, relative_masked: over the norms of A
             and M ⊙ A; ratio of masked to unmasked, 0 where both are 0, and its bound: 1
  operator   the same in operator norm; bound: U_N = masking_constant(N) <= 1 + ln(N)/π
  output     with v: errors of the normalised output (B Cᵀ v over its row sums) in Frobenius norm, and their bounds:
             row_bound from each row's |Δ_i|₁; row_share, the largest share of its bound that a row reaches, at most
             1; frobenius_bound, operator_bound from the norms of Δ; least_sum, the smallest row sum of B Cᵀ in size
             over that of A. A row sum of 0 leaves no output: errors and bounds are then infinite
  residual   the relative residual with which an operator norm stopped
  heads      the same for each head; above them the heads are the blocks of one block-diagonal matrix]],
  notes = [[e:table(), for e the result, has a row for each norm and, with the mask, for each claim that bounds it, as
check_bound shows them; e:markdown() and e:latex() are that table as a text.

Operator norms come from Lanczos' iteration; beyond N = 2048 no N × N matrix is kept. Source: fleet
Theorem 4.1, with the constants of claims A1, A2, A9, A10.]],
  example = [[
q, k = randn(200, 16), randn(200, 16)
B, C = lowrank("nystrom", q, k, {rank = 32})
lowrank_error(q, k, B, C).operator]],
}

manual.masked_norms = {
  call = "masked_norms(X)",
  text = "Frobenius and operator norm of a square matrix and of its lower triangle, diagonal included: {frobenius = "
    .. "{unmasked, masked, ratio, bound}, operator = {...}}; bound is what the ratio, 0 for a matrix of zeros, "
    .. "cannot exceed (claims A1, A2).",
  example = 'masked_norms(masked_worst_case(256, "W")).operator',
}

manual.masking_constant = {
  call = "masking_constant(n)",
  text = "U_n, the most by which taking the lower triangle of an n × n matrix can enlarge its operator norm: U_n <= "
    .. "1 + ln(n)/π (claims A2).",
  example = "masking_constant(1024)",
}

manual.masked_worst_case = {
  call = "masked_worst_case(n, which)",
  text = [[A Float64 n × n matrix whose lower triangle has a larger operator norm, by ln(n)/π + O(1): "W" (default),
orthogonal, 1/(n sin(π(i−j+1/2)/n)); "G", 1/(i−j+1/2); "H", 1/(i−j) and 0 on the diagonal. Source: claims A2, A6.]],
  example = 'opnorm(masked_worst_case(64, "W"))',
}

-- A page for each factorisation: what is said here, then rank, cost and options from the registry.
local pages = {
  ["favor+"] = [[Positive orthogonal random features: exp(ωᵀx − |x|²/2)/√r for normal ω, whose products are exp(qᵀk)
on average, entry by entry. Row sums are positive. The relative error falls like 1/√r and grows with |q + k|. Another
seed draws the features anew.]],
  rfa = [[Trigonometric random features of the Gaussian kernel, exp(|x|²/2) √(2/r) [cos ωᵀx, sin ωᵀx]: exp(qᵀk) on
average, entry by entry, but of both signs, so that a row sum may vanish.]],
  lara = [[Linear randomized attention: one positive random feature from each of r proposals N(q̃_c + k̃_c, I), q̃, k̃
the means of segments. Weights: the balance heuristic of importance sampling and a preference for the proposals near
the query, at least 1e-8, as in the authors' code; exp(qᵀk) on average but for that least weight, exactly so with
specific = false.]],
  nystrom = [[exp(q k̃ᵀ) exp(q̃ k̃ᵀ)⁺ exp(q̃ kᵀ) with the means of segments as landmarks: the Nyströmformer without
the softmax in each factor. Exact with as many landmarks as tokens; the rank need not divide N.]],
  linformer = [[exp(q (E k)ᵀ) times E: keys and values are mixed along the length. E is learned in the source; a
random one, as here, does not estimate exp(qᵀk). pooled = true replaces every key by the mean of its segment, which
does, and is exact at rank N.]],
  skyformer = [[Nyström on the Gaussian kernel of queries and keys together, κ(q, s) κ(s, s)⁺ κ(s, k), with landmarks
s drawn from both; times the factors that make it exp(qᵀk). Exact with 2N landmarks.]],
  skeinformer = [[r − 1 columns of exp(q kᵀ), drawn by an importance that a pilot sample of queries estimates, times
the length of the values where v is given; every other entry of a row is the geometric mean of those. Exact at rank N
+ 1. Not a product B Cᵀ alone: exact_rows, returned in a third value, is 1 for the queries of the pilot, whose rows
are those of exp(q kᵀ).]],
  ["transformer-vq"] = [[Every key is replaced by the nearest of r codes, the k-means of the keys: B = exp(q γᵀ), C
one-hot. Exact with as many codes as keys. The code of each key is returned as code.]],
  hyper = [[HyperAttention: queries and keys are sorted by a hash of their directions and cut into blocks, inside of
which entries are exact; outside stands exp(q k_Jᵀ) N/r for r sampled keys. Not a product B Cᵀ alone: query_block and
key_block, returned as a third value, number the blocks; entries whose numbers agree are those of exp(q kᵀ).]],
  taylor = [[1 + s + s²/2 for s = scale qᵀk, exactly, by features of degree 0, 1 and 2: the state of linear attention
expands from d rows to 1 + d + d(d+1)/2. The error of an entry is at most |s|³/6 max(1, e^s).]],
  hedgehog = [[The exponential ("spiky") feature map, softmax([x, −x]) or exp([x, −x]), with the identity where the
source trains a linear map. Its own kernel: B Cᵀ does not approach exp(qᵀk).]],
  svd = [[The best factors there are: the r largest singular values of exp(scale q kᵀ). No other B Cᵀ of this rank has
a smaller error in Frobenius or operator norm. Forms the matrix, for N <= 4096.]],
  rsvd = [[Nearly the r largest singular values, from products with exp(scale q kᵀ) computed tile by tile; memory O(N
r).]],
}
for _, m in ipairs(causeway.lowrank_method_list()) do
  local lines = { pages[m.name], "" }
  lines[#lines + 1] = "  rank: " .. m.rank .. (m.default_rank and "; default " .. m.default_rank
    .. ", where that is not too many" or " as the width d has it")
  if m.values then lines[#lines + 1] = "  v: values [b, h, N, w]; without them all count alike" end
  for _, option in ipairs(m.options) do
    lines[#lines + 1] = string.format("  %s: %s; default %s", option.name, option.text, tostring(option.default))
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "Time of one head: " .. m.time .. ". " .. (m.future and
    "A row may depend on later tokens: fit for a prompt, which is known as a whole, and no leak into what is "
      .. "generated after it." or
    "An entry of B Cᵀ depends on its two tokens alone.") .. " Source: " .. m.source .. "."
  -- ?svd is the page of the function of that name.
  if m.name == "svd" then
    lines[#lines] = lines[#lines] .. " The function svd(A), for any matrix, has the page ?svd."
  end
  manual[m.name == "svd" and "lowrank-svd" or m.name] = {
    call = string.format('lowrank("%s", q, k, {%s...})', m.name, m.default_rank and "rank = r, " or ""),
    text = table.concat(lines, "\n"),
    example = string.format('q, k = randn(1, 2, 64, 8), randn(1, 2, 64, 8)\nB, C, extras = lowrank("%s", q, '
      .. 'k%s)\nlowrank_error(q, k, B, C, {extras = extras}).frobenius.relative',
      m.name, m.default_rank and ", {rank = 32}" or ""),
  }
end
