// Collective operations made of messages: one text for threads, MPI and the model of a cluster, any number of ranks.
//
// A vector is `items` times `width` elements of T; `combine(into, from, items)` puts the vector `from` into `into` and
// is associative and commutative, up to rounding. After an all-reduce every rank holds the same bits: either one rank
// computed them, or all did from the same operands, for a combine whose bits do not depend on which operand is `into`.
//
// All-reduce of n elements over p ranks, for the rank that sends most, n and items divisible by p, lg = log2:
//
//   topology             rounds                 elements a rank       note
//   recursive-doubling   lg p                   n lg p                p not a power of two: ⌊lg p⌋ + 2 rounds
//   halving-doubling     2 lg p                 2n (p-1)/p            likewise 2⌊lg p⌋ + 2
//   ring                 2(p-1)                 2n (p-1)/p
//   binomial             2⌈lg p⌉                n ⌈lg p⌉ (the root)   reduce and broadcast; 2n (p-1) over all ranks
//   all-gather           ⌈lg p⌉                 n (p-1)               then combined in the order of the ranks
//   two-level            ⌈lg g⌉ + lg(p/g) + ⌈lg g⌉                    nodes of g ranks: binomial within, doubling
//   between
//
// Source: R. Thakur, R. Rabenseifner, W. Gropp, Optimization of collective communication operations in MPICH, 2005.
#pragma once

#include <bit>

#include "core/distributed/communicator.hpp"

namespace causeway::distributed {

// As in the table above; automatic: chosen().
enum class Topology { automatic, recursive_doubling, halving_doubling, ring, binomial, all_gather, two_level };

// Ranks first, first + stride, ... of a communicator; positions in it count from 0.
struct Group {
    int first, stride, count;
    int rank(int position) const { return first + position * stride; }
    int position(int rank) const { return (rank - first) / stride; }
};
inline Group all_ranks(const Communicator& comm) { return {0, 1, comm.size()}; }

namespace detail {

// Element at which piece i of `parts` begins.
inline Index cut(Index items, Index width, Index i, Index parts) { return i * items / parts * width; }

// data + offset, null for the null pointers of a dry run.
template <class T>
T* at(T* data, Index offset) {
    return data ? data + offset : nullptr;
}

// combine(into, from) on this rank: two operations and three elements read or written for each of n elements.
template <class T, class Combine>
void combine_here(Communicator& comm, T* into, const T* from, Index n, Index width, const Combine& combine) {
    const auto x = static_cast<double>(n);
    if (n > 0 && comm.work({2 * x, 3 * x}) && !comm.dry()) combine(into, from, n / width);
}

// The largest power of two of the ranks goes on: of the first 2r = 2(p - 2^k) ranks, the even ones give their vector to
// the odd one above before, and get the result after. body(c, rank_of): c the position among the 2^k.
template <class T, class Combine, class Body>
void with_power_of_two(Communicator& comm, const Group& g, T* x, Index items, Index width, const Combine& combine,
                       Body&& body) {
    const int p = g.count, me = g.position(comm.rank()),
              core = static_cast<int>(std::bit_floor(static_cast<unsigned>(p))), r = p - core;
    const Index n = items * width;
    if (me < 2 * r && me % 2 == 0) {
        comm.send(x, n, g.rank(me + 1)).wait();
        comm.receive(x, n, g.rank(me + 1)).wait();
        return;
    }
    if (me < 2 * r) {
        Room<T> other(comm, Held::work, n);
        comm.receive(other.data(), n, g.rank(me - 1)).wait();
        combine_here(comm, x, other.data(), n, width, combine);
    }
    const auto rank_of = [&](int c) { return g.rank(c < r ? 2 * c + 1 : c + r); };
    body(me < 2 * r ? me / 2 : me - r, core, rank_of);
    if (me < 2 * r) comm.send(x, n, g.rank(me - 1)).wait();
}

}  // namespace detail

// Blocks of n elements of every rank, in the order of the ranks: out[i·n ...] is the block of the i-th of the group.
// The engine's own where it has one; else Bruck's algorithm: ⌈lg p⌉ rounds, n(p-1) elements a rank.
template <class T>
void all_gather(Communicator& comm, const Group& g, const T* mine, Index n, T* out) {
    const int p = g.count, me = g.position(comm.rank());
    if (p == comm.size() && comm.gather(mine, n, out)) return;
    Room<T> blocks(comm, Held::work, n * p);  // of ranks me, me + 1, ... around the ring
    if (!comm.dry()) std::copy_n(mine, n, blocks.data());
    for (int have = 1; have < p; have *= 2) {
        const Index more = n * std::min(have, p - have);
        comm.exchange(blocks.data(), more, g.rank((me - have + p) % p), detail::at(blocks.data(), n * have), more,
                      g.rank((me + have) % p));
    }
    if (comm.dry()) return;
    for (int i = 0; i < p; ++i) std::copy_n(blocks.data() + n * i, n, out + n * ((me + i) % p));
}

// The combination of all vectors at the group's first rank; the others' x is spoiled.
template <class T, class Combine>
void reduce_binomial(Communicator& comm, const Group& g, T* x, Index items, Index width, const Combine& combine) {
    const int p = g.count, me = g.position(comm.rank());
    const Index n = items * width;
    if (p == 1) return;
    Room<T> other(comm, Held::work, me % 2 == 0 ? n : 0);  // odd positions only send
    for (int step = 1; step < p; step *= 2) {
        if (me & step) {
            comm.send(x, n, g.rank(me - step)).wait();
            return;
        }
        if (me + step >= p) continue;
        comm.receive(other.data(), n, g.rank(me + step)).wait();
        detail::combine_here(comm, x, other.data(), n, width, combine);
    }
}

// x of the group's first rank, to all.
template <class T>
void broadcast_binomial(Communicator& comm, const Group& g, T* x, Index n) {
    const int p = g.count, me = g.position(comm.rank());
    int step = 1;
    while (step < p && !(me & step)) step *= 2;
    if (me != 0) comm.receive(x, n, g.rank(me - step)).wait();
    std::vector<Transfer> sent;  // all posted at once, the largest subtree first
    for (step /= 2; step >= 1; step /= 2)
        if (me + step < p) sent.push_back(comm.send(x, n, g.rank(me + step)));
    for (auto& s : sent) s.wait();
}

// The combination of all vectors at every rank; rounds and volume of each topology in the table above. Recursive
// doubling: whole vectors with the partner at distance 1, 2, 4, ...
template <class T, class Combine>
void all_reduce_doubling(Communicator& comm, const Group& g, T* x, Index items, Index width, const Combine& combine) {
    const Index n = items * width;
    detail::with_power_of_two(comm, g, x, items, width, combine, [&](int c, int p, const auto& rank_of) {
        if (p == 1) return;
        Room<T> other(comm, Held::work, n);
        for (int step = 1; step < p; step *= 2) {
            comm.exchange(x, n, rank_of(c ^ step), other.data(), n, rank_of(c ^ step));
            detail::combine_here(comm, x, other.data(), n, width, combine);
        }
    });
}

// Reduce-scatter by halves with the partner at distance p/2, p/4, ..., and an all-gather back the same way.
template <class T, class Combine>
void all_reduce_halving(Communicator& comm, const Group& g, T* x, Index items, Index width, const Combine& combine) {
    detail::with_power_of_two(comm, g, x, items, width, combine, [&](int c, int p, const auto& rank_of) {
        if (p == 1) return;
        const auto begin = [&](int piece) { return detail::cut(items, width, piece, p); };
        Room<T> other(comm, Held::work, begin(p) - begin(p / 2));
        int low = 0, high = p;  // the pieces that this rank goes on with
        for (int step = p / 2; step >= 1; step /= 2) {
            const int middle = (low + high) / 2, peer = rank_of(c ^ step);
            const bool upper = c & step;
            const Index given = upper ? begin(low) : begin(middle),
                        n_given = upper ? begin(middle) - given : begin(high) - given;
            (upper ? low : high) = middle;
            const Index kept = begin(low), n_kept = begin(high) - kept;
            comm.exchange(detail::at(x, given), n_given, peer, other.data(), n_kept, peer);
            detail::combine_here(comm, detail::at(x, kept), other.data(), n_kept, width, combine);
        }
        for (int step = 1; step < p; step *= 2) {
            const int peer = rank_of(c ^ step), span = high - low, from = c & step ? low - span : high;
            comm.exchange(detail::at(x, begin(low)), begin(high) - begin(low), peer, detail::at(x, begin(from)),
                          begin(from + span) - begin(from), peer);
            low = std::min(low, from), high = low + 2 * span;
        }
    });
}

// Reduce-scatter and all-gather of p pieces around the ring.
template <class T, class Combine>
void all_reduce_ring(Communicator& comm, const Group& g, T* x, Index items, Index width, const Combine& combine) {
    const int p = g.count, me = g.position(comm.rank());
    if (p == 1) return;
    const auto begin = [&](int piece) { return detail::cut(items, width, piece, p); };
    const auto size = [&](int piece) { return begin(piece + 1) - begin(piece); };
    const int right = g.rank((me + 1) % p), left = g.rank((me + p - 1) % p);
    Room<T> other(comm, Held::work, (items + p - 1) / p * width);
    for (int s = 0; s + 1 < p; ++s) {
        const int given = (me + p - s) % p, taken = (me + p - s - 1) % p;
        comm.exchange(detail::at(x, begin(given)), size(given), right, other.data(), size(taken), left);
        detail::combine_here(comm, detail::at(x, begin(taken)), other.data(), size(taken), width, combine);
    }
    for (int s = 0; s + 1 < p; ++s) {
        const int given = (me + 1 + p - s) % p, taken = (me + p - s) % p;
        comm.exchange(detail::at(x, begin(given)), size(given), right, detail::at(x, begin(taken)), size(taken), left);
    }
}

// All vectors to every rank, which combines them in the order of the ranks.
template <class T, class Combine>
void all_reduce_gather(Communicator& comm, const Group& g, T* x, Index items, Index width, const Combine& combine) {
    const Index n = items * width;
    if (g.count == 1) return;
    Room<T> all(comm, Held::work, n * g.count);
    all_gather(comm, g, x, n, all.data());
    for (int i = 1; i < g.count; ++i)
        detail::combine_here(comm, all.data(), detail::at(all.data(), n * i), n, width, combine);
    if (!comm.dry()) std::copy_n(all.data(), n, x);
}

// Nodes are runs of per_node ranks: reduced to their first rank, combined among those, sent back.
template <class T, class Combine>
void all_reduce_two_level(Communicator& comm, int per_node, T* x, Index items, Index width, const Combine& combine) {
    const int p = comm.size(), g = std::max(1, std::min(per_node, p)), first = comm.rank() / g * g;
    const Group node{first, 1, std::min(g, p - first)}, leaders{0, g, (p + g - 1) / g};
    reduce_binomial(comm, node, x, items, width, combine);
    if (comm.rank() == first) all_reduce_doubling(comm, leaders, x, items, width, combine);
    broadcast_binomial(comm, node, x, items * width);
}

// The topology that automatic stands for: the fewest rounds for what is short, the least volume for what is long.
// gathers: the engine has an all-gather of its own, which is one operation where messages are lg p.
inline Topology chosen(Topology topology, Index bytes, bool gathers) {
    if (topology != Topology::automatic) return topology;
    if (bytes > Index{1} << 17) return Topology::halving_doubling;
    return gathers ? Topology::all_gather : Topology::recursive_doubling;
}

// x = the combination of the vectors of all ranks, at every rank, by the topology asked for. per_node: of two_level.
template <class T, class Combine>
void all_reduce(Communicator& comm, Topology topology, int per_node, T* x, Index items, Index width,
                const Combine& combine) {
    const Group g = all_ranks(comm);
    if (g.count == 1) return;
    comm.work({0, 0, 1});
    switch (chosen(topology, items * width * static_cast<Index>(sizeof(T)), comm.gathers())) {
        case Topology::halving_doubling: return all_reduce_halving(comm, g, x, items, width, combine);
        case Topology::ring: return all_reduce_ring(comm, g, x, items, width, combine);
        case Topology::binomial: {
            reduce_binomial(comm, g, x, items, width, combine);
            return broadcast_binomial(comm, g, x, items * width);
        }
        case Topology::all_gather: return all_reduce_gather(comm, g, x, items, width, combine);
        case Topology::two_level: return all_reduce_two_level(comm, per_node, x, items, width, combine);
        default: return all_reduce_doubling(comm, g, x, items, width, combine);
    }
}

}  // namespace causeway::distributed
