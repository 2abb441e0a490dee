// The options of tree_decode and ring_decode. Of the option causal, see softmax_attention.hpp.
#pragma once

#include "core/calls/option.hpp"

namespace causeway {
namespace calls {

// What each member means say tree_decode() and ring_decode() below.
struct DecodeOptions {
    using TensorType = Tensor;

    int shards = 0;              // 0: the number of threads(), of `sizes`, or of MPI ranks
    std::vector<Index> sizes{};  // empty: as equal as can be
    std::string engine = "threads";
    bool causal = false;
    std::optional<double> scale{};
    // tree_decode
    std::string topology = "auto";
    int algorithm = 0;  // 0: one packed all-reduce
    int per_node = 8;
    // ring_decode
    bool overlap = true, home = false;
};

// The shell's calls take besides whether the log-sum-exp is wanted: the C++ functions always return it.
struct DecodeCallOptions : DecodeOptions {
    bool return_lse = false;
};

std::vector<std::string> decode_engine_names();
std::vector<std::string> decode_topology_names();

inline constexpr Index max_shards = 1024, max_per_node = 4096;

const Call<DecodeCallOptions>& tree_decode();
const Call<DecodeCallOptions>& ring_decode();

}  // namespace calls

using DecodeOptions = calls::DecodeOptions;

}  // namespace causeway
