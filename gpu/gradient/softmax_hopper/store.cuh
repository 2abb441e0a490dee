// The end of a consumer: gradients through shared memory to memory, and those that are not finite once more.
#pragma once

#include "gpu/gradient/softmax_again.cuh"
#include "gpu/gradient/softmax_hopper/layout.cuh"
#include "gpu/kit/barriers.hpp"
#include "gpu/kit/pack.cuh"

namespace causeway::gpu::softmax::backward {

// 64 rows times a factor, rounded, to the shared memory where the warpgroup's own rows were.
template <class E, class Pass>
__device__ __forceinline__ void write_rows(uint32_t own_at, const float (&x)[Pass::width / 2], float factor,
                                           int thread) {
    const int warp = thread / 32, lane = thread % 32;
    const uint32_t to = own_at + (16 * warp + lane % 16) * row_bytes;
#pragma unroll
    for (int i = 0; i < Pass::width / 16; ++i) {
        uint32_t y[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) y[e] = pack(E{}, x[8 * i + 2 * e] * factor, x[8 * i + 2 * e + 1] * factor);
        ptx::stmatrix_x4(to + i / 4 * Layout<Pass>::own_box_bytes + ((2 * (i % 4) + lane / 16) ^ (lane % 8)) * 16, y[0],
                         y[1], y[2], y[3]);
    }
}

// The elements of a consumer's gradients that are not finite, once more: all of its threads call it together, once what
// they stored is on its way by TMA, by the first thread. A function of its own, so that the kernel keeps its registers.
template <class E, class Pass>
__device__ __noinline__ void make_again(const Gradient& g, int32_t block, int consumer, int thread) {
    const Pass pass(g.c, block);
    const GradientRows<E> in(g, pass.bh);
    const int32_t first = pass.own0 + consumer_rows * consumer + 16 * (thread / 32);
    if (thread == 0) ptx::tma_store_wait<0>();
    __threadfence();
    ptx::named_barrier_sync(barriers::softmax_gradient_rows + consumer, barriers::warpgroup);
#pragma unroll 1
    for (int32_t i = first, end = min(first + 16, Pass::own_keys ? g.c.M : g.c.N); i < end; ++i) {
        if constexpr (Pass::own_keys) make_key_again(in, i, 0, Pass::width);
        else make_query_again(in, i * g.c.group + pass.own_head % g.c.group);
    }
}

template <class E, class Pass>
__device__ __forceinline__ void store(const TensorMaps& maps, const Gradient& g, const float (&sum_a)[Pass::width / 2],
                                      const float (&sum_b)[Pass::width / 2], uint32_t own_a, int32_t block,
                                      int consumer, int thread) {
    using L = Layout<Pass>;
    write_rows<E, Pass>(own_a, sum_a, g.scale, thread);
    if constexpr (Pass::own_keys) write_rows<E, Pass>(own_a + L::own_bytes, sum_b, 1.0f, thread);
    ptx::fence_proxy_async();
    const bool finite = ptx::named_barrier_and(barriers::softmax_gradient_rows + consumer, barriers::warpgroup,
                                               are_finite(sum_a) && are_finite(sum_b));
    const Pass pass(g.c, block);
    const int32_t own0 = pass.own0 + consumer_rows * consumer;
    if (thread == 0 && own0 < (Pass::own_keys ? g.c.M : g.c.N)) {
        for (uint32_t i = 0; i < L::boxes; ++i) {
            const auto store_box = [&](const CUtensorMap& map, uint32_t from) {
                ptx::tma_store(map, from + i * L::own_box_bytes, box_columns * i, own0, pass.own_head, pass.batch,
                               ptx::evict_first);
            };
            store_box(maps.out_a, own_a);
            if constexpr (Pass::own_keys) store_box(maps.out_b, own_a + L::own_bytes);
        }
        ptx::tma_store_commit();
        ptx::tma_store_wait_read<0>();
    }
    if (!finite) make_again<E, Pass>(g, block, consumer, thread);
}

}  // namespace causeway::gpu::softmax::backward
