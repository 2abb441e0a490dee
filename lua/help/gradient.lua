local manual = (...).manual

manual.causal_linear_attention_grad = {
  call = "causal_linear_attention_grad(B, C, V, dO, options)",
  text = [[The gradients of sum(times(O, dO)) for O = causal_linear_attention(B, C, V, options), exactly: returns a
table with dB, dC, dV (also under the names dq, dk, dv), with a decay also ddecay (a number if the decay was one, then
summed over the heads; else a Tensor{Float64} with one for each γ), and with a state also dstate, the gradient with
respect to it. One table works too: causal_linear_attention_grad{q = q, k = k, v = v, dO = G}.]],
  notes = [[With normalize the quotient is differentiated. Chunks are differentiated last to first, what they computed
is computed again: O(N) time, the memory of a state per chunk. Source: tpu, Algorithm 2, with its errors corrected
(claims G7 to G10).]],
  example = [[
q = f64(randn(1, 2, 100, 8)); G = f64(randn(1, 2, 100, 8))
grads = causal_linear_attention_grad(q, q, q, G, {decay = 0.9})
f = function(g)
  local options = {decay = g, method = "row-based"}
  return sum(times(causal_linear_attention(q, q, q, options), G))
end
(f(0.9 + 1e-6) - f(0.9 - 1e-6)) / 2e-6 - grads.ddecay]],
}

manual.linear_attention_grad = {
  call = "linear_attention_grad(q, k, v, dO, options)",
  text = [[The gradients of sum(times(O, dO)) + sum(times(S, dstate)) for O, S = linear_attention(q, k, v, options),
exactly: returns a table with dq, dk, dv (also under the names dB, dC, dV), dstate (with respect to the state before
the first token) and, where the update has them, dlog_decay (with respect to g, not exp(g)) and dbeta.]],
  notes = [[With state_indices dstate is that of the pool: slots that no sequence starts from have zeros, one that
several start from has their sum. One table works too: linear_attention_grad{q = q, k = k, v = v, dO = G}.]],
  example = [[
q, k = randn(1, 2, 100, 8), randn(1, 2, 100, 8)
v, G = randn(1, 2, 100, 8), randn(1, 2, 100, 8)
linear_attention_grad(q, k / 3, v, G,
  {update = "gated_delta", log_decay = -rand(1, 2, 100),
   beta = rand(1, 2, 100)}).dbeta]],
}
