local manual = (...).manual

manual.lowrank = {
  call = "lowrank(name, q, k, options)",
  text = [[Factors B, C [b, h, N, r] with B Cᵀ ≈ exp(scale q kᵀ), or the factorisation's own kernel; q, k [b, h, N,
d], or without the leading dimensions. A third value, a table, where there is more than B Cᵀ: hand it to lowrank_error
as extras.]],
  notes = [[Each factorisation takes options of its own besides. lowrank_methods() lists them. Ctrl-C is heeded
between heads and steps; it cannot stop the one singular value decomposition or QR of a head that svd, rsvd, nystrom
and skyformer take, a minute for a rank of some thousands. Entries of B Cᵀ are positive for favor+, lara, taylor,
hedgehog, skeinformer and transformer-vq; those of svd, rsvd, nystrom, skyformer, linformer and rfa need not be, so
that a row may sum to nearly nothing or less, and normalize = true, which divides by that sum, then gives large errors,
as a note says: lowrank_error shows them. Source: fleet section 3.2, eq. 3.]],
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
  text = "The registry of factorisations as a list of tables with name, source, formula, text, use (when to take "
    .. "it), time, rank, default_rank, future, seeded and options; nothing is printed.",
  example = "lowrank_method_list()[1].formula",
}

manual.lowrank_error = {
  call = "lowrank_error(q, k, B, C, options)",
  text = [[How wrong B Cᵀ is as exp(scale q kᵀ) = A, with the causal mask M and without: a table with

  frobenius  unmasked, masked: the norms of Δ = A − B Cᵀ and M ⊙ Δ; relative, relative_masked: over the norms of A
             and M ⊙ A; ratio of masked to unmasked, 0 where both are 0, and ratio_bound, what it cannot exceed: 1;
             bound = ratio_bound · unmasked, what masked cannot exceed
  operator   the same in operator norm; ratio_bound: U_N = masking_constant(N) <= 1 + ln(N)/π
  output     with v: errors of the normalised output (B Cᵀ v over its row sums) in Frobenius norm, and their bounds:
             row_bound from each row's |Δ_i|₁; row_share, the largest share of its bound that a row reaches, at most
             1; frobenius_bound, operator_bound from the norms of Δ; least_sum, the smallest row sum of B Cᵀ in size
             over that of A. A row sum of 0 leaves no output: errors and bounds are then infinite
  residual   the relative residual with which an operator norm stopped
  heads      the same for each head, with its batch and head, counted from 1, one batch after the other; above them
             the heads are the blocks of one block-diagonal matrix]],
  notes = [[e:table(), for e the result, has a row for each norm and, with the mask, for each claim that bounds it, as
check_bound shows them; e:markdown() and e:latex() are that table as a text. With several batches a head is called
[batch, head]. Of several heads it has the worst alone, the one whose relative error is largest (the output's where
there is v), and all with e:table{heads = true}.

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
    .. "{unmasked, masked, ratio, ratio_bound, bound}, operator = {...}}; ratio_bound is what the ratio, 0 for a "
    .. "matrix of zeros, cannot exceed, bound what masked cannot (claims A1, A2).",
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
