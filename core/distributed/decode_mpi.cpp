#include "core/distributed/decode_mpi.hpp"

#include <algorithm>
#include <bit>

#include "core/base/text.hpp"
#include "core/distributed/agree.hpp"
#include "core/distributed/registry.hpp"

namespace causeway::distributed {
namespace {

// What ranks compare: everything that the result depends on, of keys and values a sample.
template <class T>
void agree_on_arguments(Communicator& comm, const Plan& plan, const T* q, const Task<T>& task, const DecodeOptions& o) {
    const Sizes& z = task.sizes;
    agree_on_call(comm, plan.is_tree ? Call::tree : Call::ring);
    const std::vector<Given> mine{
        {"q:", sizeof(T), [](std::int64_t x) -> std::string { return x == 4 ? "Float32" : "Float64"; }},
        {"q: batch", z.batch},
        {"q: heads", z.query_heads},
        {"k: heads", z.heads},
        {"q: length", z.N},
        {"k: length", z.M},
        {"q: width", z.dk},
        {"v: width", z.dv},
        {"scale:", std::bit_cast<std::int64_t>(z.scale),
         [](std::int64_t x) { return number_text(std::bit_cast<double>(x)); }},
        {"causal:", z.causal, truth},
        {"algorithm:", plan.tree.algorithm, [](std::int64_t x) { return x == 0 ? "none" : std::to_string(x); }},
        {"topology:", static_cast<std::int64_t>(plan.tree.topology),
         [](std::int64_t x) { return in_quotes(name_of(static_cast<Topology>(x))); }},
        {"per_node:", plan.tree.per_node},
        {"overlap:", plan.ring.overlap, truth},
        {"home:", plan.ring.home, truth},
        {"sizes: number of lengths", static_cast<std::int64_t>(o.sizes.size())}};
    agree(comm, mine);
    agree(comm, {{"q: values with the checksum", checksum(q, z.rows() * z.dk)},
                 {"k: values with the checksum", sampled_checksum(task.shard.k, z.all_heads() * z.M * z.dk)},
                 {"v: values with the checksum", sampled_checksum(task.shard.v, z.all_heads() * z.M * z.dv)}});
    std::vector<Given> lengths;
    for (const Index n : o.sizes) lengths.push_back({"sizes: a length of", n});
    agree(comm, lengths);
}

}  // namespace

template <class T>
void run_on_mpi(Communicator& comm, const Plan& plan, const T* q, Task<T> task, const DecodeOptions& o,
                ShardReport& report) {
    const Sizes& z = task.sizes;
    agree_on_arguments(comm, plan, q, task, o);
    const auto starts = starts_of(o, z.M, comm.size());
    cut_out(task.shard, z, starts, comm.rank());
    run_worker(comm, plan, task, starts);
    gather_accounts(comm, comm, comm.now() - comm.begun, report);
}

template void run_on_mpi<float>(Communicator&, const Plan&, const float*, Task<float>, const DecodeOptions&,
                                ShardReport&);
template void run_on_mpi<double>(Communicator&, const Plan&, const double*, Task<double>, const DecodeOptions&,
                                 ShardReport&);

}  // namespace causeway::distributed
