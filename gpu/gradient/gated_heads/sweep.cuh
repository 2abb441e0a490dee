// What the kernels that go from chunk to chunk have in common, forwards and backwards: 64 columns of v of a state,
// transposed, in the registers of a warpgroup.
#pragma once

#include "gpu/gated/delta/layout.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/gradient/gated_heads/part.hpp"
#include "gpu/kit/barriers.hpp"
#include "gpu/kit/finite.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/pack.cuh"

namespace causeway::gpu::gated_heads {

using E = __nv_bfloat16;
using gated_delta::ChunkGates;

// Which split and which columns a thread block has; `blocks` of each split.
struct Place : Split {
    int block;
    __device__ __forceinline__ Place(const Part& p, int blocks)
        : Split(p, blockIdx.x / static_cast<unsigned>(blocks)), block(static_cast<int>(blockIdx.x) % blocks) {}
    explicit __device__ __forceinline__ Place(const Part& p) : Place(p, p.blocks) {}
    // Zeros to the sums over heads of chunk c; each block of columns its share of the columns, 16 bytes a thread.
    __device__ __forceinline__ void clear_sums(const Part& p, int c) const {
        constexpr int each = 8, pieces = columns / each;
        for (int column = columns * block; column < p.call.dk; column += columns * p.blocks) {
            for (int i = static_cast<int>(threadIdx.x); i < C * pieces; i += barriers::warpgroup) {
                const int64_t t = token(c) + i / pieces;
                const int first = column + i % pieces * each;
                if (t >= p.call.N || first >= p.call.dk) continue;
                for (const gated::Operand* const x : {&p.dq_sum, &p.dk_sum})
                    *reinterpret_cast<uint4*>(gated::head_of(*x, b, 0) + t * x->token + first * sizeof(E)) = {};
            }
        }
    }
};

// Of the states of a part, S or E, those of chunk c.
__device__ __forceinline__ unsigned char* state_of(const Part& p, unsigned char* states, const Place& at, int c) {
    return states + ((at.index * p.chunks + c) * p.blocks + at.block) * state_bytes;
}
// The state before a chunk, for which it is kept.
__device__ __forceinline__ uint32_t* boundary(const Part& p, const Place& at, int chunk) {
    if (!p.boundaries) {
        char* const rows = gated::head_of(p.dv, at.b, at.h) + at.token(chunk - 2 - p.first) * p.dv.token;
        return reinterpret_cast<uint32_t*>(rows) + at.block * raw_words;
    }
    return p.boundaries + ((chunk / p.every - 1) * p.all_splits() * p.blocks + blockIdx.x) * raw_words;
}

// Sᵀ as an accumulator of 64×128, and the same as operand A.
struct State {
    float s[64];
    uint32_t a[32];

    __device__ __forceinline__ void pack_state() {
#pragma unroll
        for (int i = 0; i < 32; ++i) a[i] = pack(E{}, s[2 * i], s[2 * i + 1]);
    }
    // Of the block-th 64 columns of a matrix: f(x, row, column).
    template <class F>
    __device__ __forceinline__ void each(int block, F&& f) {
        const int warp = threadIdx.x % barriers::warpgroup / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < 64; ++i)
            f(s[i], 8 * (i / 4) + 2 * (lane % 4) + i % 2, columns * block + 16 * warp + lane / 4 + i % 4 / 2 * 8);
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < 64; ++i) s[i] = 0.0f;
    }
    // From the n-th [dk, dv], or zeros.
    __device__ __forceinline__ void load(const Part& p, const Place& at, const float* from, int64_t n) {
        clear();
        if (!from) return;
        const int dk = p.call.dk, dv = p.call.dv;
        from += n * dk * dv;
        each(at.block, [=](float& x, int row, int column) {
            if (row < dk && column < dv) x = from[int64_t{row} * dv + column];
        });
    }
    __device__ __forceinline__ void store(const Part& p, const Place& at, float* to, int64_t n) {
        if (!to) return;
        const int dk = p.call.dk, dv = p.call.dv;
        to += n * dk * dv;
        each(at.block, [=](float& x, int row, int column) {
            if (row < dk && column < dv) to[int64_t{row} * dv + column] = x;
        });
    }
    __device__ __forceinline__ void load_raw(const float* from) {
#pragma unroll
        for (int i = 0; i < 64; ++i) s[i] = from[i * barriers::warpgroup + threadIdx.x % barriers::warpgroup];
    }
    __device__ __forceinline__ void store_raw(float* to) const {
#pragma unroll
        for (int i = 0; i < 64; ++i) to[i * barriers::warpgroup + threadIdx.x % barriers::warpgroup] = s[i];
    }

    // As it was packed.
    __device__ __forceinline__ void load_packed(const uint32_t* from) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const float2 x = unpack(E{}, from[i * barriers::warpgroup + threadIdx.x % barriers::warpgroup]);
            s[2 * i] = x.x, s[2 * i + 1] = x.y;
        }
    }
    __device__ __forceinline__ void store_packed(uint32_t* to) const {
#pragma unroll
        for (int i = 0; i < 32; ++i) to[i * barriers::warpgroup + threadIdx.x % barriers::warpgroup] = a[i];
    }

    // Queues acc = Sᵀ · rowsᵀ, rows: the two tiles of k.
    __device__ __forceinline__ void times_rows(float (&acc)[32], uint32_t keys) const {
        const ptx::TileDescriptor rows(keys);
        ptx::wgmma_fence();
#pragma unroll
        for (int ks = 0; ks < 8; ++ks)
            ptx::wgmma_rs<E, 0>(acc, a[4 * ks], a[4 * ks + 1], a[4 * ks + 2], a[4 * ks + 3],
                                rows + (ks / 4 * tile_bytes + ks % 4 * 32), ks > 0);
        ptx::wgmma_commit();
    }
    // Queues Sᵀ += x · rows, rows: the two tiles of k or q. Products before that have not been waited for may be on
    // their way to Sᵀ.
    __device__ __forceinline__ void add_outer(const uint32_t (&x)[16], uint32_t tiles) {
        const ptx::TileDescriptor rows(tiles, tile_bytes);
        ptx::wgmma_fence();
#pragma unroll
        for (int ks = 0; ks < 4; ++ks)
            ptx::wgmma_rs<E, 1>(s, x[4 * ks], x[4 * ks + 1], x[4 * ks + 2], x[4 * ks + 3], rows + ks * 16 * 128, 1);
        ptx::wgmma_commit();
    }
    __device__ __forceinline__ void scale(float by) {
#pragma unroll
        for (int i = 0; i < 64; ++i) s[i] *= by;
        ptx::hold(s);
    }
};

// Queues acc += x · tile, or tileᵀ: 64 tokens as K, x the whole of operand A. fresh: acc = that.
template <bool transposed, bool fresh = false>
__device__ __forceinline__ void add_square(float (&acc)[32], const uint32_t (&x)[16], uint32_t tile) {
    const ptx::TileDescriptor square(tile);
    ptx::wgmma_fence();
#pragma unroll
    for (int ks = 0; ks < 4; ++ks)
        ptx::wgmma_rs<E, transposed ? 0 : 1>(acc, x[4 * ks], x[4 * ks + 1], x[4 * ks + 2], x[4 * ks + 3],
                                             square + ks * (transposed ? 32 : 16 * 128), ks > 0 || !fresh);
    ptx::wgmma_commit();
}
// x = the transpose of 64 tokens of 64 columns, as operand A.
__device__ __forceinline__ void read_transposed(uint32_t (&x)[16], uint32_t tile) {
    const uint32_t at = tile + transposed_rows(threadIdx.x % barriers::warpgroup / 32, ptx::laneid());
#pragma unroll
    for (int i = 0; i < 16; i += 4)
        ptx::ldmatrix_x4_trans(reinterpret_cast<uint32_t(&)[4]>(x[i]), at + i / 4 * 16 * 128);
}
// The other way: rows of 64 columns, from their transpose.
template <int n>
__device__ __forceinline__ void write_transposed(uint32_t tile, const uint32_t (&x)[n]) {
    const uint32_t at = tile + transposed_rows(threadIdx.x % barriers::warpgroup / 32, ptx::laneid());
#pragma unroll
    for (int j = 0; j < n / 4; ++j)
        ptx::stmatrix_x4_trans(at + j * 16 * 128, x[4 * j], x[4 * j + 1], x[4 * j + 2], x[4 * j + 3]);
}
// Factors of the tokens 8 (i / 2) + col and the next one.
__device__ __forceinline__ float2 factors_at(const float (&of)[C], int i, int col) {
    return *reinterpret_cast<const float2*>(&of[8 * (i / 2) + col]);
}

}  // namespace causeway::gpu::gated_heads
