// A consumer warpgroup: 64 of the block's rows, whose gradients stay in registers. README.md has the order of products.
#pragma once

#include "gpu/gradient/softmax_hopper/store.cuh"
#include "gpu/kit/pack.cuh"

namespace causeway::gpu::softmax::backward {

template <class E, class Pass>
struct Consumer {
    using L = Layout<Pass>;
    static constexpr int D = Pass::width, T = Pass::passing;

    const L& memory;
    const Gradient& g;
    Pass pass;
    const int consumer = threadIdx.x / 128 - 1;
    const uint32_t own_a = memory.own_a() + consumer_rows * consumer * row_bytes;  // where this warpgroup's rows lie
    float lse2[2] = {}, dots[2] = {};  // of the two rows of this thread, where they are queries
    float s[T / 2], dp[T / 2];         // scores, then weights; their gradients
    uint32_t p[T / 4], ds[T / 4];      // weights and gradients of scores, rounded: operand A
    float sum_a[D / 2], sum_b[D / 2];  // dk and dv, or dq alone

    __device__ __forceinline__ Consumer(const L& memory, const Gradient& g, const Pass& pass)
        : memory(memory), g(g), pass(pass) {
#pragma unroll
        for (int i = 0; i < D / 2; ++i) sum_a[i] = sum_b[i] = 0;
        if constexpr (!Pass::own_keys) {
            const int64_t at = sums_of(g, pass, pass.own_head) + row();
            lse2[0] = g.lse2[at], lse2[1] = g.lse2[at + 8], dots[0] = g.D[at], dots[1] = g.D[at + 8];
        }
    }

    // Of this warpgroup the first row, of this thread the first of two, which are 8 apart; of what it multiplies, a
    // thread has the columns 8 n + pair and the next one. Made where they are used: registers are scarce.
    __device__ __forceinline__ int32_t own0() const { return pass.own0 + consumer_rows * consumer; }
    __device__ __forceinline__ int32_t row() const {
        return own0() + static_cast<int>(threadIdx.x % 128) / 32 * 16 + ptx::laneid() / 4;
    }
    static __device__ __forceinline__ int pair() { return 2 * (ptx::laneid() % 4); }

    // x = own rows · the rows of the tile that passes by, queued.
    template <class Rows>
    __device__ __forceinline__ void queue_products(float (&x)[T / 2], uint32_t own_at, const Rows& rows,
                                                   uint32_t j) const {
        rows.consumer_wait(j);
        ptx::wgmma_fence();
        const ptx::TileDescriptor own(own_at), other(rows.at(j));
#pragma unroll
        for (uint32_t ks = 0; ks < D / 16; ++ks) {
            ptx::wgmma_ss<E, 0, 0>(x, own + (ks / 4 * L::own_box_bytes + ks % 4 * 32),
                                   other + (ks / 4 * L::box_bytes + ks % 4 * 32), ks > 0);
        }
        ptx::wgmma_commit();
    }
    // sum += weights · the rows of the tile that passes by, queued.
    __device__ __forceinline__ static void queue_sum(float (&sum)[D / 2], const uint32_t (&w)[T / 4], uint32_t at) {
        ptx::wgmma_fence();
        const ptx::TileDescriptor rows(at, L::box_bytes);
#pragma unroll
        for (int ks = 0; ks < T / 16; ++ks) {
            ptx::wgmma_rs<E, 1>(sum, w[4 * ks], w[4 * ks + 1], w[4 * ks + 2], w[4 * ks + 3], rows + ks * 16 * row_bytes,
                                1);
        }
        ptx::wgmma_commit();
    }
    __device__ __forceinline__ static void round(uint32_t (&to)[T / 4], const float (&x)[T / 2]) {
#pragma unroll
        for (int i = 0; i < T / 4; ++i) to[i] = pack(E{}, x[2 * i], x[2 * i + 1]);
    }
    // f(index in s, the number of that element's query: of those at `sums` in shared memory, or of `own`).
    template <class F>
    __device__ __forceinline__ void each(uint32_t sums, const float (&own)[2], F&& f) const {
        sums += pair() * 4;
#pragma unroll
        for (int n = 0; n < T / 8; ++n) {
            float2 of_query{};
            if constexpr (Pass::own_keys) of_query = ptx::ld_shared_f32x2(sums + 8 * n * 4);
#pragma unroll
            for (int e = 0; e < 4; ++e) f(4 * n + e, Pass::own_keys ? (e % 2 ? of_query.y : of_query.x) : own[e / 2]);
        }
    }
    // Scores to weights.
    __device__ __forceinline__ void weigh(uint32_t j) {
        each(memory.lse2(j), lse2,
             [&](int i, float lse2) { s[i] = ptx::ex2_approx(fmaf(s[i], g.c.scale_log2, -lse2)); });
        if (!pass.is_masked(pass.bound(own0()), pass.bound(own0() + consumer_rows - 1))) return;
        const int32_t bound[2] = {pass.bound(row()), pass.bound(row() + 8)};
        const int first = pass.row0 + pair();
#pragma unroll
        for (int i = 0; i < T / 2; ++i) {
            if (!Pass::sees(first + i / 4 * 8 + i % 2, bound[i % 4 / 2])) s[i] = 0;
        }
    }
    // Gradients of weights to gradients of scores.
    __device__ __forceinline__ void subtract(uint32_t j) {
        each(memory.dots(j), dots, [&](int i, float dot) { dp[i] = s[i] * (dp[i] - dot); });
    }

    // What the tile j of scores and gradients of weights says, as operands: once none of the products before is on its
    // way.
    __device__ __forceinline__ void make_operands(uint32_t j) {
        subtract(j);
        if constexpr (Pass::own_keys) round(p, s);
        round(ds, dp);
    }
    // ptxas lets products run beside other work only if, once in each round, none is on its way.
    __device__ __forceinline__ void attend() {
        const auto tiles = static_cast<uint32_t>(pass.tiles);
        if (tiles == 0) return;
        queue_products(s, own_a, memory.a, 0);
        queue_products(dp, own_a + L::own_bytes, memory.b, 0);
        ptx::wgmma_wait<0>();
        ptx::hold(s), ptx::hold(dp);
        weigh(0);
        make_operands(0);
        for (uint32_t j = 1; j < tiles; ++j) {
            pass.advance();
            if constexpr (Pass::own_keys) queue_sum(sum_b, p, memory.b.at(j - 1));
            queue_products(s, own_a, memory.a, j);
            if constexpr (Pass::own_keys) ptx::wgmma_wait<1>(), ptx::hold(sum_b);
            queue_sum(sum_a, ds, memory.a.at(j - 1));
            queue_products(dp, own_a + L::own_bytes, memory.b, j);
            ptx::wgmma_wait<2>();
            ptx::hold(s);
            weigh(j);
            ptx::issue_first(s);
            ptx::wgmma_wait<0>();
            ptx::hold(dp), ptx::hold(sum_a);
            if constexpr (Pass::own_keys) ptx::hold(sum_b);
            memory.a.consumer_release(j - 1, ptx::laneid()), memory.b.consumer_release(j - 1, ptx::laneid());
            make_operands(j);
        }
        if constexpr (Pass::own_keys) queue_sum(sum_b, p, memory.b.at(tiles - 1));
        queue_sum(sum_a, ds, memory.a.at(tiles - 1));
        ptx::wgmma_wait<0>();
        ptx::hold(sum_a);
        if constexpr (Pass::own_keys) ptx::hold(sum_b);
    }

    __device__ __forceinline__ void run(const TensorMaps& maps) {
        ptx::mbarrier_wait(memory.own_full(), 0);
        attend();
        store<E, Pass>(maps, g, sum_a, sum_b, own_a, pass.block, consumer, threadIdx.x % 128);
    }
};

}  // namespace causeway::gpu::softmax::backward
