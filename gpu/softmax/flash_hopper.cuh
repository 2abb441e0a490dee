// Flash attention for Hopper: warpgroup products and the bulk tensor copy engine, d = dv = 64 or 128, 16-bit types.
//
// A block has 128 queries of one head. One warpgroup copies k and v in tiles of 128 keys through rings of their own;
// two others have 64 queries each, with scores, weights and output in registers. The scores of the next tile are queued
// before the weights of this one meet v, so the tensor cores have work while exponentials are taken (Shah et al. 2024,
// FlashAttention-3, section 3.2).
#pragma once

#include "gpu/kit/ptx.cuh"
#include "gpu/softmax/mma.cuh"
#include "gpu/softmax/rows.cuh"

namespace causeway::gpu::softmax {

struct HopperMaps {
    CUtensorMap q, k, v, o;
};

template <int D>
struct HopperTile {
    static constexpr int BM = 128, BN = 128, stages = 2, threads = 384;
    static constexpr uint32_t block = BN * 128;       // 128 rows of 64 columns
    static constexpr uint32_t tile = D / 64 * block;  // of q, k or v
    static constexpr uint32_t k_at = tile, v_at = k_at + stages * tile, barriers_at = v_at + stages * tile;
    static constexpr uint32_t bytes = barriers_at + 256 + 1024;  // 1024: the base is rounded up to a swizzle atom
};

// S[64×128] = Q Kᵀ + S where add: both operands in shared memory, rows of 64 columns.
template <class E>
__device__ __forceinline__ void wgmma_ss(float (&d)[64], uint64_t a, uint64_t b, int add) {
#define CAUSEWAY_SS(type)                                                                                           \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type \
                 " {" CAUSEWAY_R64                                                                                  \
                 "}"                                                                                                \
                 ", %64, %65, p, 1, 1, 0, 0;}"                                                                      \
                 : CAUSEWAY_D64(d)                                                                                  \
                 : "l"(a), "l"(b), "r"(add))
    if constexpr (std::is_same_v<E, __half>) CAUSEWAY_SS("f16");
    else CAUSEWAY_SS("bf16");
#undef CAUSEWAY_SS
}

template <class E, int D>
__global__ __launch_bounds__(HopperTile<D>::threads, 1) void flash_hopper(const __grid_constant__ HopperMaps maps,
                                                                          const __grid_constant__ Call c) {
    using T = HopperTile<D>;
    constexpr int BM = T::BM, BN = T::BN;
    extern __shared__ unsigned char memory[];
    const uint32_t base = (ptx::shared_address(memory) + 1023) / 1024 * 1024, barriers = base + T::barriers_at;
    const uint32_t q_full = barriers, k_full = barriers + 8, k_empty = k_full + 8 * T::stages;
    const uint32_t v_full = k_empty + 8 * T::stages, v_empty = v_full + 8 * T::stages;
    const int group = threadIdx.x / 128, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;

    const int32_t q_heads = c.lines * c.group, tiles = (c.N + BM - 1) / BM;
    const int32_t head = static_cast<int32_t>(blockIdx.x) % q_heads,
                  n0 = (tiles - 1 - static_cast<int32_t>(blockIdx.x) / q_heads) * BM;
    const int32_t line = head / c.group, b = line / c.heads, h = line % c.heads, hq = h * c.group + head % c.group;
    const auto limit = [&](int32_t n) { return c.causal ? max(0, c.M - c.N + min(n, c.N - 1) + 1) : c.M; };
    const int32_t last = limit(n0 + BM - 1), steps = (last + BN - 1) / BN;

    if (threadIdx.x == 0) {
        ptx::mbarrier_init(q_full, 1);
        for (int i = 0; i < T::stages; ++i) {
            ptx::mbarrier_init(k_full + 8 * i, 1), ptx::mbarrier_init(v_full + 8 * i, 1);
            ptx::mbarrier_init(k_empty + 8 * i, 8), ptx::mbarrier_init(v_empty + 8 * i, 8);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();

    if (group == 0) {
        ptx::reg_dealloc<24>();
        if (thread == 0) {
            ptx::mbarrier_arrive_expect_tx(q_full, T::tile);
            for (int i = 0; i < D / 64; ++i)
                ptx::tma_load(base + i * T::block, maps.q, q_full, 64 * i, n0, hq, b, ptx::evict_first);
            for (int32_t j = 0; j < steps; ++j) {
                const int stage = j % T::stages;
                const uint32_t parity = (j / T::stages & 1) ^ 1;
                const auto load = [&](const CUtensorMap& map, uint32_t at, uint32_t full, uint32_t empty) {
                    ptx::mbarrier_wait(empty + 8 * stage, parity);
                    ptx::mbarrier_arrive_expect_tx(full + 8 * stage, T::tile);
                    for (int i = 0; i < D / 64; ++i) {
                        ptx::tma_load(base + at + stage * T::tile + i * T::block, map, full + 8 * stage, 64 * i, j * BN,
                                      h, b, ptx::evict_normal);
                    }
                };
                load(maps.k, T::k_at, k_full, k_empty);
                load(maps.v, T::v_at, v_full, v_empty);
            }
        }
    } else {
        ptx::reg_alloc<240>();
        const int own = 64 * (group - 1);
        const int32_t n = n0 + own + 16 * warp + lane / 4;  // this thread's first query; the other is n + 8
        const int32_t limits[2] = {limit(n), limit(n + 8)}, full = limit(n0 + own);
        const float scale = fabsf(c.scale_log2);
        const uint32_t q_at = base + own * 128;
        float o[D / 2], s[64], m[2] = {minus_infinity, minus_infinity}, l[2] = {0, 0}, back[2];
        uint32_t p[32];
#pragma unroll
        for (int i = 0; i < D / 2; ++i) o[i] = 0;

        const auto queue_scores = [&](int32_t j) {
            const int stage = j % T::stages;
            ptx::mbarrier_wait(k_full + 8 * stage, j / T::stages & 1);
            ptx::wgmma_fence();
            const ptx::TileDescriptor q(q_at), k(base + T::k_at + stage * T::tile);
#pragma unroll
            for (int ks = 0; ks < D / 16; ++ks) {
                const uint32_t at = ks / 4 * T::block + ks % 4 * 32;
                wgmma_ss<E>(s, q + at, k + at, ks > 0);
            }
            ptx::wgmma_commit();
        };
        const auto queue_output = [&](int32_t j) {
            const int stage = j % T::stages;
            ptx::mbarrier_wait(v_full + 8 * stage, j / T::stages & 1);
            ptx::wgmma_fence();
            const ptx::TileDescriptor v(base + T::v_at + stage * T::tile, T::block);
#pragma unroll
            for (int ks = 0; ks < BN / 16; ++ks)
                ptx::wgmma_rs<E, 1>(o, p[4 * ks], p[4 * ks + 1], p[4 * ks + 2], p[4 * ks + 3], v + ks * 16 * 128, 1);
            ptx::wgmma_commit();
        };
        const auto release = [&](uint32_t empty, int32_t j) {
            __syncwarp();
            if (lane == 0) ptx::mbarrier_arrive(empty + 8 * (j % T::stages));
        };
        // Scores to weights in s; back: what the sums so far are to be multiplied by.
        const auto weigh = [&](int32_t j) {
            if (c.scale_log2 < 0) {
#pragma unroll
                for (int i = 0; i < 64; ++i) s[i] = -s[i];
            }
            if ((j + 1) * BN > full) {
#pragma unroll
                for (int i = 0; i < 64; ++i) {
                    if (j * BN + i / 4 * 8 + 2 * (lane % 4) + i % 2 >= limits[i % 4 / 2]) s[i] = minus_infinity;
                }
            }
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                float now = m[r], sum = 0;
#pragma unroll
                for (int i = 0; i < 16; ++i) now = fmaxf(now, fmaxf(s[4 * i + 2 * r], s[4 * i + 2 * r + 1]));
                now = fmaxf(now, __shfl_xor_sync(0xFFFFFFFF, now, 1));
                now = fmaxf(now, __shfl_xor_sync(0xFFFFFFFF, now, 2));
                const float shift = shift_of(now, scale);
                back[r] = exp2_fast(__fmul_rn(m[r], scale) - shift);
                m[r] = now;
#pragma unroll
                for (int i = 0; i < 16; ++i) {
#pragma unroll
                    for (int e = 4 * i + 2 * r; e < 4 * i + 2 * r + 2; ++e)
                        s[e] = exp2_fast(fmaf(s[e], scale, -shift)), sum += s[e];
                }
                l[r] = fmaf(l[r], back[r], sum);
            }
        };
        const auto round_weights = [&] {
#pragma unroll
            for (int i = 0; i < 32; ++i) p[i] = pack<E>(s[2 * i], s[2 * i + 1]);
        };

        ptx::mbarrier_wait(q_full, 0);
        if (steps > 0) {
            queue_scores(0);
            ptx::wgmma_wait<0>();
            ptx::hold(s);
            release(k_empty, 0);
            weigh(0);
            round_weights();
            for (int32_t j = 1; j < steps; ++j) {
                queue_scores(j);
                queue_output(j - 1);
                ptx::wgmma_wait<1>();
                ptx::hold(s);
                release(k_empty, j);
                weigh(j);
                ptx::wgmma_wait<0>();
                ptx::hold(o);
                release(v_empty, j - 1);
#pragma unroll
                for (int i = 0; i < D / 2; ++i) o[i] *= back[i % 4 / 2];
                round_weights();
            }
            queue_output(steps - 1);
            ptx::wgmma_wait<0>();
            ptx::hold(o);
        }
        float inverse[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            l[r] += __shfl_xor_sync(0xFFFFFFFF, l[r], 1);
            l[r] += __shfl_xor_sync(0xFFFFFFFF, l[r], 2);
            float lse2;
            inverse[r] = finish(__fmul_rn(m[r], scale), l[r], lse2);
            if (c.lse && lane % 4 == 0 && n + 8 * r < c.N)
                c.lse[(int64_t{b} * c.heads * c.group + hq) * c.N + n + 8 * r] = lse2 * ln2;
        }
        // The output goes where this warpgroup's queries were.
        ptx::named_barrier_sync(group, 128);
        const uint32_t to = q_at + (16 * warp + lane % 16) * 128;
#pragma unroll
        for (int i = 0; i < D / 16; ++i) {
            uint32_t x[4];
#pragma unroll
            for (int e = 0; e < 4; ++e)
                x[e] = pack<E>(o[8 * i + 2 * e] * inverse[e % 2], o[8 * i + 2 * e + 1] * inverse[e % 2]);
            ptx::stmatrix_x4(to + i / 4 * T::block + ((2 * (i % 4) + lane / 16) ^ (lane % 8)) * 16, x[0], x[1], x[2],
                             x[3]);
        }
        ptx::fence_proxy_async();
        ptx::named_barrier_sync(group, 128);
        if (thread == 0 && n0 + own < c.N) {
            for (int i = 0; i < D / 64; ++i)
                ptx::tma_store(maps.o, q_at + i * T::block, 64 * i, n0 + own, hq, b, ptx::evict_first);
            ptx::tma_store_commit();
            ptx::tma_store_wait_read<0>();
        }
    }
}

}  // namespace causeway::gpu::softmax
