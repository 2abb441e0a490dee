// What a call on several workers took, by worker.
#pragma once

#include <string>
#include <vector>

#include "core/distributed/communicator.hpp"

namespace causeway {

// What it took, over all workers and by worker. Counts are of what was really sent, memory of what was really held.
struct ShardReport {
    std::string method, engine, algorithm, topology;
    int shards = 1;
    double seconds = 0;        // of the slowest worker, inputs in place
    double communication = 0;  // of them, most that a worker waited for messages
    Index element_bytes = 4,
          sum_bytes = 4;  // of a key, value or query; of partial results, states and the buffers of collectives
    std::vector<distributed::Traffic> traffic;  // by rank
    std::vector<distributed::Memory> memory;
    std::vector<double> waited;  // seconds

    // Room for the accounts of p ranks.
    void of_ranks(int p);
    // The account of a rank that is a thread of this process.
    void take(const distributed::Communicator& comm);
    // When all have been taken: what the slowest took, of the seconds of every rank.
    void slowest(const std::vector<double>& seconds);

    distributed::Traffic total() const;          // sums; rounds: the last
    const distributed::Memory& largest() const;  // of the worker with the largest peak
};

namespace distributed {

// Every rank's account, and the seconds that it took, to all: for ranks that share no memory. `by`: the same ranks, who
// carry it.
void gather_accounts(const Communicator& comm, Communicator& by, double seconds, ShardReport& report);

}  // namespace distributed
}  // namespace causeway
