// What is left when states and their gradients are known: dQ, dK, dg, dβ, chunk by chunk in parallel. README.md has the
// letters.
#include "gpu/gated/channels/gates.cuh"
#include "gpu/gated/delta/layout.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/gradient/gated_heads/sum.cuh"
#include "gpu/kit/barriers.hpp"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/mma.cuh"
#include "gpu/kit/pack.cuh"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::gated_heads {

namespace {

using E = __nv_bfloat16;
using gated_delta::ChunkGates;

constexpr int finish_threads = 256;
constexpr uint32_t state_tile = 2 * tile_bytes;  // 128 rows of 64 columns

// Two blocks have room on a multiprocessor. Each warpgroup has half of the columns of dQ and dK.
struct FinishShared {
    Tile q[2], k[2], U[2];
    Tile D[2], X[2];  // dO, dX; then, in turn: dA, the first 64 columns of E (two tiles), dM
    Tile S[4];        // the first 64 columns of the state, then the others; then in place of the first: the rest of E
    struct Sums {     // in place of U
        float pairs[8][C];                // by warp: what of dg pairs of tokens give
        float read[2][C], written[2][C];  // by warpgroup
        float through[8];                 // S ⊙ E, by warp
    };
    float G[C], from_start[C], to_end[C];  // as ChunkGates begins
    uint64_t values, keys, state, after;   // what comes in turn: D, X and U; q and k; S; E
};
constexpr uint32_t factors_bytes = 3 * C * 4;
static_assert(offsetof(ChunkGates, beta) == factors_bytes);
// Of two blocks, each with a kilobyte that the system takes.
static_assert(offsetof(FinishShared, after) + 8 + 1024 <= 228 * 1024 / 2);

__device__ __forceinline__ float sum_of_quad(float x) {
    x += __shfl_xor_sync(all_lanes, x, 1);
    return x + __shfl_xor_sync(all_lanes, x, 2);
}

// Which chunk a thread block has, counted through a split's chunks and all splits. Those of one chunk of heads that
// share a head of q and of k are neighbours, a cluster.
template <bool in_cluster>
__device__ __forceinline__ unsigned tile_of(const Part& p) {
    if constexpr (!in_cluster) return blockIdx.x;
    const unsigned heads = p.call.heads, chunks = p.chunks, splits = p.splits, group = blockIdx.x / heads,
                   split = group / chunks, b = split / splits;
    return ((b * heads + blockIdx.x % heads) * splits + split % splits) * chunks + group % chunks;
}

// over_heads: by_cluster, in_memory, or none, where dq and dk of each head are wanted.
template <bool has_gates, int blocks, HeadSums over_heads>
struct Finish {
    static constexpr bool in_cluster = over_heads == HeadSums::by_cluster;

    FinishShared& s;
    const Maps& maps;
    const Part& p;
    const gated::Call& call;
    const unsigned tile;
    const Split split;
    const int64_t bh;
    const int chunk, b, h, start, n;
    const int half = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int row = 16 * warp + lane / 4, col = 2 * (lane % 4);  // of this thread's first pair of an accumulator
    const float beta;                                            // of the token threadIdx.x / 4

    __device__ __forceinline__ Finish(FinishShared& s, const Maps& maps, const Part& p)
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
          n(static_cast<int>(min(call.N - start, int64_t{C}))),
          beta(reinterpret_cast<const ChunkGates*>(gates())->beta[threadIdx.x / 4]) {}

    __device__ __forceinline__ const unsigned char* gates() const { return split.gates(p, chunk); }

    __device__ __forceinline__ void load() const {
        const uint32_t values = ptx::shared_address(&s.values), keys = ptx::shared_address(&s.keys);
        ptx::mbarrier_arrive_expect_tx(values, 3 * blocks * tile_bytes + factors_bytes);
        ptx::bulk_load(ptx::shared_address(s.G), gates(), factors_bytes, values);
        for (int i = 0; i < blocks; ++i) {
            ptx::tma_load(ptx::shared_address(&s.X[i]), maps.dv, values, 64 * i, start, h, b, ptx::evict_normal);
            ptx::tma_load(ptx::shared_address(&s.U[i]), maps.U, values, 64 * i, start, h, b, ptx::evict_normal);
            ptx::tma_load(ptx::shared_address(&s.D[i]), maps.dO, values, 64 * i, start, h * p.dO_step, b,
                          ptx::evict_normal);
        }
        ptx::mbarrier_arrive_expect_tx(keys, 4 * tile_bytes);
        for (int i = 0; i < 2; ++i) {
            ptx::tma_load(ptx::shared_address(&s.k[i]), maps.k, keys, 64 * i, start, h * p.k_step, b,
                          ptx::evict_normal);
            ptx::tma_load(ptx::shared_address(&s.q[i]), maps.q, keys, 64 * i, start, h * p.q_step, b,
                          ptx::evict_normal);
        }
        load_states(ptx::shared_address(s.S), ptx::shared_address(&s.S[2]), p.S, ptx::shared_address(&s.state));
    }
    __device__ __forceinline__ void load_states(uint32_t first, uint32_t second, const unsigned char* from,
                                                uint32_t bar) const {
        ptx::mbarrier_arrive_expect_tx(bar, blocks * state_tile);
        from += int64_t{tile} * blocks * state_bytes;
        ptx::bulk_load(first, from, state_tile, bar);
        if (blocks > 1) ptx::bulk_load(second, from + state_bytes, state_tile, bar);
    }

    // The rows of dX and of U of the token threadIdx.x / 4, of which four threads have a quarter each.
    template <class F>
    __device__ __forceinline__ void each_piece(F&& f) const {
#pragma unroll
        for (int i = 0; i < 2 * blocks; ++i) {
            const uint32_t at = swizzle_128(threadIdx.x / 4, 2 * (threadIdx.x % 4) + i % 2);
            f(*reinterpret_cast<uint4*>(s.X[i / 2].bytes + at), *reinterpret_cast<uint4*>(s.U[i / 2].bytes + at));
        }
    }
    // This thread's part of Z_t · Y_t, which dX_t and U_t are with a factor β_t.
    __device__ __forceinline__ float z_dot_y() const {
        const float by = 1.0f / beta;
        float sum = 0;
        each_piece([&](const uint4& x, const uint4& u) {
            const auto add = [&](uint32_t f, uint32_t g) {
                const float2 y = unpack(E{}, f), z = unpack(E{}, g);
                sum = fmaf(y.x * by, z.x, fmaf(y.y * by, z.y, sum));
            };
            add(x.x, u.x), add(x.y, u.y), add(x.z, u.z), add(x.w, u.w);
        });
        return sum * by;
    }
    // Where least_beta stands for a β of 0, dX and U become 0, once they have given dβ.
    __device__ __forceinline__ bool is_without_beta() const { return fabsf(beta) <= channels::least_beta; }
    __device__ __forceinline__ void clear_rows() const {
        const int t = threadIdx.x / 4, part = threadIdx.x % 4;
        if (t >= n) return;
        each_piece([](uint4& x, uint4& u) { x = u = {0, 0, 0, 0}; });
        ptx::fence_proxy_async();
        E* const row = reinterpret_cast<E*>(gated::head_of(p.dv, b, h) + (start + t) * p.dv.token);
        for (int c = part; c < call.dv; c += 4) row[c] = E(0.0f);
    }
    // From four threads' parts.
    __device__ __forceinline__ void write_dbeta(float part) const {
        const int t = threadIdx.x / 4;
        const float all = sum_of_quad(part);
        if (t < n && threadIdx.x % 4 == 0) p.dbeta[bh * p.gate_step + start + t] = all;
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

    // From D Uᵀ or dX Uᵀ to dA or dM, packed, and to the pairs' part of dg: two sums, of the tokens 2 lane and the
    // next. dots: of the queries or keys with keys.
    // The sums over the tokens before j are products with a triangle of ones, whose operand is made of the place alone.
    // An accumulator is an operand as it lies where eight columns are taken in the order 0, 2, 4, 6, 1, 3, 5, 7.
    __device__ __forceinline__ float2 make_scores(uint32_t (&out)[16], float (&x)[32], const float (&dots)[32]) const {
        const float by = half == 0 ? call.scale : -1.0f;
        const int after = half == 0 ? 0 : 1;  // a pair is a token and one at least so many before it
        const float G[2] = {s.G[row], s.G[row + 8]};
        const uint32_t one = __float_as_uint(1.0f), first_before = col < lane / 4 ? one : 0,
                       second_before = col + 1 < lane / 4 ? one : 0;
        float sums[16] = {}, before[4] = {};  // before: the sums of rows over all columns so far
#pragma unroll
        for (int m = 0; m < 8; ++m) {
            const int j = 8 * m + col;
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
                if constexpr (has_gates) {
                    const float f0 = t > j ? first * dots[4 * m + 2 * i] : 0.0f,
                                f1 = t > j + 1 ? second * dots[4 * m + 2 * i + 1] : 0.0f;
                    pairs[i] = __float_as_uint(ptx::round_to_tf32(f0));
                    pairs[2 + i] = __float_as_uint(ptx::round_to_tf32(f1));
                }
            }
            if constexpr (has_gates) {
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
        if constexpr (!has_gates) return {};
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
    // To memory, by way of the tile of q or k that only this warpgroup has read; or only to that, for add_heads.
    __device__ __forceinline__ void store(const CUtensorMap& map, const CUtensorMap& sum, Tile& by,
                                          const float (&x)[32]) const {
        uint32_t packed[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) packed[i] = pack(E{}, x[2 * i], x[2 * i + 1]);
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
    __device__ __forceinline__ void write_gates(const float2& pairs, float (&read)[2], float (&written)[2],
                                                float through) const {
        FinishShared::Sums& sums = *reinterpret_cast<FinishShared::Sums*>(s.U);
        static_assert(sizeof(FinishShared::Sums) <= sizeof(s.U));
        through = sum_of_warp(through);
#pragma unroll
        for (int i = 0; i < 2; ++i) read[i] = sum_of_quad(read[i]), written[i] = sum_of_quad(written[i]);
        __syncthreads();  // U is read
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

    __device__ __forceinline__ void run() const {
        if (threadIdx.x == 0) load();
        ptx::mbarrier_wait(ptx::shared_address(&s.values), 0);
        uint32_t scores[16];
        float2 pairs;
        const bool without_beta = is_without_beta();
        float of_beta = 0;
        if (without_beta) of_beta = z_dot_y(), clear_rows();
        __syncthreads();
        {
            float x[32], dots[32];
            times_rows<blocks>(x, half == 0 ? s.D : s.X, s.U);
            if (!without_beta) of_beta = z_dot_y();
            write_dbeta(of_beta);
            ptx::mbarrier_wait(ptx::shared_address(&s.keys), 0);
            if constexpr (has_gates) times_rows<2>(dots, half == 0 ? s.q : s.k, s.k);
            ptx::wgmma_wait<0>();
            ptx::hold(x);
            if constexpr (has_gates) ptx::hold(dots);
            pairs = make_scores(scores, x, dots);
        }
        const float start0 = s.from_start[row], start1 = s.from_start[row + 8];
        float dq[32], dk[32], read[2] = {}, written[2] = {}, through = 0;
        ptx::mbarrier_wait(ptx::shared_address(&s.state), 0);
        const Tile* const rows_of_state = &s.S[half];
        times_rows<blocks>(dq, s.D, rows_of_state, state_tile);
        times_rows<blocks>(dk, s.X, rows_of_state, state_tile);
        uint4 state[4];
        if constexpr (has_gates) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                state[i] = reinterpret_cast<const uint4*>(s.S[0].bytes)[threadIdx.x + i * finish_threads];
        }
        ptx::wgmma_wait<0>();
        ptx::hold(dq);
        ptx::hold(dk);
        // Loads of the state that are still on their way must not see what a bulk copy puts in its place: a barrier of
        // threads alone does not order the two, and S ⊙ E had another sum now and then without.
        if constexpr (has_gates) ptx::fence_proxy_async();
        __syncthreads();  // D, X and the first columns of the state are read
        Tile& dA = s.D[0];
        Tile& dM = s.X[1];
        if (threadIdx.x == 0)
            load_states(ptx::shared_address(&s.D[1]), ptx::shared_address(s.S), p.E, ptx::shared_address(&s.after));
        write_rows(half == 0 ? dA : dM, scores);
        ptx::fence_proxy_async();
        scale_rows(dq, call.scale * start0, call.scale * start1, s.q[half], read);
        scale_rows(dk, -start0, -start1, s.k[half], read);
        __syncthreads();  // dA and dM are written
        ptx::hold(dq);
        ptx::hold(dk);
        ptx::wgmma_fence();
        add_tokens<false>(dq, dA, s.k[half]);
        ptx::wgmma_commit();
        add_tokens<true>(dk, dA, s.q[half]);
        add_tokens<true>(dk, dM, s.k[half]);
        add_tokens<false>(dk, dM, s.k[half]);
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
        ptx::hold(dq);
        ptx::hold(dk);
        store(maps.dq, maps.dq_sum, s.q[half], dq);
        ptx::mbarrier_wait(ptx::shared_address(&s.after), 0);
        {
            float x[32];
            const Tile* const first = &s.D[1] + half;
            const ptx::TileDescriptor a(ptx::shared_address(s.U)), f(ptx::shared_address(first)),
                g(ptx::shared_address(&s.S[half]));
            ptx::wgmma_fence();
#pragma unroll
            for (int ks = 0; ks < 4; ++ks) ptx::wgmma_ss<E, 0, 0>(x, a + ks * 32, f + ks * 32, ks > 0);
            if (blocks > 1) {
#pragma unroll
                for (int ks = 0; ks < 4; ++ks) ptx::wgmma_ss<E, 0, 0>(x, a + (tile_bytes + ks * 32), g + ks * 32, 1);
            }
            ptx::wgmma_commit();
            if constexpr (has_gates) {
                for (int i = 0; i < 4; ++i) {
                    const int at = threadIdx.x + i * finish_threads;
                    through = dot(state[i], reinterpret_cast<const uint4*>(s.D[1].bytes)[at], through);
                    if (blocks > 1)
                        through = dot(reinterpret_cast<const uint4*>(s.S[2].bytes)[at],
                                      reinterpret_cast<const uint4*>(s.S[0].bytes)[at], through);
                }
            }
            ptx::wgmma_wait<0>();
            ptx::hold(x);
            scale_rows(x, s.to_end[row], s.to_end[row + 8], s.k[half], written);
#pragma unroll
            for (int i = 0; i < 32; ++i) dk[i] += x[i];
        }
        store(maps.dk, maps.dk_sum, s.k[half], dk);
        if constexpr (in_cluster) {
            __syncwarp();
            ptx::cluster_arrive();
        }
        if constexpr (has_gates) write_gates(pairs, read, written, through);
        if constexpr (in_cluster) {
            __syncwarp();
            ptx::cluster_wait();
            add_heads();
            __syncwarp();
            ptx::cluster_sync();  // no block ends before all have read its tiles
        } else if (threadIdx.x % 128 == 0) {
            ptx::tma_store_wait_read<0>();
        }
        if (p.beside && blockIdx.x + 1 == gridDim.x) ptx::griddepcontrol_wait();
    }
};

// One block: one chunk of one batch-head.
template <bool has_gates, int blocks, HeadSums over_heads>
__global__ __launch_bounds__(finish_threads, 2) void gated_heads_finish(const __grid_constant__ Maps maps,
                                                                        const __grid_constant__ Part p) {
    extern __shared__ __align__(1024) unsigned char shared[];
    FinishShared& s = *reinterpret_cast<FinishShared*>(shared);
    ptx::griddepcontrol_launch_dependents();
    if (threadIdx.x == 0) {
        for (uint64_t* x : {&s.values, &s.keys, &s.state, &s.after}) ptx::mbarrier_init(ptx::shared_address(x), 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    Finish<has_gates, blocks, over_heads>(s, maps, p).run();
}

template <bool has_gates, int blocks>
void finish(const Maps& maps, const Part& p, cudaStream_t stream) {
    const auto run = [&]<HeadSums over_heads>(int cluster) {
        launch(gated_heads_finish<has_gates, blocks, over_heads>, "launching gated_heads_finish",
               dim3(static_cast<unsigned>(p.all_splits() * p.chunks)), finish_threads,
               offsetof(FinishShared, after) + 8, cluster, p.beside, stream, maps, p);
    };
    if (p.over_heads == HeadSums::by_cluster) run.template operator()<HeadSums::by_cluster>(p.call.heads);
    else if (p.over_heads == HeadSums::in_memory) run.template operator()<HeadSums::in_memory>(1);
    else run.template operator()<HeadSums::none>(1);
}

}  // namespace

void launch_finish(const Maps& maps, const Part& p, cudaStream_t stream) {
    if (p.call.g && p.blocks == 2) finish<true, 2>(maps, p, stream);
    else if (p.call.g) finish<true, 1>(maps, p, stream);
    else if (p.blocks == 2) finish<false, 2>(maps, p, stream);
    else finish<false, 1>(maps, p, stream);
}

}  // namespace causeway::gpu::gated_heads
