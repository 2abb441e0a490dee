local manual = (...).manual

manual.linear_attention = {
  call = "linear_attention(q, k, v, options)",
  text = [[Linear attention with a decay gate, the delta rule or both, in the terms of the ONNX operator
LinearAttention (opset 27). q [b, h_q, N, d_k], k [b, h_k, N, d_k], v [b, h, N, d_v], or without the leading
dimensions. Each head of v has a state, and with it its own log_decay and beta; h may be a multiple of h_k (grouped
values: consecutive heads of v share one of k), and h_q a multiple of h (grouped queries: consecutive heads of q read
one state) or a divisor. Returns the output, with the heads of q or v, whichever are more, and the states after the
last token [b, h, d_k, d_v], Float32 (Float64 for Float64 inputs). Token t does

  linear       S ← S + k vᵀ
  gated        S ← diag(e^g) S + k vᵀ
  delta        S ← S + k uᵀ, u = β (v - Sᵀk): what the state holds under the key k moves towards v
  gated_delta  S ← diag(e^g) S, then the delta rule
  output       o = scale · Sᵀq, of every update]],
  notes = [[cu_seqlens packs n sequences one after the other: each gives the bits that it gives alone, from states and
to states [n, h, d_k, d_v]. checkpoint_every = c returns a third value, [checkpoints, h, d_k, d_v]: of each sequence in
turn the states after c, 2c, ... tokens; a call with the same options that goes on from one of them has the bits of the
whole. state_indices makes the state a pool [slots, h, d_k, d_v] of many texts: each sequence (or batch entry) starts
from the slot that its index names, and no other slot is read. With inplace = true it ends in the same slot, in whatever
type the pool has; without, the states are returned in the order of the sequences. A state may be stored as Float16 or
BFloat16, which rounds it once a call. On a GPU none of these is there, and no grouped values.

One table works too: linear_attention{q = q, k = k, v = v}. Two parts of a sequence with the state carried
over give what one call gives. With |k| = 1 and β from 0 to 2 the delta rule never enlarges the state; near 2, where
it forgets nothing, chunks of Float32 lose some digits (1e-4 after 2000 tokens of one key). Source: gates; Yang et al.
2024.]],
  example = [[
q, k, v = randn(1, 4, 100, 16), randn(1, 2, 100, 16), randn(1, 2, 100, 16)
linear_attention(q, k / sqrt(sum(pow(k, 2), 4)), v,
  {update = "gated_delta", log_decay = -rand(1, 2, 100),
   beta = rand(1, 2, 100)})]],
}

manual.linear_attention_step = {
  call = "linear_attention_step(q, k, v, state, options)",
  text = [[One token of linear_attention, as when text is generated, or up to 16, as when some are guessed ahead:
q [b, h_q, T, d_k], k [b, h_k, T, d_k], v [b, h, T, d_v], the state [b, h, d_k, d_v] so far. Returns the output and the
new state; the given one stays as it is. With keep_states it returns the states after each token too, as an array, so
that guesses can be taken back. Heads, log_decay, beta and state_indices are as for linear_attention: with inplace =
true the slots of the pool are advanced. On a GPU T is 1, and there is no pool.]],
  notes = [[N tokens in one call of linear_attention and M steps give what N + M tokens in one call give. One table
works too: linear_attention_step{q = q, k = k, v = v, state = S}. Source: gates; Yang et al. 2024.]],
  example = [[
q, k, v = randn(2, 1, 8), randn(2, 1, 8), randn(2, 1, 4)
linear_attention_step(q, k, v, zeros(2, 8, 4),
  {update = "gated", log_decay = fill(-0.1, 2, 1)})]],
}
