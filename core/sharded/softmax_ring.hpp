// Softmax attention with queries and keys spread over the ranks: the keys and values go round a ring, and the partial
// results of a query are merged by their log-sum-exp (H. Liu, M. Zaharia, P. Abbeel, Ring attention, 2023). With causal
// a rank has one piece from the front of the text and one from the back, so that all have the same work ("zigzag", as
// in Llama 3's training and ring-flash-attention).
//
// Rounds p - 1; elements that a rank sends all_heads·(d + d_v)·M (p - 1)/p, in the backward pass twice that. Written
// once for threads, processes and modelled clusters.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/distributed/communicator.hpp"
#include "core/gradient/softmax.hpp"
#include "core/kit/online_softmax.hpp"
#include "core/sharded/split.hpp"

namespace causeway::sharded {

using distributed::Communicator;
using distributed::Held;
using distributed::Room;
using distributed::Transfer;
using distributed::Work;

// The sizes of a call, and who has which queries and keys.
struct SoftmaxRing {
    Index batch = 1, heads = 1, group = 1, d = 0, dv = 0;  // heads of k and v
    bool causal = false;
    double scale = 1;
    Shares queries, keys;
    // With packed sequences a rank has so many pieces of each, in their order, any of them empty; 0: one sequence.
    std::size_t pieces_of_one = 0;

    Index all_heads() const { return batch * heads; }
    const std::vector<kit::Span>& queries_of(int r) const { return queries[static_cast<std::size_t>(r)]; }
    const std::vector<kit::Span>& keys_of(int r) const { return keys[static_cast<std::size_t>(r)]; }
    Index elements_of(int r) const { return all_heads() * length_of(keys_of(r)) * (d + dv); }
    Index longest_keys() const {
        Index n = 0;
        for (const auto& pieces : keys) n = std::max(n, length_of(pieces));
        return n;
    }
};

namespace detail {

// Copies rows of x [rows, N, width], tokens [first, first + n), to or from a block [rows, n, width].
template <class T>
T* pack(const T* x, Index rows, Index N, Index width, kit::Span t, T* block) {
    for (Index i = 0; i < rows; ++i, block += t.n * width)
        std::copy_n(x + (i * N + t.first) * width, t.n * width, block);
    return block;
}
template <class T>
const T* unpack(T* x, Index rows, Index N, Index width, kit::Span t, const T* block) {
    for (Index i = 0; i < rows; ++i, block += t.n * width)
        std::copy_n(block, t.n * width, x + (i * N + t.first) * width);
    return block;
}

// f(query piece, its place, key piece, its offset in the block, causal) for the pairs of pieces of which a query sees a
// key, those of one sequence. With causal the pieces of queries and keys are the same ones.
template <class F>
void each_pair(const SoftmaxRing& z, int rank, int owner, F&& f) {
    const std::vector<kit::Span>&queries = z.queries_of(rank), &keys = z.keys_of(owner);
    const std::size_t together = z.pieces_of_one > 0 ? z.pieces_of_one : std::max(queries.size(), keys.size());
    Index first_offset = 0;  // of the sequence's keys
    for (std::size_t first = 0; first < queries.size() && first < keys.size(); first += together) {
        Index offset = first_offset;
        const std::size_t end_q = std::min(first + together, queries.size()),
                          end_k = std::min(first + together, keys.size());
        for (std::size_t a = first; a < end_q; ++a) {
            const kit::Span q = queries[a];
            offset = first_offset;
            for (std::size_t b = first; b < end_k; ++b) {
                const kit::Span k = keys[b];
                if (q.n > 0 && k.n > 0 && (!z.causal || k.first <= q.first))
                    f(q, a, k, offset, z.causal && k.first == q.first);
                offset += z.all_heads() * k.n * (z.d + z.dv);
            }
        }
        first_offset = offset;
    }
}

inline Work pair_work(const SoftmaxRing& z, kit::Span q, kit::Span k, bool diagonal, double products) {
    const auto heads = static_cast<double>(z.all_heads()), group = static_cast<double>(z.group),
               width = static_cast<double>(z.d + z.dv), n = static_cast<double>(q.n), m = static_cast<double>(k.n);
    return {products * heads * group * n * m * width * (diagonal ? 0.5 : 1), heads * (group * n + m) * width, 1};
}

// (m, l, O) of n rows <- merged with a part's, O being divided by l: the weights of a row are summed by their
// log-sum-exp.
template <class T>
void merge(Index rows, Index dv, T* m, T* l, T* O, const T* m2, const T* l2, const T* O2) {
    for (Index i = 0; i < rows; ++i, O += dv, O2 += dv) {
        if (l2[i] == T(0)) continue;  // no weight: no key seen, or scores of -Inf alone
        if (l[i] == T(0)) {
            m[i] = m2[i], l[i] = l2[i];
            std::copy_n(O2, dv, O);
            continue;
        }
        const T top = m[i] < m2[i] ? m2[i] : m[i], shift = kit::shift_of(top);
        const T mine = l[i] * std::exp(m[i] - shift), other = l2[i] * std::exp(m2[i] - shift), sum = mine + other;
        const T keep = mine / sum, add = other / sum;
        for (Index c = 0; c < dv; ++c) O[c] = keep * O[c] + add * O2[c];
        m[i] = m[i] != m[i] ? m[i] : top, l[i] = sum;
    }
}

// What a rank has of the queries: its pieces one after the other.
template <class T>
struct QueryPieces {
    std::vector<Index> rows, first;  // rows of a piece over all heads, and of those before it
    Index all = 0;

    QueryPieces(const SoftmaxRing& z, int rank) {
        for (const kit::Span& t : z.queries_of(rank)) {
            first.push_back(all);
            rows.push_back(z.all_heads() * z.group * t.n);
            all += rows.back();
        }
    }
    Index most() const { return rows.empty() ? 0 : *std::max_element(rows.begin(), rows.end()); }
};

// A problem of one piece of queries and one of keys, whose block has the keys of all heads, then the values.
template <class T>
attention::Problem<T> pair_problem(const SoftmaxRing& z, kit::Span q, kit::Span k, bool diagonal, const T* queries,
                                   const T* block) {
    attention::Problem<T> p;
    p.batch = z.batch, p.heads = z.heads, p.group = z.group;
    p.N = q.n, p.M = k.n, p.d = z.d, p.dv = z.dv;
    p.causal = diagonal, p.scale = static_cast<T>(z.scale);
    p.q = queries, p.k = block, p.v = block + z.all_heads() * k.n * z.d;
    return p;
}

}  // namespace detail

// The tensors of a call: whole, [rows, N, width], or the rank's pieces one after the other.
template <class T>
struct SoftmaxTensors {
    const T *q = nullptr, *k = nullptr, *v = nullptr, *dO = nullptr;
    T *O = nullptr, *m = nullptr, *l = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
    Index N = 0, M = 0;
    const std::vector<kit::Span>*own_queries = nullptr, *own_keys = nullptr;  // null: whole

    kit::Span query(kit::Span t) const { return place(own_queries, t); }
    kit::Span key(kit::Span t) const { return place(own_keys, t); }

private:
    static kit::Span place(const std::vector<kit::Span>* own, kit::Span t) {
        if (!own) return t;
        Index first = 0;
        for (const kit::Span& piece : *own) {
            if (piece.first == t.first && piece.n == t.n) break;
            first += piece.n;
        }
        return {first, t.n};
    }
};

template <class T>
void pack_keys(const SoftmaxRing& z, const SoftmaxTensors<T>& x, int rank, T* block) {
    for (const kit::Span& t : z.keys_of(rank)) {
        block = detail::pack(x.k, z.all_heads(), x.M, z.d, x.key(t), block);
        block = detail::pack(x.v, z.all_heads(), x.M, z.dv, x.key(t), block);
    }
}

// What a rank computes with its queries and a block of keys and values, in memory of the communicator's; E is the
// element that travels. On a dry communicator pointers are null.
template <class E>
class RingPart {
public:
    virtual ~RingPart() = default;
    // The rank's keys and values as they travel: elements_of(rank) of them. Its queries are brought where they are
    // needed.
    virtual void start(E* block) = 0;
    // With the keys and values of the rank `owner`.
    virtual void attend(int owner, const E* block) = 0;
    // The results go where they belong.
    virtual void finish() = 0;
};

// Of a rank's pieces of queries those from `first` on, before `end`.
struct PieceRange {
    std::size_t first = 0, end = 0;
};

// And in the backward pass, where the gradients of keys and values are G.
template <class E, class G = E>
class RingGradPart {
public:
    virtual ~RingGradPart() = default;
    virtual void start() = 0;                  // brings the queries where they are needed
    virtual void own_keys(E* block) = 0;       // the rank's keys and values as they travel
    virtual void clear(G* sum) = 0;            // sum <- 0, room for the longest block
    virtual void add(G* sum, const G* x) = 0;  // sum <- sum + x, of the rank's own block
    // sum <- sum + what the rank's queries of these pieces give the block of `owner`.
    virtual void back(int owner, const E* block, PieceRange queries, G* sum) = 0;
    virtual void finish(const G* sum) = 0;  // of the rank's own keys
};

namespace detail {

// The keys and values of all ranks, one after the other round the ring: f(owner, block) while the block of
// `following` is on its way; then(owner, following) when it has come. start(block) makes the rank's own, and
// finish(room) is called while the blocks are there, with one that is no longer needed.
template <class E, class Start, class F, class Then, class Finish>
void round_the_ring(Communicator& comm, const SoftmaxRing& z, Start&& start, F&& f, Then&& then, Finish&& finish) {
    const int p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
    const Index block = z.all_heads() * z.longest_keys() * (z.d + z.dv);
    Room<E> here(comm, Held::shard, block), there(comm, Held::incoming, p > 1 ? block : 0);
    start(here.data());
    E *held = here.data(), *next = there.data();
    for (int s = 0; s < p; ++s, std::swap(held, next)) {
        const int owner = (me + p - s) % p, following = (me + 2 * p - s - 1) % p;
        Transfer sent, received;
        if (s + 1 < p) {
            sent = comm.send(held, z.elements_of(owner), right);
            received = comm.receive(next, z.elements_of(following), left);
            comm.start();
        }
        f(owner, held);
        received.wait();
        sent.wait();
        then(owner, following);
    }
    finish(next);
}

}  // namespace detail

// The forward pass of this rank.
template <class E>
void softmax_ring(Communicator& comm, const SoftmaxRing& z, RingPart<E>& part) {
    detail::round_the_ring<E>(
        comm, z, [&](E* block) { part.start(block); }, [&](int owner, const E* block) { part.attend(owner, block); },
        [](int, int) {}, [&](E*) { part.finish(); });
}

// The backward pass: the gradients of keys and values travel behind them, from the first rank that is not their owner
// home to it. What the owner itself gives them waits there: the first half of its pieces of queries is computed while
// the first keys travel, the second half while the last gradients do.
template <class E, class G>
void softmax_ring_back(Communicator& comm, const SoftmaxRing& z, RingGradPart<E, G>& part) {
    const int p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
    const Index block = z.all_heads() * z.longest_keys() * (z.d + z.dv);
    const std::size_t pieces = z.queries_of(me).size();
    const PieceRange all{0, pieces}, early{0, p > 1 ? (pieces + 1) / 2 : pieces}, late{early.end, pieces};
    Room<G> home(comm, Held::partial, block), grad(comm, Held::partial, p > 1 ? block : 0),
        next_grad(comm, Held::incoming, p > 1 ? block : 0);
    G *sum = grad.data(), *next = next_grad.data();
    Transfer sent, received;
    detail::round_the_ring<E>(
        comm, z,
        [&](E* held) {
            part.start();
            part.own_keys(held);
            part.clear(home.data());
            if (p > 1) part.clear(sum);
        },
        [&](int owner, const E* held) {
            if (owner == me) part.back(owner, held, early, home.data());
            else part.back(owner, held, all, sum);
        },
        [&](int owner, int following) {
            if (owner == me) return;
            sent = comm.send(sum, z.elements_of(owner), right);
            received = comm.receive(next, z.elements_of(following), left);
            comm.start();
            if (following == me) return;  // home: waited for in the end
            received.wait();
            sent.wait();
            std::swap(sum, next);
        },
        [&](E* room) {
            if (p > 1) {
                part.own_keys(room);
                part.back(me, room, late, home.data());
                received.wait();
                sent.wait();
                part.add(home.data(), next);
            }
            part.finish(home.data());
        });
}

namespace detail {

// On the CPU: O, m and l of the rank's queries. `run` computes a problem of one pair of pieces.
template <class T>
class CpuRing final : public RingPart<T> {
public:
    using Run = std::function<void(const attention::Problem<T>&)>;

    CpuRing(Communicator& comm, const SoftmaxRing& z, const SoftmaxTensors<T>& x, const Run& run)
        : comm_(comm),
          z_(z),
          x_(x),
          run_(run),
          mine_(z, comm.rank()),
          q_(comm, Held::query, mine_.all * z.d),
          O_(comm, Held::partial, mine_.all * z.dv),
          m_(comm, Held::partial, mine_.all),
          l_(comm, Held::partial, mine_.all),
          piece_O_(comm, Held::work, mine_.most() * z.dv),
          piece_m_(comm, Held::work, mine_.most()),
          piece_l_(comm, Held::work, mine_.most()) {}

    void start(T* block) override {
        if (comm_.dry()) return;
        pack_keys(z_, x_, comm_.rank(), block);
        T* at = q_.data();
        for (const kit::Span& t : z_.queries_of(comm_.rank()))
            at = pack(x_.q, z_.all_heads() * z_.group, x_.N, z_.d, x_.query(t), at);
        std::fill_n(O_.data(), O_.size(), T(0));
        std::fill_n(m_.data(), m_.size(), -std::numeric_limits<T>::infinity());
        std::fill_n(l_.data(), l_.size(), T(0));
    }
    void attend(int owner, const T* block) override {
        each_pair(z_, comm_.rank(), owner,
                  [&](kit::Span a, std::size_t place, kit::Span b, Index offset, bool diagonal) {
                      if (!comm_.work(pair_work(z_, a, b, diagonal, 2)) || comm_.dry()) return;
                      const Index first = mine_.first[place], rows = mine_.rows[place];
                      attention::Problem<T> one =
                          pair_problem<T>(z_, a, b, diagonal, q_.data() + first * z_.d, block + offset);
                      one.O = piece_O_.data(), one.m = piece_m_.data(), one.l = piece_l_.data();
                      run_(one);
                      merge(rows, z_.dv, m_.data() + first, l_.data() + first, O_.data() + first * z_.dv, one.m, one.l,
                            one.O);
                  });
    }
    void finish() override {
        if (comm_.dry()) return;
        const Index rows = z_.all_heads() * z_.group;
        const T *from_O = O_.data(), *from_m = m_.data(), *from_l = l_.data();
        for (const kit::Span& t : z_.queries_of(comm_.rank())) {
            from_O = unpack(x_.O, rows, x_.N, z_.dv, x_.query(t), from_O);
            from_m = unpack(x_.m, rows, x_.N, Index{1}, x_.query(t), from_m);
            from_l = unpack(x_.l, rows, x_.N, Index{1}, x_.query(t), from_l);
        }
    }

private:
    Communicator& comm_;
    const SoftmaxRing& z_;
    const SoftmaxTensors<T>& x_;
    const Run& run_;
    QueryPieces<T> mine_;
    Room<T> q_, O_, m_, l_, piece_O_, piece_m_, piece_l_;
};

// From O, m and l of the rank's queries: dq of its queries, dk and dv of its keys.
template <class T>
class CpuRingBack final : public RingGradPart<T> {
public:
    using Run = std::function<void(const gradient::SoftmaxGradProblem<T>&)>;

    CpuRingBack(Communicator& comm, const SoftmaxRing& z, const SoftmaxTensors<T>& x, const Run& run)
        : comm_(comm),
          z_(z),
          x_(x),
          run_(run),
          mine_(z, comm.rank()),
          q_(comm, Held::query, mine_.all * z.d),
          dO_(comm, Held::query, mine_.all * z.dv),
          O_(comm, Held::query, mine_.all * z.dv),
          m_(comm, Held::query, mine_.all),
          l_(comm, Held::query, mine_.all),
          dq_(comm, Held::partial, mine_.all * z.d),
          piece_dq_(comm, Held::work, mine_.most() * z.d),
          piece_(comm, Held::work, z.all_heads() * z.longest_keys() * (z.d + z.dv)) {}

    void own_keys(T* block) override {
        if (!comm_.dry()) pack_keys(z_, x_, comm_.rank(), block);
    }
    void clear(T* sum) override {
        if (!comm_.dry()) std::fill_n(sum, z_.all_heads() * z_.longest_keys() * (z_.d + z_.dv), T(0));
    }
    void add(T* sum, const T* x) override {
        if (comm_.dry()) return;
        for (Index i = 0; i < z_.elements_of(comm_.rank()); ++i) sum[i] += x[i];
    }
    void start() override {
        if (comm_.dry()) return;
        const Index rows = z_.all_heads() * z_.group;
        T *to_q = q_.data(), *to_dO = dO_.data(), *to_O = O_.data(), *to_m = m_.data(), *to_l = l_.data();
        for (const kit::Span& t : z_.queries_of(comm_.rank())) {
            to_q = pack(x_.q, rows, x_.N, z_.d, x_.query(t), to_q);
            to_dO = pack(x_.dO, rows, x_.N, z_.dv, x_.query(t), to_dO);
            to_O = pack<T>(x_.O, rows, x_.N, z_.dv, x_.query(t), to_O);
            to_m = pack<T>(x_.m, rows, x_.N, Index{1}, x_.query(t), to_m);
            to_l = pack<T>(x_.l, rows, x_.N, Index{1}, x_.query(t), to_l);
        }
        std::fill_n(dq_.data(), dq_.size(), T(0));
    }
    void back(int owner, const T* block, PieceRange queries, T* sum) override {
        each_pair(z_, comm_.rank(), owner,
                  [&](kit::Span a, std::size_t place, kit::Span b, Index offset, bool diagonal) {
                      if (place < queries.first || place >= queries.end) return;
                      if (!comm_.work(pair_work(z_, a, b, diagonal, 5)) || comm_.dry()) return;
                      const Index first = mine_.first[place], keys = z_.all_heads() * b.n;
                      gradient::SoftmaxGradProblem<T> one;
                      one.in = pair_problem<T>(z_, a, b, diagonal, q_.data() + first * z_.d, block + offset);
                      one.in.O = O_.data() + first * z_.dv, one.in.m = m_.data() + first, one.in.l = l_.data() + first;
                      one.dO = dO_.data() + first * z_.dv;
                      one.dq = piece_dq_.data(), one.dk = piece_.data(), one.dv = piece_.data() + keys * z_.d;
                      run_(one);
                      for (Index i = 0; i < mine_.rows[place] * z_.d; ++i)
                          dq_.data()[first * z_.d + i] += piece_dq_.data()[i];
                      for (Index i = 0; i < keys * (z_.d + z_.dv); ++i) sum[offset + i] += piece_.data()[i];
                  });
    }
    void finish(const T* sum) override {
        if (comm_.dry()) return;
        const T* from_dq = dq_.data();
        for (const kit::Span& t : z_.queries_of(comm_.rank()))
            from_dq = unpack(x_.dq, z_.all_heads() * z_.group, x_.N, z_.d, x_.query(t), from_dq);
        for (const kit::Span& t : z_.keys_of(comm_.rank())) {
            sum = unpack(x_.dk, z_.all_heads(), x_.M, z_.d, x_.key(t), sum);
            sum = unpack(x_.dv, z_.all_heads(), x_.M, z_.dv, x_.key(t), sum);
        }
    }

private:
    Communicator& comm_;
    const SoftmaxRing& z_;
    const SoftmaxTensors<T>& x_;
    const Run& run_;
    QueryPieces<T> mine_;
    Room<T> q_, dO_, O_, m_, l_, dq_, piece_dq_, piece_;
};

}  // namespace detail

// On the CPU.
template <class T>
void softmax_forward(Communicator& comm, const SoftmaxRing& z, const SoftmaxTensors<T>& x,
                     const std::function<void(const attention::Problem<T>&)>& run) {
    detail::CpuRing<T> part(comm, z, x, run);
    softmax_ring(comm, z, part);
}
template <class T>
void softmax_backward(Communicator& comm, const SoftmaxRing& z, const SoftmaxTensors<T>& x,
                      const std::function<void(const gradient::SoftmaxGradProblem<T>&)>& run) {
    detail::CpuRingBack<T> part(comm, z, x, run);
    softmax_ring_back(comm, z, part);
}

}  // namespace causeway::sharded
