// A consumer warpgroup: 64 queries of the block, whose scores, weights and output stay in registers.
//
// The scores of the next tile of keys are queued before the weights of this one meet the values, so the tensor cores
// have work while exponentials are taken (Shah et al. 2024, FlashAttention-3, section 3.2).
#pragma once

#include "gpu/softmax/flash/store.cuh"
#include "gpu/softmax/flash/weights.cuh"

namespace causeway::gpu::softmax::flash {

// S = Q Kᵀ for the keys of tile j, queued.
template <class E, int D>
__device__ __forceinline__ void queue_scores(float (&s)[64], const Layout<D>& memory, uint32_t q_at, uint32_t j) {
    memory.k.consumer_wait(j);
    ptx::wgmma_fence();
    const ptx::TileDescriptor q(q_at), k(memory.k.at(j));
#pragma unroll
    for (int ks = 0; ks < D / 16; ++ks) {
        const uint32_t at = ks / 4 * Layout<D>::box_bytes + ks % 4 * 32;
        ptx::wgmma_ss<E, 0, 0>(s, q + at, k + at, ks > 0);
    }
    ptx::wgmma_commit();
}

// O += P V for the values of tile j, queued.
template <class E, int D>
__device__ __forceinline__ void queue_output(float (&o)[D / 2], const uint32_t (&p)[32], const Layout<D>& memory,
                                             uint32_t j) {
    memory.v.consumer_wait(j);
    ptx::wgmma_fence();
    const ptx::TileDescriptor v(memory.v.at(j), Layout<D>::box_bytes);
#pragma unroll
    for (int ks = 0; ks < tile_tokens / 16; ++ks)
        ptx::wgmma_rs<E, 1>(o, p[4 * ks], p[4 * ks + 1], p[4 * ks + 2], p[4 * ks + 3], v + ks * 16 * row_bytes, 1);
    ptx::wgmma_commit();
}

template <class E, int D>
__device__ __forceinline__ void attend(const TensorMaps& maps, const Layout<D>& memory, const Block& block,
                                       int consumer, int thread) {
    const int warp = thread / 32, lane = thread % 32;
    const int32_t first = block.first + consumer_tokens * consumer,
                  query = first + 16 * warp + lane / 4;  // of this thread; its other one is 8 further
    const uint32_t q_at = memory.q() + consumer_tokens * consumer * row_bytes;
    Weights w(block, first, query);
    float o[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] = 0;

    ptx::mbarrier_wait(memory.q_full(), 0);
    if (block.tiles > 0) {
        queue_scores<E, D>(w.s, memory, q_at, 0);
        ptx::wgmma_wait<0>();
        ptx::hold(w.s);
        memory.k.consumer_release(0u, lane);
        w.weigh(0, lane);
        w.template round<E>();
        for (uint32_t j = 1; j < block.tiles; ++j) {
            queue_scores<E, D>(w.s, memory, q_at, j);
            queue_output<E, D>(o, w.p, memory, j - 1);
            ptx::wgmma_wait<1>();
            ptx::hold(w.s);
            memory.k.consumer_release(j, lane);
            w.weigh(static_cast<int32_t>(j), lane);
            ptx::issue_first(w.sum[0] + w.sum[1]);
            ptx::wgmma_wait<0>();
            ptx::hold(o);
            memory.v.consumer_release(j - 1, lane);
#pragma unroll
            for (int i = 0; i < D / 2; ++i) o[i] *= w.back[i % 4 / 2];
            w.template round<E>();
        }
        queue_output<E, D>(o, w.p, memory, block.tiles - 1);
        ptx::wgmma_wait<0>();
        ptx::hold(o);
    }
    float inverse[2];
    finish_rows(w, block, query, lane, inverse);
    store_output<E, D>(maps, memory, block, o, inverse, q_at, first, consumer, thread);
}

}  // namespace causeway::gpu::softmax::flash
