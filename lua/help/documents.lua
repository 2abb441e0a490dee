-- The documents behind the laboratory: a page each, and what their short names stand for wherever they are cited.
local causeway = ...

--- A list of {name, authors, title, text, claims (pages of proofs/ about it), example}. What of it is here is collected
--- from the sources of the registries.
causeway._documents = {
  {
    name = "fleet", authors = "anonymous authors",
    title = "Efficient Decoding for Long Prompts via Low-Rank Attention",
    text = [[Causal attention whose matrix is a product of low rank: how wrong the masked output is when the matrix is
approximated, and FleetAttention, which computes it exactly rank by rank, beside the row-based, the block-based and the
recursive way.]],
    claims = "masking.md, fleet.md, exact.md, recursion.md and tables.md",
    example = [[
x = randn(1, 2, 100, 8)
causal_linear_attention(x, x, x, {method = "fleet"})]],
  },
  {
    name = "leet", authors = "J. Wang, S. Zhang, Q.-C. He, Y. Chen",
    title = "LeetDecoding: A PyTorch Library for Exponentially Decaying Causal Linear Attention with CUDA "
      .. "Implementations",
    text = [[A library of the exact methods with an exponential decay, and tables of how long each takes; its short
names of the methods (Bb, LA, FA ...) stand in methods(). benchmark_method measures as it does.]],
    claims = "exact.md, recursion.md, decay.md and tables.md",
    example = [[
benchmark_method("lightning-attention-2", {lengths = {64, 128}, heads = 2,
                 rank = 16, decay = 0.9, repeats = 3})]],
  },
  {
    name = "gates", title = "a review of linear attention, decay gates, delta rules and gated delta networks",
    text = [[From softmax attention to linear attention, seen all at once, token by token and in chunks, then the decay
gate and the delta rule, and both in one: what linear_attention computes.]],
    claims = "gates.md, backward.md",
    example = [[
q, k, v = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)
linear_attention(q, k, v, {update = "gated", log_decay = -rand(1, 2, 100)})]],
  },
  {
    name = "tpu", authors = "G. Levine", title = "Optimized Linear Attention for TPU Hardware", place = "2024",
    text = [[Normalised linear attention by inner products, by outer products and by a hybrid of both in blocks, with
its backward pass, for hardware that multiplies squares of matrices. crossover says from which length on the hybrid
takes fewer operations.]],
    claims = "tpu.md, backward.md",
    example = [[
x = rand(1, 2, 100, 8)
causal_linear_attention(x, x, x, {method = "hybrid", normalize = true})]],
  },
  {
    name = "tree", authors = "anonymous authors",
    title = "Tree Attention: Topology-Aware Decoding for Long-Context Attention on GPU Clusters",
    text = [[Attention as the gradient of an energy, and from it decoding against keys and values that several workers
share: partial results are merged in a tree, where ring attention sends keys and values around.]],
    claims = "energy.md, tree.md and tables.md",
    example = [[
q, k, v = randn(1, 4, 1, 16), randn(1, 4, 500, 16), randn(1, 4, 500, 16)
o, report = tree_decode(q, k, v, {shards = 4})
print(report)]],
  },
}
