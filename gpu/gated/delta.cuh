// The kernel of the gated delta rule for Hopper.
//
// One thread block owns one part of one head (and up to 128 columns of v) and walks over its chunks of C = 64 tokens.
// With G_i = Σ_{j<=i} log2 a_j inside the chunk and Γ_ij = 2^(G_i - G_j) for i >= j, else 0:
//
//   T = (I + strict(diag(β) (K Kᵀ ⊙ Γ)))⁻¹ diag(β),  P = scale · Q Kᵀ ⊙ Γ          auxiliary warpgroup, a chunk or two
//   ahead U = T (V - diag(2^G) K S),  O = scale · diag(2^G) Q S + P U,  S ← 2^G_last S + Kᵀ diag(2^(G_last - G)) U
//   state warpgroups
//
// A state warpgroup has 64 columns of v and computes everything transposed: Sᵀ, Uᵀ and Oᵀ stay in registers, as
// accumulators of one product and operand A of the next. A part that starts inside a sequence first walks over the
// chunks before it, back to where the product of gates falls below 2^-24, without outputs.
#pragma once

#include "gpu/gated/delta_plan.hpp"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/pack.cuh"
#include "gpu/kit/pipeline.cuh"
#include "gpu/kit/ptx.cuh"
#include "gpu/kit/swizzle.cuh"

namespace causeway::gpu::gdr {

struct Maps {
    CUtensorMap q, k, v, o;
};

struct Work {
    uint32_t chunks, parts, column_blocks, heads, group;  // heads: of q
    int64_t N;
    int dk, dv;
    float scale;
    const float *g, *beta;  // [B, heads / group, N]; null: no gate
    const float* initial;   // [B, heads / group, dk, dv]; null: zeros
    float* final;           // the same shape; null: dropped
    uint32_t bound[most_parts + 1];
};

using limits::log2_e, limits::unseen_weight_bits, limits::zero_gate_bits;

// ptx::named_barrier_sync without waiting.
__device__ __forceinline__ void named_barrier_arrive(uint32_t id, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- mma.sync on 16×16 blocks in Float16 ----

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&x)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
}
__device__ __forceinline__ uint32_t ldmatrix_x1(uint32_t from) {
    uint32_t x;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}
__device__ __forceinline__ uint32_t ldmatrix_x1_trans(uint32_t from) {
    uint32_t x;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}
// d[16×8] += a[16×16] b[16×8].
__device__ __forceinline__ void small_product(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// d[8×8] += a[8×8] b[8×8], in the upper half of 16×8.
__device__ __forceinline__ void tiny_product(float (&d)[4], uint32_t a, uint32_t b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a), "r"(0), "r"(b));
}
// d[16×16] += a b, both n halves of b in one load.
__device__ __forceinline__ void block_product(float (&d)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
    small_product(d, a, b[0], b[1]);
    small_product(d + 4, a, b[2], b[3]);
}
__device__ __forceinline__ float2 load_pair(uint32_t from) {
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from) : "memory");
    return x;
}
__device__ __forceinline__ float load_one(uint32_t from) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}
__device__ __forceinline__ void store_word(uint32_t to, uint32_t x) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}
__device__ __forceinline__ float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The lane, in a way that keeps the compiler from making everything that depends on it once and holding it in
// registers.
__device__ __forceinline__ int lane_again() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

// ---- Shared memory ----

// Log sums, 2^G, 2^(G_last - G), β and, with the last token l of a token's sixteen, 2^(G_l - G) of a chunk.
constexpr uint32_t G_at = 0, up_at = 256, down_at = 512, beta_at = 768, near_at = 1024, gate_bytes = 1280;
// 16×16 blocks in Float16, in rows of 48 bytes. Of a diagonal one the two 8×8 on the diagonal in Float32, column by
// column, then the one below it in Float16, in rows of 16 bytes.
constexpr uint32_t row_bytes = 48, block_bytes = 16 * row_bytes, column_bytes = 48, lower_at = 400, corner_at = 800,
                   diagonal_bytes = 928;

template <int R, int D>
struct Layout {
    static constexpr uint32_t groups = D / 64, qk_bytes = R / 64 * tile_bytes, v_bytes = D / 64 * tile_bytes;
    // Barriers first, then gates and small blocks, then tiles.
    static constexpr uint32_t sums_at = 512, gate_at = 1024, below_at = gate_at + 4 * gate_bytes,
                              diagonal_at = below_at + 2 * 6 * block_bytes,
                              inverse_at = diagonal_at + 4 * diagonal_bytes,
                              tiles_at = (inverse_at + 2 * 4 * block_bytes + 1023) / 1024 * 1024;
    using K = Pipeline<4, qk_bytes, tiles_at, 0>;
    using Q = Pipeline<3, qk_bytes, K::data_end, K::barriers_end>;
    using V = Pipeline<2, v_bytes, Q::data_end, Q::barriers_end>;
    using P = Pipeline<2, tile_bytes, V::data_end, V::barriers_end>;
    using T = Pipeline<2, tile_bytes, P::data_end, P::barriers_end>;
    using Gate = Pipeline<4, gate_bytes, gate_at, T::barriers_end>;
    // Outputs of a state warpgroup; the second one's follow the first one's.
    using Out = Pipeline<1, tile_bytes, T::data_end, Gate::barriers_end>;
    static constexpr uint32_t next_out = tile_bytes, next_out_bars = 16;
    static_assert(Gate::barriers_end + groups * next_out_bars <= sums_at);
    static constexpr uint32_t bytes =
        T::data_end + groups * next_out + limits::swizzle_atom;  // the base is rounded up to one
    static_assert(bytes <= limits::max_shared_bytes);
};

// ---- The kernel ----

// Warpgroup 0: one thread loads tiles, the second warp makes gates, a thread of each other warp stores outputs. 1: T
// and P. 2 (and 3): 64 columns of v each.
template <class E, int R, int D, bool delta>
__global__ __launch_bounds__(256 + 2 * D, 1) void delta_rule(const __grid_constant__ Maps maps,
                                                             const __grid_constant__ Work work) {
    using L = Layout<R, D>;
    constexpr uint32_t state_warps = 4 * L::groups;
    extern __shared__ uint8_t raw[];
    const uint32_t base = round_up_to_swizzle_atom(ptx::shared_address(raw));
    const typename L::K k{base};
    const typename L::Q q{base};
    const typename L::V v{base};
    const typename L::P p{base};
    const typename L::T t{base};
    const typename L::Gate gate{base};
    const auto outputs_of = [&](uint32_t i) { return typename L::Out{base, i * L::next_out, i * L::next_out_bars}; };
    const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        ptx::prefetch_tensor_map(maps.q), ptx::prefetch_tensor_map(maps.k), ptx::prefetch_tensor_map(maps.v),
            ptx::prefetch_tensor_map(maps.o);
        k.init(1, 4 + state_warps), q.init(1, 4 + state_warps), v.init(1, state_warps);
        p.init(4, state_warps), t.init(4, state_warps), gate.init(32, 32 * (4 + state_warps));
        for (uint32_t i = 0; i < L::groups; ++i) outputs_of(i).init(4, 1);
        ptx::fence_mbarrier_init();
    }

    const uint32_t part = blockIdx.x % work.parts, line = blockIdx.x / work.parts,
                   column_block = line % work.column_blocks;
    const uint32_t head = line / work.column_blocks, b = head / work.heads, h = head - b * work.heads,
                   kv_h = h / work.group;
    const uint32_t kv_head = b * (work.heads / work.group) + kv_h;
    const uint32_t first = work.bound[part], last = work.bound[part + 1];
    const float* g = work.g ? work.g + kv_head * work.N : nullptr;

    // Where the walk starts: each warp sums the log gates of one chunk.
    uint32_t start = work.g ? first : 0;
    if (start > 0) {
        constexpr uint32_t warps = 8 + D / 16;
        float* sums = reinterpret_cast<float*>(raw + (base - ptx::shared_address(raw)) + L::sums_at);
        float left = unseen_weight_bits;
        while (start > 0 && left > 0) {
            const uint32_t i = threadIdx.x / 32 + 1;
            float x = 0;
            if (i <= start) {
                const float* from = g + int64_t{start - i} * chunk + lane;
                x = fmaxf(from[0] * log2_e, -zero_gate_bits) + fmaxf(from[32] * log2_e, -zero_gate_bits);
            }
#pragma unroll
            for (int n = 16; n > 0; n /= 2) x += __shfl_xor_sync(0xFFFFFFFF, x, n);
            if (lane == 0) sums[i - 1] = x;
            __syncthreads();
            for (uint32_t n = 0; n < warps && start > 0 && left > 0; ++n) left += sums[n], --start;
            __syncthreads();
        }
    }
    __syncthreads();

    // This warp needs the buffer no more.
    const auto release = [&](const auto& pipe, uint32_t n) {
        __syncwarp();
        if (lane == 0) ptx::mbarrier_arrive(pipe.empty(n));
    };
    // The same for a tile that this warp read by ldmatrix_x4, four words of x at a time. An arrival does not wait for
    // loads on their way, and the next tile would overwrite what they read: which lane arrives hangs on what came.
    const auto release_read = [&](const auto& pipe, uint32_t n, const uint32_t(&x)[16]) {
        const bool odd = __any_sync(0xFFFFFFFF, (x[3] ^ x[7] ^ x[11] ^ x[15]) == 0x7F817F81);
        if (lane == (odd ? 1 : 0)) ptx::mbarrier_arrive(pipe.empty(n));
    };
    // What this warp wrote is there, for the tensor cores too.
    const auto hand_over = [&](const auto& pipe, uint32_t n) {
        ptx::fence_proxy_async();
        __syncwarp();
        if (lane == 0) ptx::mbarrier_arrive(pipe.full(n));
    };

    if (group == 0) {
        ptx::reg_dealloc<D == 128 ? 24 : 48>();
        if (threadIdx.x == 0) {
            const auto load = [&](const auto& pipe, uint32_t n, const CUtensorMap& map, uint32_t boxes, int column,
                                  uint32_t c, uint32_t head_, uint64_t policy) {
                pipe.producer_acquire(n);
                ptx::mbarrier_arrive_expect_tx(pipe.full(n), boxes * tile_bytes);
                for (uint32_t i = 0; i < boxes; ++i)
                    ptx::tma_load(pipe.at(n) + i * tile_bytes, map, pipe.full(n), column + 64 * i, c * chunk, head_, b,
                                  policy);
            };
            const uint64_t k_policy = work.column_blocks * work.group > 1 ? ptx::evict_normal : ptx::evict_first;
            for (uint32_t c = start; c < last; ++c) {
                load(k, c - start, maps.k, R / 64, 0, c, kv_h, k_policy);
                if (c >= first)
                    load(q, c - first, maps.q, R / 64, 0, c, h,
                         work.column_blocks > 1 ? ptx::evict_normal : ptx::evict_first);
                load(v, c - start, maps.v, L::groups, column_block * D, c, kv_h,
                     work.group > 1 ? ptx::evict_normal : ptx::evict_first);
            }
        } else if (threadIdx.x / 32 == 1) {
            const float* beta = delta ? work.beta + kv_head * work.N : nullptr;
            float x[2], y[2];
            const auto fetch = [&](uint32_t c) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int64_t token = int64_t{c} * chunk + 32 * i + lane;
                    x[i] = g && token < work.N ? __ldg(g + token) : 0.0f;
                    y[i] = delta && token < work.N ? __ldg(beta + token) : 0.0f;
                }
            };
            fetch(start);
            for (uint32_t c = start; c < last; ++c) {
                float sum[2];
                const float now[2] = {y[0], y[1]};
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    sum[i] = x[i] * log2_e;
                    if (sum[i] < -zero_gate_bits)
                        sum[i] = -zero_gate_bits;  // -Inf too; differences of sums stay numbers
                }
                if (c + 1 < last) fetch(c + 1);
#pragma unroll
                for (int n = 1; n < 32; n *= 2) {
                    const float s0 = __shfl_up_sync(0xFFFFFFFF, sum[0], n), s1 = __shfl_up_sync(0xFFFFFFFF, sum[1], n);
                    if (lane >= n) sum[0] += s0, sum[1] += s1;
                }
                sum[1] += __shfl_sync(0xFFFFFFFF, sum[0], 31);
                const float all = __shfl_sync(0xFFFFFFFF, sum[1], 31);
                const float sixteenth[2] = {__shfl_sync(0xFFFFFFFF, sum[0], lane | 15),
                                            __shfl_sync(0xFFFFFFFF, sum[1], lane | 15)};
                gate.producer_acquire(c - start);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const uint32_t at = gate.at(c - start) + 4 * (32 * i + lane);
                    ptx::st_shared(at + G_at, sum[i]);
                    ptx::st_shared(at + up_at, power_of_2(sum[i]));
                    ptx::st_shared(at + down_at, power_of_2(all - sum[i]));
                    ptx::st_shared(at + beta_at, now[i]);
                    ptx::st_shared(at + near_at, power_of_2(sixteenth[i] - sum[i]));
                }
                ptx::mbarrier_arrive(gate.full(c - start));  // every lane for itself
            }
        } else if (lane == 0 && threadIdx.x / 32 - 2 < L::groups) {
            const uint32_t of = threadIdx.x / 32 - 2;
            const auto out = outputs_of(of);
            for (uint32_t c = first; c < last; ++c) {
                out.consumer_wait(c - first);
                ptx::tma_store(maps.o, out.at(c - first), column_block * D + 64 * of, c * chunk, h, b,
                               ptx::evict_first);
                ptx::tma_store_commit();
                ptx::tma_store_wait_read<0>();
                ptx::mbarrier_arrive(out.empty(c - first));
            }
        }
    } else if (group == 1) {
        if constexpr (D == 128) ptx::reg_dealloc<104>();
        else ptx::reg_alloc<200>();
        // What lies above the diagonals stays zero.
        for (uint32_t at = p.at(0) + 16 * (threadIdx.x - 128); at < base + L::T::data_end; at += 16 * 128)
            ptx::st_shared(at, {0, 0, 0, 0});
        for (uint32_t at = base + L::inverse_at + 16 * (threadIdx.x - 128); at < base + L::inverse_at + 8 * block_bytes;
             at += 16 * 128)
            ptx::st_shared(at, {0, 0, 0, 0});
        ptx::named_barrier_sync(1, 128);

        const auto times_keys = [&](float(&acc)[32], uint32_t rows, uint32_t keys) {
            const ptx::TileDescriptor a(rows), b(keys);
            ptx::wgmma_fence();
#pragma unroll
            for (int ks = 0; ks < R / 16; ++ks) {
                const uint32_t off = ks / 4 * tile_bytes + ks % 4 * 32;
                ptx::wgmma_ss<E, 0, 0>(acc, a + off, b + off, ks > 0);
            }
            ptx::wgmma_commit();
        };
        // Makes acc diag(by) (acc ⊙ Γ), in blocks of 16 columns up to this warp's diagonal block, in which it becomes
        // zero above the diagonal and, unless wanted, on it; then calls f(block, whether it is the diagonal one).
        // Elsewhere Γ is made of two factors <= 1.
        const auto each_decayed = [&](float(&acc)[32], uint32_t gates, float by0, float by1, bool with_diagonal,
                                      const auto& f) {
            const int lane = lane_again(), row = 16 * warp + lane / 4, col = 2 * (lane % 4),
                      below_diagonal = lane / 4 - col;
            const float G0 = load_one(gates + G_at + 4 * row), G1 = load_one(gates + G_at + 4 * row + 32);
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                if (m < warp) {
                    const float G_last = load_one(gates + G_at + 4 * (16 * m + 15)), w0 = by0 * power_of_2(G0 - G_last),
                                w1 = by1 * power_of_2(G1 - G_last);
#pragma unroll
                    for (int n = 2 * m; n < 2 * m + 2; ++n) {
                        const float2 near = load_pair(gates + near_at + 4 * (8 * n + col));
                        acc[4 * n] *= w0 * near.x, acc[4 * n + 1] *= w0 * near.y, acc[4 * n + 2] *= w1 * near.x,
                            acc[4 * n + 3] *= w1 * near.y;
                    }
                    f(m, std::false_type{});
                } else if (m == warp) {
#pragma unroll
                    for (int n = 2 * m; n < 2 * m + 2; ++n) {
                        const float2 G_col = load_pair(gates + G_at + 4 * (8 * n + col));
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            acc[4 * n + i] *= (i < 2 ? by0 : by1) *
                                              power_of_2(fminf((i < 2 ? G0 : G1) - (i % 2 ? G_col.y : G_col.x), 0.0f));
                            if (below_diagonal + 8 * (i / 2) - 8 * (n % 2) - i % 2 < (with_diagonal ? 0 : 1))
                                acc[4 * n + i] = 0.0f;
                        }
                    }
                    f(m, std::true_type{});
                }
            }
        };
        // The n-th chunk's K Kᵀ, queued.
        const auto queue_keys = [&](float(&kk)[32], uint32_t n) {
            k.consumer_wait(n);
            times_keys(kk, k.at(n), k.at(n));
        };
        // ... and what it gives: A, its blocks on the diagonal in Float32.
        const auto leave_keys = [&](float(&kk)[32], uint32_t n, uint32_t buffer) {
            const int lane = lane_again(), row = 16 * warp + lane / 4, col = 2 * (lane % 4);
            const uint32_t gates = gate.at(n), diagonal = base + L::diagonal_at + warp * diagonal_bytes,
                           below = base + L::below_at + buffer % 2 * 6 * block_bytes;
            gate.consumer_wait(n);
            const float beta0 = load_one(gates + beta_at + 4 * row), beta1 = load_one(gates + beta_at + 4 * row + 32);
            ptx::wgmma_wait<0>();
            ptx::hold(kk);
            each_decayed(kk, gates, beta0, beta1, false, [&](int m, auto on_diagonal) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float* x = kk + 8 * m + 4 * i;
                    if constexpr (decltype(on_diagonal)::value) {
                        const uint32_t at = diagonal + i * lower_at + col * column_bytes + lane / 4 * 4;
                        ptx::st_shared(at, x[2 * i]), ptx::st_shared(at + column_bytes, x[2 * i + 1]);
                        if (i == 0) store_word(diagonal + corner_at + 4 * lane, pack(__half{}, x[2], x[3]));
                    } else {
                        const uint32_t at = below + (warp * (warp - 1) / 2 + m) * block_bytes + lane / 4 * row_bytes +
                                            (8 * i + col) * 2;
                        store_word(at, pack(__half{}, x[0], x[1]));
                        store_word(at + 8 * row_bytes, pack(__half{}, x[2], x[3]));
                    }
                }
            });
        };
        if constexpr (delta) {
            float kk[32];
            queue_keys(kk, 0);
            leave_keys(kk, 0, 0);
        }
        // What keeps the four warps together is few: the products and one barrier. Between them the first warp has most
        // of T and least of P and A to make, the last one the other way round.
        const auto step = [&](auto kind, uint32_t c) {
            constexpr bool with_outputs = decltype(kind)::value;
            const uint32_t n_all = c - start, n_out = c - first,
                           next = min(c + 1, last - 1) - start;  // made once more after the last
            [[maybe_unused]] float kk[32], qk[32];
            if constexpr (!delta && !with_outputs) {
                // Nothing to make, but a buffer released before it is full would count for its turn before.
                k.consumer_wait(n_all);
                gate.consumer_wait(n_all);
            }
            if constexpr (with_outputs) {
                q.consumer_wait(n_out);
                k.consumer_wait(n_all);
                times_keys(qk, q.at(n_out), k.at(n_all));
            }
            const int lane = lane_again();
            const uint32_t gates = gate.at(n_all);
            [[maybe_unused]] const int row = 16 * warp + lane / 4;
            [[maybe_unused]] const uint32_t diagonal = base + L::diagonal_at + warp * diagonal_bytes;
            // Addresses in a block as operand A, or transposed as B; and as operand B.
            [[maybe_unused]] const uint32_t rows_of = (lane % 8 + 8 * (lane / 8 % 2)) * row_bytes + lane / 16 * 16;
            [[maybe_unused]] const uint32_t columns_of = (lane % 8 + 8 * (lane / 16)) * row_bytes + lane / 8 % 2 * 16;
            [[maybe_unused]] const uint32_t below = base + L::below_at + n_all % 2 * 6 * block_bytes,
                                            inverse = base + L::inverse_at + n_all % 2 * 4 * block_bytes;
            if constexpr (delta) {
                // The inverse X of this warp's diagonal block: those of its two 8×8 by substitution, a column a lane;
                // then below them -X_1 A_10 X_0, transposed.
                __syncwarp();
                const uint32_t x_at = inverse + warp * block_bytes, of = lane / 8 % 2;
                float x[8];
#pragma unroll
                for (int i = 0; i < 8; ++i) x[i] = i == lane % 8 ? 1.0f : 0.0f;
#pragma unroll
                for (int m = 0; m < 7; ++m) {
#pragma unroll
                    for (int i = (m + 1) / 4; i < 2; ++i) {
                        const float4 y = ptx::ld_shared_f32x4(diagonal + of * lower_at + m * column_bytes + 16 * i);
                        const float a[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
                        for (int n = 0; n < 4; ++n) {
                            if (4 * i + n > m) x[4 * i + n] -= a[n] * x[m];
                        }
                    }
                }
                if (lane < 16) {
                    const uint32_t half[4] = {pack(__half{}, x[0], x[1]), pack(__half{}, x[2], x[3]),
                                              pack(__half{}, x[4], x[5]), pack(__half{}, x[6], x[7])};
                    ptx::st_shared(x_at + lane * row_bytes + 16 * of, half);
                }
                __syncwarp();
                {
                    float y[4] = {}, z[4] = {};
                    const uint32_t x1 = ldmatrix_x1_trans(x_at + (8 + lane % 8) * row_bytes + 16);
                    tiny_product(y, ldmatrix_x1(x_at + lane % 8 * row_bytes),
                                 ldmatrix_x1(diagonal + corner_at + lane % 8 * 16));
                    tiny_product(z, pack(__half{}, -y[0], -y[1]), x1);
                    store_word(x_at + lane / 4 * row_bytes + 16 + lane % 4 * 4, pack(__half{}, z[0], z[1]));
                }
            }
            if constexpr (with_outputs) {
                ptx::wgmma_wait<0>();
                ptx::hold(qk);
                release(q, n_out);
            }
            release(k, n_all);
            if constexpr (delta) {
                ptx::named_barrier_sync(1, 128);
                queue_keys(kk, next);
            }
            if constexpr (with_outputs) {
                if constexpr (!delta) gate.consumer_wait(n_all);
                p.producer_acquire(n_out);
                const uint32_t p_row = p.at(n_out) + (16 * warp + lane % 16) * 128;
                each_decayed(qk, gates, work.scale, work.scale, true, [&](int m, auto) {
                    const float* x = qk + 8 * m;
                    ptx::stmatrix_x4(p_row + (((2 * m + lane / 16) ^ (lane % 8)) * 16), pack(E{}, x[0], x[1]),
                                     pack(E{}, x[2], x[3]), pack(E{}, x[4], x[5]), pack(E{}, x[6], x[7]));
                });
                hand_over(p, n_out);
            }
            if constexpr (delta) {
                // T by blocks of this warp's columns, from the diagonal down: T_i = X_i (-Σ_m A_im T_m) diag(β), all
                // transposed.
                t.producer_acquire(n_all);
                const auto columns = [&](auto count) {
                    constexpr int levels = decltype(count)::value;
                    const uint32_t put = t.at(n_all) + transposed_rows(warp, lane);
                    const float beta0 = load_one(gates + beta_at + 4 * row),
                                beta1 = load_one(gates + beta_at + 4 * row + 32);
                    const auto below_of = [&](uint32_t(&to)[4], int i, int m) {
                        ldmatrix_x4(to, below + (i * (i - 1) / 2 + m) * block_bytes + columns_of);
                    };
                    uint32_t done[4], a[3][4], x[4];
                    float y[3][8] = {};
                    ldmatrix_x4(done, inverse + warp * block_bytes + rows_of);
#pragma unroll
                    for (int i = 0; i < levels; ++i) below_of(a[i], warp + 1 + i, warp);
                    if constexpr (levels > 0) ptx::ldmatrix_x4_trans(x, inverse + (warp + 1) * block_bytes + rows_of);
                    uint32_t out[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const float2 e = unpack(__half{}, done[i]);
                        const float by = i % 2 ? beta1 : beta0;
                        out[i] = pack(E{}, e.x * by, e.y * by);
                    }
                    ptx::stmatrix_x4_trans(put + warp * 16 * 128, out[0], out[1], out[2], out[3]);
#pragma unroll
                    for (int s = 0; s < levels; ++s) {
                        uint32_t minus[4];
                        float z[8] = {};
#pragma unroll
                        for (int i = s; i < levels; ++i) block_product(y[i], done, a[i]);
#pragma unroll
                        for (int i = s + 1; i < levels; ++i) below_of(a[i], warp + 1 + i, warp + 1 + s);
#pragma unroll
                        for (int i = 0; i < 4; ++i) minus[i] = pack(__half{}, -y[s][2 * i], -y[s][2 * i + 1]);
                        block_product(z, minus, x);
                        if (s + 1 < levels) ptx::ldmatrix_x4_trans(x, inverse + (warp + 2 + s) * block_bytes + rows_of);
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const float by = i % 2 ? beta1 : beta0;
                            done[i] = pack(__half{}, z[2 * i], z[2 * i + 1]);
                            out[i] = pack(E{}, z[2 * i] * by, z[2 * i + 1] * by);
                        }
                        ptx::stmatrix_x4_trans(put + (warp + 1 + s) * 16 * 128, out[0], out[1], out[2], out[3]);
                    }
                };
                if (warp == 0) columns(std::integral_constant<int, 3>{});
                else if (warp == 1) columns(std::integral_constant<int, 2>{});
                else if (warp == 2) columns(std::integral_constant<int, 1>{});
                else columns(std::integral_constant<int, 0>{});
                hand_over(t, n_all);
            }
            ptx::mbarrier_arrive(gate.empty(n_all));
            // Into the buffer that no warp reads any more, after the last chunk too.
            if constexpr (delta) leave_keys(kk, next, n_all + 1);
        };
        for (uint32_t c = start; c < first; ++c) step(std::false_type{}, c);
        for (uint32_t c = first; c < last; ++c) step(std::true_type{}, c);
    } else {
        ptx::reg_alloc<D == 128 ? 192 : 240>();
        const uint32_t mine = group - 2;
        const auto out = outputs_of(mine);
        float s[R / 2];
        uint32_t sa[R / 4], packed[16];  // Sᵀ as operand A; the outputs of the chunk before
        // Element of Sᵀ in register i: column of v and row of the state.
        const auto each_state = [&](const auto& f) {
            const int64_t at = int64_t{kv_head} * work.dk * work.dv;
#pragma unroll
            for (int i = 0; i < R / 2; ++i) {
                const int of_v = column_block * D + 64 * mine + 16 * warp + lane / 4 + i % 4 / 2 * 8,
                          of_k = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
                if (of_v < work.dv && of_k < work.dk) f(s[i], at + int64_t{of_k} * work.dv + of_v);
            }
        };
#pragma unroll
        for (int i = 0; i < R / 2; ++i) s[i] = 0.0f;
        if (start == 0 && work.initial) each_state([&](float& x, int64_t at) { x = __ldg(work.initial + at); });

        const auto pack_state = [&] {
#pragma unroll
            for (int i = 0; i < R / 4; ++i) sa[i] = pack(E{}, s[2 * i], s[2 * i + 1]);
        };
        const auto leave = [&](uint32_t n) {  // the outputs of chunk first + n
            out.producer_acquire(n);
            const uint32_t to = out.at(n) + transposed_rows(warp, lane_again());
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                ptx::stmatrix_x4_trans(to + j * 16 * 128, packed[4 * j], packed[4 * j + 1], packed[4 * j + 2],
                                       packed[4 * j + 3]);
            }
            hand_over(out, n);
        };
        const auto step = [&](auto kind, uint32_t c) {
            constexpr bool with_outputs = decltype(kind)::value;
            const uint32_t n_all = c - start, n_out = c - first;
            const int col = 2 * (lane_again() % 4);
            uint32_t va[16];
            [[maybe_unused]] float w[32], o[32], u[32];
            k.consumer_wait(n_all);
            if constexpr (with_outputs) q.consumer_wait(n_out);
            if constexpr (L::groups == 2) ptx::named_barrier_sync(2 + mine, 256);
            if constexpr (delta) {
                const ptx::TileDescriptor keys(k.at(n_all));
                ptx::wgmma_fence();
#pragma unroll
                for (int ks = 0; ks < R / 16; ++ks) {
                    ptx::wgmma_rs<E, 0>(w, sa[4 * ks], sa[4 * ks + 1], sa[4 * ks + 2], sa[4 * ks + 3],
                                        keys + (ks / 4 * tile_bytes + ks % 4 * 32), ks > 0);
                }
                ptx::wgmma_commit();
            }
            if constexpr (with_outputs) {
                if (c > first) leave(n_out - 1);
                const ptx::TileDescriptor queries(q.at(n_out));
                q.consumer_wait(n_out);
                ptx::wgmma_fence();
#pragma unroll
                for (int ks = 0; ks < R / 16; ++ks) {
                    ptx::wgmma_rs<E, 0>(o, sa[4 * ks], sa[4 * ks + 1], sa[4 * ks + 2], sa[4 * ks + 3],
                                        queries + (ks / 4 * tile_bytes + ks % 4 * 32), ks > 0);
                }
                ptx::wgmma_commit();
            }
            if constexpr (L::groups == 2) named_barrier_arrive(3 - mine, 256);
            gate.consumer_wait(n_all);
            v.consumer_wait(n_all);
            const uint32_t v_tile = v.at(n_all) + mine * tile_bytes + transposed_rows(warp, lane_again());
            if constexpr (delta) {
                ptx::wgmma_wait<0>();
                ptx::hold(w);
                if constexpr (with_outputs) ptx::hold(o);
#pragma unroll
                for (int i = 0; i < 16; ++i) {
                    if (i % 4 == 0)
                        ptx::ldmatrix_x4_trans(reinterpret_cast<uint32_t(&)[4]>(va[i]), v_tile + i / 4 * 16 * 128);
                    const float2 up = load_pair(gate.at(n_all) + up_at + 4 * (8 * (i / 2) + col)),
                                 x = unpack(E{}, va[i]);
                    va[i] = pack(E{}, x.x - up.x * w[2 * i], x.y - up.y * w[2 * i + 1]);
                }
                release_read(v, n_all, va);
                const ptx::TileDescriptor inverse(t.at(n_all));
                t.consumer_wait(n_all);
                ptx::wgmma_fence();
#pragma unroll
                for (int ks = 0; ks < 4; ++ks)
                    ptx::wgmma_rs<E, 0>(u, va[4 * ks], va[4 * ks + 1], va[4 * ks + 2], va[4 * ks + 3],
                                        inverse + ks * 32, ks > 0);
                ptx::wgmma_commit();
            } else {
#pragma unroll
                for (int i = 0; i < 16; i += 4)
                    ptx::ldmatrix_x4_trans(reinterpret_cast<uint32_t(&)[4]>(va[i]), v_tile + i / 4 * 16 * 128);
            }
            const float all = load_one(gate.at(n_all) + up_at + 4 * 63);
#pragma unroll
            for (int i = 0; i < R / 2; ++i) s[i] *= all;
            if constexpr (with_outputs) {
                if constexpr (!delta) {
                    ptx::wgmma_wait<0>();
                    ptx::hold(o);
                }
                release(q, n_out);
#pragma unroll
                for (int n = 0; n < 8; ++n) {
                    const float2 up = load_pair(gate.at(n_all) + up_at + 4 * (8 * n + col));
                    const float x = work.scale * up.x, y = work.scale * up.y;
                    o[4 * n] *= x, o[4 * n + 1] *= y, o[4 * n + 2] *= x, o[4 * n + 3] *= y;
                }
            }
            if constexpr (delta) {
                ptx::wgmma_wait<0>();
                ptx::hold(u);
                release(t, n_all);
#pragma unroll
                for (int i = 0; i < 16; ++i) va[i] = pack(E{}, u[2 * i], u[2 * i + 1]);
            }
            uint32_t ua[16];
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const float2 down = load_pair(gate.at(n_all) + down_at + 4 * (8 * (i / 2) + col));
                float2 x = unpack(E{}, va[i]);
                if constexpr (delta) x = {u[2 * i], u[2 * i + 1]};
                ua[i] = pack(E{}, x.x * down.x, x.y * down.y);
            }
            if constexpr (!delta) release_read(v, n_all, va);
            ptx::mbarrier_arrive(gate.empty(n_all));
            const ptx::TileDescriptor keys(k.at(n_all), tile_bytes);
            ptx::hold(s);
            ptx::wgmma_fence();
#pragma unroll
            for (int ks = 0; ks < 4; ++ks)
                ptx::wgmma_rs<E, 1>(s, ua[4 * ks], ua[4 * ks + 1], ua[4 * ks + 2], ua[4 * ks + 3], keys + ks * 16 * 128,
                                    1);
            ptx::wgmma_commit();
            if constexpr (with_outputs) {
                const ptx::TileDescriptor scores(p.at(n_out));
                p.consumer_wait(n_out);
                ptx::hold(o);
                ptx::wgmma_fence();
#pragma unroll
                for (int ks = 0; ks < 4; ++ks)
                    ptx::wgmma_rs<E, 0>(o, va[4 * ks], va[4 * ks + 1], va[4 * ks + 2], va[4 * ks + 3], scores + ks * 32,
                                        1);
                ptx::wgmma_commit();
            }
            ptx::wgmma_wait<with_outputs ? 1 : 0>();
            ptx::hold(s);
            release(k, n_all);
            pack_state();
            if constexpr (with_outputs) {
                ptx::wgmma_wait<0>();
                ptx::hold(o);
                release(p, n_out);
#pragma unroll
                for (int i = 0; i < 16; ++i) packed[i] = pack(E{}, o[2 * i], o[2 * i + 1]);
            }
        };
        pack_state();
        // The two state warpgroups take turns in queueing their products with the state, the first one first.
        if (L::groups == 2 && mine == 1) named_barrier_arrive(2, 256);
        for (uint32_t c = start; c < first; ++c) step(std::false_type{}, c);
        for (uint32_t c = first; c < last; ++c) step(std::true_type{}, c);
        if (last > first) leave(last - 1 - first);
        if (last == work.chunks && work.final && h % work.group == 0)
            each_state([&](float& x, int64_t at) { work.final[at] = x; });
    }
}

}  // namespace causeway::gpu::gdr
