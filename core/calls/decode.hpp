// The options of tree_decode and ring_decode. Of the option causal, see softmax_attention.hpp.
#pragma once

#include "core/calls/option.hpp"

namespace causeway {
namespace calls {

// What each member means is said once, by its option in tree_decode() or ring_decode() below.
struct DecodeOptions {
    using TensorType = Tensor;

    int shards = 0;              // 0: the number of threads(), of `sizes`, or of MPI ranks
    std::vector<Index> sizes{};  // empty: as equal as can be
    std::string engine = "threads";
    bool causal = false;
    std::optional<double> scale{};
    double timeout = 0;
    // tree_decode
    std::string topology = "auto";
    int algorithm = 0;  // 0: one packed all-reduce
    int per_node = 8;
    // ring_decode
    bool overlap = true, home = false;
};

// The calls of the shell: the C++ functions always return the log-sum-exp, the shell only when asked to.
struct DecodeCallOptions : DecodeOptions {
    bool return_lse = false;
};

// The names of the registries, beside which they are defined (core/distributed/decode.cpp and plan.cpp).
std::vector<std::string> decode_engine_names();
std::vector<std::string> decode_topology_names();

inline constexpr Index max_shards = 1024, max_per_node = 4096;

// How the keys are shared out.
template <class S>
std::vector<Option<S>> sharing_options(Index max, const char* standard) {
    return {
        {.name = "shards",
         .member = &S::shards,
         .text = "the number p of shards",
         .standard = standard,
         .min = 1,
         .max = max,
         .example = "shards = 4"},
        {.name = "sizes",
         .member = &S::sizes,
         .text = "lengths of the shards, any may be 0",
         .type = "a list of lengths",
         .standard = "as equal as can be",
         .example = "sizes = {30, 70}"},
    };
}

template <class S>
std::vector<Option<S>> tree_options(const char* per_node = nullptr) {
    return {
        {.name = "topology",
         .member = &S::topology,
         .text = "of the all-reduce",
         .choices = decode_topology_names,
         .example = "shards = 4, topology = \"ring\""},
        {.name = "algorithm",
         .member = &S::algorithm,
         .text = "1, 2 or 3 of the document, with two, three and three all-reduces",
         .type = "1, 2, 3 or none",
         .standard = "one packed all-reduce",
         .min = 1,
         .max = 3,
         .example = "shards = 4, algorithm = 1"},
        {.name = "per_node",
         .member = &S::per_node,
         .text = "ranks of a node, for topology = \"two-level\"",
         .standard = per_node,
         .min = 1,
         .max = max_per_node,
         .example = "shards = 4, topology = \"two-level\", per_node = 2"},
    };
}

template <class S>
std::vector<Option<S>> ring_options() {
    return {
        {.name = "overlap",
         .member = &S::overlap,
         .text = "whether the next block is on its way while this one is computed on"},
        {.name = "home",
         .member = &S::home,
         .text = "whether one more shift brings every shard back to its worker, as equation 10 of the document "
                 "counts"},
    };
}

const Call<DecodeCallOptions>& tree_decode();
const Call<DecodeCallOptions>& ring_decode();

}  // namespace calls

using DecodeOptions = calls::DecodeOptions;

}  // namespace causeway
