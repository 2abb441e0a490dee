-- What Tab completes in the calls of the gated and delta-rule family.
local causeway = ...

local updates = { "linear", "gated", "delta", "gated_delta" }
local devices = { "cpu", "gpu" }

causeway._options.linear_attention = {
  update = updates, log_decay = true, beta = true, mode = { "recurrent", "chunkwise", "parallel" }, chunk = true,
  scale = true, state = true,
  device = devices,
}
causeway._options.linear_attention_step = { update = updates, log_decay = true, beta = true, scale = true,
  inplace = true, device = devices }
