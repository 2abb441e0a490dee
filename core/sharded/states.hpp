// How the states of linear attention get from rank to rank: written once, for threads, processes and modelled clusters.
//
// The tokens of a rank make of the state before them, S, the one after them, A S + B: A and B depend on its tokens
// alone. A is one number for a gate per head (none without gates), a diagonal for a gate per channel, and a matrix with
// the delta rule. What is exchanged does not depend on the number of tokens. With n states of size s = d_k·d_v, maps of
// size a (0, 1, d_k or d_k²) and t the time of one state's part:
//
//   exchange     elements a rank sends   rounds                time             what it is
//   ring         n s                     n + p - 2             (n + p - 1) t    the state itself, one head after the
//                                                                               other (LASP, arXiv:2404.02882)
//   all-scan     n s                     n + p - 2             n t + maps       maps first, then the scan of them,
//                                                                               pipelined over heads (ZeCO, 2507.01004)
//   all-gather   n (s + a) (p - 1)       ⌈lg p⌉                n t + maps       every rank combines all maps before it
//                                                                               (LASP-2, arXiv:2502.07563)
//
//   heads        tokens (p - 1)/p        p - 1 a tensor        n t                no states: all tokens of some heads
//
// The ring does no more work than one worker and has its bits, as the exchange of heads has, which sends the tokens
// themselves (core/sharded/all_to_all.hpp); the others cost a pass over k and v for the maps.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/distributed/collectives.hpp"

namespace causeway::sharded {

using distributed::Communicator;
using distributed::Held;
using distributed::Room;
using distributed::Transfer;
using distributed::Work;

enum class Exchange { ring, all_scan, all_gather, heads };  // heads: no states, core/sharded/all_to_all.hpp

// A state that passes through a rank, or begins or ends there.
struct Stop {
    Index state = 0;                     // its number among all of the call
    bool before = false, after = false;  // whether it comes from the rank before and goes to the next one
    int begins = 0;                      // the rank where its sequence begins
    Index slot = -1;                     // its number among the states that leave a rank anywhere; -1: it does not
};

// What is known without data.
struct Route {
    Index elements = 0;  // of a state
    Index carry = 0;     // elements of A: 0 where it is 1, or 1, d_k, d_k²
    Index rows = 0;      // d_k
    Index slots = 0;     // states that leave a rank anywhere
    std::vector<Stop> stops;
    int together = 1;  // states that a rank computes at once, on threads of its own

    Index count() const { return static_cast<Index>(stops.size()); }
    const Stop& operator[](Index k) const { return stops[static_cast<std::size_t>(k)]; }
};

// What a rank computes with its tokens of state i. Every S is [d_k, d_v]; any function may be called for different
// states at once.
template <class T>
class Part {
public:
    virtual ~Part() = default;
    virtual void first(Index i, T* S) const = 0;    // S <- the state before the first token of the sequence
    virtual void last(Index i, const T* S) = 0;     // the state after its last token
    virtual void run(Index i, T* S) = 0;            // the outputs; S <- A S + B
    virtual void advance(Index i, T* S) const = 0;  // S <- A S + B alone
    virtual void map(Index i, T* A) const = 0;      // A
    virtual Work run_work(Index i) const = 0;       // of run
    virtual Work advance_work(Index i) const = 0;   // of advance
    virtual Work map_work(Index /*i*/) const { return {}; }
};

// And of the backward pass, where dS goes from the later ranks to the earlier ones.
template <class T>
class GradPart : public Part<T> {
public:
    virtual void last_gradient(Index i, T* dS) const = 0;   // dS <- what arrives at the last state of the sequence
    virtual void first_gradient(Index i, const T* dS) = 0;  // with respect to the state before its first token
    // The gradients, S being the state before the rank's tokens. forth, called first or not at all with the same
    // addresses, leaves A S + B where dS will be, and may keep what back else makes from S once more.
    virtual void forth(Index i, const T* S, T* dS) = 0;
    virtual void back(Index i, const T* S, T* dS) = 0;
    virtual Index kept(Index i) const = 0;  // numbers from forth to back
    virtual Work forth_work(Index i) const = 0;
    virtual Work back_work(Index i) const = 0;  // of both
};

namespace detail {

// f(stop) for the stops [from, to), at once where there are several.
template <class F>
void each_stop(Index from, Index to, F&& f) {
    if (to - from == 1) f(from);
    else parallel_for(to - from, [&](Index i) { f(from + i); });
}

// Whether the stops [from, to) have to be computed here; the time of it is told to a model's clock.
template <class F>
bool works(Communicator& comm, Index from, Index to, F&& work) {
    Work sum;
    for (Index k = from; k < to; ++k) {
        const Work one = work(k);
        sum.operations += one.operations, sum.elements += one.elements, sum.starts = std::max(sum.starts, one.starts);
    }
    return comm.work(sum) && !comm.dry();
}

// f(from, to) for blocks of stops that a rank computes at once.
template <class F>
void each_block(const Route& z, F&& f) {
    for (Index from = 0; from < z.count(); from += z.together) f(from, std::min<Index>(z.count(), from + z.together));
}

// out <- A S + B.
template <class T>
void apply(const Route& z, const T* A, const T* B, const T* S, T* out) {
    const Index columns = z.rows > 0 ? z.elements / z.rows : 0;
    for (Index i = 0; i < z.rows; ++i) {
        T* const row = out + i * columns;
        std::copy_n(B + i * columns, columns, row);
        const auto add = [&](T a, const T* from) {
            for (Index c = 0; c < columns; ++c) row[c] += a * from[c];
        };
        if (z.carry == 0) add(T(1), S + i * columns);
        else if (z.carry == 1) add(A[0], S + i * columns);
        else if (z.carry == z.rows) add(A[i], S + i * columns);
        else
            for (Index j = 0; j < z.rows; ++j) add(A[i * z.rows + j], S + j * columns);
    }
}

inline Work apply_work(const Route& z) {
    const auto elements = static_cast<double>(z.elements);
    const double terms = z.carry > z.rows ? static_cast<double>(z.rows) : 1;
    return {2 * terms * elements, 3 * elements + static_cast<double>(z.carry), 1};
}

// Element i·size of what may be the null pointer of a dry run.
template <class T>
T* entry(T* all, Index i, Index size) {
    return all ? all + i * size : nullptr;
}

// The state before the rank's tokens.
template <class T>
void arrive(Communicator& comm, const Route& z, const Part<T>& part, Index k, T* S) {
    if (z[k].before) comm.receive(S, z.elements, comm.rank() - 1).wait();
    else if (!comm.dry()) part.first(z[k].state, S);
}

template <class T>
void ring(Communicator& comm, const Route& z, Part<T>& part) {
    const Index size = z.elements;
    Room<T> states(comm, Held::state, z.count() * size);
    std::vector<Transfer> sent;
    comm.begin();
    each_block(z, [&](Index from, Index to) {
        for (Index k = from; k < to; ++k) arrive(comm, z, part, k, entry(states.data(), k, size));
        if (works(comm, from, to, [&](Index k) { return part.run_work(z[k].state); }))
            each_stop(from, to, [&](Index k) { part.run(z[k].state, states.data() + k * size); });
        for (Index k = from; k < to; ++k) {
            T* const S = entry(states.data(), k, size);
            if (z[k].after) sent.push_back(comm.send(S, size, comm.rank() + 1));
            else if (!comm.dry()) part.last(z[k].state, S);
        }
        comm.start();
    });
    for (Transfer& t : sent) t.wait();
}

// Of every stop whose state goes on the map of the rank's tokens, B then A; where the sequence begins, B is the state
// itself and A is not used. place(k): where it goes.
template <class T, class Place>
void make_maps(Communicator& comm, const Route& z, const Part<T>& part, const T* states, T* maps, Place&& place) {
    const Index size = z.elements, width = size + z.carry;
    const auto work = [&](Index k) -> Work {
        if (!z[k].after) return {};
        Work sum = part.advance_work(z[k].state);
        if (!z[k].before) return sum;
        const Work map = part.map_work(z[k].state);
        sum.operations += map.operations, sum.elements += map.elements;
        return sum;
    };
    each_block(z, [&](Index from, Index to) {
        if (!works(comm, from, to, work)) return;
        each_stop(from, to, [&](Index k) {
            if (!z[k].after) return;
            T* const map = maps + place(k) * width;
            if (z[k].before) std::fill_n(map, width, T(0));
            else std::copy_n(states + k * size, size, map);
            part.advance(z[k].state, map);
            if (z[k].before && z.carry > 0) part.map(z[k].state, map + size);
        });
    });
}

// The states before the rank's tokens, S of each stop, from the maps of all ranks before it.
template <class T>
void by_gathering(Communicator& comm, const Route& z, const Part<T>& part, T* states) {
    const Index size = z.elements, width = size + z.carry;
    Room<T> maps(comm, Held::state, z.slots * width), all(comm, Held::work, comm.size() * z.slots * width),
        before(comm, Held::work, size);
    if (!comm.dry()) std::fill_n(maps.data(), maps.size(), T(0));  // others' states have no map here
    make_maps(comm, z, part, states, maps.data(), [&](Index k) { return z[k].slot; });
    distributed::all_gather(comm, distributed::all_ranks(comm), maps.data(), maps.size(), all.data());
    for (Index k = 0; k < z.count(); ++k) {
        if (!z[k].before) continue;
        T* S = entry(states, k, size);
        const auto map = [&](int rank) { return entry(all.data(), rank * z.slots + z[k].slot, width); };
        if (!comm.dry()) std::copy_n(map(z[k].begins), size, S);
        for (int r = z[k].begins + 1; r < comm.rank(); ++r) {
            if (!comm.work(apply_work(z)) || comm.dry()) continue;
            std::copy_n(S, size, before.data());
            apply(z, map(r) + size, map(r), before.data(), S);
        }
    }
}

// The same, each from the rank before, which has combined its map with what it got.
template <class T>
void by_scanning(Communicator& comm, const Route& z, const Part<T>& part, T* states) {
    const Index size = z.elements, width = size + z.carry;
    Room<T> maps(comm, Held::state, z.count() * width), next(comm, Held::state, z.count() * size);
    std::vector<Transfer> sent;
    make_maps(comm, z, part, states, maps.data(), [](Index k) { return k; });
    for (Index k = 0; k < z.count(); ++k) {
        T *const S = entry(states, k, size), *const map = entry(maps.data(), k, width), *on = map;
        if (z[k].before) comm.receive(S, size, comm.rank() - 1).wait();
        if (!z[k].after) continue;
        if (z[k].before) {
            on = entry(next.data(), k, size);
            if (comm.work(apply_work(z)) && !comm.dry()) apply(z, map + size, map, S, on);
        }
        sent.push_back(comm.send(on, size, comm.rank() + 1));
        comm.start();
    }
    for (Transfer& t : sent) t.wait();
}

template <class T>
void by_maps(Communicator& comm, const Route& z, Part<T>& part, bool gather) {
    const Index size = z.elements;
    Room<T> states(comm, Held::state, z.count() * size);
    comm.begin();
    for (Index k = 0; k < z.count() && !comm.dry(); ++k)
        if (!z[k].before) part.first(z[k].state, states.data() + k * size);
    if (gather) by_gathering(comm, z, part, states.data());
    else by_scanning(comm, z, part, states.data());
    each_block(z, [&](Index from, Index to) {
        if (works(comm, from, to, [&](Index k) { return part.run_work(z[k].state); }))
            each_stop(from, to, [&](Index k) { part.run(z[k].state, states.data() + k * size); });
        for (Index k = from; k < to && !comm.dry(); ++k)
            if (!z[k].after) part.last(z[k].state, states.data() + k * size);
    });
}

}  // namespace detail

// The forward pass of this rank.
template <class T>
void forward(Communicator& comm, const Route& z, Part<T>& part, Exchange exchange) {
    if (exchange == Exchange::ring) detail::ring(comm, z, part);
    else detail::by_maps(comm, z, part, exchange == Exchange::all_gather);
}

// The backward pass: the states before every part by the ring, then dS the other way.
template <class T>
void backward(Communicator& comm, const Route& z, GradPart<T>& part) {
    using detail::entry;
    const Index size = z.elements;
    Room<T> states(comm, Held::state, z.count() * size), gradients(comm, Held::state, z.count() * size);
    std::vector<Transfer> came(static_cast<std::size_t>(z.count())), sent(came.size()), back;
    const auto keep = [&](Index n) { comm.memory.add(Held::state, n, comm.bytes_of(sizeof(T))); };
    comm.begin();
    for (Index k = 0; k < z.count(); ++k) {
        T* const S = entry(states.data(), k, size);
        if (z[k].before) came[static_cast<std::size_t>(k)] = comm.receive(S, size, comm.rank() - 1);
        else if (!comm.dry()) part.first(z[k].state, S);
    }
    detail::each_block(z, [&](Index from, Index to) {
        for (Index k = from; k < to; ++k) {
            if (!z[k].after) continue;  // a state that goes no further is waited for when it is needed
            came[static_cast<std::size_t>(k)].wait();
            keep(part.kept(z[k].state));
        }
        const auto work = [&](Index k) { return z[k].after ? part.forth_work(z[k].state) : Work{}; };
        if (detail::works(comm, from, to, work))
            detail::each_stop(from, to, [&](Index k) {
                if (z[k].after) part.forth(z[k].state, states.data() + k * size, gradients.data() + k * size);
            });
        for (Index k = from; k < to; ++k)
            if (z[k].after)
                sent[static_cast<std::size_t>(k)] = comm.send(entry(gradients.data(), k, size), size, comm.rank() + 1);
        comm.start();
    });
    detail::each_block(z, [&](Index from, Index to) {
        for (Index k = from; k < to; ++k) {
            T* const dS = entry(gradients.data(), k, size);
            came[static_cast<std::size_t>(k)].wait(), sent[static_cast<std::size_t>(k)].wait();
            if (z[k].after) comm.receive(dS, size, comm.rank() + 1).wait();
            else if (!comm.dry()) part.last_gradient(z[k].state, dS);
        }
        const auto work = [&](Index k) {
            Work rest = part.back_work(z[k].state);
            if (!z[k].after) return rest;
            const Work done = part.forth_work(z[k].state);
            rest.operations -= done.operations, rest.elements -= done.elements;
            return rest;
        };
        for (Index k = from; k < to; ++k)
            if (!z[k].after) keep(part.kept(z[k].state));
        if (detail::works(comm, from, to, work))
            detail::each_stop(from, to, [&](Index k) {
                part.back(z[k].state, states.data() + k * size, gradients.data() + k * size);
            });
        for (Index k = from; k < to; ++k) {
            T* const dS = entry(gradients.data(), k, size);
            keep(-part.kept(z[k].state));
            if (z[k].before) back.push_back(comm.send(dS, size, comm.rank() - 1));
            else if (!comm.dry()) part.first_gradient(z[k].state, dS);
        }
        comm.start();
    });
    for (Transfer& t : back) t.wait();
}

}  // namespace causeway::sharded
