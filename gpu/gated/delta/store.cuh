// The role of one thread for each state warpgroup: TMA stores of its outputs.
#pragma once

#include "gpu/gated/delta/again.cuh"
#include "gpu/gated/delta/layout.cuh"
#include "gpu/gated/delta/work.cuh"

namespace causeway::gpu::gated_delta {

// The first `rows` rows of a tile of outputs, from `token` and `column` on, by a warp: TMA would write the others too,
// to tokens of the next sequence.
template <class E>
__device__ __forceinline__ void store_rows(uint32_t tile, const Work& work, uint32_t b, uint32_t h, uint32_t token,
                                           int column, uint32_t rows) {
    constexpr int piece = 16 / sizeof(E);
    for (uint32_t i = threadIdx.x % 32; i < rows * 8; i += 32) {
        const int row = static_cast<int>(i / 8), at = static_cast<int>(i % 8), c = column + piece * at;
        if (c >= work.dv) continue;
        const float4 x = ptx::ld_shared_f32x4(tile + swizzle_128(row, at));
        E* const to = row_of<E>(work.o, work.o_stride, b, h, int64_t{token} + row) + c;
        if (c + piece <= work.dv) {
            *reinterpret_cast<float4*>(to) = x;
            continue;
        }
        const uint32_t words[4] = {__float_as_uint(x.x), __float_as_uint(x.y), __float_as_uint(x.z),
                                   __float_as_uint(x.w)};
#pragma unroll
        for (int j = 0; j < piece; ++j)
            if (c + j < work.dv)
                reinterpret_cast<uint16_t*>(to)[j] = static_cast<uint16_t>(words[j / 2] >> 16 * (j % 2));
    }
}

// By one thread, or for packed sequences by its warp.
template <class E, int R, int D, Walks walks>
__device__ __forceinline__ void store(Pipelines<R, D> pipes, const Maps& maps, const Work& work, Split<walks> split,
                                      uint32_t warpgroup) {
    constexpr bool packed = Split<walks>::packed;
    const auto out = pipes.out(warpgroup);
    const uint32_t before = split.first_token(work), whole = split.whole(work);
    const int column = split.column_block * D + 64 * warpgroup;
    for (uint32_t c = split.first; c < whole && (!packed || threadIdx.x % 32 == 0); ++c) {
        out.consumer_wait(c - split.first);
        ptx::tma_store(maps.o, out.at(c - split.first), column, before + c * chunk, split.h, split.b, ptx::evict_first);
        ptx::tma_store_commit();
        if (c + 1 == whole) ptx::tma_store_wait<0>();  // for walk_again(), which reads them
        else ptx::tma_store_wait_read<0>();
        ptx::mbarrier_arrive(out.empty(c - split.first));
    }
    if (!packed || whole == split.last) return;
    __syncwarp();  // the barrier is in the phase that is waited for here
    out.consumer_wait(whole - split.first);
    store_rows<E>(out.at(whole - split.first), work, split.b, split.h, before + whole * chunk, column,
                  static_cast<uint32_t>(split.tokens(work)) - whole * chunk);
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(out.empty(whole - split.first));
}

}  // namespace causeway::gpu::gated_delta
