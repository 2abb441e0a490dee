#include "core/calls/decode.hpp"

#include "core/calls/layout.hpp"

namespace causeway::calls {
namespace {

using S = DecodeCallOptions;

std::vector<Option<S>> of_both_decodings() {
    return joined<S>(
        sharing_options<S>(max_shards,
                           "threads(), the number of MPI ranks, or that of the GPUs, which it may not exceed"),
        {
            {.name = "engine",
             .member = &S::engine,
             .text =
                 "what the workers are: \"threads\"; with \"mpi\", the default under mpirun, each rank is given the "
                 "whole tensors, uses its shard and gets the whole output; with \"nccl\" each has a GPU, which its "
                 "keys and values are copied to before the time is taken, in Float32, Float16 or BFloat16 and widths "
                 "to 256",
             .choices = decode_engine_names,
             .example = "engine = \"threads\", shards = 2"},
            {.name = "causal",
             .member = &S::causal,
             .text =
                 "true: the N queries are the last positions of the cache, and each sees the keys up to its own; "
                 "false: it sees all; calls of queries and keys of one text are causal by default (softmax_attention)"},
            {.name = "scale",
             .member = &S::scale,
             .text = "factor on q kᵀ",
             .standard = "1/sqrt(d_k)",
             .example = "scale = 0.5"},
            {.name = "return_lse",
             .member = &S::return_lse,
             .text = "whether a third value is returned: ln Σ e^(scale q·k) [b, h_q, N], the energy"},
            {.name = "timeout",
             .member = &S::timeout,
             .text = mpi_timeout,
             .standard = mpi_timeout_default,
             .example = "shards = 2, timeout = 60"},
            layout_option<S>(true),
        });
}

}  // namespace

const Call<DecodeCallOptions>& tree_decode() {
    static const auto& call = *new Call<S>{
        "tree_decode", {{"q"}, {"k"}, {"v"}}, joined<S>(of_both_decodings(), tree_options<S>()), query_inputs};
    return call;
}

const Call<DecodeCallOptions>& ring_decode() {
    static const auto& call = *new Call<S>{
        "ring_decode", {{"q"}, {"k"}, {"v"}}, joined<S>(of_both_decodings(), ring_options<S>()), query_inputs};
    return call;
}

}  // namespace causeway::calls
