local manual = (...).manual

manual.gpu = {
  call = "A:gpu(), A:cpu()",
  text = [[A:gpu() is a copy of the tensor in the memory of the GPU (Float32, BFloat16 or Float16), A:cpu() one in main
memory; where A is there already, A itself. A:device() tells where. A tensor on the GPU also has size, length, ndims,
eltype, copy, reshape, f32, f16, bf16 and scaled(x); its elements are reached through A:cpu().

causal_linear_attention, linear_attention, linear_attention_step, softmax_attention, their gradients, and
lowrank for favor+, rfa, taylor and hedgehog, run where their tensors are and
leave their results there. With the option device = "gpu" (or "cpu") tensors are copied there for the call, and the
results back. Float64 has no place on the GPU: results of that type stay on the CPU. In 16-bit types the delta rule
needs keys with beta |k|² <= 2, as a stable state does.

Float16 has no number above 65504 and few digits below 1e-5: on tensor cores (lightning-attention-2, linear_attention,
the matrix products) larger scores and states are Inf, smaller scores lose digits. causal_linear_attention and its
gradient with normalize or a scale are computed as Float32 there, in Float32 copies of what is given; so is
linear_attention with a scale, where it has no gates, no beta and no shared keys.
BFloat16 has the range of Float32.
A NaN or Inf in a token reaches no output and no gradient that does not depend on it; those of earlier tokens may then
differ by rounding. A decay so strong that weights fall below 2^-24 may hide one of long ago. Scores of
softmax_attention may be as large as 1e9; beyond, e to their differences is not to be had from Float32.]],
  example = [[
q = randn(1, 2, 100, 16)
has_gpu() and q:gpu() or q
q:device()]],
}

manual.has_gpu = {
  call = "has_gpu()",
  text = "true and the name of the GPU in use; or false and one sentence of why there is none.",
  example = "has_gpu()",
}

manual.gpu_time = {
  call = "gpu_time(f, {repeats = 21, calls = 1})",
  text = [[The time of one call of f() on the GPU in seconds, between two events on its stream around `calls` calls one
after the other: the median of `repeats` of them. What f computes there is not waited for inside, so the time is the
GPU's own as long as that is more than what it takes to launch the work (about 20 microseconds a call). Garbage of the
calls before is collected between the times, where it holds much of the GPU's memory, and not in them.]],
  example = "f = function() causal_linear_attention(q, q, q) end\nhas_gpu() and gpu_time(f) or nil",
}

manual.gpu_copy_rate = {
  call = "gpu_copy_rate(bytes)",
  text = "Bytes read and written per second by the best of a few plain copies in the GPU's memory; default: of 1 GiB.",
  example = "has_gpu() and gpu_copy_rate() / 1e12 or nil",
}

manual.gpu_memory = {
  call = "gpu_memory() or gpu_memory(\"reset\")",
  text = [[A table of bytes: used and peak, by tensors and workspaces of this program; free and total, of the device.
"reset" starts the peak again from what is used now.]],
  example = "has_gpu() and gpu_memory().used or nil",
}

manual.gpu_randn = {
  call = "gpu_randn(dims..., type)",
  text = [[A tensor of normal numbers made on the GPU: quick for large ones. They are not those of randn and seed, and
differ from call to call; the same program makes the same numbers again.]],
  example = "has_gpu() and gpu_randn(2, 3, \"bf16\"):cpu() or nil",
}
