#include "core/distributed/plan.hpp"

#include "core/distributed/registry.hpp"

namespace causeway {

std::vector<std::string> calls::decode_topology_names() { return distributed::topologies().names(); }

namespace distributed {

std::vector<Index> starts_of(const DecodeOptions& o, Index M, int p, const char* whole) {
    std::vector<Index> starts{0};
    if (o.sizes.empty()) {
        for (int r = 1; r <= p; ++r) starts.push_back(r * M / p);
        return starts;
    }
    if (static_cast<int>(o.sizes.size()) != p)
        fail("sizes: ", o.sizes.size(), " lengths, expected one for each of the ", p, " shards");
    for (const Index n : o.sizes) {
        if (n < 0) fail("sizes: ", n, ", expected lengths of 0 or more");
        starts.push_back(starts.back() + n);
    }
    if (starts.back() != M) fail("sizes: ", starts.back(), " keys together, expected ", M, whole);
    return starts;
}

Plan plan_of(bool is_tree, const DecodeOptions& o) {
    const Topology topology = topologies()[o.topology].topology;
    tree_algorithm(o.algorithm);
    if (o.per_node < 1) fail("per_node: ", o.per_node, ", expected 1 or more");
    return {is_tree, {o.algorithm, topology, o.per_node}, {o.overlap, o.home}};
}

ShardReport report_of(const Plan& plan, const Sizes& z, const std::string& engine, int p, Index element_bytes,
                      Index sum_bytes, bool gathers) {
    ShardReport report;
    report.method = plan.is_tree ? "tree" : "ring";
    report.engine = engine;
    report.element_bytes = element_bytes;
    report.sum_bytes = sum_bytes;
    report.of_ranks(p);
    if (plan.is_tree) {
        const TreeAlgorithm& algorithm = tree_algorithm(plan.tree.algorithm);
        report.algorithm = algorithm.name;
        const Index largest = z.rows() * (z.dv + algorithm.columns) * sum_bytes;
        report.topology = name_of(chosen(plan.tree.topology, largest, gathers));
    } else {
        report.algorithm = plan.ring.overlap ? "overlapped" : "one after the other";
        report.topology = "ring";
    }
    return report;
}

}  // namespace distributed
}  // namespace causeway
