// Shared memory of a block of a pass of the Hopper gradient, and what the block works on.
#pragma once

#include <cstddef>

#include "gpu/gradient/softmax_hopper/plan.hpp"
#include "gpu/gradient/softmax_rows.cuh"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/pipeline.cuh"
#include "gpu/kit/swizzle.cuh"

namespace causeway::gpu::softmax::backward {

constexpr uint32_t stages = 4;                   // of the rows that pass by: a, and b
constexpr uint32_t row_bytes = 2 * box_columns;  // of a box

// The base is rounded up to a swizzle atom; every box begins at one.
template <class Pass>
struct SharedMemory {
    static constexpr int passing = Pass::passing;
    template <int rows>
    struct Tile {
        unsigned char columns[Pass::width / box_columns][rows * row_bytes];
    };
    Tile<own_rows> own_a, own_b;  // at the end, in the half of each consumer, its gradients
    Tile<passing> a[stages], b[stages];
    float lse2[stages][passing], dots[stages][passing];            // of queries that pass by
    std::uint64_t a_barriers[2 * stages], b_barriers[2 * stages];  // full, then empty
    std::uint64_t own_full;
};

template <class Pass>
struct Layout {
    using Memory = SharedMemory<Pass>;
    static constexpr int passing = Memory::passing;
    static constexpr uint32_t boxes = Pass::width / box_columns, own_box_bytes = own_rows * row_bytes,
                              own_bytes = boxes * own_box_bytes, box_bytes = passing * row_bytes,
                              tile_bytes = boxes * box_bytes, sums_bytes = passing * sizeof(float);
    using A = Pipeline<stages, tile_bytes, offsetof(Memory, a), offsetof(Memory, a_barriers)>;
    using B = Pipeline<stages, tile_bytes, offsetof(Memory, b), offsetof(Memory, b_barriers)>;
    static constexpr uint32_t bytes = sizeof(Memory) + limits::swizzle_atom;
    static_assert(offsetof(Memory, own_b) - offsetof(Memory, own_a) == own_bytes);
    static_assert(box_bytes % limits::swizzle_atom == 0 && bytes <= limits::max_shared_bytes);

    uint32_t base;
    A a{base};
    B b{base};

    __device__ __forceinline__ uint32_t own_a() const { return base + offsetof(Memory, own_a); }
    __device__ __forceinline__ uint32_t own_b() const { return own_a() + own_bytes; }
    __device__ __forceinline__ uint32_t own_full() const { return base + offsetof(Memory, own_full); }
    __device__ __forceinline__ uint32_t lse2(uint32_t tile) const {
        return base + offsetof(Memory, lse2) + A::stage_of(tile) * sums_bytes;
    }
    __device__ __forceinline__ uint32_t dots(uint32_t tile) const {
        return base + offsetof(Memory, dots) + B::stage_of(tile) * sums_bytes;
    }
    // By one thread, before all others use the barriers.
    __device__ __forceinline__ void init_barriers() const {
        constexpr uint32_t releases = 4 * consumers * warp_arrivals;
        ptx::mbarrier_init(own_full(), 1);
        a.init(1, releases), b.init(1, releases);
        ptx::fence_mbarrier_init();
    }
};

// Where the sums of a head of queries begin in g.lse2 and g.D.
template <class Pass>
__device__ __forceinline__ int64_t sums_of(const Gradient& g, const Pass& pass, int32_t query_head) {
    return (int64_t{pass.batch} * pass.c.heads * pass.c.group + query_head) * g.padded;
}

// A block that owns keys: the queries of all heads that share them pass by, head by head. With a causal mask the first
// keys, which most queries see, come first.
template <int D>
struct KeyPass {
    static constexpr bool own_keys = true;
    static constexpr int width = D, passing = passing_queries;
    const Params& c;
    int32_t block, bh, batch, own_head, own0;  // the head of k and v, and its first key
    int32_t head, row0;                        // of the tile that passes by
    int32_t first;                             // the first row of a head that passes by
    int32_t tiles;                             // that pass by, of all heads

    __device__ __forceinline__ KeyPass(const Params& params, int32_t block) : c(params), block(block) {
        bh = block % c.batch_heads, batch = bh / c.heads, own_head = bh % c.heads;
        own0 = block / c.batch_heads * own_rows;
        head = own_head * c.group;
        first = row0 = c.causal ? max(0, own0 - (c.M - c.N)) / passing * passing : 0;
        tiles = (c.N - first + passing - 1) / passing * c.group;
    }
    __device__ __forceinline__ void advance() {
        row0 += passing;
        if (row0 >= c.N) row0 = first, ++head;
    }
    // A key is seen by the queries from the bound on. Past the last query none need be masked: their weights are 0.
    __device__ __forceinline__ int32_t bound(int32_t key) const { return c.causal ? key - (c.M - c.N) : 0; }
    __device__ __forceinline__ static bool sees(int32_t query, int32_t bound) { return query >= bound; }
    // Whether some query of the tile does not see some key of a consumer, whose last is bounded by `last`.
    __device__ __forceinline__ bool is_masked(int32_t, int32_t last) const { return row0 < last; }
};

// A block that owns queries of one head: the keys pass by that any of them sees. The last queries, which see most keys,
// come first.
template <int D>
struct QueryPass {
    static constexpr bool own_keys = false;
    static constexpr int width = D, passing = passing_keys(D);
    const Params& c;
    int32_t block, bh, batch, own_head, own0;
    int32_t head, row0;
    int32_t tiles;

    __device__ __forceinline__ QueryPass(const Params& params, int32_t block) : c(params), block(block) {
        const int32_t heads = c.batch_heads * c.group, all = (c.N + own_rows - 1) / own_rows;
        const int32_t index = block % heads;
        bh = index / c.group, batch = bh / c.heads, head = bh % c.heads, own_head = head * c.group + index % c.group;
        own0 = (all - 1 - block / heads) * own_rows;
        row0 = 0;
        tiles = (bound(own0 + own_rows - 1) + passing - 1) / passing;
    }
    __device__ __forceinline__ void advance() { row0 += passing; }
    // A query sees the keys before the bound.
    __device__ __forceinline__ int32_t bound(int32_t query) const {
        return c.causal ? max(0, c.M - c.N + min(query, c.N - 1) + 1) : c.M;
    }
    __device__ __forceinline__ static bool sees(int32_t key, int32_t bound) { return key < bound; }
    __device__ __forceinline__ bool is_masked(int32_t first, int32_t) const { return row0 + passing > first; }
};

}  // namespace causeway::gpu::softmax::backward
