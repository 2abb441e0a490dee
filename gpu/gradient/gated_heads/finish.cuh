// What finishing a chunk with and without the delta rule have in common. README.md has the letters.
#pragma once

#include "gpu/gated/delta/layout.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/gradient/gated_heads/sum.cuh"
#include "gpu/kit/barriers.hpp"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/mma.cuh"
#include "gpu/kit/pack.cuh"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::gated_heads {

using E = __nv_bfloat16;
using gated_delta::ChunkGates;

constexpr int finish_threads = 256;
constexpr uint32_t state_tile = 2 * tile_bytes;  // 128 rows of 64 columns
constexpr uint32_t factors_bytes = 3 * C * 4;    // of G, from_start and to_end, as ChunkGates begins
static_assert(offsetof(ChunkGates, beta) == factors_bytes);
// Of two blocks on a multiprocessor, each with a kilobyte that the system takes.
constexpr uint32_t finish_bytes = 228 * 1024 / 2 - 1024;

__device__ __forceinline__ float sum_of_quad(float x) {
    x += __shfl_xor_sync(all_lanes, x, 1);
    return x + __shfl_xor_sync(all_lanes, x, 2);
}

// What dg is added up from, in shared memory.
struct GateSums {
    float pairs[8][C];                // by warp: what pairs of tokens give
    float read[2][C], written[2][C];  // by warpgroup
    float through[8];                 // S ⊙ E, by warp
};

// Which chunk a thread block has, counted through a split's chunks and all splits. Those of one chunk of heads that
// share a head of q and of k are neighbours, a cluster.
template <bool in_cluster>
__device__ __forceinline__ unsigned tile_of(const Part& p) {
    if constexpr (!in_cluster) return blockIdx.x;
    const unsigned heads = p.call.heads, chunks = p.chunks, splits = p.splits, group = blockIdx.x / heads,
                   split = group / chunks, b = split / splits;
    return ((b * heads + blockIdx.x % heads) * splits + split % splits) * chunks + group % chunks;
}

// What comes in turn, each with a barrier of its own: values and gradients of outputs, keys and queries, states.
enum class Landed { values, keys, state, after, more };

// A thread block with a chunk of a batch-head; each warpgroup has half of the columns. over_heads: by_cluster,
// in_memory, or none, where dq and dk of each head are wanted.
template <class OwnShared, bool has_gates, int blocks, HeadSums over_heads>
struct FinishChunk {
    using Shared = OwnShared;
    static constexpr bool in_cluster = over_heads == HeadSums::by_cluster;

    Shared& s;
    const Maps& maps;
    const Part& p;
    const gated::Call& call;
    const unsigned tile;
    const Split split;
    const int64_t bh;
    const int chunk, b, h, start, n;
    const int half = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int row = 16 * warp + lane / 4, col = 2 * (lane % 4);  // of this thread's first pair of an accumulator

    __device__ __forceinline__ FinishChunk(Shared& s, const Maps& maps, const Part& p)
        : s(s),
          maps(maps),
          p(p),
          call(p.call),
          tile(tile_of<in_cluster>(p)),
          split(p, tile / static_cast<unsigned>(p.chunks)),
          bh(split.bh),
          chunk(static_cast<int>(tile % static_cast<unsigned>(p.chunks))),
          b(split.b),
          h(split.h),
          start(split.token(chunk)),
          n(static_cast<int>(min(call.N - start, int64_t{C}))) {}

    __device__ __forceinline__ const unsigned char* gates() const { return split.gates(p, chunk); }
    __device__ __forceinline__ uint32_t landed(Landed x) const {
        return ptx::shared_address(&s.landed[static_cast<int>(x)]);
    }
    __device__ __forceinline__ void wait_for(Landed x) const { ptx::mbarrier_wait(landed(x), 0); }

    __device__ __forceinline__ void load_factors(uint32_t bar) const {
        ptx::bulk_load(ptx::shared_address(s.G), gates(), factors_bytes, bar);
    }
    __device__ __forceinline__ void load_keys() const {
        const uint32_t keys = landed(Landed::keys);
        ptx::mbarrier_arrive_expect_tx(keys, 4 * tile_bytes);
        for (int i = 0; i < 2; ++i) {
            ptx::tma_load(ptx::shared_address(&s.k[i]), maps.k, keys, 64 * i, start, h * p.k_step, b,
                          ptx::evict_normal);
            ptx::tma_load(ptx::shared_address(&s.q[i]), maps.q, keys, 64 * i, start, h * p.q_step, b,
                          ptx::evict_normal);
        }
    }
    // Columns 64 i and on of this chunk's S or E.
    __device__ __forceinline__ void load_state(const Tile* to, const unsigned char* from, int i, uint32_t bar) const {
        ptx::bulk_load(ptx::shared_address(to), from + (int64_t{tile} * blocks + i) * state_bytes, state_tile, bar);
    }

    // Queues acc (+)= rows · othersᵀ over `tiles` tiles of 64 columns, which lie so many bytes apart.
    template <int tiles>
    __device__ __forceinline__ static void times_rows(float (&acc)[32], const Tile* x, const Tile* y,
                                                      uint32_t y_step = tile_bytes) {
        const ptx::TileDescriptor a(ptx::shared_address(x)), f(ptx::shared_address(y));
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < tiles; ++i) {
#pragma unroll
            for (int ks = 0; ks < 4; ++ks)
                ptx::wgmma_ss<E, 0, 0>(acc, a + (i * tile_bytes + ks * 32), f + (i * y_step + ks * 32), i + ks > 0);
        }
        ptx::wgmma_commit();
    }
    // Queues acc += scores · rows, or scoresᵀ: over 64 tokens.
    template <bool transposed>
    __device__ __forceinline__ static void add_tokens(float (&acc)[32], const Tile& scores, const Tile& rows) {
        const ptx::TileDescriptor a(ptx::shared_address(&scores)), f(ptx::shared_address(&rows));
#pragma unroll
        for (int ks = 0; ks < 4; ++ks)
            ptx::wgmma_ss<E, transposed ? 1 : 0, 1>(acc, a + ks * (transposed ? 16 * 128 : 32), f + ks * 16 * 128, 1);
    }

    // x = by · Λ ⊙ x for pairs of a token and one at least `after` before it, else 0, packed too; and the pairs' part
    // of dg: two sums, of the tokens 2 lane and the next. dots: of the queries or keys with keys. The sums over the
    // tokens before j are products with a triangle of ones, whose operand is made of the place alone. An accumulator is
    // an operand as it lies where eight columns are taken in the order 0, 2, 4, 6, 1, 3, 5, 7.
    __device__ __forceinline__ float2 make_scores(uint32_t (&out)[16], float (&x)[32], const float (&dots)[32],
                                                  float by, int after, bool with_pairs) const {
        const float G[2] = {s.G[row], s.G[row + 8]};
        const uint32_t one = __float_as_uint(1.0f), first_before = col < lane / 4 ? one : 0,
                       second_before = col + 1 < lane / 4 ? one : 0;
        float sums[16] = {}, before[4] = {};  // before: the sums of rows over all columns so far
#pragma unroll
        for (int m = 0; m < 8; ++m) {
            const int j = 8 * m + col;
            // Behind all tokens of the warp. With 64 columns of v this costs more than it saves.
            if (blocks > 1 && 8 * m >= 16 * (warp + 1)) {
                out[2 * m] = out[2 * m + 1] = 0;
                continue;
            }
            float2 of_j{};
            if constexpr (has_gates) of_j = *reinterpret_cast<const float2*>(&s.G[j]);
            const auto factor = [&](float of_t, float of) {
                return has_gates ? by * ptx::ex2_approx(fminf(of_t - of, 0.0f)) : by;
            };
            uint32_t pairs[4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int t = row + 8 * i;
                float &first = x[4 * m + 2 * i], &second = x[4 * m + 2 * i + 1];
                first = t >= j + after ? factor(G[i], of_j.x) * first : 0.0f;
                second = t >= j + 1 + after ? factor(G[i], of_j.y) * second : 0.0f;
                out[2 * m + i] = pack(E{}, first, second);
                if (has_gates && with_pairs) {
                    const float f0 = t > j ? first * dots[4 * m + 2 * i] : 0.0f,
                                f1 = t > j + 1 ? second * dots[4 * m + 2 * i + 1] : 0.0f;
                    pairs[i] = __float_as_uint(ptx::round_to_tf32(f0));
                    pairs[2 + i] = __float_as_uint(ptx::round_to_tf32(f1));
                }
            }
            if (has_gates && with_pairs) {
                float passing[4] = {before[0], before[1], before[2], before[3]};
                ptx::mma_m16n8k8_tf32(passing, pairs, first_before, second_before);
                if (m < 7) ptx::mma_m16n8k8_tf32(before, pairs, one, one);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int t = row + 8 * i;
                    if (t >= j) sums[2 * m] += passing[2 * i];
                    if (t >= j + 1) sums[2 * m + 1] += passing[2 * i + 1];
                }
            }
        }
        if (!has_gates || !with_pairs) return {};
        // Over the eight lanes of a column; each step gives half of the sums away.
        const auto halve = [&](int count, int step) {
            const bool upper = lane & step;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if (i >= count) continue;
                const float keep = upper ? sums[i + count] : sums[i], give = upper ? sums[i] : sums[i + count];
                sums[i] = keep + __shfl_xor_sync(all_lanes, give, step);
            }
        };
        halve(8, 16), halve(4, 8), halve(2, 4);
        return {sums[0], sums[1]};
    }
    // An accumulator's rows by the token's factors, and the dot products with rows in shared memory, added to `dots`.
    __device__ __forceinline__ void scale_rows(float (&x)[32], float by0, float by1, const Tile& rows,
                                               float (&dots)[2]) const {
#pragma unroll
        for (int m = 0; m < 8; ++m) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float &first = x[4 * m + 2 * i], &second = x[4 * m + 2 * i + 1];
                first *= i ? by1 : by0, second *= i ? by1 : by0;
                if constexpr (has_gates) {
                    const float2 f = unpack(
                        E{}, *reinterpret_cast<const uint32_t*>(rows.bytes + swizzle_128(row + 8 * i, m) + col * 2));
                    dots[i] = fmaf(first, f.x, fmaf(second, f.y, dots[i]));
                }
            }
        }
    }
    __device__ __forceinline__ void write_rows(Tile& to, const uint32_t (&x)[16]) const {
        const uint32_t at = ptx::shared_address(&to) + (16 * warp + lane % 16) * 128;
#pragma unroll
        for (int m = 0; m < 4; ++m)
            ptx::stmatrix_x4(at + ((2 * m + lane / 16) ^ (lane % 8)) * 16, x[4 * m], x[4 * m + 1], x[4 * m + 2],
                             x[4 * m + 3]);
    }
    __device__ __forceinline__ static void pack_rows(uint32_t (&to)[16], const float (&x)[32]) {
#pragma unroll
        for (int i = 0; i < 16; ++i) to[i] = pack(E{}, x[2 * i], x[2 * i + 1]);
    }
    // dq or dk to memory, by way of a tile that no one else reads any more; or only to that, for add_heads.
    __device__ __forceinline__ void store(const CUtensorMap& map, const CUtensorMap& sum, Tile& by,
                                          const uint32_t (&packed)[16]) const {
        ptx::named_barrier_sync(heads_half + half, barriers::warpgroup);
        write_rows(by, packed);
        if constexpr (in_cluster) return;
        ptx::fence_proxy_async();
        ptx::named_barrier_sync(heads_half + half, barriers::warpgroup);
        if (threadIdx.x % 128 > 0) return;
        if constexpr (over_heads == HeadSums::in_memory)
            ptx::tma_add(sum, ptx::shared_address(&by), 64 * half, start, 0, b);
        else ptx::tma_store(map, ptx::shared_address(&by), 64 * half, start, h, b, ptx::evict_first);
        ptx::tma_store_commit();
    }
    // The sums over heads of this block's share of the tokens, from the tiles of q and k of all blocks of the cluster.
    __device__ __forceinline__ void add_heads() const {
        const int heads = call.heads, tokens = C / heads;
        for (int i = static_cast<int>(threadIdx.x); i < 4 * tokens * 8; i += finish_threads) {
            const int piece = i % 8, t = h * tokens + i / 8 % tokens, which = i / 8 / tokens, column = which % 2 * 64;
            const uint32_t at = ptx::shared_address(&s.q[0]) + which * tile_bytes + swizzle_128(t, piece);
            SumOfHeads sum;
#pragma unroll 2
            for (int j = 0; j < heads; ++j) sum.add(ptx::load_of_block(at, static_cast<uint32_t>(j)));
            const gated::Operand& to = which < 2 ? p.dq_sum : p.dk_sum;
            if (t < n && column + 8 * piece < call.dk)
                *reinterpret_cast<uint4*>(gated::head_of(to, b, 0) + (start + t) * to.token +
                                          (column + 8 * piece) * sizeof(E)) = sum.rounded();
        }
    }
    __device__ __forceinline__ static float dot(uint4 x, uint4 y, float sum) {
        const auto add = [&](uint32_t f, uint32_t g) {
            const float2 a = unpack(E{}, f), c = unpack(E{}, g);
            sum = fmaf(a.x, c.x, fmaf(a.y, c.y, sum));
        };
        add(x.x, y.x), add(x.y, y.y), add(x.z, y.z), add(x.w, y.w);
        return sum;
    }

    // Everything older than a token that it or a newer one reads: the state through all gates, what tokens read of it,
    // what of tokens is left after the chunk, and pairs of tokens.
    __device__ __forceinline__ void write_gates(GateSums& sums, const float2& pairs, float (&read)[2],
                                                float (&written)[2], float through) const {
        through = sum_of_warp(through);
#pragma unroll
        for (int i = 0; i < 2; ++i) read[i] = sum_of_quad(read[i]), written[i] = sum_of_quad(written[i]);
        __syncthreads();  // all have read what lay where the sums go
        *reinterpret_cast<float2*>(&sums.pairs[threadIdx.x / 32][2 * lane]) = pairs;
        if (lane % 4 == 0) {
#pragma unroll
            for (int i = 0; i < 2; ++i)
                sums.read[half][row + 8 * i] = read[i], sums.written[half][row + 8 * i] = written[i];
        }
        if (lane == 0) sums.through[threadIdx.x / 32] = through;
        __syncthreads();
        if (threadIdx.x >= 32) return;
        float all = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) all += sums.through[i];
        all *= s.from_start[C - 1];
        const auto both = [&](const float(&of)[2][C]) {
            const float2 x = *reinterpret_cast<const float2*>(&of[0][2 * lane]),
                         y = *reinterpret_cast<const float2*>(&of[1][2 * lane]);
            return float2{x.x + y.x, x.y + y.y};
        };
        const float2 reading = both(sums.read), left = both(sums.written);
        float newer = reading.x + reading.y, older = left.x + left.y;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const float from_right = __shfl_down_sync(all_lanes, newer, step),
                        from_left = __shfl_up_sync(all_lanes, older, step);
            if (lane + step < 32) newer += from_right;
            if (lane >= step) older += from_left;
        }
        const float right = __shfl_down_sync(all_lanes, newer, 1), before = __shfl_up_sync(all_lanes, older, 1);
        const float after = (lane < 31 ? right : 0.0f) + reading.y;
        float first = all + after + reading.x + (lane > 0 ? before : 0.0f),
              second = all + after + (lane > 0 ? before : 0.0f) + left.x;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float2 x = *reinterpret_cast<const float2*>(&sums.pairs[i][2 * lane]);
            first += x.x, second += x.y;
        }
        float* to = p.dg + bh * p.gate_step + start + 2 * lane;
        if (2 * lane < n) to[0] = first;
        if (2 * lane + 1 < n) to[1] = second;
    }

    // dq and dk lie in this block's tiles, for all of the cluster.
    __device__ __forceinline__ void arrive_at_cluster() const {
        if constexpr (!in_cluster) return;
        __syncwarp();
        ptx::cluster_arrive();
    }
    // Of all threads, the last thing.
    __device__ __forceinline__ void end() const {
        if constexpr (in_cluster) {
            __syncwarp();
            ptx::cluster_wait();
            add_heads();
            __syncwarp();
            ptx::cluster_sync();  // no block ends before all have read its tiles
        }
        if (threadIdx.x % 128 == 0) ptx::tma_store_wait_read<0>();
        if (p.beside && blockIdx.x + 1 == gridDim.x) ptx::griddepcontrol_wait();
    }
};

// One block: one chunk of one batch-head.
template <class Finish>
__global__ __launch_bounds__(finish_threads, 2) void gated_heads_finish(const __grid_constant__ Maps maps,
                                                                        const __grid_constant__ Part p) {
    extern __shared__ __align__(1024) unsigned char shared[];
    auto& s = *reinterpret_cast<typename Finish::Shared*>(shared);
    ptx::griddepcontrol_launch_dependents();
    if (threadIdx.x == 0) {
        for (uint64_t& x : s.landed) ptx::mbarrier_init(ptx::shared_address(&x), 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    Finish(s, maps, p).run();
}

template <template <bool has_gates, int blocks, HeadSums over_heads> class Finish>
void launch_finishing(const Maps& maps, const Part& p, cudaStream_t stream) {
    const auto run = [&]<class Own>(int cluster) {
        launch(gated_heads_finish<Own>, "launching gated_heads_finish",
               dim3(static_cast<unsigned>(p.all_splits() * p.chunks)), finish_threads, sizeof(typename Own::Shared),
               cluster, p.beside, stream, maps, p);
    };
    const auto with_sums = [&]<bool has_gates, int blocks>() {
        if (p.over_heads == HeadSums::by_cluster)
            run.template operator()<Finish<has_gates, blocks, HeadSums::by_cluster>>(p.call.heads);
        else if (p.over_heads == HeadSums::in_memory)
            run.template operator()<Finish<has_gates, blocks, HeadSums::in_memory>>(1);
        else run.template operator()<Finish<has_gates, blocks, HeadSums::none>>(1);
    };
    if (p.call.g && p.blocks == 2) with_sums.template operator()<true, 2>();
    else if (p.call.g) with_sums.template operator()<true, 1>();
    else if (p.blocks == 2) with_sums.template operator()<false, 2>();
    else with_sums.template operator()<false, 1>();
}

}  // namespace causeway::gpu::gated_heads
