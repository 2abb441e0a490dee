-- What Tab completes in calls for gradients. The methods are the built-in ones: others have no known derivative.
local causeway = ...

local names = { "auto" }
for _, m in ipairs(causeway.method_list()) do names[#names + 1] = m.name end
causeway._options.causal_linear_attention_grad = {
  method = names, decay = true, normalize = true, block = true, scale = true, state = true, device = { "cpu", "gpu" },
  precision = { "exact", "bf16x3", "tf32" }, ddecay = true,
}
causeway._options.linear_attention_grad = {
  update = { "linear", "gated", "delta", "gated_delta" }, log_decay = true, beta = true,
  mode = { "recurrent", "chunkwise", "parallel" },
  chunk = true, scale = true, state = true, dstate = true, device = { "cpu", "gpu" },
}
