// Softmax attention with queries and keys spread over the ranks: the keys and values go round a ring, and the partial
// results of a query are merged by their log-sum-exp (H. Liu, M. Zaharia, P. Abbeel, Ring attention, 2023). With causal
// a rank has one piece from the front of the text and one from the back, so that all have the same work ("zigzag", as
// in Llama 3's training and ring-flash-attention).
//
// Rounds p - 1 (p in the backward pass); elements that a rank sends all_heads·(d + d_v)·M (p - 1)/p, in the backward
// pass twice that and one part more. Written once for threads, processes and modelled clusters.
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
// key. With causal the pieces of queries and keys are the same ones.
template <class F>
void each_pair(const SoftmaxRing& z, int rank, int owner, F&& f) {
    for (std::size_t a = 0; a < z.queries_of(rank).size(); ++a) {
        const kit::Span q = z.queries_of(rank)[a];
        Index offset = 0;
        for (const kit::Span& k : z.keys_of(owner)) {
            if (q.n > 0 && k.n > 0 && (!z.causal || k.first <= q.first))
                f(q, a, k, offset, z.causal && k.first == q.first);
            offset += z.all_heads() * k.n * (z.d + z.dv);
        }
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

// The forward pass of this rank: O, m and l of its queries. `run` computes a problem of one pair of pieces.
template <class T>
void softmax_forward(Communicator& comm, const SoftmaxRing& z, const SoftmaxTensors<T>& x,
                     const std::function<void(const attention::Problem<T>&)>& run) {
    const int p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
    const detail::QueryPieces<T> mine(z, me);
    const Index block = z.all_heads() * z.longest_keys() * (z.d + z.dv);
    Room<T> here(comm, Held::shard, block), there(comm, Held::incoming, p > 1 ? block : 0),
        q(comm, Held::query, mine.all * z.d), O(comm, Held::partial, mine.all * z.dv), m(comm, Held::partial, mine.all),
        l(comm, Held::partial, mine.all);
    Room<T> piece_O(comm, Held::work, mine.most() * z.dv), piece_m(comm, Held::work, mine.most()),
        piece_l(comm, Held::work, mine.most());
    if (!comm.dry()) {
        pack_keys(z, x, me, here.data());
        T* at = q.data();
        for (const kit::Span& t : z.queries_of(me))
            at = detail::pack(x.q, z.all_heads() * z.group, x.N, z.d, x.query(t), at);
        std::fill_n(O.data(), O.size(), T(0));
        std::fill_n(m.data(), m.size(), -std::numeric_limits<T>::infinity());
        std::fill_n(l.data(), l.size(), T(0));
    }
    T *held = here.data(), *next = there.data();
    for (int s = 0; s < p; ++s, std::swap(held, next)) {
        const int owner = (me + p - s) % p, following = (me + 2 * p - s - 1) % p;
        Transfer sent, received;
        if (s + 1 < p) {
            sent = comm.send(held, z.elements_of(owner), right);
            received = comm.receive(next, z.elements_of(following), left);
            comm.start();
        }
        detail::each_pair(z, me, owner, [&](kit::Span a, std::size_t place, kit::Span b, Index offset, bool diagonal) {
            if (!comm.work(detail::pair_work(z, a, b, diagonal, 2)) || comm.dry()) return;
            const Index first = mine.first[place], rows = mine.rows[place];
            attention::Problem<T> one =
                detail::pair_problem<T>(z, a, b, diagonal, q.data() + first * z.d, held + offset);
            one.O = piece_O.data(), one.m = piece_m.data(), one.l = piece_l.data();
            run(one);
            detail::merge(rows, z.dv, m.data() + first, l.data() + first, O.data() + first * z.dv, one.m, one.l, one.O);
        });
        received.wait();
        sent.wait();
    }
    if (comm.dry()) return;
    const T *from_O = O.data(), *from_m = m.data(), *from_l = l.data();
    for (const kit::Span& t : z.queries_of(me)) {
        from_O = detail::unpack(x.O, z.all_heads() * z.group, x.N, z.dv, x.query(t), from_O);
        from_m = detail::unpack(x.m, z.all_heads() * z.group, x.N, Index{1}, x.query(t), from_m);
        from_l = detail::unpack(x.l, z.all_heads() * z.group, x.N, Index{1}, x.query(t), from_l);
    }
}

// The backward pass of this rank, from O, m and l of its queries: dq of its queries, dk and dv of its keys, which
// travel beside their keys and once more than they do, home.
template <class T>
void softmax_backward(Communicator& comm, const SoftmaxRing& z, const SoftmaxTensors<T>& x,
                      const std::function<void(const gradient::SoftmaxGradProblem<T>&)>& run) {
    const int p = comm.size(), me = comm.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
    const detail::QueryPieces<T> mine(z, me);
    const Index block = z.all_heads() * z.longest_keys() * (z.d + z.dv), query_heads = z.all_heads() * z.group;
    Room<T> here(comm, Held::shard, block), there(comm, Held::incoming, p > 1 ? block : 0),
        grad(comm, Held::partial, block), next_grad(comm, Held::incoming, p > 1 ? block : 0);
    Room<T> q(comm, Held::query, mine.all * z.d), dO(comm, Held::query, mine.all * z.dv),
        O(comm, Held::query, mine.all * z.dv), m(comm, Held::query, mine.all), l(comm, Held::query, mine.all),
        dq(comm, Held::partial, mine.all * z.d);
    Room<T> piece_dq(comm, Held::work, mine.most() * z.d), piece(comm, Held::work, block);
    if (!comm.dry()) {
        pack_keys(z, x, me, here.data());
        T *to_q = q.data(), *to_dO = dO.data(), *to_O = O.data(), *to_m = m.data(), *to_l = l.data();
        for (const kit::Span& t : z.queries_of(me)) {
            to_q = detail::pack(x.q, query_heads, x.N, z.d, x.query(t), to_q);
            to_dO = detail::pack(x.dO, query_heads, x.N, z.dv, x.query(t), to_dO);
            to_O = detail::pack<T>(x.O, query_heads, x.N, z.dv, x.query(t), to_O);
            to_m = detail::pack<T>(x.m, query_heads, x.N, Index{1}, x.query(t), to_m);
            to_l = detail::pack<T>(x.l, query_heads, x.N, Index{1}, x.query(t), to_l);
        }
        std::fill_n(dq.data(), dq.size(), T(0));
        std::fill_n(grad.data(), grad.size(), T(0));
    }
    T *held = here.data(), *next = there.data(), *sum = grad.data(), *next_sum = next_grad.data();
    for (int s = 0; s < p; ++s) {
        const int owner = (me + p - s) % p, following = (me + 2 * p - s - 1) % p;
        Transfer sent, received;
        if (s + 1 < p) {
            sent = comm.send(held, z.elements_of(owner), right);
            received = comm.receive(next, z.elements_of(following), left);
            comm.start();
        }
        detail::each_pair(z, me, owner, [&](kit::Span a, std::size_t place, kit::Span b, Index offset, bool diagonal) {
            if (!comm.work(detail::pair_work(z, a, b, diagonal, 5)) || comm.dry()) return;
            const Index first = mine.first[place], keys = z.all_heads() * b.n;
            gradient::SoftmaxGradProblem<T> one;
            one.in = detail::pair_problem<T>(z, a, b, diagonal, q.data() + first * z.d, held + offset);
            one.in.O = O.data() + first * z.dv, one.in.m = m.data() + first, one.in.l = l.data() + first;
            one.dO = dO.data() + first * z.dv;
            one.dq = piece_dq.data(), one.dk = piece.data(), one.dv = piece.data() + keys * z.d;
            run(one);
            for (Index i = 0; i < mine.rows[place] * z.d; ++i) dq.data()[first * z.d + i] += piece_dq.data()[i];
            for (Index i = 0; i < keys * (z.d + z.dv); ++i) sum[offset + i] += piece.data()[i];
        });
        received.wait();
        sent.wait();
        if (p == 1) break;
        comm.exchange(sum, z.elements_of(owner), right, next_sum, z.elements_of(following), left);
        std::swap(held, next), std::swap(sum, next_sum);
    }
    if (comm.dry()) return;
    const T *from_dq = dq.data(), *from = sum;
    for (const kit::Span& t : z.queries_of(me))
        from_dq = detail::unpack(x.dq, query_heads, x.N, z.d, x.query(t), from_dq);
    for (const kit::Span& t : z.keys_of(me)) {
        from = detail::unpack(x.dk, z.all_heads(), x.M, z.d, x.key(t), from);
        from = detail::unpack(x.dv, z.all_heads(), x.M, z.dv, x.key(t), from);
    }
}

}  // namespace causeway::sharded
