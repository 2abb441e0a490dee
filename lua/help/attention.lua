local manual = (...).manual

manual.causal_linear_attention = {
  call = "causal_linear_attention(B, C, V, options)",
  text = [[O = (B Cᵀ ⊙ M) V with M[i,j] = γ^(i-j) for i >= j, else 0. B, C [b, h, N, r] and V [b, h, N, d], or without
the leading dimensions; in the literature q, k, v. V may have a multiple of the heads of C (grouped values:
consecutive heads of V share one of C), and B a multiple of those of V (grouped queries) or a divisor; O has the heads
of B or V, whichever are more, decay and states those of V; with shards all have the same heads. One table
works too: causal_linear_attention{q = q, k = k, v = v}.]],
  notes = [[Returns O alone; with return_state = true the state is the second result. The scale is 1 by default, as the
formula has it, not the 1/sqrt(d) of softmax_attention, PyTorch and ONNX. Two halves of a sequence with the state
carried over give what one call gives. cu_seqlens packs n sequences one after the other: each gives the bits that it
gives alone, with states [n, h, r, d]. state_indices and inplace are those of linear_attention: the state is a pool
then, which state_pool keeps in 8 bits. checkpoint_every = c returns the states after c, 2c, ... tokens of each
sequence as its last value, [checkpoints, h, r, d]; a call with the same c and method that goes on from one of them has
the bits of the whole.

normalize = true divides row i by the sum of its weights. Most methods carry these sums as one more column of V: they
then hold V' = [V, 1] and an output as wide beside what cost says, memory that grows with N.

deterministic = "prefix" asks for outputs of which no bit changes with later tokens, another N or other texts in the
batch; methods() marks the methods that keep this by =, the others are refused. "run" asks for the same bits in every
run and "alone" for those of a call on each packed sequence alone, which every method that is named keeps; "auto" may be
another method tomorrow. With any of them, and with checkpoint_every, "auto" is lightning-attention-2. On one GPU every
call keeps "alone", on several "run", and "prefix" is refused.

?auto says how the method is chosen. shards = p and exchange spread the tokens over p workers, as in
linear_attention, for methods that carry a state, and for gradients; unless an exchange or "prefix" is asked for, a head
whose decay leaves nothing of the state before a worker's tokens, to within rounding, waits for none (in gradients not
with normalize), and is computed again where that state turns out too large for that, or not finite. Source: fleet
eq. 5, leet eq. 4.]],
  example = 'q = randn(1, 8, 100, 16)\ncausal_linear_attention(q, q, q, {method = "fleet", decay = 0.9})',
}

manual.auto = {
  call = 'causal_linear_attention(q, k, v, {method = "auto"})',
  text = [[The default method: the one that is the fastest here for inputs of this class. A class is element type,
heads, length and widths rounded to powers of two, and whether there are decay, normalize, state and block. The first
call of a class times the methods on random inputs of its size, well under a second for most; the answer is kept in
the user's cache folder ($XDG_CACHE_HOME/causeway/choices, or under ~/.cache) for this build, processor and number of
threads.

chosen_method(q, k, v, options) is the name of the method that a call with the same arguments runs by.]],
  notes = [[The forms of the tpu document are not tried, nor are methods of register_method. opcount needs the name of a
method. On a GPU it is "lightning-attention-2", or "block-based" with a block that this is not built for.]],
  example = [[
x = randn(1, 4, 512, 32)
chosen_method(x, x, x, {decay = 0.9})]],
}

manual.chosen_method = {
  call = "chosen_method(B, C, V, options)",
  text = [[The name of the method by which causal_linear_attention(B, C, V, options) runs on the CPU: of method =
"auto", the default, the one that is the fastest here for such inputs. Nothing is computed; where the class of the
inputs is new, the methods are timed first, as the call would (?auto).]],
  example = "x = randn(1, 4, 512, 32)\nchosen_method(x, x, x, {normalize = true})",
}

manual.layout = {
  call = 'f(q, k, v, {layout = "bhnd" or "bnhd"})',
  text = [[The order of the dimensions of a call's tensors, an option of every attention call. Which one a tensor has
cannot be told from its shape, and the wrong one gives numbers, not an error.

  bhnd  [batch, heads, N, d], the default: PyTorch's
        scaled_dot_product_attention, Attention of ONNX in 4 dimensions
  bnhd  [batch, N, heads, d]: flash-attention (batch, seqlen, nheads,
        headdim), flash-linear-attention (fla) [B, T, H, D], whose older
        versions could put the heads first

With "bnhd" all that has a head and a token stands so: q, k, v, gates and β, the output, the log-sum-exp [batch, N,
heads], gradients. States stay [batch, heads, d_k, d_v]. Without a batch it is [N, heads, d]. Inputs and results are
copied in the other order, each once; on a GPU there is no such copy, and the option is refused.]],
  notes = [[Three dimensions [batch, N, hidden], which Attention of ONNX takes too, become "bnhd" by reshape(x, batch,
N, heads, d). permutedims(x, 1, 3, 2, 4) changes one order into the other for good; lowrank and lowrank_error, which
have no such option, need it. Where no layout is named and the keys look like "bnhd", a note says so, once for each
call: that is more than 64 heads of 2 to 128 tokens, and at least twice as many heads as tokens.]],
  example = [[
q, k = randn(1, 1000, 8, 64), randn(1, 1000, 8, 64)
softmax_attention(q, k, k, {layout = "bnhd"})]],
}

manual.methods = {
  call = "methods()",
  text = "Shows every method of causal linear attention: short name, source, complexity in N, memory beyond inputs "
    .. "and output per head (r, d the widths, b, t, Br, Bc block lengths), default block, and what it supports. "
    .. "Returns the list; its methods :table(), :markdown() and :latex() give the table.",
  example = "methods()",
}

manual.method_list = {
  call = "method_list()",
  text = [[The registry as a list of tables with name, short, source, formula, text, use (when to take it), time,
memory, block, decay, normalize, state, auto (may "auto" choose it), device; nothing is printed. ?NAME shows the page of
one, such as ?fleet.]],
  example = "method_list()[1].name",
}

manual.register_method = {
  call = "register_method{name =, forward =, ...}",
  text = [[Adds a method written in Lua: it then works in causal_linear_attention, methods, benchmark_method and
sweeps. forward(B, C, V, options) gets tensors of four dimensions, checked as for the built-in methods, and options
with decay (nil or a list of one γ per head), normalize, scale and block as given; it returns the output, shaped like
V. Further fields: short, source, time, memory (shown by methods()), decay and normalize: whether it supports them.
Without these two, a function of three parameters supports neither; one that names the option does; any other, which may
hand its options on, is tried on four tokens, and a note says where it fails on them. A call with an option that is not
supported is refused. Registering a name again replaces the method, and a note says so. B, C and V are the caller's own
tensors: leave them as they are.]],
  example = [[
register_method{name = "by-hand", decay = false, normalize = false,
  forward = function(B, C, V, options)
    local n = size(B, 3)
    local mask = zeros(n, n)
    for i = 1, n do mask:set(1, i, {1, i}) end
    return times(B * C:t(), mask) * V
  end}
x = randn(1, 2, 8, 4)
o = causal_linear_attention(x, x, x, {method = "by-hand"})
maximum(abs(o - causal_linear_attention(x, x, x)))]],
}

manual.opcount = {
  call = "opcount(f, ...)",
  text = [[Runs f(...) with every causal_linear_attention, linear_attention and softmax_attention in it computed by
the definition of its method or mode on a number type that counts, and returns {multiplies, adds, exponentials,
divisions} really executed. Name the method of causal_linear_attention: "auto" has no definition. Where f calls none
of them, that is an error: nothing else is counted.]],
  example = [[
x = randn(1, 1, 64, 4)
opcount(function()
  causal_linear_attention(x, x, x, {method = "recursion", block = 8})
end)]],
}

manual.cost = {
  call = "cost(method, {N =, r =, d =, block =, normalize =, decay =})",
  text = [[Operations and memory of one head by the method's definition, in closed form: {multiplies, adds, divisions,
memory}, memory in scalars beyond inputs and output. They are what opcount counts, at any length at once. r and d are
the widths, d by default r; block by default the method's; normalize = true counts V' = [V, 1] and its division,
decay = true the multiplications by γ.]],
  example = 'cost("hybrid", {N = 8192, r = 128, d = 128, block = 128, normalize = true})',
}

manual.crossover = {
  call = "crossover{r =, d =, block =, normalize =, tiles =}",
  text = [[The smallest length from which on the hybrid form takes fewer multiply-adds than the inner-product form
(claims G11). d is by default r, block by default d. tiles = "dense" (default) counts squares of scores in both, with
r = d = block the answer is 2d + 1; "triangular" only their lower halves, 3d + 1. cost and opcount count what the
definitions do, triangles for inner-product beside squares for the blocks of hybrid: by them hybrid takes fewer from
about 4d on.]],
  example = "crossover{r = 128, d = 128}",
}

manual.alibi_slopes = {
  call = "alibi_slopes(h)",
  text = "The slopes of ALiBi for h heads (Press et al. 2022), a Tensor{Float64}; as decays: exp(-alibi_slopes(h)).",
  example = "exp(-alibi_slopes(8))",
}

manual.retnet_decay = {
  call = "retnet_decay(h)",
  text = "The decays of RetNet for h heads (Sun et al. 2023): γ = 1 - 2^(-5 - head), heads from 0, a Tensor{Float64}.",
  example = "q, k, v = randn(1, 4, 100, 16), randn(1, 4, 100, 16), randn(1, 4, 100, 16)\n"
    .. "causal_linear_attention(q, k, v, {decay = retnet_decay(4)})",
}
