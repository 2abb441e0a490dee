-- What Tab completes in the calls of softmax attention and its energy.
local causeway = ...

local devices = { "cpu", "gpu" }
local methods = { "flash", "standard" }

causeway._options.softmax_attention = { causal = true, method = methods, scale = true, return_lse = true,
  device = devices }
causeway._options.softmax_attention_grad = { causal = true, method = methods, scale = true, O = true, lse = true,
  device = devices }
for _, name in ipairs({ "energy", "energy_grad", "energy_hessian" }) do
  causeway._options[name] = { causal = true, scale = true, device = devices }
end
