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
// themselves (core/sharded/all_to_all.hpp); the others cost a pass over k and v for the maps. Heads whose gates forget
// within a part need wait for nothing (past_forgetting): the rank before them hands on what its last tokens alone make
// of their states, before all else. That no longer has the bits; where the state turns out to be another one in the
// end, since what was forgotten was too large or no number, it goes round after all.
#pragma once

#include <algorithm>
#include <vector>

#include "core/distributed/collectives.hpp"
#include "core/sharded/part.hpp"

namespace causeway::sharded {

using distributed::Communicator;
using distributed::Held;
using distributed::Room;
using distributed::Transfer;

enum class Exchange { ring, all_scan, all_gather, heads };  // heads: no states, core/sharded/all_to_all.hpp

namespace detail {

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

inline Stops stops_of(const Route& z, Index from, Index to) {
    return Stops(z.stops).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from));
}

// f(from, to) for pieces of stops of which `is` says the same about all, in order; of at most `longest`.
template <class Is, class F>
void each_piece(Index from, Index to, Index longest, Is&& is, F&& f) {
    for (Index k = from; k < to;) {
        Index end = k + 1;
        while (end < to && end - k < longest && is(end) == is(k)) ++end;
        f(k, end, is(k));
        k = end;
    }
}

// f(from, to) for blocks of stops that a rank computes at once.
template <class F>
void each_block(const Route& z, F&& f) {
    for (Index from = 0; from < z.count(); from += z.together) f(from, std::min<Index>(z.count(), from + z.together));
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

// f(from, to) for the messages of a rank that sends the stops of [from, to) of which `is` holds.
template <class Is, class F>
void each_message(const Route& z, Index from, Index to, Is&& is, F&& f) {
    each_piece(from, to, z.alike ? to - from : 1, is, [&](Index a, Index b, bool goes) {
        if (goes) f(a, b);
    });
}

// The stops [from, to) that arrive from the rank before are asked for, and waited for.
template <class T>
void fetch(Communicator& comm, const Route& z, Index from, Index to, T* states) {
    std::vector<Transfer> out;
    each_message(
        z, from, to, [&](Index k) { return z[k].before; },
        [&](Index a, Index b) {
            out.push_back(comm.receive(entry(states, a, z.elements), (b - a) * z.elements, comm.rank() - z.step()));
        });
    comm.start();
    for (Transfer& t : out) t.wait();
}
// Those of [from, to) that go on to the next rank, and of which `is` holds, are sent.
template <class T, class Is>
void send_on(Communicator& comm, const Route& z, Index from, Index to, T* states, std::vector<Transfer>& sent,
             Is&& is) {
    each_message(
        z, from, to, [&](Index k) { return z[k].after && is(k); },
        [&](Index a, Index b) {
            sent.push_back(comm.send(entry(states, a, z.elements), (b - a) * z.elements, comm.rank() + z.step()));
        });
    comm.start();
}
inline bool all_of_them(Index) { return true; }

// f(from, to) for the pieces of stops that begin, or do not begin, at this rank.
template <class F>
void each_where(const Route& z, Index from, Index to, bool (*which)(const Stop&), F&& f) {
    each_piece(
        from, to, to - from, [&](Index k) { return which(z[k]); },
        [&](Index a, Index b, bool is) {
            if (is) f(a, b);
        });
}
inline bool begins(const Stop& s) { return !s.before; }
inline bool arrives(const Stop& s) { return s.before; }
inline bool ends(const Stop& s) { return !s.after; }
inline bool goes_on(const Stop& s) { return s.after; }
inline bool passes(const Stop& s) { return s.before && s.after; }
inline bool any_stop(const Route& z, bool (*which)(const Stop&)) {
    return std::any_of(z.stops.begin(), z.stops.end(), which);
}

// The outputs of stops whose states are there, and the states after them, which replace them.
template <class T>
void run(Communicator& comm, const Route& z, Part<T>& part, Index from, Index to, T* states) {
    if (!works(comm, from, to, [&](Index k) { return part.run_work(z[k].state); })) return;
    part.runs(stops_of(z, from, to), states + from * z.elements);
    each_where(z, from, to, ends, [&](Index a, Index b) { part.lasts(stops_of(z, a, b), states + a * z.elements); });
}

// S <- the states before the first tokens, of sequences that begin at this rank.
template <class T>
void begin_states(Communicator& comm, const Route& z, const Part<T>& part, Index from, Index to, T* states) {
    if (comm.dry()) return;
    each_where(z, from, to, begins, [&](Index a, Index b) { part.firsts(stops_of(z, a, b), states + a * z.elements); });
}

template <class T>
void ring(Communicator& comm, const Route& z, Part<T>& part) {
    Room<T> states(comm, Held::state, z.count() * z.elements);
    std::vector<Transfer> sent;
    comm.begin();
    each_block(z, [&](Index from, Index to) {
        fetch(comm, z, from, to, states.data());
        begin_states(comm, z, part, from, to, states.data());
        run(comm, z, part, from, to, states.data());
        send_on(comm, z, from, to, states.data(), sent, all_of_them);
    });
    for (Transfer& t : sent) t.wait();
}

// What every rank says of the states that leave a rank: a letter each.
class Said {
public:
    // mine: of the stops here; elsewhere: of the states that have none here.
    Said(Communicator& comm, const Route& z, const std::vector<char>& mine, char elsewhere)
        : z_(z), all_(static_cast<std::size_t>(z.slots * comm.size())) {
        std::vector<char> by_slot(static_cast<std::size_t>(z.slots), elsewhere);
        for (Index k = 0; k < z.count(); ++k)
            if (z[k].slot >= 0) by_slot[static_cast<std::size_t>(z[k].slot)] = mine[static_cast<std::size_t>(k)];
        if (comm.dry()) {  // of a model, all of whose ranks are alike
            for (int r = 0; r < comm.size(); ++r) std::copy(by_slot.begin(), by_slot.end(), all_.begin() + r * z.slots);
            return;
        }
        Communicator& host = comm.host();
        distributed::all_gather(host, distributed::all_ranks(host), by_slot.data(), z.slots, all_.data());
    }
    bool any() const {
        return std::any_of(all_.begin(), all_.end(), [](char letter) { return letter != 0; });
    }
    char by(int rank, Index slot) const { return all_[static_cast<std::size_t>(rank * z_.slots + slot)]; }
    int ranks() const { return z_.slots > 0 ? static_cast<int>(static_cast<Index>(all_.size()) / z_.slots) : 0; }

private:
    const Route& z_;
    std::vector<char> all_;  // [rank, slot]
};

// Who hands on what, of all ranks, and from where on a state is waited for.
class Handed {
public:
    template <class T>
    Handed(Communicator& comm, const Route& z, Part<T>& part)
        : z_(z), me_(comm.rank()), all_(comm, z, of_stops(z, part), needs_none) {}

    bool on(Index k) const { return z_[k].after && by(me_, k); }
    // Whether the rank before hands it on.
    bool here(Index k) const { return z_[k].before && by(me_ - 1, k); }
    bool any() const {
        for (Index slot = 0; slot < z_.slots; ++slot)
            for (int r = 0; r < all_.ranks(); ++r)
                if (all_.by(r, slot) == hands_on) return true;
        return false;
    }
    // Whether half of the states or more are handed on by all ranks that they leave, so that few wait for one another.
    bool mostly() const {
        Index n = 0;
        for (Index slot = 0; slot < z_.slots; ++slot) {
            bool all = true;
            for (int r = 0; r < all_.ranks(); ++r) all = all && all_.by(r, slot) != waits;
            n += all ? 1 : 0;
        }
        return 2 * n >= z_.slots;
    }
    // The last rank up to this one that has the state without waiting: its sequence begins there, or it is handed on to
    // it. Ranks go through what they wait for from the nearest source on, so that messages come in the order in which
    // they are asked for.
    int source(Index k) const {
        int r = me_;
        while (r > z_[k].begins && !by(r - 1, k)) --r;
        return r;
    }

private:
    // needs_none: the state ends there, or does not come there.
    enum Letter : char { waits = 0, hands_on = 1, needs_none = 2 };

    template <class T>
    static std::vector<char> of_stops(const Route& z, Part<T>& part) {
        std::vector<char> out = part.forgets(z.stops);
        for (Index k = 0; k < z.count(); ++k) {
            char& letter = out[static_cast<std::size_t>(k)];
            letter = static_cast<char>(letter != 0 ? hands_on : z[k].after ? waits : needs_none);
        }
        return out;
    }
    bool by(int rank, Index k) const { return z_[k].slot >= 0 && all_.by(rank, z_[k].slot) == hands_on; }

    const Route& z_;
    int me_;
    Said all_;
};

// Of every stop of a block whose state goes on the map of the rank's tokens: B and A; where the sequence begins, B is
// the state itself and A is not used. place(k): its number among those in B and A.
template <class T, class Place>
void make_maps(Communicator& comm, const Route& z, Part<T>& part, Index from, Index to, const T* states, T* B, T* A,
               Place&& place) {
    const Index size = z.elements;
    const auto work = [&](Index k) -> Work {
        if (!z[k].after) return {};
        Work sum = part.advance_work(z[k].state);
        if (!z[k].before) return sum;
        const Work map = part.map_work(z[k].state);
        sum.operations += map.operations, sum.elements += map.elements;
        return sum;
    };
    if (!works(comm, from, to, work)) return;
    each_where(z, from, to, goes_on, [&](Index first, Index last) {
        each_piece(
            first, last, last - first, [&](Index k) { return z[k].before; },
            [&](Index a, Index b, bool arrives) {
                const Stops stops = stops_of(z, a, b);
                T* const to_B = B + place(a) * size;
                if (arrives) part.clear(to_B, (b - a) * size);
                else part.copy(states + a * size, (b - a) * size, to_B);
                part.advances(stops, to_B);
                if (arrives && z.carry > 0) part.maps(stops, A + place(a) * z.carry);
            });
    });
}

// The states before the rank's tokens, S of each stop, from the maps of all ranks before it, on either way.
template <class T>
void by_gathering(Communicator& comm, const Route& z, Part<T>& part, T* states) {
    const Index size = z.elements, width = size + z.carry, block = z.slots * width;
    Room<T> maps(comm, Held::state, block), all(comm, Held::work, comm.size() * block), before(comm, Held::work, size);
    if (!comm.dry()) part.clear(maps.data(), maps.size());  // others' states have no map here
    each_block(z, [&](Index from, Index to) {
        make_maps(comm, z, part, from, to, states, maps.data(), entry(maps.data(), z.slots, size),
                  [&](Index k) { return z[k].slot; });
    });
    distributed::all_gather(comm, distributed::all_ranks(comm), maps.data(), maps.size(), all.data());
    for (Index k = 0; k < z.count(); ++k) {
        if (!z[k].before) continue;
        T* S = entry(states, k, size);
        const auto B = [&](int rank) { return entry(all.data(), rank * block + z[k].slot * size, 1); };
        const auto A = [&](int rank) {
            return entry(all.data(), rank * block + z.slots * size + z[k].slot * z.carry, 1);
        };
        if (!comm.dry()) part.copy(B(z[k].begins), size, S);
        for (int r = z[k].begins + z.step(); r != comm.rank(); r += z.step()) {
            if (!comm.work(apply_work(z)) || comm.dry()) continue;
            part.copy(S, size, before.data());
            part.applies(z, 1, A(r), B(r), before.data(), S);
        }
    }
}

// The same, each from the rank before, which has combined its map with what it got, and the outputs. Where all that a
// rank sends begins there, each block of it goes before the map of the next one is made; where it sends nothing, the
// outputs of a block follow when its states have come.
template <class T>
void by_scanning(Communicator& comm, const Route& z, Part<T>& part, T* states) {
    const Index size = z.elements, n = z.count();
    Room<T> maps(comm, Held::state, n * (size + z.carry)), next(comm, Held::state, n * size);
    T *const B = maps.data(), *const A = entry(maps.data(), n, size);
    std::vector<Transfer> sent;
    const auto is_passed = [&](Index k) { return passes(z[k]); };
    const bool some_go_on = any_stop(z, goes_on), some_pass = any_stop(z, passes);
    each_block(z, [&](Index from, Index to) {
        make_maps(comm, z, part, from, to, states, B, A, [](Index k) { return k; });
        if (!some_pass) send_on(comm, z, from, to, B, sent, all_of_them);
    });
    each_block(z, [&](Index from, Index to) {
        fetch(comm, z, from, to, states);
        each_piece(from, to, to - from, is_passed, [&](Index a, Index b, bool is) {
            if (is && works(comm, a, b, [&](Index) { return apply_work(z); }))
                part.applies(z, b - a, A + a * z.carry, B + a * size, states + a * size, next.data() + a * size);
        });
        if (!some_go_on) run(comm, z, part, from, to, states);
        if (!some_pass) return;
        // Of stops that are alike all pass or none.
        each_piece(from, to, to - from, is_passed,
                   [&](Index a, Index b, bool is) { send_on(comm, z, a, b, is ? next.data() : B, sent, all_of_them); });
    });
    if (some_go_on) each_block(z, [&](Index from, Index to) { run(comm, z, part, from, to, states); });
    for (Transfer& t : sent) t.wait();
}

// The same where a part is computed in steps: a state goes through the maps of its pieces as it comes.
template <class T>
void by_steps(Communicator& comm, const Route& z, Part<T>& part, T* states) {
    Room<T> after(comm, Held::state, z.count() * z.elements);
    std::vector<Transfer> sent;
    const auto at = [&](T* all, Index k) { return entry(all, k, z.elements); };
    const bool some_arrive = any_stop(z, arrives), some_go_on = any_stop(z, goes_on);
    const auto hand_on = [&](Index from, Index to) {
        each_where(z, from, to, goes_on, [&](Index a, Index b) {
            part.copy(at(states, a), (b - a) * z.elements, at(after.data(), a));
            part.advances(stops_of(z, a, b), at(after.data(), a));
        });
        send_on(comm, z, from, to, after.data(), sent, all_of_them);
    };
    each_block(z, [&](Index from, Index to) {
        each_where(z, from, to, goes_on, [&](Index a, Index b) { part.prepares(stops_of(z, a, b)); });
        each_where(z, from, to, ends, [&](Index a, Index b) { part.prepares(stops_of(z, a, b)); });
        if (!some_arrive) hand_on(from, to);
    });
    each_block(z, [&](Index from, Index to) {
        if (some_arrive) fetch(comm, z, from, to, states), hand_on(from, to);
        if (!some_go_on) run(comm, z, part, from, to, states);
    });
    // What others wait for goes before long kernels start.
    for (Transfer& t : sent) t.wait();
    if (some_go_on) each_block(z, [&](Index from, Index to) { run(comm, z, part, from, to, states); });
}

// The outputs, once the states before the rank's tokens have been made of all maps.
template <class T>
void from_maps(Communicator& comm, const Route& z, Part<T>& part, T* states, bool gather) {
    if (!gather && part.in_steps()) return by_steps(comm, z, part, states);
    if (!comm.dry())
        each_block(z, [&](Index from, Index to) {
            each_where(z, from, to, ends, [&](Index a, Index b) { part.prepares(stops_of(z, a, b)); });
        });
    if (!gather) return by_scanning(comm, z, part, states);
    by_gathering(comm, z, part, states);
    each_block(z, [&](Index from, Index to) { run(comm, z, part, from, to, states); });
}

template <class T>
void by_maps(Communicator& comm, const Route& z, Part<T>& part, bool gather) {
    Room<T> states(comm, Held::state, z.count() * z.elements);
    comm.begin();
    begin_states(comm, z, part, 0, z.count(), states.data());
    from_maps(comm, z, part, states.data(), gather);
}

// The states that are not what was handed on, of which the rank that did says so: they go round by the ring from the
// first such rank on, which has them in `states`.
template <class T>
void go_round(Communicator& comm, const Route& z, Part<T>& part, T* states, const std::vector<char>& differs) {
    const Said said(comm, z, differs, 0);
    std::vector<Transfer> sent;
    for (Index k = 0; k < z.count(); ++k) {
        if (z[k].slot < 0) continue;
        int first = 0;
        while (first < comm.size() && said.by(first, z[k].slot) == 0) ++first;
        if (first > comm.rank() || first == comm.size()) continue;
        if (first < comm.rank()) {
            if (!z[k].before) continue;
            fetch(comm, z, k, k + 1, states);
            run(comm, z, part, k, k + 1, states);
        }
        send_on(comm, z, k, k + 1, states, sent, all_of_them);
    }
    for (Transfer& t : sent) t.wait();
}

// Where heads may forget. A rank hands on what its last tokens make of the states that they forget, before all else,
// and computes first what it has or what is handed on to it, so that no rank waits for what another one waits for, but
// for states that are not forgotten, which go by the ring. or_scan: unless most are forgotten, the scan is made in its
// place. Returns which it was.
template <class T>
Exchange past_forgetting(Communicator& comm, const Route& z, Part<T>& part, bool or_scan) {
    const Index size = z.elements, n = z.count(), all = std::max<Index>(n, 1);
    const int me = comm.rank();
    Room<T> states(comm, Held::state, n * size), handed_on(comm, Held::state, n * size);
    std::vector<Transfer> sent;
    comm.begin();
    begin_states(comm, z, part, 0, n, states.data());
    // Each hears from all here, so the states have been read before any are written after the last tokens.
    const Handed handed(comm, z, part);
    if (or_scan && !handed.mostly()) {
        from_maps(comm, z, part, states.data(), false);
        return Exchange::all_scan;
    }
    const auto on = [&](Index k) { return handed.on(k); };
    each_piece(0, n, all, on, [&](Index from, Index to, bool is) {
        if (is && !comm.dry()) part.last_tokens(stops_of(z, from, to), handed_on.data() + from * size);
    });
    send_on(comm, z, 0, n, handed_on.data(), sent, on);

    std::vector<char> differs(static_cast<std::size_t>(n));
    const auto compute = [&](Index from, Index to) {
        run(comm, z, part, from, to, states.data());
        send_on(comm, z, from, to, states.data(), sent, [&](Index k) { return !handed.on(k); });
        each_piece(from, to, to - from, on, [&](Index a, Index b, bool is) {
            if (!is || comm.dry()) return;
            const std::vector<char> said =
                part.differ(stops_of(z, a, b), states.data() + a * size, handed_on.data() + a * size);
            std::copy(said.begin(), said.end(), differs.begin() + a);
        });
    };
    const auto receive = [&](Index from, Index to) { fetch(comm, z, from, to, states.data()); };
    each_message(
        z, 0, n, [&](Index k) { return handed.here(k); }, receive);
    // On a GPU a message that does not go before long kernels waits for room until they end.
    for (Transfer& t : sent) t.wait();
    sent.clear();
    // What others wait for, then the rest of what is there, then what is waited for.
    const auto there = [&](Index k) { return handed.source(k) == me; };
    const auto awaited = [&](Index k) { return z[k].after && !handed.on(k); };
    const auto each_of = [](Index from, Index to, auto&& is, auto&& f) {
        each_piece(from, to, to - from, is, [&](Index a, Index b, bool holds) {
            if (holds) f(a, b);
        });
    };
    each_block(z, [&](Index from, Index to) {
        each_of(
            from, to, [&](Index k) { return there(k) && awaited(k); }, compute);
    });
    each_of(
        0, n, [&](Index k) { return there(k) && !awaited(k); }, compute);
    for (int source = me - 1; source >= 0; --source)
        each_block(z, [&](Index from, Index to) {
            each_of(
                from, to, [&](Index k) { return handed.source(k) == source; },
                [&](Index a, Index b) {
                    each_message(z, a, b, all_of_them, receive);
                    compute(a, b);
                });
        });
    for (Transfer& t : sent) t.wait();
    if (comm.dry() || !handed.any()) return Exchange::ring;
    comm.finish_queued();
    const std::vector<char> late = part.remains(z.stops);
    for (std::size_t k = 0; k < differs.size(); ++k) differs[k] = differs[k] != 0 || late[k] != 0;
    go_round(comm, z, part, states.data(), differs);
    return Exchange::ring;
}

}  // namespace detail

// The forward pass of this rank. scan_gives_way: where heads may forget and most do, a scan gives way to the ring.
// Returns the exchange that it was.
template <class T>
Exchange forward(Communicator& comm, const Route& z, Part<T>& part, Exchange exchange, bool scan_gives_way = false) {
    const bool or_scan = exchange == Exchange::all_scan && scan_gives_way;
    if ((exchange == Exchange::ring || or_scan) && part.may_forget() && z.slots > 0)
        return detail::past_forgetting(comm, z, part, or_scan);
    // Where no state leaves a rank there is nothing to exchange, in any way.
    if (exchange == Exchange::ring || z.slots == 0) detail::ring(comm, z, part);
    else detail::by_maps(comm, z, part, exchange == Exchange::all_gather);
    return exchange;
}

}  // namespace causeway::sharded
