// The running state of one warpgroup, in registers.
#pragma once

#include "gpu/exact/lightning/decay.cuh"
#include "gpu/kit/pack.cuh"
#include "gpu/kit/ptx.cuh"
#include "gpu/kit/swizzle.cuh"

namespace causeway::gpu::la {

// The state Sᵀ (64 columns of v by R) of one warpgroup, in the accumulators of m64nRk16.
template <class E, int R>
struct State {
    static constexpr int count = R / 2;
    float s[count];
    // γ^(distance from a token to the next state) is a product of two factors: v_low, for this thread's four tokens in
    // a k-step of sixteen, and v_up, for the four k-steps.
    float v_low[4], v_up[4];
    float step;  // γ^64

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < count; ++i) s[i] = 0.0f;
    }
    __device__ __forceinline__ void set_decay(const Piece& p, int lane) {
        const int c = 2 * (lane % 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int token = c + i % 2 + i / 2 * 8;
            v_low[i] = power(p.head.log2_gamma, p.reversed ? token : 15 - token);
            v_up[i] = power(p.head.log2_gamma, p.reversed ? 16 * i : 16 * (3 - i));
        }
        step = power(p.head.log2_gamma, chunk);
    }
    // Vᵀ of this warp's 16 columns, all 64 tokens, as A operands.
    static __device__ __forceinline__ void load_v(uint32_t (&va)[16], uint32_t v_tile, int warp, int lane) {
        const uint32_t at = v_tile + transposed_rows(warp, lane);
#pragma unroll
        for (int ks = 0; ks < 4; ++ks)
            ptx::ldmatrix_x4_trans(reinterpret_cast<uint32_t(&)[4]>(va[4 * ks]), at + ks * 16 * 128);
    }
    // Makes v_j to v_j γ^(63-j) · f, reversed to v_j γ^j · f.
    __device__ __forceinline__ void weigh_v(uint32_t (&va)[16], float f) const {
#pragma unroll
        for (int ks = 0; ks < 4; ++ks) {
            const float up = f * v_up[ks];
            const float w0 = v_low[0] * up, w1 = v_low[1] * up, w2 = v_low[2] * up, w3 = v_low[3] * up;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 x = unpack(E{}, va[4 * ks + i]);
                va[4 * ks + i] = i < 2 ? pack(E{}, x.x * w0, x.y * w1) : pack(E{}, x.x * w2, x.y * w3);
            }
        }
    }
    // Sᵀ += V'ᵀ K, asynchronously; va: V'ᵀ, the weighed values.
    __device__ __forceinline__ void add_outer(const uint32_t (&va)[16], uint32_t k_tile) {
        const ptx::TileDescriptor k(k_tile, tile_bytes);
        ptx::wgmma_fence();
#pragma unroll
        for (int ks = 0; ks < 4; ++ks)
            ptx::wgmma_rs<E, 1>(s, va[4 * ks], va[4 * ks + 1], va[4 * ks + 2], va[4 * ks + 3], k + ks * 16 * 128, 1);
        ptx::wgmma_commit();
    }
    // Adds `count` earlier chunks, the latest first, as they come through the pipeline, k and v so many bytes into a
    // stage; the latest ends where the state stands. The values of one are weighed while the tensor cores work on the
    // one before. release(position) gives a stage back.
    template <class Stages, class Release>
    __device__ __forceinline__ void replay(uint32_t count, const Stages& stages, typename Stages::State& position,
                                           uint32_t k_at, uint32_t v_at, int warp, int lane, const Release& release) {
        if (count == 0) return;
        float f = 1.0f;
        uint32_t x[16], y[16];
        const auto fetch = [&](uint32_t(&va)[16]) {
            stages.consumer_wait(position);
            load_v(va, stages.at(position) + v_at, warp, lane);
            weigh_v(va, f);
            f *= step;
        };
        const auto add = [&](const uint32_t(&now)[16], uint32_t(&next)[16]) {
            const auto before = position;
            add_outer(now, stages.at(before) + k_at);
            position.advance();
            if (--count) fetch(next);
            ptx::wgmma_wait<0>();
            ptx::hold(s);
            release(before);
        };
        fetch(x);
        while (true) {
            add(x, y);
            if (!count) break;
            add(y, x);
            if (!count) break;
        }
    }
    // To memory, as state `index` of this warpgroup's columns.
    __device__ __forceinline__ void store(float* states, size_t index, int thread) const {
        float4* out = reinterpret_cast<float4*>(states + index * (R * 64)) + thread;
#pragma unroll
        for (int i = 0; i < R / 8; ++i) out[128 * i] = make_float4(s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]);
    }
    // From what `store` wrote.
    __device__ __forceinline__ void load(const float* states, size_t index, int thread) {
        const float4* from = reinterpret_cast<const float4*>(states + index * (R * 64)) + thread;
#pragma unroll
        for (int i = 0; i < R / 8; ++i) {
            const float4 x = __ldcg(from + 128 * i);
            s[4 * i] = x.x, s[4 * i + 1] = x.y, s[4 * i + 2] = x.z, s[4 * i + 3] = x.w;
        }
    }
    // From memory, the state where this split starts: the sum of the states stored in the batch-head before it, in
    // their order, or, where la_scan has summed them, the last one alone. A state is C times 64 columns, of which this
    // is number `rank`.
    template <class W>
    __device__ __forceinline__ void load_stored(const W& work, const Piece& p, uint32_t split, uint32_t C,
                                                uint32_t rank, int thread) {
        ptx::griddepcontrol_wait();
        const uint32_t start = p.bh * work.chunks;
        uint32_t b = split - 1;
        while (!work.scanned && work.bound[b] > start) --b;
        for (; b < split; ++b) {
            each_stored(
                work, b, max(work.bound[b], start), work.bound[b + 1], work.scanned, [&](uint32_t index, uint32_t n) {
                    const float decay = power(p.head.log2_gamma, static_cast<int>(n) * chunk);
                    const float4* from =
                        reinterpret_cast<const float4*>(work.states + (size_t{index} * C + rank) * (R * 64)) + thread;
#pragma unroll
                    for (int j = 0; j < R / 8; ++j) {
                        const float4 x = __ldcg(from + 128 * j);
                        s[4 * j] = s[4 * j] * decay + x.x, s[4 * j + 1] = s[4 * j + 1] * decay + x.y;
                        s[4 * j + 2] = s[4 * j + 2] * decay + x.z, s[4 * j + 3] = s[4 * j + 3] * decay + x.w;
                    }
                });
        }
    }
    // Adds what is left of the state before the first token where this piece starts.
    __device__ __forceinline__ void add_initial(const Work& work, const Piece& p, uint32_t rank, int warp, int lane) {
        const float weight = power(p.head.log2_gamma, static_cast<int>(p.first) * chunk);
        if (weight == 0.0f) return;
        const float* initial = work.initial + p.b * work.initial_batch + int64_t{p.h} * work.r * work.d;
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const int column = 64 * static_cast<int>(rank) + 16 * warp + lane / 4 + i % 4 / 2 * 8,
                      row = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
            if (column < work.d && row < work.r) s[i] = fmaf(weight, initial[row * work.d + column], s[i]);
        }
    }
};

// Where element (column of v, row of k) of a stored state is, counted from that of its 64 columns.
__device__ __forceinline__ int stored_at(int column, int row) {
    return (row / 8 * 128 + 32 * (column / 16) + 4 * (column % 8) + row % 8 / 2) * 4 + column % 16 / 8 * 2 + row % 2;
}

}  // namespace causeway::gpu::la
