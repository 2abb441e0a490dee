local manual = (...).manual

manual.linear_attention = {
  call = "linear_attention(q, k, v, options)",
  text = [[Linear attention with a decay gate, the delta rule or both, in the terms of the ONNX operator LinearAttention
(opset 27). q [b, h_q, N, d_k], k [b, h_k, N, d_k], v [b, h, N, d_v], or without the leading dimensions. Each head of v
has a state, and with it its own log_decay and beta (a number is all of theirs, a list has one a head); h may be a
multiple of h_k (grouped values: consecutive heads of v share one of k), and h_q a multiple of h (grouped queries:
consecutive heads of q read one state) or a divisor. Returns the output, with the heads of q or v, whichever are more,
and the states after the last token [b, h, d_k, d_v], Float32 (Float64 for Float64 inputs). Token t does

  linear       S ← S + k vᵀ
  gated        S ← diag(e^g) S + k vᵀ
  delta        S ← S + k uᵀ, u = β (v - Sᵀk): what the state holds under the key k moves towards v
  gated_delta  S ← diag(e^g) S, then the delta rule
  output       o = scale · Sᵀq, of every update]],
  notes = [[The scale is 1 by default; that of ONNX's operator and of most libraries is 1/sqrt(d_k): give scale = 1 /
math.sqrt(d_k) to compare with them.

cu_seqlens packs n sequences one after the other: each gives the bits that it gives alone (on a GPU unless deterministic
= "run" is asked for), from states and to states [n, h, d_k, d_v]. checkpoint_every = c returns a third value,
[checkpoints, h, d_k, d_v]: of each sequence in turn the states after c, 2c, ... tokens; a call with the same options
that goes on from one of them has the bits of the whole. state_indices makes the state a pool [slots, h, d_k, d_v] of
many texts: each sequence (or batch entry) starts from the slot that its index names, and no other slot is read. With
inplace = true it ends in the same slot, in whatever type the pool has; without, the states are returned in the order of
the sequences. A state may be stored as Float16 or BFloat16, which rounds it once a call; state_pool keeps a pool in 8
bits. On a GPU heads of q that are neither those of k nor of v cost a launch for each group of heads that shares both,
and what lies between two checkpoints is a launch of its own; packed sequences share their launches on tensor cores
where there are gates or the delta rule, and go one after the other elsewhere.

No bit of an output changes with later tokens and gates, another N, other texts in the batch or packed beside it, or the
number of threads: that is deterministic = "prefix", which every mode keeps on the CPU. "alone" is less, the bits of a
call on each packed sequence alone, and what calls on one GPU keep by themselves; "run", the same bits in every run, is
least, and all that several GPUs keep. There "prefix" is kept on request while all numbers are finite, chunkwise and
recurrent, not in gradients and on several GPUs: splits of long texts then lie at fixed places on tensor cores, and a
gate per key channel goes in Float32, which takes longer. With "run" packed sequences are cut on tensor cores, with at
most one gate a head, as all of them together are thought to take the least time: 0.84 of what they take else in the
mean, 0.4 to 1.2 of it.

shards = p spreads the tokens over p workers, threads of this process or, under `./lab mpi N`, processes; a report of
what they sent and held comes last. exchange is how the states travel: "ring" hands the state itself on, one head after
the other, with no more work and, where no part begins within a chunk (by sizes, in a packed sequence, with mode =
"parallel"), the bits of one worker (LASP, arXiv:2404.02882); "all-scan" first makes of each part's keys and values the
map S ↦ A S + B of its states and then scans them (ZeCO, arXiv:2507.01004); "all-gather" gives every
worker all maps at once (LASP-2, arXiv:2502.07563). With "heads" no state travels: each worker gets all tokens of some
heads and gives their results back (DeepSpeed Ulysses, arXiv:2309.14509), which sends what grows with the text and
busies no more workers than there are heads of keys. With deterministic = "run" and no exchange by name, a worker hands
on at once what its last tokens alone make of a head's state where their gates leave nothing of what was before, to
within rounding, so that none waits; where the state turns out to be another one, since what was before was that large,
or not finite, the head is computed again. See shard for parts of the ranks' own. "auto" is the ring with deterministic
= "prefix", and where there are at least 2 (p - 1) states for each that a rank computes at once, else the scan. Of whole
tensors processes compare a sample of the values: norm(x - unshard(shard(x))) is above 0 on one of them where x differs
anywhere. Gradients of states go back as the states come, by any of these ways. Tensors on a GPU are spread over the
GPUs of this machine, by NCCL and the kernels of one; there heads that share keys or queries are for exchange = "heads",
and in gradients "all-scan" and "all-gather" make the backward pass twice on ranks that hand a gradient on, so "auto"
is the ring.

What layers of models have around the rule may be within the call, on the CPU and a GPU, with its gradient, but not with
shards: with A_log, log_decay is the projection that decay_gate makes gates of, and with norm_weight or norm_gate the
outputs go through rms_norm.

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
true the slots of the pool are advanced.]],
  notes = [[N tokens in one call of linear_attention and M steps give what N + M tokens in one call give. One table
works too: linear_attention_step{q = q, k = k, v = v, state = S}. Source: gates; Yang et al. 2024.]],
  example = [[
q, k, v = randn(2, 1, 8), randn(2, 1, 8), randn(2, 1, 4)
linear_attention_step(q, k, v, zeros(2, 8, 4),
  {update = "gated", log_decay = fill(-0.1, 2, 1)})]],
}

manual.state_pool = {
  call = "state_pool(slots, h, d_k, d_v)  state_pool(states)",
  text = [[A pool of states in 8 bits, a quarter of the memory of Float32, for linear_attention,
general_linear_attention, their steps and causal_linear_attention: as the option state, with state_indices = the slots
of the texts. A call computes with these states in Float32; with inplace = true it puts the new ones back. Made of a
Tensor on the GPU it is there, for calls there.

  pool:states(slots)        [#slots, h, d_k, d_v] in Float32, without slots all of them
  pool:put(slots, states)   writes states; a tensor of any type
  pool:bytes()              what it takes in memory
  pool:size()               slots, h, d_k, d_v]],
  notes = [[Each entry is a whole number from -127 to 127 times a Float32 scale that one head of one slot shares: a
state that is put in and taken out is off by at most 1/253 of its largest entry, each time. An 8-bit floating-point
format would be off by 1/16 of it: entries of one head are of one size, so its exponents would buy little. A head with
an Inf or a NaN comes out as NaN as a whole. Slots count from 1. The gradients and a GPU take tensors:
pool:states(slots).]],
  example = [[
pool = state_pool(4, 2, 8, 8)
q, k, v = randn(1, 2, 5, 8), randn(1, 2, 5, 8), randn(1, 2, 5, 8)
linear_attention(q, k, v,
  {state = pool, state_indices = {3}, inplace = true});
maximum(abs(pool:states{3}))]],
}

manual.recurrence = {
  call = "rule = recurrence{a =, u =, w =, k =, v =, q =}",
  text = [[A rule of your own for the state of linear attention, which runs in chunks at the speed of the built-in ones:

  y = Sᵀw                             what the state holds under w
  S ← diag(a) S - u yᵀ + k vᵀ         that is (diag(a) - u wᵀ) S + k vᵀ
  o = scale · Sᵀq

rule(q, k, v, options) is then called as linear_attention is, and returns the output and the final state. Each part is
a number, a Tensor, or a function of the token: f(x) gets the inputs of the call as x.q, x.k, x.v, what else the call
was given as x.name, and the number of the token, from 1 in each sequence of the
call, as x.t. It is called once, for all tokens: x.q is the tensor
[b, h, N, d_k], and what has one number a token is [b, h, N, 1], so that times, exp and the like do to every token what
they do to one; what is shorter, a vector of d_k say, holds for all. Beside q [N, d_k] a vector of N numbers has one a
token, where N is not also the width. Parts that are left out are a = 1, no u and w, and
x.k, x.v and x.q themselves.]],
  notes = [[a multiplies the rows of S as it is, not as a logarithm: 0 forgets at once. The state stays bounded where
the matrices diag(a) - u wᵀ never enlarge it; with 0 <= a <= 1, unit w and u = β w, β from 0 to 2 does.

Options are mode, chunk, scale, state, cu_seqlens, layout and device of general_linear_attention, which does the
work; with device = "gpu" it does so there, while the functions are computed on the CPU. All other names are inputs.
x("name", default) is an input that need not be given. rule:step(q, k, v, state, options) goes on by 1 to 16 tokens,
whose x.t begins at 1 again: give t, a tensor [b, h, N, 1], where the rule reads it. grad goes through a rule and into
its functions, and opcount counts its recurrence. name = "..." is what its errors begin
with.]],
  example = [[
rule = recurrence{            -- a gate, and a delta rule that
  a = function(x) return sigmoid(x.f) end,   -- erases under q
  u = function(x) return times(x.b, x.k) end,
  w = function(x) return x.q end}
q, k, v = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)
q, k = q / sqrt(sum(pow(q, 2), 4)), k / sqrt(sum(pow(k, 2), 4))
f, b = randn(1, 2, 100, 8), rand(1, 2, 100)
o, S = rule(q, k, v, {f = f, b = b})
g = grad(function(k) return sum((rule(q, k, v, {f = f, b = b}))) end, k)
norm(g)]],
}

manual.general_linear_attention = {
  call = "general_linear_attention(q, k, v, options)",
  text = [[Linear attention by the rule S ← (diag(a) - u wᵀ) S + k vᵀ, o = scale · Sᵀq: what every rule of the family
is, with a, u and w as tensors. recurrence makes them of functions. q, k and v, their heads, state, cu_seqlens, mode,
state_indices, inplace, checkpoint_every, deterministic and what is returned are as for linear_attention. a [b, h, N] or
[b, h, N, d_k] multiplies the rows of the state as it is, not as a logarithm; u and w [b, h, N, d_k] are given both or
neither. Each of the three may have fewer heads, of which consecutive states then share one.

On a GPU widths are at most 256, mode is "chunkwise" or "recurrent", and a, u and w may have another type than q: give a
in Float32 beside q in BFloat16, which has no number between 0.996 and 1.]],
  notes = [[The gated delta rule is a = e^g, u = β k, w = e^g ⊙ k and β k in the place of k. A chunk solves a triangular
system for what w reads (the WY form); all decays within it are running products of a, so a factor of 0 is exact, and
where |a| <= 1 nothing overflows that the rule itself keeps in bounds. Source: Yang et al. 2024, §3, with keys of their
own for reading, erasing and writing.]],
  example = [[
q, k, v = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)
k = k / sqrt(sum(pow(k, 2), 4))
general_linear_attention(q, k, v,
  {a = rand(1, 2, 100, 8), u = k / 2, w = k})]],
}

manual.general_linear_attention_step = {
  call = "general_linear_attention_step(q, k, v, state, options)",
  text = [[One token of general_linear_attention, or up to 16, from the state [b, h, d_k, d_v] so far. Returns the
output and the new state; the given one stays as it is unless inplace = true. keep_states and state_indices are as for
linear_attention_step.]],
  notes = [[One table works too: general_linear_attention_step{q = q, k = k, v = v, state = S}.]],
  example = [[
q, k, v = randn(2, 1, 8), randn(2, 1, 8), randn(2, 1, 4)
general_linear_attention_step(q, k, v, zeros(2, 8, 4),
  {a = rand(2, 1, 8), u = k / 9, w = k})]],
}

manual.general_linear_attention_grad = {
  call = "general_linear_attention_grad(q, k, v, dO, options)",
  text = [[What arrives at the inputs of general_linear_attention when dO, of the shape of its output, arrives there and
the option dstate at its final state: a table with dq, dk, dv, dstate and, where they were given, da, du and dw. da is
with respect to the factor itself, and exact where that is 0. mode = "chunkwise" keeps a state per chunk and makes the
others again, "recurrent" keeps all; on a GPU both keep one in some tokens.]],
  notes = [[grad uses it. One table works too: general_linear_attention_grad{q = q, k = k, v = v, dO = G}.]],
  example = [[
q, k, v = randn(1, 2, 50, 8), randn(1, 2, 50, 8) / 3, randn(1, 2, 50, 8)
g = general_linear_attention_grad(q, k, v, ones(1, 2, 50, 8),
  {a = rand(1, 2, 50), u = k / 2, w = k})
norm(g.da)]],
}

manual.gated_delta_2 = {
  call = "gated_delta_2(q, k, v, {log_decay =, erase =, write =})",
  text = [[Gated DeltaNet-2: the gated delta rule with a gate on what is erased, a number for each channel of the key,
and another on what is written, a number for each channel of the value.

  S ← (I - k (b ⊙ k)ᵀ) diag(e^g) S + k (w ⊙ v)ᵀ,  o = scale · Sᵀq

log_decay is g [b, h, N] or [b, h, N, d_k], erase b [b, h, N, d_k] and write w [b, h, N, d_v], each also [b, h, N].
Returns the output and the final state, as linear_attention does, whose mode, chunk, scale and state it takes.]],
  notes = [[With b = w = β it is the update gated_delta. As a rule: recurrence{a = e^g, u = k, w = e^g ⊙ b ⊙ k, v = w ⊙
v}. Source: Hatamizadeh, Choi, Kautz 2026.]],
  example = [[
q, k, v = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)
k = k / sqrt(sum(pow(k, 2), 4))
gated_delta_2(q, k, v, {log_decay = -rand(1, 2, 100, 8),
  erase = rand(1, 2, 100, 8), write = rand(1, 2, 100, 8)})]],
}

manual.comba = {
  call = "comba(q, k, v, {log_decay =, beta =, feedback =, correction =})",
  text = [[Comba: a scalar decay less what is held under the key, with feedback from the output.

  S ← (e^g - b β k kᵀ) S + β k vᵀ,  o = scale · Sᵀ(q - d k)

log_decay is g and beta β, [b, h, N]; feedback is b, by default 1, and correction d, by default 0: numbers, or tensors
of one a head, [1, h, 1, 1]. Returns the output and the final state, as linear_attention does, whose mode, chunk, scale
and state it takes.]],
  notes = [[What is erased is read before the decay, other than in gated_delta. As a rule: recurrence{a = e^g, u = b β
k, w = k, k = β k, q = q - d k}. Source: Hu et al. 2025.]],
  example = [[
q, k, v = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)
k = k / sqrt(sum(pow(k, 2), 4))
comba(q, k, v, {log_decay = -rand(1, 2, 100) / 9,
  beta = rand(1, 2, 100), feedback = 0.8, correction = 0.1})]],
}

manual.rwkv7 = {
  call = "rwkv7(r, k, v, {log_decay =, kappa =, rate =})",
  text = [[The state of RWKV-7: a decay for each channel, and a delta rule that erases under another key than it writes
to, at a rate for each channel.

  S ← (diag(e^g) - (a ⊙ κ) κᵀ) S + k vᵀ,  o = scale · Sᵀr

In one table r is q or r. log_decay is g, kappa κ, of length 1, and rate a: [b, h, N, d_k]. Returns the output and
the final state, as linear_attention does, whose mode, chunk, scale and state it takes.]],
  notes = [[What stands around it in the model, token shift, the bonus (r · (ρ ⊙ k)) v for the token itself, norm and
gate, is not in it. As a rule: recurrence{a = e^g, u = a ⊙ κ, w = κ}. Source: Peng et al. 2025.]],
  example = [[
r, k, v = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)
kappa = randn(1, 2, 100, 8)
rwkv7(r, k, v, {kappa = kappa / sqrt(sum(pow(kappa, 2), 4)),
  log_decay = -0.6 * rand(1, 2, 100, 8), rate = rand(1, 2, 100, 8)})]],
}

manual.delta_product = {
  call = "delta_product(q, k, v, {beta =, log_decay =})",
  text = [[DeltaProduct: n steps of the delta rule for every token, so that a token can turn the state by more than one
reflection.

  S ← Π_i (I - β_i k_i k_iᵀ) e^g S + Σ ...,  o = scale · Sᵀq after the last of the n steps

q is [b, h, N, d_k] and log_decay, which may be left out, [b, h, N] or [b, h, N, d_k]; k, v and beta have n N tokens,
the n of a token one behind the other. Returns the output [b, h, N, d_v] and the final state, as linear_attention does,
whose mode, chunk, scale and state it takes.]],
  notes = [[chunk counts steps; cu_seqlens counts tokens of q. As a rule on n N tokens: recurrence{a = e^g, u = β k,
w = e^g ⊙ k, k = β k}, the gate on the first step of a token, 0 on the others, and q on the last. Source: Siems et
al. 2025.]],
  example = [[
q, k, v = randn(1, 2, 50, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)
k = k / sqrt(sum(pow(k, 2), 4))
delta_product(q, k, v, {beta = 2 * rand(1, 2, 100)})]],
}
