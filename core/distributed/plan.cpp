#include "core/distributed/plan.hpp"

#include "core/kit/check.hpp"

namespace causeway {

const std::vector<std::string> decode_topologies{"auto",     "recursive-doubling", "halving-doubling", "ring",
                                                 "binomial", "all-gather",         "two-level"};
const std::vector<std::string> decode_engines{"threads", "mpi", "nccl"};

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
    const std::size_t topology = kit::check_choice("topology", o.topology, decode_topologies);
    if (o.algorithm < 0 || o.algorithm > 3) fail("algorithm: ", o.algorithm, ", expected 1, 2, 3 or none");
    if (o.per_node < 1) fail("per_node: ", o.per_node, ", expected 1 or more");
    return {is_tree, {o.algorithm, static_cast<Topology>(topology), o.per_node}, {o.overlap, o.home}};
}

DecodeReport report_of(const Plan& plan, const Sizes& z, const std::string& engine, int p, Index element_bytes,
                       Index sum_bytes) {
    DecodeReport report;
    report.method = plan.is_tree ? "tree" : "ring";
    report.engine = engine;
    report.shards = p;
    report.element_bytes = element_bytes;
    report.sum_bytes = sum_bytes;
    report.traffic.resize(static_cast<std::size_t>(p));
    report.memory.resize(static_cast<std::size_t>(p));
    if (plan.is_tree) {
        static const char* const names[] = {"packed", "Algorithm 1", "Algorithm 2", "Algorithm 3"};
        report.algorithm = names[plan.tree.algorithm];
        const Index largest = z.rows() *
                              (z.dv + (plan.tree.algorithm == 0   ? 2
                                       : plan.tree.algorithm == 1 ? 1
                                                                  : 0)) *
                              sum_bytes;
        report.topology =
            decode_topologies[static_cast<std::size_t>(chosen(plan.tree.topology, largest, engine == "nccl"))];
    } else {
        report.algorithm = plan.ring.overlap ? "overlapped" : "one after the other";
        report.topology = "ring";
    }
    return report;
}

}  // namespace distributed
}  // namespace causeway
