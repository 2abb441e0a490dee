// What a decode can be asked for, as values: the topologies of an all-reduce and the algorithms of tree decoding.
#pragma once

#include <string>

#include "core/distributed/collectives.hpp"
#include "core/kit/registry.hpp"

namespace causeway::distributed {

// The way of an all-reduce; see collectives.hpp.
struct TopologyForm {
    std::string name;  // "two-level"
    Topology topology;
    std::string rounds, elements;  // of n elements over p ranks, lg = log2; elements of the rank that sends most
};
const kit::Registry<TopologyForm>& topologies();

// The name of a topology.
const std::string& name_of(Topology);

// How tree decoding combines partial results (core/distributed/tree.hpp).
struct TreeAlgorithm {
    std::string name;  // "packed"
    std::string source;
    Index columns;  // of the widest vector that is reduced, beside the d_v of the output
    int all_reduces;
};

// By DecodeOptions::algorithm: 0 is packed, the others are numbered as the document numbers them. Throws Error for
// another number.
const TreeAlgorithm& tree_algorithm(int number);

}  // namespace causeway::distributed
