// What one worker computes with the keys and values of a shard, where they are: on the CPU here, on a GPU in
// gpu/distributed.
#pragma once

#include "core/distributed/partial.hpp"

namespace causeway::distributed {

// T of the partial results, E of keys and values. The worker knows its queries. A shard's pointers may be of memory
// that only the worker reaches; all else is the CPU's.
template <class T, class E = T>
class Local {
public:
    virtual ~Local() = default;

    // The keys of all heads, then the values of all heads, as they travel: into a block of the communicator's memory.
    virtual void pack(const Sizes&, const Shard<E>&, E* block) = 0;
    // x <- x + the triples of the shard.
    virtual void add(const Sizes&, const Shard<E>&, const Triples<T>& x) = 0;
    // Of each row the largest score or another number of that size, to be subtracted from all scores; -∞ without keys.
    virtual void shift(const Sizes&, const Shard<E>&, T* m) = 0;
    // D[row·step] = Σ_j w_j and n[row·n_step ...] = Σ_j w_j v_j with w_j = e^{s_j - m - l}, l = 0 where it is null; D
    // or n null: not wanted.
    virtual void weigh(const Sizes&, const Shard<E>&, const T* m, const T* l, T* D, Index step, T* n, Index n_step) = 0;
};

// On the calling thread.
template <class T>
class OnCpu final : public Local<T> {
public:
    explicit OnCpu(const T* q) : q_(q) {}  // [rows, dk]

    void pack(const Sizes& z, const Shard<T>& shard, T* block) override {
        for (Index h = 0; h < z.all_heads(); ++h) {
            const Index t = shard.length;
            std::copy_n(shard.k + h * shard.k_head, t * z.dk, block + h * t * z.dk);
            std::copy_n(shard.v + h * shard.v_head, t * z.dv, block + z.all_heads() * t * z.dk + h * t * z.dv);
        }
    }
    void add(const Sizes& z, const Shard<T>& shard, const Triples<T>& x) override { add_shard(z, q_, shard, x); }
    void shift(const Sizes& z, const Shard<T>& shard, T* m) override {
        std::fill_n(m, z.rows(), minus_infinity<T>);
        for_each_tile(z, q_, shard, [&](Index row, const T* s, const T*, Index count) {
            m[row] = std::max(m[row], *std::max_element(s, s + count));
        });
    }
    void weigh(const Sizes& z, const Shard<T>& shard, const T* m, const T* l, T* D, Index step, T* n,
               Index n_step) override {
        for (Index i = 0; i < z.rows(); ++i) {
            if (D) D[i * step] = 0;
            if (n) std::fill_n(n + i * n_step, z.dv, T(0));
        }
        for_each_tile(z, q_, shard, [&](Index row, T* s, const T* v, Index count) {
            const T less = l ? l[row] : T(0);
            for (Index j = 0; j < count; ++j) {
                s[j] = std::exp(s[j] - m[row] - less);
                if (D) D[row * step] += s[j];
            }
            if (n) add_values(n + row * n_step, T(1), s, v, count, z.dv);
        });
    }

private:
    const T* q_;
};

}  // namespace causeway::distributed
