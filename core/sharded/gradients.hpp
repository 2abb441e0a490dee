// The backward pass of linear attention over several ranks: the states before every part, as forward() has them
// (states.hpp), and dS, the gradient with respect to a state, from the later ranks to the earlier ones.
//
// The tokens of a rank make of dS behind them Aᵀ dS + C: A is the one of states.hpp, C is what their own outputs add,
// which hangs on no dS. So what travels back is what travels forth, and the exchanges are the same: by the ring a rank
// waits for the state and then for dS; by all-scan and all-gather it makes both maps first, which costs a pass over the
// tokens for each, and waits for neither of them longer than a message takes. "heads" is for the calls to do.
#pragma once

#include "core/sharded/states.hpp"

namespace causeway::sharded {

// What a rank computes with its tokens of some states at once, as Part.
template <class T>
class GradPart : public Part<T> {
public:
    // dS <- what arrives at the last states of the sequence; with may_forget_both_ways() also after first_gradients.
    virtual void last_gradients(Stops, T* dS) const = 0;
    virtual void first_gradients(Stops, const T* dS) = 0;  // with respect to the states before its first token
    // The gradients, S being the states before the rank's tokens. forths, called first or not at all with the same
    // addresses, leaves A S + B where dS will be, and may keep what backs else makes from S once more.
    virtual void forths(Stops, const T* S, T* dS) = 0;
    virtual void backs(Stops, const T* S, T* dS) = 0;
    // dS <- Aᵀ dS + C alone. Where there is no shorter way, gradients are written that backs writes once more.
    virtual void state_gradients(Stops stops, const T* S, T* dS) { backs(stops, S, dS); }
    // Whether backs may leave the states after the tokens at `after` too, for less than forths takes.
    virtual bool backs_have_states() const { return false; }
    virtual void backs(Stops stops, const T* S, T* dS, T* /*after*/) { backs(stops, S, dS); }
    virtual Index kept(Index i) const = 0;  // numbers from forths to backs, for state i
    virtual Work forth_work(Index i) const = 0;
    virtual Work back_work(Index i) const = 0;  // of both
    virtual Work state_gradient_work(Index i) const { return back_work(i); }

    // Heads that forget, both ways: what the rank hands on is then made by few of its tokens, and need not wait for
    // what comes from the other side.
    virtual bool may_forget_both_ways() const { return false; }
    virtual std::vector<char> forgets_both_ways(Stops stops) { return std::vector<char>(stops.size()); }
    virtual void first_tokens(Stops, T* /*dS*/) {}  // dS <- what the first tokens, behind which all is forgotten, make
};

template <class T>
class GradByState : public ByState<T, GradPart<T>> {
public:
    using ByState<T, GradPart<T>>::ByState;

    virtual void last_gradient(Index i, T* dS) const = 0;
    virtual void first_gradient(Index i, const T* dS) = 0;
    virtual void forth(Index i, const T* S, T* dS) = 0;
    virtual void back(Index i, const T* S, T* dS) = 0;
    virtual void state_gradient(Index i, const T* S, T* dS) = 0;
    virtual void first_tokens_of(Index /*i*/, T* /*dS*/) {}

    void last_gradients(Stops stops, T* dS) const final {
        this->each(stops, dS, [&](Index i, T* at) { last_gradient(i, at); });
    }
    void first_gradients(Stops stops, const T* dS) final {
        this->each(stops, dS, [&](Index i, const T* at) { first_gradient(i, at); });
    }
    void forths(Stops stops, const T* S, T* dS) final {
        this->each(stops, dS, [&](Index i, T* at) { forth(i, S + (at - dS), at); });
    }
    void backs(Stops stops, const T* S, T* dS) final {
        this->each(stops, dS, [&](Index i, T* at) { back(i, S + (at - dS), at); });
    }
    void state_gradients(Stops stops, const T* S, T* dS) final {
        this->each(stops, dS, [&](Index i, T* at) { state_gradient(i, S + (at - dS), at); });
    }
    void first_tokens(Stops stops, T* dS) final {
        this->each(stops, dS, [&](Index i, T* at) { first_tokens_of(i, at); });
    }
};

namespace detail {

// How many blocks of stops the way forth is ahead of the way back, in backward_ring. A rank's way back waits for that
// of the next rank, which comes after this one's way forth through as many stops as the next rank is ahead, and through
// those that it computes at once. So each rank is ahead of the next one by twice as many stops as any rank computes at
// once, and nobody waits for what waits for it; and by as many again, for what comes late. All of the way forth comes
// first where sequences are packed, as the states that a rank hands on are the last ones of its list, and on GPUs,
// whose messages go in the order in which they are queued.
inline Index blocks_ahead(Communicator& comm, const Route& z) {
    const Index all = (z.count() + z.together - 1) / z.together, later = comm.size() - 1 - comm.rank(),
                stops = 3 * later * z.most_together;
    return z.packed || &comm.host() != &comm ? all : std::min(all, (stops + z.together - 1) / z.together);
}

// The states before every part by the ring, and dS the other way, not further behind than that: what the way forth
// leaves for the way back is kept of those states alone, and where they are few still in a cache.
template <class T>
void backward_ring(Communicator& comm, const Route& z, GradPart<T>& part) {
    const Index size = z.elements;
    Room<T> states(comm, Held::state, z.count() * size), gradients(comm, Held::state, z.count() * size);
    std::vector<Transfer> came, sent(static_cast<std::size_t>(z.count())), back;
    const auto keep = [&](Index n) { comm.memory.add(Held::state, n, comm.bytes_of(sizeof(T))); };
    for (Index k = 0; k < z.count(); ++k)
        came.push_back(z[k].before ? comm.receive(entry(states.data(), k, size), size, comm.rank() - 1) : Transfer{});
    comm.start();
    begin_states(comm, z, part, 0, z.count(), states.data());
    const auto go_forth = [&](Index from, Index to) {
        for (Index k = from; k < to; ++k) {
            if (!z[k].after) continue;  // a state that goes no further is waited for when it is needed
            came[static_cast<std::size_t>(k)].wait();
            keep(part.kept(z[k].state));
        }
        const auto work = [&](Index k) { return z[k].after ? part.forth_work(z[k].state) : Work{}; };
        if (works(comm, from, to, work))
            each_where(z, from, to, goes_on, [&](Index a, Index b) {
                part.forths(stops_of(z, a, b), states.data() + a * size, gradients.data() + a * size);
            });
        for (Index k = from; k < to; ++k)
            if (z[k].after)
                sent[static_cast<std::size_t>(k)] = comm.send(entry(gradients.data(), k, size), size, comm.rank() + 1);
        comm.start();
    };
    const auto go_back = [&](Index from, Index to) {
        std::vector<Transfer> arrive;
        for (Index k = from; k < to; ++k) {
            came[static_cast<std::size_t>(k)].wait(), sent[static_cast<std::size_t>(k)].wait();
            if (z[k].after) arrive.push_back(comm.receive(entry(gradients.data(), k, size), size, comm.rank() + 1));
        }
        comm.start();
        for (Transfer& t : arrive) t.wait();
        if (!comm.dry())
            each_where(z, from, to, ends,
                       [&](Index a, Index b) { part.last_gradients(stops_of(z, a, b), gradients.data() + a * size); });
        const auto work = [&](Index k) {
            Work rest = part.back_work(z[k].state);
            if (!z[k].after) return rest;
            const Work done = part.forth_work(z[k].state);
            rest.operations -= done.operations, rest.elements -= done.elements;
            return rest;
        };
        for (Index k = from; k < to; ++k)
            if (!z[k].after) keep(part.kept(z[k].state));
        if (works(comm, from, to, work)) {
            part.backs(stops_of(z, from, to), states.data() + from * size, gradients.data() + from * size);
            each_where(z, from, to, begins,
                       [&](Index a, Index b) { part.first_gradients(stops_of(z, a, b), gradients.data() + a * size); });
        }
        for (Index k = from; k < to; ++k) {
            keep(-part.kept(z[k].state));
            if (z[k].before) back.push_back(comm.send(entry(gradients.data(), k, size), size, comm.rank() - 1));
        }
        comm.start();
    };
    const Index ahead = blocks_ahead(comm, z) * z.together;
    for (Index at = 0; at < z.count() + ahead; at += z.together) {
        if (at < z.count()) go_forth(at, std::min(z.count(), at + z.together));
        if (at >= ahead) go_back(at - ahead, std::min(z.count(), at - ahead + z.together));
    }
    for (Transfer& t : back) t.wait();
}

// A rank's part of one of the two ways, for an exchange of maps. maps: [stop, carry] of the way of states, which makes
// those that the way back takes too.
template <class T>
class OneWay : public Part<T> {
public:
    OneWay(const Route& z, GradPart<T>& part, T* maps) : z_(z), part_(part), maps_(maps) {}

    void clear(T* x, Index n) const final { part_.clear(x, n); }
    void copy(const T* from, Index n, T* to) const final { part_.copy(from, n, to); }
    void applies(const Route& z, Index n, const T* A, const T* B, const T* S, T* out) const final {
        part_.applies(z, n, A, B, S, out);
    }

protected:
    Index number(Stops stops) const { return stops.data() - z_.stops.data(); }
    T* maps_of(Stops stops) const { return maps_ + number(stops) * z_.carry; }
    Index maps_size(Stops stops) const { return static_cast<Index>(stops.size()) * z_.carry; }

    const Route& z_;
    GradPart<T>& part_;

private:
    T* maps_;
};

template <class T>
class WayOfStates final : public OneWay<T> {
public:
    using OneWay<T>::OneWay;

    void firsts(Stops stops, T* S) const override { this->part_.firsts(stops, S); }
    void lasts(Stops, const T*) override {}
    void runs(Stops, T*) override {}  // the outputs are gradients, and follow on the way back
    void advances(Stops stops, T* S) const override { this->part_.advances(stops, S); }
    void maps(Stops stops, T* A) const override {
        this->part_.maps(stops, A);
        this->copy(A, this->maps_size(stops), this->maps_of(stops));
    }
    Work run_work(Index) const override { return {}; }
    Work advance_work(Index i) const override { return this->part_.advance_work(i); }
    Work map_work(Index i) const override { return this->part_.map_work(i); }
};

// S: the states before the rank's tokens of all stops.
template <class T>
class WayBack final : public OneWay<T> {
public:
    WayBack(const Route& z, GradPart<T>& part, T* maps, const T* S) : OneWay<T>(z, part, maps), S_(S) {}

    void firsts(Stops stops, T* dS) const override { this->part_.last_gradients(stops, dS); }
    void lasts(Stops stops, const T* dS) override { this->part_.first_gradients(stops, dS); }
    void runs(Stops stops, T* dS) override { this->part_.backs(stops, states_of(stops), dS); }
    void advances(Stops stops, T* dS) const override { this->part_.state_gradients(stops, states_of(stops), dS); }
    void maps(Stops stops, T* A) const override { this->copy(this->maps_of(stops), this->maps_size(stops), A); }
    Work run_work(Index i) const override { return this->part_.back_work(i); }
    Work advance_work(Index i) const override { return this->part_.state_gradient_work(i); }

private:
    const T* states_of(Stops stops) const { return S_ + this->number(stops) * this->z_.elements; }

    const T* S_;
};

// The states before every part from maps, then dS the other way, and the gradients.
template <class T>
void backward_by_maps(Communicator& comm, const Route& z, GradPart<T>& part, bool gather) {
    const Route back = z.backwards();
    Room<T> states(comm, Held::state, z.count() * z.elements), gradients(comm, Held::state, z.count() * z.elements),
        maps(comm, Held::state, z.count() * z.carry);
    WayOfStates<T> forth(z, part, maps.data());
    WayBack<T> return_way(back, part, maps.data(), states.data());
    begin_states(comm, z, forth, 0, z.count(), states.data());
    begin_states(comm, back, return_way, 0, z.count(), gradients.data());
    from_maps(comm, z, forth, states.data(), gather);
    from_maps(comm, back, return_way, gradients.data(), gather);
}

// Where every rank forgets, both ways, what comes to it: the states that go either way are made of few tokens
// before all else, so that no rank waits for what another one waits for. Then each rank's gradients follow from what
// has come. Says of every stop whether what was handed on was not the state after all, as far as that is known then.
template <class T>
std::vector<char> backward_apart(Communicator& comm, const Route& z, GradPart<T>& part) {
    const Index size = z.elements, n = z.count();
    Room<T> before(comm, Held::state, n * size), behind(comm, Held::state, n * size),
        state(comm, Held::state, n * size), handed_on(comm, Held::state, n * size),
        handed_back(comm, Held::state, n * size);
    const bool at_once = part.backs_have_states();
    Room<T> after(comm, Held::state, at_once ? n * size : 0);
    const auto at = [size](Room<T>& x, Index k) { return x.data() + k * size; };
    const auto keep = [&](Index count) { comm.memory.add(Held::state, count, comm.bytes_of(sizeof(T))); };
    // At the first stop of a message.
    std::vector<Transfer> came(static_cast<std::size_t>(n)), came_back(static_cast<std::size_t>(n)), sent;
    each_block(z, [&](Index from, Index to) {
        each_where(z, from, to, goes_on,
                   [&](Index a, Index b) { part.last_tokens(stops_of(z, a, b), at(handed_on, a)); });
        each_where(z, from, to, arrives,
                   [&](Index a, Index b) { part.first_tokens(stops_of(z, a, b), at(handed_back, a)); });
    });
    // All at once: neighbours send to each other, and on a GPU a message waits for those before it.
    const auto trade = [&](Index k, Index end, int with, Room<T>& mine, Room<T>& theirs, std::vector<Transfer>& come) {
        sent.push_back(comm.send(at(mine, k), (end - k) * size, with));
        come[static_cast<std::size_t>(k)] = comm.receive(at(theirs, k), (end - k) * size, with);
    };
    each_message(
        z, 0, n, [&](Index k) { return z[k].after; },
        [&](Index a, Index b) { trade(a, b, comm.rank() + 1, handed_on, behind, came_back); });
    each_message(
        z, 0, n, [&](Index k) { return z[k].before; },
        [&](Index a, Index b) { trade(a, b, comm.rank() - 1, handed_back, before, came); });
    comm.start();
    begin_states(comm, z, part, 0, n, before.data());
    each_where(z, 0, n, ends, [&](Index a, Index b) { part.last_gradients(stops_of(z, a, b), at(behind, a)); });

    std::vector<char> differ(static_cast<std::size_t>(n));
    const auto look = [&](Index a, Index b, Room<T>& is, Room<T>& handed) {
        const std::vector<char> said = part.differ(stops_of(z, a, b), at(is, a), at(handed, a));
        for (std::size_t k = 0; k < said.size(); ++k) differ[static_cast<std::size_t>(a) + k] |= said[k];
    };
    each_block(z, [&](Index from, Index to) {
        for (Index k = from; k < to; ++k) {
            came[static_cast<std::size_t>(k)].wait(), came_back[static_cast<std::size_t>(k)].wait();
            keep(part.kept(z[k].state));
        }
        if (!at_once)
            each_where(z, from, to, goes_on, [&](Index a, Index b) {
                part.forths(stops_of(z, a, b), at(before, a), at(state, a));
                look(a, b, state, handed_on);
            });
        part.copy(at(behind, from), (to - from) * size, at(state, from));
        if (at_once) {
            part.backs(stops_of(z, from, to), at(before, from), at(state, from), at(after, from));
            each_where(z, from, to, goes_on, [&](Index a, Index b) { look(a, b, after, handed_on); });
        } else {
            part.backs(stops_of(z, from, to), at(before, from), at(state, from));
        }
        each_where(z, from, to, arrives, [&](Index a, Index b) { look(a, b, state, handed_back); });
        each_where(z, from, to, begins,
                   [&](Index a, Index b) { part.first_gradients(stops_of(z, a, b), at(state, a)); });
        for (Index k = from; k < to; ++k) keep(-part.kept(z[k].state));
    });
    for (Transfer& t : sent) t.wait();
    return differ;
}

// The stops of a route of which `is` holds.
template <class Is>
Route some_of(const Route& z, Is&& is) {
    Route out = z;
    out.stops.clear();
    for (Index k = 0; k < z.count(); ++k)
        if (is(k)) out.stops.push_back(z[k]);
    return out;
}

}  // namespace detail

// The backward pass of this rank: by the ring, all-scan or all-gather. Returns which it was: where all heads are
// forgotten nothing but the ring is left.
template <class T>
Exchange backward(Communicator& comm, const Route& z, GradPart<T>& part, Exchange exchange) {
    using namespace detail;
    comm.begin();
    const auto hand_on = [&](const Route& way) {
        if (exchange == Exchange::ring || way.slots == 0) backward_ring(comm, way, part);
        else backward_by_maps(comm, way, part, exchange == Exchange::all_gather);
    };
    if (comm.dry() || z.slots == 0 || !part.may_forget_both_ways()) {
        hand_on(z);
        return exchange;
    }
    const auto by_any = [&](const Said& said, Index k) {
        bool any = false;
        for (int r = 0; r < said.ranks() && z[k].slot >= 0; ++r) any = any || said.by(r, z[k].slot) != 0;
        return any;
    };
    std::vector<char> waits = part.forgets_both_ways(z.stops);
    for (char& letter : waits) letter = letter == 0;
    // Each hears from all here, so what is given has been read before anything is written.
    const Said said(comm, z, waits, 0);
    const Route apart = some_of(z, [&](Index k) { return !by_any(said, k); });
    std::vector<char> differ = backward_apart(comm, apart, part);
    if (said.any()) hand_on(some_of(z, [&](Index k) { return by_any(said, k); }));
    comm.finish_queued();
    const std::vector<char> late = part.remains(apart.stops);
    for (std::size_t k = 0; k < late.size(); ++k) differ[k] |= late[k];

    std::vector<char> again(static_cast<std::size_t>(z.count()));
    for (std::size_t k = 0, i = 0; k < again.size(); ++k)
        if (!by_any(said, static_cast<Index>(k))) again[k] = differ[i++];
    const Said anew(comm, z, again, 0);
    // The ring makes no product of what is left of a state and one that is no number, unless one worker does.
    backward_ring(comm, some_of(z, [&](Index k) { return by_any(anew, k); }), part);
    return said.any() ? exchange : Exchange::ring;
}

}  // namespace causeway::sharded
