local manual = (...).manual

manual.tree_decode = {
  call = "tree_decode(q, k, v, options)",
  text = [[softmax(scale · q kᵀ) v against keys and values in p shards along the length, exactly: every worker takes
its shard, and only partial results (m, D, n), the maximum, denominator and numerator of each query, travel. q [b,
h_q, N, d_k], k [b, h, M, d_k], v [b, h, M, d_v], or without the leading dimensions; consecutive heads of q share a
head of k and v. Returns the output and a report of what was really sent and held, which shows itself;
report.messages, elements, bytes, rounds, time, memory (bytes of the largest worker), held (elements by kind) and
workers (a table for each).]],
  notes = [[The result does not depend on p or the topology but for rounding. With more than three queries to a head
of keys a shard's partial results are computed by the blocks of softmax_attention; algorithms 1 and 2 go query by
query, many times slower. Ctrl-C stops all workers; timeout bounds how long MPI ranks wait, while threads wait for one
another without a bound. On "nccl" shards are computed by flash-decoding, and one operation
of NCCL gathers what is up to 128 KiB, counted as "all-gather" is on threads; a topology that is named is made of
messages. With tensors on the GPU that operation is the only one, and a kernel on every GPU merges what it gathered. The
first call connects the GPUs; connections and a little memory are kept for the next. Source: tree, §5.]],
  example = [[
q, k, v = randn(1, 4, 1, 16), randn(1, 4, 500, 16), randn(1, 4, 500, 16)
o, report = tree_decode(q, k, v, {shards = 8})
print(report)]],
}

manual.ring_decode = {
  call = "ring_decode(q, k, v, options)",
  text = [[The same as tree_decode by ring attention: the shards of keys and values travel around the ring of workers,
p - 1 times each. Returns the output and a report. Every worker has all queries and computes the whole output, so p
workers do p times the work of tree_decode, which counts where there are fewer cores than workers.]],
  notes = [[Source: tree, §5.3 and §6; Liu et al. 2023.]],
  example = [[
q, k, v = randn(1, 4, 1, 16), randn(1, 4, 500, 16), randn(1, 4, 500, 16)
o, report = ring_decode(q, k, v, {shards = 4})
print(report.rounds, report.elements == 3 * 2 * 4 * 500 * 16)]],
}

manual.shard = {
  call = "shard(x [, dim])",
  text = [[The part of a tensor that this rank takes of one which every rank has, along the tokens: dimension dim, or
the last but one, as in q, k, v [b, h, N, d]; of log_decay and beta [b, h, N] that is shard(g, 3). Parts are whole
chunks of 64 tokens, as equal as can be. A process that is alone takes all. Calls on such parts are made with
sharded = true, and return parts: linear_attention, causal_linear_attention, softmax_attention and their
gradients; offsets of packed sequences (cu_seqlens) count the tokens of all ranks, and states are given and returned
whole.]],
  notes = [[For scripts under `./lab mpi N FILE.lua`. Of a tensor on the GPU it is on the GPU of
this process, and the calls on such parts go over NCCL. load(path, {sharded = true}) and save(path, x,
{sharded = true}) read and write a rank's part of a .safetensors file, and no rank ever has the whole. Anything but a
number in the place of dim is not looked at, so that unshard(linear_attention(...)) takes the first result.]],
  example = [[
q = randn(1, 2, 300, 8)
part, S, report = linear_attention(shard(q), shard(q), shard(q),
  {sharded = true})
O = unshard(part)]],
}

manual.unshard = {
  call = "unshard(x [, dim])",
  text = [[The parts of all ranks, in the order of the ranks, as one tensor on every rank: the other way of shard.]],
  example = [[
q = randn(1, 2, 300, 8)
q == unshard(shard(q))]],
}

manual.decode_model = {
  call = "decode_model{method =, cluster =, shards =, length =, ...}",
  text = [[The schedule of tree_decode or ring_decode on a cluster in simulated time, up to 4096 devices, without
data; returns the report, whose time is the model's. Messages take their sender's port for bytes / rate, arrive after
the latency, and take as long at the receiver's; within a node and between nodes there are ports of their own.
Computing reads the shard at memory_rate.]],
  notes = [[What only the other schedule has is ignored. Source: tree, §6; the figures of the clusters stand in
proofs/tree.md.]],
  example = [[
tree = decode_model{shards = 128, length = 5120000}
ring = decode_model{method = "ring", shards = 128, length = 5120000}
print(ring.time / tree.time)]],
}

manual.linear_model = {
  call = "linear_model{exchange =, update =, cluster =, shards =, length =, ...}",
  text = [[The schedule of linear_attention with its sequence on p devices of a cluster, in simulated time, up to 4096
devices, without data; returns the report, whose time is the model's. The links are those of decode_model; a kernel
takes its start and the operations or bytes of its tokens, or token_time where that was measured. States and maps of
states are Float32; tokens, which exchange = "heads" sends, of element_bytes.]],
  notes = [[Draws the figures of experiments/parallel. Inputs are where they are computed with; results stay there.]],
  example = [[
ring = linear_model{shards = 256, length = 1 << 22}
scan = linear_model{shards = 256, length = 1 << 22, exchange = "all-scan"}
print(ring.time / scan.time)]],
}

manual.link_speed = {
  call = 'link_speed([engine [, ranks [, bytes]]])',
  text = [[Latency and rate of messages of "threads" (the default), "mpi" or "nccl" on this machine, {latency =
seconds, rate = bytes a second} as decode_model takes them, from the least time of some tries with 8 bytes and with
`bytes`, 4 MiB unless given. With two ranks (the default) messages go to and fro; with more, all ranks send at once
around a ring, as ring decoding does. Under mpirun every rank makes the same call.]],
  example = "link_speed('threads', 4)",
}

manual.has_mpi = {
  call = "has_mpi()",
  text = 'Whether causeway was built with MPI, which engine = "mpi" needs.',
  example = "has_mpi()",
}

manual.mpi_rank = {
  call = "mpi_rank()",
  text = "The number of this process under mpirun, from 0; 0 where there is no MPI. Only rank 0 prints.",
  example = "if mpi_rank() == 0 then print('rank 0 writes files') end",
}

manual.mpi_size = {
  call = "mpi_size()",
  text = "The number of processes under mpirun; 1 where there is no MPI.",
  example = "mpi_size()",
}
