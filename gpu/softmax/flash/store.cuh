// The end of a consumer: log-sum-exps to memory, outputs through shared memory to memory.
#pragma once

#include "gpu/kit/barriers.hpp"
#include "gpu/kit/pack.cuh"
#include "gpu/softmax/again.cuh"
#include "gpu/softmax/flash/weights.cuh"

namespace causeway::gpu::softmax::flash {

// Writes the log-sum-exps where they are wanted, and sets inverse to 1 over the sum of weights of each of the thread's
// two queries.
__device__ __forceinline__ void finish_rows(const Weights& w, const Block& block, int32_t query, int lane,
                                            float (&inverse)[2]) {
    const Params& c = block.c;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float lse2;
        inverse[r] = finish(__fmul_rn(w.max[r], w.scale), sum_of_four(w.sum[r]), lse2);
        if (c.lse && lane % 4 == 0 && query + 8 * r < c.N)
            c.lse[(int64_t{block.batch} * c.heads * c.group + block.query_head) * c.N + query + 8 * r] = lse2 * ln2;
    }
}

// The elements of a warp's 16 outputs that are not finite, once more: all of a consumer warpgroup call it together,
// once their outputs are on their way by TMA, by the first thread. A function of its own, so that the kernel keeps its
// registers.
template <class E>
__device__ __noinline__ void make_queries_again(const Params& c, int consumer, int thread) {
    const Block block(c);
    const int32_t first = block.first + consumer_tokens * consumer;
    const uint32_t barrier = barriers::flash_output + consumer;
    if (thread == 0) ptx::tma_store_wait<0>();
    __threadfence();
    ptx::named_barrier_sync(barrier, barriers::warpgroup);
    const BatchHead<E> bh(c, block.batch * c.heads + block.head);
#pragma unroll 1
    for (int32_t query = first + 16 * (thread / 32), end = min(query + 16, c.N); query < end; ++query) {
        const int32_t row = query * c.group + block.query_head % c.group;
        make_row_again(bh, row, 0, c.M, bh.o(row));
    }
}

// O over the sum of weights, rounded, goes where the warpgroup's queries were, and from there by TMA, which leaves out
// queries past the end.
template <class E, int D>
__device__ __forceinline__ void store_output(const TensorMaps& maps, const Layout<D>& memory, const Block& block,
                                             const float (&o)[D / 2], const float (&inverse)[2], uint32_t q_at,
                                             int32_t first, int consumer, int thread) {
    using L = Layout<D>;
    const int warp = thread / 32, lane = thread % 32;
    const uint32_t barrier = barriers::flash_output + consumer;
    ptx::named_barrier_sync(barrier, barriers::warpgroup);
    const uint32_t to = q_at + (16 * warp + lane % 16) * row_bytes;
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
        uint32_t x[4];
#pragma unroll
        for (int e = 0; e < 4; ++e)
            x[e] = pack(E{}, o[8 * i + 2 * e] * inverse[e % 2], o[8 * i + 2 * e + 1] * inverse[e % 2]);
        ptx::stmatrix_x4(to + i / 4 * L::box_bytes + ((2 * (i % 4) + lane / 16) ^ (lane % 8)) * 16, x[0], x[1], x[2],
                         x[3]);
    }
    ptx::fence_proxy_async();
    const bool finite = ptx::named_barrier_and(barrier, barriers::warpgroup, are_finite(o) && are_finite(inverse));
    if (thread == 0 && first < block.c.N) {
        for (uint32_t i = 0; i < L::boxes; ++i) {
            ptx::tma_store(maps.o, q_at + i * L::box_bytes, box_columns * i, first, block.query_head, block.batch,
                           ptx::evict_first);
        }
        ptx::tma_store_commit();
        ptx::tma_store_wait_read<0>();
    }
    if (!finite) make_queries_again<E>(block.c, consumer, thread);
}

}  // namespace causeway::gpu::softmax::flash
