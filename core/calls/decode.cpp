#include "core/calls/decode.hpp"

#include "core/distributed/decode.hpp"

namespace causeway::calls {
namespace {

using S = DecodeCallOptions;

std::vector<Option<S>> of_both_decodings() {
    return {
        {.name = "shards",
         .member = &S::shards,
         .text = "the number p of shards",
         .standard = "threads(), the number of MPI ranks, or that of the GPUs, which it may not exceed",
         .min = 1,
         .max = max_shards},
        {.name = "sizes",
         .member = &S::sizes,
         .text = "lengths of the shards, any may be 0",
         .type = "a list of lengths",
         .standard = "as equal as can be"},
        {.name = "engine",
         .member = &S::engine,
         .text = "what the workers are: \"threads\"; with \"mpi\", the default under mpirun, each rank is given the "
                 "whole tensors, uses its shard and gets the whole output; with \"nccl\" each has a GPU, which its "
                 "keys and values are copied to before the time is taken, in Float32, Float16 or BFloat16 and widths "
                 "to 256",
         .choices = decode_engine_names},
        {.name = "causal",
         .member = &S::causal,
         .text = "true: the N queries are the last positions of the cache, and each sees the keys up to its own; "
                 "false: it sees all; calls of queries and keys of one text are causal by default (softmax_attention)"},
        {.name = "scale", .member = &S::scale, .text = "factor on q kᵀ", .standard = "1/sqrt(d_k)"},
        {.name = "return_lse",
         .member = &S::return_lse,
         .text = "whether a third value is returned: ln Σ e^(scale q·k) [b, h_q, N], the energy"},
    };
}

}  // namespace

std::vector<std::string> decode_engine_names() { return decode_engines; }
std::vector<std::string> decode_topology_names() { return decode_topologies; }

const Call<DecodeCallOptions>& tree_decode() {
    static const Call<S> call{
        "tree_decode",
        {{"q"}, {"k"}, {"v"}},
        joined<S>(of_both_decodings(), {{.name = "topology",
                                         .member = &S::topology,
                                         .text = "of the all-reduce",
                                         .choices = decode_topology_names},
                                        {.name = "algorithm",
                                         .member = &S::algorithm,
                                         .text = "1, 2 or 3 of the document, with two, three and three all-reduces",
                                         .type = "1, 2, 3 or none",
                                         .standard = "one packed all-reduce",
                                         .min = 1,
                                         .max = 3},
                                        {.name = "per_node",
                                         .member = &S::per_node,
                                         .text = "ranks of a node, for topology = \"two-level\"",
                                         .min = 1,
                                         .max = max_per_node}})};
    return call;
}

const Call<DecodeCallOptions>& ring_decode() {
    static const Call<S> call{
        "ring_decode",
        {{"q"}, {"k"}, {"v"}},
        joined<S>(of_both_decodings(),
                  {{.name = "overlap",
                    .member = &S::overlap,
                    .text = "whether the next block is on its way while this one is computed on"},
                   {.name = "home",
                    .member = &S::home,
                    .text = "whether one more shift brings every shard back to its worker, as equation 10 of the "
                            "document counts"}})};
    return call;
}

}  // namespace causeway::calls
