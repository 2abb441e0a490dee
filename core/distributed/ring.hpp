// Ring attention: queries stay, keys and values travel around the ring of workers (tree, §5.3 and §6; Liu et al. 2023).
#pragma once

#include "core/distributed/tree.hpp"

namespace causeway::distributed {

// How the ring turns.
struct RingPlan {
    bool overlap = true;  // the next block is on its way while this one is computed on
    bool home =
        false;  // one more shift brings every block back to its worker: p shifts, as equation 10 counts, not p - 1
};

// starts: where each rank's keys begin, and M at the end. Every worker holds all queries, and its result is the whole
// output. Two blocks of keys and values a worker, with and without overlap: the own block goes on its way too.
template <class T, class E>
void ring(Communicator& comm, const Task<T, E>& task, const std::vector<Index>& starts, const RingPlan& plan) {
    const Sizes& z = task.sizes;
    const int p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
    const auto length = [&](int owner) {
        return starts[static_cast<std::size_t>(owner) + 1] - starts[static_cast<std::size_t>(owner)];
    };
    const auto elements = [&](int owner) { return z.all_heads() * length(owner) * (z.dk + z.dv); };
    Index longest = 0;
    for (int r = 0; r < p; ++r) longest = std::max(longest, elements(r));

    const Borrowed<E> queries(comm, Held::query, z.rows() * z.dk);
    Room<T> x(comm, Held::partial, z.rows() * (z.dv + 2));
    Room<E> here(comm, Held::shard, p > 1 ? longest : 0), there(comm, Held::incoming, p > 1 ? longest : 0);
    const Borrowed<E> whole(comm, Held::shard, p > 1 ? 0 : longest);
    // The block of `owner` as it travels: keys of all heads, then values of all heads.
    const auto shard_in = [&](const E* block, int owner) {
        const Index t = length(owner);
        return Shard<E>{block,    detail::at(block, z.all_heads() * t * z.dk), t * z.dk,
                        t * z.dv, starts[static_cast<std::size_t>(owner)],     t};
    };
    const auto compute = [&](const Shard<E>& shard) {
        Task<T, E> part = task;
        part.shard = shard;
        if (comm.work(part.pass(z.dk + z.dv)) && !comm.dry())
            task.local->add(z, shard, Triples<T>::packed(x.data(), z.dv));
    };
    if (!comm.dry()) {
        set_neutral(z, Triples<T>::packed(x.data(), z.dv));
        if (p > 1) task.local->pack(z, task.shard, here.data());
    }
    comm.begin();
    if (p == 1) {
        compute(task.shard);
    } else {
        E *held = here.data(), *next = there.data();
        for (int s = 0; s < p; ++s, std::swap(held, next)) {
            const int owner = (me + p - s) % p, following = (me + 2 * p - s - 1) % p;
            const bool moves = s + 1 < p || plan.home;
            Transfer sent, received;
            const auto post = [&] {
                comm.work({0, 0, 1});
                sent = comm.send(held, elements(owner), right);
                received = comm.receive(next, elements(following), left);
                comm.start();
            };
            if (moves && plan.overlap) post();
            compute(shard_in(held, owner));
            if (moves && !plan.overlap) post();
            received.wait();
            sent.wait();
        }
    }
    if (!comm.dry()) divide(z, Triples<T>::packed(x.data(), z.dv), task.out, task.lse);
}

}  // namespace causeway::distributed
