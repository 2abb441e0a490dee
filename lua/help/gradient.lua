local manual = (...).manual

manual.causal_linear_attention_grad = {
  call = "causal_linear_attention_grad(B, C, V, dO, options)",
  text = [[The gradients of sum(times(O, dO)) for O = causal_linear_attention(B, C, V, options), exactly: returns dB, dC, dV,
with decay also its gradient (a number if decay was one, then summed over the heads; else a Tensor{Float64} with one for
each γ), and with state also the gradient with respect to it. One table works too: {q = q, k = k, v = v, dO = G}.

  decay      γ in (0, 1]: a number, or one per head
  normalize  true for the quotient: row i divided by the row sum of the masked B Cᵀ
  scale      factor on B Cᵀ; default 1
  state      the state that the forward pass started from
  block      chunk length; default 64; on a GPU not to be given
  method     a name from methods(): checked only, the gradient is that of the same function
  device     "cpu" or "gpu"; default: where the inputs are

Chunks are differentiated last to first, what they computed is computed again: O(N) time, the memory of a state per chunk.
Source: tpu, Algorithm 2, with its errors corrected (claims G7 to G10).]],
  example = [[
q = f64(randn(1, 2, 100, 8)); G = f64(randn(1, 2, 100, 8))
dB, dC, dV, ddecay = causal_linear_attention_grad(q, q, q, G, {decay = 0.9})
f = function(g) return sum(times(causal_linear_attention(q, q, q, {decay = g, method = "row-based"}), G)) end
(f(0.9 + 1e-6) - f(0.9 - 1e-6)) / 2e-6 - ddecay]],
}

manual.linear_attention_grad = {
  call = "linear_attention_grad(q, k, v, dO, options)",
  text = [[The gradients of sum(times(O, dO)) + sum(times(S, dstate)) for O, S = linear_attention(q, k, v, options), exactly:
returns a table with dq, dk, dv, dstate (with respect to the state before the first token) and, where the update has them,
dlog_decay (with respect to g, not exp(g)) and dbeta.

  update     "linear", "gated", "delta", "gated_delta"
  log_decay  g <= 0, [b, h, N] or, for a gate per key channel, [b, h, N, d_k]
  beta       writing strength, [b, h, N]
  mode       "recurrent" (the definition, which stores every state), "chunkwise" (default: one state per chunk), "parallel";
             on a GPU chunkwise whatever is asked for, but not "parallel"
  chunk      chunk length; default 64; on a GPU the kernel's own, whatever is given
  scale      factor on q; default 1
  state      the state that the forward pass started from
  dstate     what arrives at the final state, [b, h, d_k, d_v]; default: zeros
  device     "cpu" or "gpu"; default: where the inputs are

One table works too: linear_attention_grad{q = q, k = k, v = v, dO = G}.]],
  example = [[
q, k, v, G = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)
linear_attention_grad(q, k / 3, v, G, {update = "gated_delta", log_decay = -rand(1, 2, 100), beta = rand(1, 2, 100)}).dbeta]],
}
