// What the two passes of the gradient of softmax attention share: rows of inputs and of gradients, and which of them a
// block has. With P_ij = e^{s_ij - lse_i}, dP_ij = dO_i·v_j and D_i = dO_i·o_i, the gradient of a score is
// dS_ij = P_ij (dP_ij - D_i), and
//
//   dq_i = scale Σ_j dS_ij k_j,   dk_j = scale Σ_i dS_ij q_i,   dv_j = Σ_i P_ij dO_i.
//
// The pass for dq has tiles of q and dO of its own while k and v pass by; the pass for dk and dv has k and v of its own
// while q and dO pass by. Both multiply the same pairs of tiles: own_a·other_aᵀ are scores (q with k), own_b·other_bᵀ
// gradients of weights (dO with v).
#pragma once

#include "gpu/gradient/softmax_params.hpp"
#include "gpu/softmax/rows.cuh"

namespace causeway::gpu::softmax {

// The rows of one batch-head; dO lies like o, dq like q, dk like k, dv like v.
template <class E>
struct GradientRows : BatchHead<E> {
    const Gradient& g;

    __device__ GradientRows(const Gradient& gradient, int32_t index) : BatchHead<E>(gradient.c, index), g(gradient) {}

    __device__ const E* dO(int32_t row) const { return beside(g.dO, this->o(row), g.c.o); }
    __device__ E* dq(int32_t row) const { return beside(g.dq, this->q(row), g.c.q); }
    __device__ E* dk(int32_t key) const { return beside(g.dk, this->k(key), g.c.k); }
    __device__ E* dv(int32_t key) const { return beside(g.dv, this->v(key), g.c.v); }

    // Where a row's numbers are in g.lse2 and g.D.
    __device__ int64_t at(int32_t row) const {
        return (int64_t{this->bh} * g.c.group + row % g.c.group) * g.padded + row / g.c.group;
    }
    // The first row that sees a key.
    __device__ int32_t first_row(int32_t key) const {
        return g.c.causal ? max(0, key - (g.c.M - g.c.N)) * g.c.group : 0;
    }

private:
    static __device__ __forceinline__ E* beside(const void* other, const E* element, const void* own) {
        return static_cast<E*>(const_cast<void*>(other)) + (element - static_cast<const E*>(own));
    }
};

// The `own` rows of a block of the pass for dq: the last rows, which see most keys, come first.
template <class E, int own>
struct QueryBlock {
    GradientRows<E> in;
    int32_t row0, rows, last, full;  // last: keys that any row sees; full: that every row sees

    __device__ explicit QueryBlock(const Gradient& g) : in(g, static_cast<int32_t>(blockIdx.x % g.c.batch_heads)) {
        const int32_t tiles = (g.c.rows + own - 1) / own;
        row0 = (tiles - 1 - static_cast<int32_t>(blockIdx.x / g.c.batch_heads)) * own;
        rows = min(own, g.c.rows - row0), last = in.limit(row0 + rows - 1), full = in.limit(row0);
    }
};

// The `own` keys of a block of the pass for dk and dv, `parts` blocks sharing them, each with its columns.
template <class E, int own, int parts>
struct KeyBlock {
    GradientRows<E> in;
    int32_t key0, keys, part;

    __device__ explicit KeyBlock(const Gradient& g) : in(g, static_cast<int32_t>(blockIdx.x % g.c.batch_heads)) {
        const int32_t rest = static_cast<int32_t>(blockIdx.x / g.c.batch_heads);
        key0 = rest / parts * own, part = rest % parts, keys = min(own, g.c.M - key0);
    }
};

// What a pass needs to know of the rows in shared memory that pass by or that it owns.
struct RowSums {
    float *lse2, *D;
    int32_t* limit;

    // Of rows row0 + i for i < room; from `count` on rows that see nothing.
    template <int room, class E>
    __device__ __forceinline__ void load(const GradientRows<E>& in, int32_t row0, int32_t count) const {
        const int i = threadIdx.x;
        if (i >= room) return;
        const bool real = i < count;
        const int64_t at = real ? in.at(row0 + i) : 0;
        lse2[i] = real ? in.g.lse2[at] : 0.0f, D[i] = real ? in.g.D[at] : 0.0f;
        limit[i] = real ? in.limit(row0 + i) : 0;
    }
};

}  // namespace causeway::gpu::softmax
