#include "core/distributed/report.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/distributed/collectives.hpp"

namespace causeway {

using distributed::Memory;
using distributed::Traffic;

void ShardReport::of_ranks(int p) {
    shards = p;
    const auto ranks = static_cast<std::size_t>(p);
    traffic.resize(ranks), memory.resize(ranks), waited.resize(ranks);
}

void ShardReport::take(const distributed::Communicator& comm) {
    const auto r = static_cast<std::size_t>(comm.rank());
    traffic[r] = comm.traffic, memory[r] = comm.memory, waited[r] = comm.waited;
}

void ShardReport::slowest(const std::vector<double>& ranks) {
    seconds = *std::max_element(ranks.begin(), ranks.end());
    communication = *std::max_element(waited.begin(), waited.end());
}

Traffic ShardReport::total() const {
    Traffic sum;
    for (const Traffic& t : traffic)
        sum = {sum.messages + t.messages, sum.elements + t.elements, sum.bytes + t.bytes,
               std::max(sum.rounds, t.rounds)};
    return sum;
}

const Memory& ShardReport::largest() const {
    return *std::max_element(memory.begin(), memory.end(),
                             [](const Memory& a, const Memory& b) { return a.peak_bytes < b.peak_bytes; });
}

void distributed::gather_accounts(const Communicator& comm, Communicator& by, double seconds, ShardReport& report) {
    const Traffic& t = comm.traffic;
    std::vector<std::int64_t> account{t.messages,
                                      t.elements,
                                      t.bytes,
                                      t.rounds,
                                      std::bit_cast<std::int64_t>(seconds),
                                      std::bit_cast<std::int64_t>(comm.waited),
                                      comm.memory.peak_total,
                                      comm.memory.peak_bytes};
    for (const Index held : comm.memory.peak) account.push_back(held);
    const auto n = static_cast<Index>(account.size());
    std::vector<std::int64_t> all(static_cast<std::size_t>(n * comm.size()));
    all_gather(by, all_ranks(by), account.data(), n, all.data());
    for (int i = 0; i < comm.size(); ++i) {
        const std::int64_t* x = all.data() + n * i;
        const auto at = static_cast<std::size_t>(i);
        report.traffic[at] = {x[0], x[1], x[2], x[3]};
        report.seconds = std::max(report.seconds, std::bit_cast<double>(x[4]));
        report.waited[at] = std::bit_cast<double>(x[5]);
        report.communication = std::max(report.communication, report.waited[at]);
        report.memory[at].peak_total = x[6], report.memory[at].peak_bytes = x[7];
        for (std::size_t kind = 0; kind < held_kinds; ++kind) report.memory[at].peak[kind] = x[8 + kind];
    }
}

}  // namespace causeway
