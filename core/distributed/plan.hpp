// What a decode is made of, whatever carries it out: where the shards begin, the schedule, and the account of it.
#pragma once

#include <string>
#include <vector>

#include "core/distributed/decode.hpp"
#include "core/distributed/ring.hpp"

namespace causeway::distributed {

// Where each shard begins, and the end. `whole`: what M is, in a message. Throws Error.
std::vector<Index> starts_of(const DecodeOptions& o, Index M, int p, const char* whole = " like k");

struct Plan {
    bool is_tree;
    TreePlan tree;
    RingPlan ring;
};

// Throws Error naming the option.
Plan plan_of(bool is_tree, const DecodeOptions& o);

// A report without its numbers. element_bytes of keys, values and queries; sum_bytes of partial results and the buffers
// of collectives. gathers: the engine has an all-gather of its own.
ShardReport report_of(const Plan& plan, const Sizes& z, const std::string& engine, int p, Index element_bytes,
                      Index sum_bytes, bool gathers = false);

template <class T, class E>
void run_worker(Communicator& comm, const Plan& plan, const Task<T, E>& task, const std::vector<Index>& starts) {
    if (plan.is_tree) tree(comm, task, plan.tree);
    else ring(comm, task, starts, plan.ring);
}

// Of all keys, those of a rank.
template <class E>
void cut_out(Shard<E>& shard, const Sizes& z, const std::vector<Index>& starts, int rank) {
    const auto r = static_cast<std::size_t>(rank);
    shard.start = starts[r], shard.length = starts[r + 1] - starts[r];
    shard.k += starts[r] * z.dk, shard.v += starts[r] * z.dv;
}

}  // namespace causeway::distributed
