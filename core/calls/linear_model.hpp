// The options of linear_model: linear attention of one sequence on a cluster in simulated time.
#pragma once

#include "core/calls/cluster.hpp"

namespace causeway::calls {

// The call of the shell; the C++ function takes the sizes and the cluster that these make. What each member means is
// said once, by its option in linear_model() below.
struct LinearModelOptions : ClusterOptions {
    using TensorType = Tensor;

    std::string exchange = "ring", update = "linear";
    bool per_channel = false, forgets = false;
    int shards = 1, per_node = 8;
    Index length = 131072, batch = 1, heads = 32, dim = 128, chunk = 64;
    std::optional<Index> together{};
    std::optional<double> token_time{};
};

// The names of what is defined in core/sharded.
std::vector<std::string> named_exchanges();

const Call<LinearModelOptions>& linear_model();

}  // namespace causeway::calls
