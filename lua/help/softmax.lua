local manual = (...).manual

manual.softmax_attention = {
  call = "softmax_attention(q, k, v, options)",
  text = [[O = softmax(scale q kᵀ) v, row by row. q [b, h_q, N, d], k [b, h, M, d], v [b, h, M, d_v], or without the
leading dimensions; with h_q a multiple of h, consecutive heads of q share a head of k and v. Returns the output [b,
h_q, N, d_v].]],
  notes = [[The scale is 1/sqrt(d) by default, as in PyTorch and ONNX; the linear attention calls have 1. The largest
score of a row is subtracted first, so scores of ±1e4 do no harm. Without any key (M = 0) the output is 0 and the
log-sum-exp -Inf. cu_seqlens packs sequences one after the other, in q as in k and v: each gives the bits that it gives
alone. shards = p spreads the text over p workers, threads or, under `./lab mpi N`, processes: with exchange = "ring"
keys and values go round a ring, and with causal each has a piece from the front and one from the back, so that all have
the same work (ring attention, Liu et al. 2023); with "heads" each worker has all tokens of some heads (DeepSpeed
Ulysses, arXiv:2309.14509). Causal attention goes by heads of itself where every worker gets as many heads of keys, and
else by the ring; a report comes last. Tensors on a GPU are spread over the GPUs of this machine, by NCCL.
One table works too: softmax_attention{q = q, k = k, v = v}. Source: tree, Section 3.]],
  example = [[
q, k, v = randn(1, 4, 100, 16), randn(1, 2, 100, 16), randn(1, 2, 100, 16)
O, lse = softmax_attention(q, k, v, {return_lse = true})
norm(O - softmax_attention(q, k, v, {method = "standard"})) / norm(O)]],
}

manual.softmax_attention_grad = {
  call = "softmax_attention_grad(q, k, v, dO, options)",
  text = [[The gradients of sum(times(O, dO)) for O = softmax_attention(q, k, v, options), exactly: returns a table
with dq, dk and dv. The weights are computed again in tiles: O(N²) time, O(N) memory.]],
  notes = [[One table works too: softmax_attention_grad{q = q, k = k, v = v, dO = G}.]],
  example = [[
q, k = randn(1, 2, 50, 8), randn(1, 2, 50, 8)
v, G = randn(1, 2, 50, 8), randn(1, 2, 50, 8)
softmax_attention_grad(q, k, v, G).dv]],
}

manual.energy = {
  call = "energy(q, k, v, zeta, options)",
  text = [[The energy of softmax attention: for query i with the source ζ_i

  F_i = log Σ_j exp(scale q_i·k_j + ζ_i·v_j)      over the keys j that query i attends to

Returns F [b, h_q, N] and the sum of all its entries. zeta [b, h_q, N, d_v]; nil: zeros, and F is the log-sum-exp of
the scores. Its gradient with respect to ζ is attention (energy_grad), its second derivative a covariance
(energy_hessian).]],
  notes = [[One table works too: energy{q = q, k = k, v = v, zeta = zeta}. Source: tree, eq. 6, 25, 27.]],
  example = [[
q, k, v = randn(1, 2, 50, 8), randn(1, 2, 50, 8), randn(1, 2, 50, 8)
F, total = energy(q, k, v)
total]],
}

manual.energy_grad = {
  call = "energy_grad(q, k, v, zeta, options)",
  text = [[The gradient of the energy with respect to the sources: Σ_j P_ij v_j [b, h_q, N, d_v], P_ij the weights
exp(scale q_i·k_j + ζ_i·v_j - F_i). With zeta nil (zeros) it is softmax attention.
Source: tree, Observation 1, eq. 26.]],
  example = [[
q, k, v = randn(1, 2, 50, 8), randn(1, 2, 50, 8), randn(1, 2, 50, 8)
norm(energy_grad(q, k, v) - softmax_attention(q, k, v))]],
}

manual.energy_hessian = {
  call = "energy_hessian(q, k, v, zeta, options)",
  text = [[The second derivative of the energy of one query a head, N = 1, with respect to its source: the covariance
of v under the weights of that query, [b, h_q, d_v, d_v], symmetric and positive semidefinite. zeta nil: zeros.
Source: tree, Appendix C.1; F generates cumulants, not moments (claim H1).]],
  example = [[
q, k, v = randn(1, 8), randn(50, 8), randn(50, 3)
energy_hessian(q, k, v)]],
}
