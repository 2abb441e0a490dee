// What the kernels that go from chunk to chunk have in common, forwards and backwards: who has which part of a state of
// 32 columns, and the pipelines that bring the tiles of the chunks.
#pragma once

#include "gpu/gated/channels/kept.cuh"
#include "gpu/gated/channels/operands.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/kit/barriers.hpp"
#include "gpu/kit/finite.cuh"
#include "gpu/kit/pipeline.cuh"

namespace causeway::gpu::channels {

constexpr int consumers = 256, sweep_threads = consumers + 32;  // one warp more loads

// Blocks of a cluster: two, where a batch-head has an even number of them. Of four, which would read tiles from the
// second-level cache half as often, 32 clusters do not fit on a GPU some of whose clusters of multiprocessors are short
// of 16: a second wave took twice the time.
__host__ __device__ inline int cluster_of(const Part& p) { return p.DV / sweep_columns % 2 == 0 ? 2 : 1; }

// Thread blocks of a batch-head.
__host__ __device__ inline int head_blocks(const Part& p) { return p.DV / sweep_columns; }

// A thread block: 32 columns of one batch-head; the two blocks of a cluster load one half of the tiles each, into both.
// Of eight consumer warps, warp w has the rows 16 w ... 16 w + 15 of the state in Float32, and of a matrix of 64 tokens
// 16 tokens, forwards of all columns and backwards of 16. Shared: stages `keys` and `queries` with their barriers.
template <int DK, class Shared>
struct SweepBlock {
    using State = float[4][4];  // the accumulators of 16×32
    static constexpr uint32_t stages = Shared::stages;
    using KeysPipeline =
        Pipeline<stages, sizeof(typename Shared::Keys), offsetof(Shared, keys), offsetof(Shared, keys_barriers)>;
    using QueriesPipeline = Pipeline<stages, sizeof(typename Shared::Queries), offsetof(Shared, queries),
                                     offsetof(Shared, queries_barriers)>;

    Shared& s;
    const Part& p;
    const gated::Call& call;
    const int wide, cluster;  // blocks of a batch-head, and of a cluster
    const int64_t bh, b, h;
    const int rank, first_column, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int token = warp % 4 * 16, column = warp / 4 % 2 * 16;  // this warp's first of 64 tokens, and of 32 columns
    const bool delta, has_rows = warp < DK / 16;
    const KeyTiles key_tiles;
    const KeysPipeline keys;
    const QueriesPipeline queries;

    // bh: the batch-head, where that does not follow from the number of the block.
    __device__ __forceinline__ SweepBlock(const Part& p, Shared& s)
        : SweepBlock(p, s, blockIdx.x / static_cast<uint32_t>(head_blocks(p))) {}
    __device__ __forceinline__ SweepBlock(const Part& p, Shared& s, int64_t bh)
        : s(s),
          p(p),
          call(p.call),
          wide(head_blocks(p)),
          cluster(cluster_of(p)),
          bh(bh),
          b(static_cast<uint32_t>(bh) / static_cast<uint32_t>(call.heads)),
          h(static_cast<uint32_t>(bh) % static_cast<uint32_t>(call.heads)),
          rank(static_cast<int>(blockIdx.x % static_cast<uint32_t>(cluster))),
          first_column(static_cast<int>(blockIdx.x % static_cast<uint32_t>(wide)) * sweep_columns),
          delta(call.beta != nullptr),
          key_tiles(DK, delta),
          keys{ptx::shared_address(&s)},
          queries{ptx::shared_address(&s)} {}

    __device__ __forceinline__ int tokens_of(int chunk) const {
        return static_cast<int>(min(p.tokens - int64_t{chunk} * C, int64_t{C}));
    }
    // Where a chunk's tiles lie among those of its head, and those of these 32 columns.
    __device__ __forceinline__ int64_t tile_of(int chunk) const { return bh * p.chunks + chunk; }
    __device__ __forceinline__ int64_t narrow_tile_of(int chunk) const {
        return tile_of(chunk) * wide + first_column / sweep_columns;
    }

    // By one thread: the barriers. key_producers, query_producers: arrivals that fill a stage; key_warps, query_warps:
    // that read one in a block.
    __device__ __forceinline__ void init(uint32_t key_producers, uint32_t query_producers,
                                         uint32_t key_warps = consumers / 32,
                                         uint32_t query_warps = consumers / 32) const {
        const uint32_t of_warp = static_cast<uint32_t>(cluster) * warp_arrivals;
        keys.init(key_producers, key_warps * of_warp);
        queries.init(query_producers, query_warps * of_warp);
        ptx::fence_mbarrier_init();
    }

    // This block's share of some tiles into all blocks of the cluster, by one thread.
    __device__ __forceinline__ void load_share(uint32_t to, const unsigned char* from, uint32_t bytes,
                                               uint32_t bar) const {
        const uint32_t share = (bytes / 16 + cluster - 1) / cluster * 16, at = share * rank;
        if (at >= bytes) return;
        const uint32_t size = min(share, bytes - at);
        if (cluster == 1) ptx::bulk_load(to, from, size, bar);
        else ptx::bulk_load_multicast(static_cast<uint16_t>((1 << cluster) - 1), to + at, from + at, size, bar);
    }
    // The rows of a chunk in these 32 columns, by a whole warp; counted by `bar`, where every lane arrives once. Rows
    // of 64 bytes: the copy engine took twice the time for them.
    __device__ __forceinline__ void load_columns(uint32_t to, const gated::Operand& x, int64_t head, int chunk,
                                                 uint32_t bar) const {
        const int first = lane / 4, c = lane % 4 * 8, n = first_column + c < call.dv ? tokens_of(chunk) - first : 0;
        const char* const start = gated::head_of(x, b, head);
        const char* from = start + (p.first + int64_t{chunk} * C + first) * x.token + (first_column + c) * 2;
        to += tile_at<sweep_columns>(first, c);  // eight rows on, pieces lie at the same places
#pragma unroll
        for (int t = 0; t < C; t += 8) {
            cp_async<16>(to + tile_bytes(t, sweep_columns), t < n ? from : start, t < n);
            from += 8 * x.token;
        }
        ptx::mbarrier_arrive_after_cp_async(bar);
    }
    // By all lanes of a consumer warp: the stage may be filled again, by every block of the cluster.
    template <class P>
    __device__ __forceinline__ void release(const P& pipeline, uint32_t at) const {
        ptx::fence_proxy_async();
        if (cluster == 1) return arrive_as_warp(pipeline.empty(at), lane);
        __syncwarp();
        if constexpr (warp_arrivals > 1) {
            for (int i = 0; i < cluster; ++i) ptx::mbarrier_arrive_remote(pipeline.empty(at), static_cast<uint32_t>(i));
        } else if (lane < cluster) {
            ptx::mbarrier_arrive_remote(pipeline.empty(at), static_cast<uint32_t>(lane));
        }
    }

    // The state's rows times `last` of the tiles at Kw.
    __device__ __forceinline__ void decay(State& S, uint32_t Kw) const {
        const uint32_t last = Kw + key_tiles.last_at + static_cast<uint32_t>(warp * 16 + lane / 4) * 4;
        const float upper = ptx::ld_shared_f32(last), lower = ptx::ld_shared_f32(last + 32);
#pragma unroll
        for (int c = 0; c < 4; ++c) S[c][0] *= upper, S[c][1] *= upper, S[c][2] *= lower, S[c][3] *= lower;
    }
    // f(row, column, value) for the state's elements of this lane.
    template <class F>
    __device__ __forceinline__ void each_element(F&& f) const {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
#pragma unroll
            for (int e = 0; e < 4; ++e) f(warp * 16 + lane / 4 + e / 2 * 8, c * 8 + lane % 4 * 2 + e % 2, c, e);
        }
    }
    __device__ __forceinline__ bool inside(int r, int c) const { return r < call.dk && first_column + c < call.dv; }
    // This block's columns of the state of its batch-head; null where there are none.
    template <class T>
    __device__ __forceinline__ T* columns_of(T* states, int64_t step) const {
        return states ? states + bh * step + first_column : nullptr;
    }
    // Where this lane's row for ldmatrix_x4 and stmatrix_x4 begins in a tile of 32 columns: of the 16 rows of `row` and
    // the columns 16 half ... 16 half + 15, as an accumulator of 16×16 has them.
    __device__ __forceinline__ uint32_t piece(int row, int half) const {
        return tile_at<sweep_columns>(row + lane % 16, half * 16 + lane / 16 * 8);
    }
    __device__ __forceinline__ void round_state(const State& S, uint32_t to) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float(&x)[4] = S[2 * half], (&y)[4] = S[2 * half + 1];
            ptx::stmatrix_x4(to + piece(warp * 16, half), pack(E{}, x[0], x[1]), pack(E{}, x[2], x[3]),
                             pack(E{}, y[0], y[1]), pack(E{}, y[2], y[3]));
        }
    }

    // Where the tiles of these 32 columns are kept.
    __device__ __forceinline__ KeptColumn kept(const KeptTiles& x) const {
        const uint32_t bytes = x.bytes / static_cast<uint32_t>(wide);
        return {x, bh, b, h, p.chunks, first_column / sweep_columns * bytes, bytes};
    }
    // Such a tile from shared memory to where it is kept, by the first warp.
    __device__ __forceinline__ void record(const KeptColumn& to, int chunk, uint32_t from) const {
        if (warp == 0) to.record(chunk, from, lane);
    }
    // What this block recorded has left shared memory, which the threads after the next barrier may then write again.
    __device__ __forceinline__ void wait_recorded() const {
        if (warp == 0) ptx::tma_store_wait_read<0>();
    }

    // from, to: what columns_of gives.
    __device__ __forceinline__ void load_state(State& S, const float* from) const {
        if (!has_rows || !from) return;
        each_element([&](int r, int c, int i, int e) {
            if (inside(r, c)) S[i][e] = from[r * call.dv + c];
        });
    }
    __device__ __forceinline__ void store_state(const State& S, float* to) const {
        if (!has_rows || !to) return;
        each_element([&](int r, int c, int i, int e) {
            if (inside(r, c)) to[r * call.dv + c] = S[i][e];
        });
    }
    // Whether the states of all consumer threads are.
    __device__ __forceinline__ bool is_state_finite(const State& S) const {
        bool finite = true;
        each_element([&](int, int, int i, int e) { finite = finite && is_finite(S[i][e]); });
        return ptx::named_barrier_and(barriers::channels_finite, consumers, finite);
    }
};

}  // namespace causeway::gpu::channels
