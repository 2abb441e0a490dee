#include "core/distributed/registry.hpp"

#include <array>

namespace causeway::distributed {

const kit::Registry<TopologyForm>& topologies() {
    static const auto& list = *new kit::Registry<TopologyForm>(
        "topology", {{"auto", Topology::automatic, "the fewest for what is short", "the least for what is long"},
                     {"recursive-doubling", Topology::recursive_doubling, "lg p", "n lg p"},
                     {"halving-doubling", Topology::halving_doubling, "2 lg p", "2n (p-1)/p"},
                     {"ring", Topology::ring, "2(p-1)", "2n (p-1)/p"},
                     {"binomial", Topology::binomial, "2⌈lg p⌉", "n ⌈lg p⌉"},
                     {"all-gather", Topology::all_gather, "⌈lg p⌉", "n (p-1)"},
                     {"two-level", Topology::two_level, "2⌈lg g⌉ + lg(p/g)", "nodes of g ranks"}});
    return list;
}

const std::string& name_of(Topology topology) { return topologies().names()[static_cast<std::size_t>(topology)]; }

const TreeAlgorithm& tree_algorithm(int number) {
    static const auto& list = *new std::array<TreeAlgorithm, 4>{{{"packed", "claims H10", 2, 1},
                                                                 {"Algorithm 1", "tree, Algorithm 1", 1, 2},
                                                                 {"Algorithm 2", "tree, Algorithm 2", 0, 3},
                                                                 {"Algorithm 3", "tree, Algorithm 3", 0, 3}}};
    if (number < 0 || number >= static_cast<int>(list.size()))
        fail("algorithm: ", number, ", expected 1, 2, 3 or none");
    return list[static_cast<std::size_t>(number)];
}

}  // namespace causeway::distributed
