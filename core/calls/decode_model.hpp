// The options of decode_model: the schedule of tree_decode or ring_decode on a cluster in simulated time.
#pragma once

#include "core/calls/cluster.hpp"
#include "core/calls/decode.hpp"

namespace causeway::calls {

// The call of the shell; the C++ function takes the sizes and the cluster that these make. What each member means is
// said once, by its option in decode_model() below.
struct DecodeModelOptions : DecodeOptions, ClusterOptions {
    std::string method = "tree";
    Index length = 80000, batch = 1, heads = 16, dim = 128, queries = 1;
    std::optional<Index> query_heads;
};

const Call<DecodeModelOptions>& decode_model();

}  // namespace causeway::calls
