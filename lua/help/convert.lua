local manual = (...).manual

local conventions = [[gate and state_order say it where yours differ: gate = "log" (the logarithm of the decay), "alpha"
(the decay itself) or "log2"; state_order = "kv" or "vk".]]

manual.from_fla = {
  topic = "gated",
  call = "linear_attention(from_fla{q =, k =, v =, g =, beta =, ...})",
  text = [[The arguments of flash-linear-attention's chunk_* and fused_recurrent_* calls, under their names, as a table
that linear_attention takes: q, k, v [B, T, H, D], log gates g [B, T, H] or gk [B, T, H, K], beta [B, T, H],
initial_state [N, H, K, V], cu_seqlens, use_qk_l2norm_in_kernel, output_final_state, and scale, 1/√K where none is
given; use_gate_in_kernel with A_log, dt_bias, safe_gate and lower_bound, where g is a projection, and
use_beta_sigmoid_in_kernel. The final state is the second result in any case. The update follows
from which of g and beta are there. The output is [B, T, H, V] as there, the state [N, H, K, V].]],
  notes = conventions .. [[ What else the libraries differ in is a table in docs/conventions.md.]],
  example = [[
q, g = randn(1, 10, 2, 4), -rand(1, 10, 2)
linear_attention(from_fla{q = q, k = q, v = q, g = g})]],
}

manual.from_flashinfer = {
  topic = "gated",
  call = "linear_attention(from_flashinfer{q =, k =, v =, g =, beta =, ...})",
  text = [[The arguments of FlashInfer's chunk_gated_delta_rule as a table that linear_attention takes: q, k, v [tokens,
H, D], packed, with cu_seqlens; g the decay itself, not its logarithm, [tokens, H], and beta [tokens, H], each of ones
where it is not given; initial_state [N, H, V, K] and scale, 1/√K where none is given. The output is [1, tokens, H, V],
the state [N, H, K, V].]],
  notes = conventions,
  example = [[
q, g = randn(10, 2, 4), rand(10, 2)
linear_attention(from_flashinfer{q = q, k = q, v = q, g = g,
  beta = g, cu_seqlens = {0, 4, 10}})]],
}

manual.from_hf = {
  topic = "gated",
  call = "linear_attention(from_hf{query =, key =, value =, g =, beta =, ...})",
  text = [[The arguments of transformers' torch_chunk_gated_delta_rule and torch_recurrent_gated_delta_rule as a table
that linear_attention takes: query, key, value [B, T, H, D], the logarithm of the decay g [B, T, H], beta [B, T, H],
initial_state [B, H, K, V], use_qk_l2norm_in_kernel. g and beta are needed, as there. The scale is 1/√K. The output
is [B, T, H, V] as there.]],
  notes = conventions,
  example = [[
q, g = randn(1, 10, 2, 4), -rand(1, 10, 2)
linear_attention(from_hf{query = q, key = q, value = q, g = g,
  beta = exp(g), use_qk_l2norm_in_kernel = true})]],
}

manual.from_onnx = {
  topic = "gated",
  call = "linear_attention(from_onnx{query =, key =, value =, q_num_heads =, kv_num_heads =, ...})",
  text = [[The inputs and attributes of the ONNX operator LinearAttention (opset 27) as a table that linear_attention
takes: query, key, value [B, T, H D], decay [B, T, H] or [B, T, H K], beta [B, T, H] or [B, T, 1], past_state [B, H, K,
V], update_rule, "gated_delta" where none is named, and scale, 0 for 1/√K. The output is [B, T, H, V]: reshape(O, B, T,
H * V) is ONNX's.]],
  example = [[
x = randn(1, 10, 8)
linear_attention(from_onnx{query = x, key = x, value = x,
  q_num_heads = 2, kv_num_heads = 2, update_rule = "linear"})]],
}
