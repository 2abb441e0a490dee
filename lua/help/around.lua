local manual = (...).manual

manual.short_convolution = {
  topic = "gated",
  call = "y, state = short_convolution(x, weight, options)",
  text = [[A causal convolution of every channel by itself over a few tokens, as models have it before q, k and v:

  y_t = f(bias + Σ_i w_i x_(t - taps + i)),  i = 1 ... taps

so that the last weight is that of the token itself. x [b, N, channels] or [N, channels], weight [channels, taps]; f is
nothing or silu. Returns y and the last taps - 1 inputs, [b, taps - 1, channels], which are the state of a call on the
tokens that follow: two parts of a text give the bits of one call. Inside another call parentheses take y alone:
l2norm((short_convolution(x, weight))).]],
  notes = [[ONNX's CausalConvWithState is this one on [b, channels, N], and its past_state [b, channels, taps - 1]:
permutedims(x, 1, 3, 2) brings either here and back, and its weight [channels, 1, taps] needs a reshape. fla's
ShortConvolution and mamba's causal_conv1d_fn keep taps inputs, or have the channels first. Runs where its tensors are;
grad has a rule for it. One table works too: short_convolution{x = x, weight = w}.]],
  example = [[
x, w = randn(1, 10, 4), randn(4, 3)
y = short_convolution(x, w, {activation = "silu"})
head, state = short_convolution(x(":", {1, 6}, ":"), w)
short_convolution(x(":", {7, 10}, ":"), w, {state = state})]],
}

manual.l2norm = {
  topic = "gated",
  call = "l2norm(x, options)",
  text = [[x / √(Σ x² + eps) over the last dimension: keys, and as a rule queries, as the delta rule wants them.]],
  notes = [[norm(x) is one number, the length of all of x. Runs where its tensors are; grad has a rule for it.]],
  example = "sum(pow(l2norm(randn(2, 3, 8)), 2), 3)",
}

manual.rms_norm = {
  topic = "gated",
  call = "rms_norm(x, options)",
  text = [[x / √(mean x² + eps) over the last dimension, times weight [width] and times f(gate), a gate for each number
of x, where they are given: f is silu, g sigmoid(g), as in Qwen3-Next, or sigmoid, as in Kimi Linear.]],
  notes = [[Mamba-2 gates first: rms_norm(times(x, times(z, sigmoid(z))), {weight = w}). Some models store weights less
by one: weight = w + 1. Runs where its tensors are; grad has a rule for it.]],
  example = [[
x, z = randn(1, 2, 10, 8), randn(1, 2, 10, 8)
rms_norm(x, {weight = ones(8), gate = z, eps = 1e-5})]],
}

manual.decay_gate = {
  topic = "gated",
  call = "decay_gate(a, A_log, options)",
  text = [[The log_decay of linear_attention from a projection a of the tokens, a rate A_log [h] and a time step:

  g = -e^A_log softplus(a + dt_bias)

and with lower_bound = L, a number below 0, g = L sigmoid(e^A_log (a + dt_bias)), between L and 0. a is [b, h, N] or [h,
N], and dt_bias then [h]; with a gate per key channel a is [b, h, N, d_k] and dt_bias [h, d_k].]],
  notes = [[Mamba-2's Δ is softplus(a + dt_bias), its log decay this g; the bound is that of Kimi Linear's safe gate.
The writing strength of these models is sigmoid(b), [b, h, N]. Runs where its tensors are; grad has a rule for it.
Source: Yang, Kautz, Hatamizadeh 2025.]],
  example = [[
g = decay_gate(randn(1, 2, 10), zeros(2), {dt_bias = ones(2)})
q = l2norm(randn(1, 2, 10, 4))
linear_attention(q, q, q, {update = "gated", log_decay = g})]],
}
