// The options of decode_model: the schedule of tree_decode or ring_decode on a cluster in simulated time.
#pragma once

#include "core/calls/decode.hpp"

namespace causeway::calls {

// The call of the shell; the C++ function takes the sizes and the cluster that these make. What each member means is
// said once, by its option in decode_model() below.
struct DecodeModelOptions : DecodeOptions {
    std::string method = "tree", cluster = "h100";
    Index length = 80000, batch = 1, heads = 16, dim = 128, queries = 1;
    std::optional<Index> query_heads, element_bytes;
    std::optional<double> memory_rate, flop_rate, start;
};

// The clusters there is a model of (core/distributed/cluster.cpp).
std::vector<std::string> cluster_names();

const Call<DecodeModelOptions>& decode_model();

}  // namespace causeway::calls
