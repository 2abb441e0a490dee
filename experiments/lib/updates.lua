-- The updates of the gated and delta-rule family that benches compare: {name =, update =, gate = "head", "channel" or
-- nil, beta =}.
return {
  { name = "linear", update = "linear" },
  { name = "gated", update = "gated", gate = "head" },
  { name = "gated, channels", update = "gated", gate = "channel" },
  { name = "delta", update = "delta", beta = true },
  { name = "gated_delta", update = "gated_delta", gate = "head", beta = true },
  { name = "gated_delta, channels", update = "gated_delta", gate = "channel", beta = true },
}
