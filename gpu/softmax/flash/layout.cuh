// Shared memory of a block of the Hopper kernel, and what a block works on.
#pragma once

#include <cstddef>

#include "gpu/kit/limits.hpp"
#include "gpu/kit/pipeline.cuh"
#include "gpu/kit/swizzle.cuh"
#include "gpu/softmax/flash/plan.hpp"

namespace causeway::gpu::softmax::flash {

constexpr uint32_t stages = 2;                   // of keys, and of values
constexpr uint32_t row_bytes = 2 * box_columns;  // of a box

// The base is rounded up to a swizzle atom; every box begins at one.
template <int D>
struct SharedMemory {
    struct Box {
        unsigned char bytes[tile_tokens * row_bytes];
    };
    struct TokenTile {
        Box columns[D / box_columns];
    };
    TokenTile q;  // the queries; at the end, in the half of each consumer, its output
    TokenTile k[stages], v[stages];
    std::uint64_t k_barriers[2 * stages], v_barriers[2 * stages];  // full, then empty
    std::uint64_t q_full;
};

template <int D>
struct Layout {
    using Memory = SharedMemory<D>;
    static constexpr uint32_t boxes = D / box_columns, box_bytes = sizeof(typename Memory::Box),
                              token_tile_bytes = sizeof(typename Memory::TokenTile);
    using Keys = Pipeline<stages, token_tile_bytes, offsetof(Memory, k), offsetof(Memory, k_barriers)>;
    using Values = Pipeline<stages, token_tile_bytes, offsetof(Memory, v), offsetof(Memory, v_barriers)>;
    static constexpr uint32_t bytes = sizeof(Memory) + limits::swizzle_atom;
    static_assert(offsetof(Memory, q) == 0 && box_bytes % limits::swizzle_atom == 0);
    static_assert(bytes <= limits::max_shared_bytes);

    uint32_t base;
    Keys k{base};
    Values v{base};

    __device__ __forceinline__ uint32_t q() const { return base; }
    __device__ __forceinline__ uint32_t q_full() const { return base + offsetof(Memory, q_full); }
    // By one thread, before all others use the barriers.
    __device__ __forceinline__ void init_barriers() const {
        constexpr uint32_t releases = 4 * consumers * warp_arrivals;
        ptx::mbarrier_init(q_full(), 1);
        k.init(1, releases), v.init(1, releases);
        ptx::fence_mbarrier_init();
    }
};

// Which queries a block has. Blocks with low numbers take the last tile of queries of every head, then come those with
// the tile before it, and so on, so that with a causal mask the longest blocks start first.
struct Block {
    const Params& c;
    int32_t first;                    // its first query
    int32_t query_head, head, batch;  // head of q, and head of k and v, in that batch
    uint32_t tiles = 0;               // of keys, that any of its queries sees

    __device__ __forceinline__ explicit Block(const Params& params) : c(params) {
        const int32_t all_query_heads = c.batch_heads * c.group, all = (c.N + tile_tokens - 1) / tile_tokens;
        const int32_t index = static_cast<int32_t>(blockIdx.x) % all_query_heads, bh = index / c.group;
        first = (all - 1 - static_cast<int32_t>(blockIdx.x) / all_query_heads) * tile_tokens;
        batch = bh / c.heads, head = bh % c.heads, query_head = head * c.group + index % c.group;
        tiles = static_cast<uint32_t>((limit(first + tile_tokens - 1) + tile_tokens - 1) / tile_tokens);
    }
    // Number of keys that a query sees: the first ones.
    __device__ __forceinline__ int32_t limit(int32_t query) const {
        return c.causal ? max(0, c.M - c.N + min(query, c.N - 1) + 1) : c.M;
    }
};

}  // namespace causeway::gpu::softmax::flash
