// Tree decoding: keys and values stay where they are, partial results of the size of the output are combined (tree,
// §5).
#pragma once

#include "core/distributed/collectives.hpp"
#include "core/distributed/local.hpp"

namespace causeway::distributed {

// One worker's part of a decode. In a dry run all pointers are null.
template <class T, class E = T>
struct Task {
    Sizes sizes;
    Local<T, E>* local;
    Shard<E> shard;
    T* out;  // [rows, dv], on every rank
    T* lse;  // [rows], ln Σ e^{score}: the energy at ζ = 0; null: not wanted

    Index shard_elements() const { return sizes.all_heads() * shard.length * (sizes.dk + sizes.dv); }
    // Of one pass over the shard; `widths`: dk + dv where keys and values are used, dk where keys are.
    Work pass(Index widths) const {
        const auto length = static_cast<double>(shard.length), w = static_cast<double>(widths);
        return {2 * static_cast<double>(sizes.rows()) * length * w, static_cast<double>(sizes.all_heads()) * length * w,
                1};
    }
};

// How the partial results are combined.
struct TreePlan {
    int algorithm = 0;  // 0: one packed all-reduce; 1, 2, 3: as the document numbers them
    Topology topology = Topology::automatic;
    int per_node = 8;  // of two-level
};

namespace detail {

// The all-reduce of a plan.
template <class T>
struct Reducer {
    Communicator& comm;
    const TreePlan& plan;
    template <class Combine>
    void operator()(T* x, Index items, Index width, const Combine& combine) const {
        all_reduce(comm, plan.topology, plan.per_node, x, items, width, combine);
    }
};

// m = the maximum of the scores of every row over all shards, 0 where that is -∞: lines 3 and 4 of Algorithm 1.
template <class T, class E>
void maximum_of_scores(Communicator& comm, const Task<T, E>& task, const Reducer<T>& reduce, T* m) {
    const Sizes& z = task.sizes;
    if (comm.work(task.pass(z.dk)) && !comm.dry()) task.local->shift(z, task.shard, m);
    reduce(m, z.rows(), 1, Maximum<T>{});
    if (!comm.dry()) std::transform(m, m + z.rows(), m, kit::shift_of<T>);
}

}  // namespace detail

// One all-reduce of the packed triples (m, D, n), rows·(dv + 2) elements: every score is computed once, nothing waits
// for a maximum (claims H10).
template <class T, class E>
void tree_packed(Communicator& comm, const Task<T, E>& task, const detail::Reducer<T>& reduce) {
    const Sizes& z = task.sizes;
    Room<T> x(comm, Held::partial, z.rows() * (z.dv + 2));
    if (comm.work(task.pass(z.dk + z.dv)) && !comm.dry()) {
        set_neutral(z, Triples<T>::packed(x.data(), z.dv));
        task.local->add(z, task.shard, Triples<T>::packed(x.data(), z.dv));
    }
    reduce(x.data(), z.rows(), z.dv + 2, MergeTriples<T>{z.dv});
    if (!comm.dry()) divide(z, Triples<T>::packed(x.data(), z.dv), task.out, task.lse);
}

// Algorithm 1, the energy, on dual numbers: its second reduction carries the gradient with respect to ζ at ζ = 0, which
// is attention. m is held constant, and the energy is m + lse: as printed the algorithm returns lse alone (claims H7).
template <class T, class E>
void tree_algorithm_1(Communicator& comm, const Task<T, E>& task, const detail::Reducer<T>& reduce) {
    const Sizes& z = task.sizes;
    Room<T> m(comm, Held::partial, z.rows()), dual(comm, Held::partial, z.rows() * (z.dv + 1));
    detail::maximum_of_scores(comm, task, reduce, m.data());  // lines 3, 4
    if (comm.work(task.pass(z.dk + z.dv)) && !comm.dry()) {
        task.local->weigh(z, task.shard, m.data(), nullptr, dual.data(), z.dv + 1, dual.data() + 1,
                          z.dv + 1);  // line 5
        for (Index i = 0; i < z.rows(); ++i) {
            T* x = dual.data() + i * (z.dv + 1);
            if (x[0] == 0) {  // no keys, or all of weight 0
                std::fill_n(x + 1, z.dv, T(0));
            } else {
                for (Index c = 1; c <= z.dv; ++c) x[c] /= x[0];
            }
            x[0] = std::log(x[0]);
        }
    }
    reduce(dual.data(), z.rows(), z.dv + 1, LogSumExp<T>{z.dv});  // line 6
    if (comm.dry()) return;
    for (Index i = 0; i < z.rows(); ++i) {
        const T* x = dual.data() + i * (z.dv + 1);
        if (x[0] == minus_infinity<T>)
            std::fill_n(task.out + i * z.dv, z.dv, std::numeric_limits<T>::quiet_NaN());  // 0 / 0
        else std::copy_n(x + 1, z.dv, task.out + i * z.dv);
        if (task.lse) task.lse[i] = m.data()[i] + x[0];
    }
}

// Algorithm 2: the energy first, then the gradient written by hand. Its lse is that of the shifted scores, as Algorithm
// 1 prints it (claims H8). Three all-reduces, three passes over the keys.
template <class T, class E>
void tree_algorithm_2(Communicator& comm, const Task<T, E>& task, const detail::Reducer<T>& reduce) {
    const Sizes& z = task.sizes;
    Room<T> m(comm, Held::partial, z.rows()), l(comm, Held::partial, z.rows()), R(comm, Held::partial, z.rows() * z.dv);
    detail::maximum_of_scores(comm, task, reduce, m.data());  // line 2
    if (comm.work(task.pass(z.dk)) && !comm.dry()) {
        task.local->weigh(z, task.shard, m.data(), nullptr, l.data(), 1, nullptr, 0);
        for (Index i = 0; i < z.rows(); ++i) l.data()[i] = std::log(l.data()[i]);
    }
    reduce(l.data(), z.rows(), 1, LogSumExp<T>{0});
    if (comm.work(task.pass(z.dk + z.dv)) && !comm.dry())
        task.local->weigh(z, task.shard, m.data(), l.data(), nullptr, 0, R.data(), z.dv);  // lines 4, 5
    reduce(R.data(), z.rows(), z.dv, Sum<T>{z.dv});                                        // line 6
    if (comm.dry()) return;
    std::copy_n(R.data(), R.size(), task.out);
    for (Index i = 0; task.lse && i < z.rows(); ++i) task.lse[i] = m.data()[i] + l.data()[i];
}

// Algorithm 3: o and lse of every shard by the online softmax, then the maximum of lse and two sums.
template <class T, class E>
void tree_algorithm_3(Communicator& comm, const Task<T, E>& task, const detail::Reducer<T>& reduce) {
    const Sizes& z = task.sizes;
    Room<T> n(comm, Held::partial, z.rows() * z.dv), d(comm, Held::partial, z.rows()), m(comm, Held::partial, z.rows());
    if (comm.work(task.pass(z.dk + z.dv)) && !comm.dry()) {  // line 2: o in n, lse in d
        const Triples<T> x{m.data(), d.data(), n.data(), 1, z.dv};
        set_neutral(z, x);
        task.local->add(z, task.shard, x);
        for (Index i = 0; i < z.rows(); ++i) {
            for (Index c = 0; c < z.dv && d.data()[i] != 0; ++c) n.data()[i * z.dv + c] /= d.data()[i];
            m.data()[i] = d.data()[i] = d.data()[i] == 0 ? minus_infinity<T> : m.data()[i] + std::log(d.data()[i]);
        }
    }
    reduce(m.data(), z.rows(), 1, Maximum<T>{});  // line 3
    if (!comm.dry()) {
        for (Index i = 0; i < z.rows(); ++i) {  // line 4
            d.data()[i] = std::exp(d.data()[i] - kit::shift_of(m.data()[i]));
            for (Index c = 0; c < z.dv; ++c) n.data()[i * z.dv + c] *= d.data()[i];
        }
    }
    reduce(n.data(), z.rows(), z.dv, Sum<T>{z.dv});  // line 5
    reduce(d.data(), z.rows(), 1, Sum<T>{1});
    if (!comm.dry()) divide(z, Triples<T>{m.data(), d.data(), n.data(), 1, z.dv}, task.out, task.lse);  // line 6
}

// O and, where it is wanted, lse of all rows on every rank, as the plan says: O(rows·length·(dk + dv)) time for the
// shard and one to three all-reduces.
template <class T, class E>
void tree(Communicator& comm, const Task<T, E>& task, const TreePlan& plan) {
    const Borrowed<E> shard(comm, Held::shard, task.shard_elements()),
        queries(comm, Held::query, task.sizes.rows() * task.sizes.dk);
    const detail::Reducer<T> reduce{comm, plan};
    comm.begin();
    switch (plan.algorithm) {
        case 1: return tree_algorithm_1(comm, task, reduce);
        case 2: return tree_algorithm_2(comm, task, reduce);
        case 3: return tree_algorithm_3(comm, task, reduce);
        default: return tree_packed(comm, task, reduce);
    }
}

}  // namespace causeway::distributed
