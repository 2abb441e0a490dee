#include "core/distributed/decode_mpi.hpp"

#include <algorithm>
#include <bit>

#include "core/base/text.hpp"
#include "core/distributed/agree.hpp"

namespace causeway::distributed {
namespace {

// What ranks compare: everything that the result depends on.
template <class T>
void agree_on_arguments(Communicator& comm, const Plan& plan, const T* q, const Sizes& z, const DecodeOptions& o) {
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
         [](std::int64_t x) { return in_quotes(decode_topologies[static_cast<std::size_t>(x)]); }},
        {"per_node:", plan.tree.per_node},
        {"overlap:", plan.ring.overlap, truth},
        {"home:", plan.ring.home, truth},
        {"sizes: number of lengths", static_cast<std::int64_t>(o.sizes.size())}};
    agree(comm, mine);
    agree(comm, {{"q: values with the checksum", checksum(q, z.rows() * z.dk)}});
    std::vector<Given> lengths;
    for (const Index n : o.sizes) lengths.push_back({"sizes: a length of", n});
    agree(comm, lengths);
}

// Every rank's account, to all.
void gather_accounts(Communicator& comm, double seconds, DecodeReport& report) {
    const Traffic& t = comm.traffic;
    std::vector<std::int64_t> account{t.messages,
                                      t.elements,
                                      t.bytes,
                                      t.rounds,
                                      std::bit_cast<std::int64_t>(seconds),
                                      comm.memory.peak_total,
                                      comm.memory.peak_bytes};
    for (const Index held : comm.memory.peak) account.push_back(held);
    const auto n = static_cast<Index>(account.size());
    std::vector<std::int64_t> all(static_cast<std::size_t>(n * comm.size()));
    all_gather(comm, all_ranks(comm), account.data(), n, all.data());
    for (int i = 0; i < comm.size(); ++i) {
        const std::int64_t* x = all.data() + n * i;
        const auto at = static_cast<std::size_t>(i);
        report.traffic[at] = {x[0], x[1], x[2], x[3]};
        report.seconds = std::max(report.seconds, std::bit_cast<double>(x[4]));
        report.memory[at].peak_total = x[5], report.memory[at].peak_bytes = x[6];
        for (std::size_t kind = 0; kind < held_kinds; ++kind) report.memory[at].peak[kind] = x[7 + kind];
    }
}

}  // namespace

template <class T>
void run_on_mpi(Communicator& comm, const Plan& plan, const T* q, Task<T> task, const DecodeOptions& o,
                DecodeReport& report) {
    const Sizes& z = task.sizes;
    agree_on_arguments(comm, plan, q, z, o);
    const auto starts = starts_of(o, z.M, comm.size());
    cut_out(task.shard, z, starts, comm.rank());
    run_worker(comm, plan, task, starts);
    gather_accounts(comm, comm.now() - comm.begun, report);
}

template void run_on_mpi<float>(Communicator&, const Plan&, const float*, Task<float>, const DecodeOptions&,
                                DecodeReport&);
template void run_on_mpi<double>(Communicator&, const Plan&, const double*, Task<double>, const DecodeOptions&,
                                 DecodeReport&);

}  // namespace causeway::distributed
