// NaN and Inf among the values of a chunk: finding them, and the outputs that tokens get which do not see them.
#pragma once

#include <type_traits>

#include "gpu/exact/lightning/work.cuh"
#include "gpu/kit/pack.cuh"
#include "gpu/kit/ptx.cuh"
#include "gpu/kit/swizzle.cuh"

namespace causeway::gpu::la {

// The exponents of a pair of 16-bit elements, and the lowest bit of each: NaN and Inf are the numbers whose exponent is
// all ones, so that adding its lowest bit carries into the sign's place.
template <class E>
struct ExponentPair {
    static constexpr bool half = std::is_same_v<E, __half>;
    static constexpr uint32_t bits = half ? 0x7C007C00 : 0x7F807F80, lowest = half ? 0x04000400 : 0x00800080;
    static constexpr uint32_t signs = 0x80008000;
};

// Whether one of these pairs has NaN or Inf.
template <class E, int n>
__device__ __forceinline__ bool has_nonfinite(const uint32_t (&x)[n]) {
    using Pair = ExponentPair<E>;
    uint32_t carries = 0;
#pragma unroll
    for (int i = 0; i < n; ++i) carries |= (x[i] & Pair::bits) + Pair::lowest;
    return carries & Pair::signs;
}

// Element (row, column) of a tile of 16-bit elements.
template <class E>
__device__ __forceinline__ float tile_element(uint32_t tile, int row, int column) {
    const uint32_t word = ptx::ld_shared_b32(tile + swizzle_128(row, column / 8) + column % 8 / 2 * 4);
    const float2 x = unpack(E{}, word);
    return column % 2 ? x.y : x.x;
}

// The tensor cores make NaN of a score of 0 times a value that is NaN or Inf, for tokens that do not see it. Where a
// chunk has such values, what the state has given to its outputs is kept in `at`, and outputs that are not finite are
// recomputed from the terms that count: value(j, column) and score(i, j) read the tiles.
struct Recompute {
    uint32_t at;
    int thread;

    __device__ __forceinline__ uint32_t slot(int i) const { return at + (128 * i + thread) * 4; }
    __device__ __forceinline__ void keep(const float (&o)[32]) const {
#pragma unroll
        for (int i = 0; i < 32; ++i) ptx::st_shared(slot(i), o[i]);
    }
    template <class Value, class Score>
    __device__ __forceinline__ void run(const Piece& p, float (&o)[32], const Value& value, const Score& score) const {
        const int lane = thread % 32;
#pragma unroll 1
        for (int e = 0; e < 32; ++e) {
            const int i = 8 * (e / 4) + 2 * (lane % 4) + e % 2, column = 16 * (thread / 32) + lane / 4 + e % 4 / 2 * 8;
            float sum = ptx::ld_shared_f32(slot(e));
#pragma unroll 1
            for (int j = p.reversed ? i : 0; j < (p.reversed ? 64 : i + 1); ++j)
                sum = fmaf(score(i, j), value(j, column), sum);
            ptx::st_shared(slot(e), sum);
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) o[i] = isfinite(o[i]) ? o[i] : ptx::ld_shared_f32(slot(i));
        __syncwarp();  // one lane will release the tiles that all have read
    }
};

}  // namespace causeway::gpu::la
