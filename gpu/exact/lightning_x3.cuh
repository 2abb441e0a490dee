// Lightning Attention-2 on Float32 tensors with BFloat16 tensor cores: every operand is split into hi + lo, and hi·hi + hi·lo + lo·hi
// stand for the product (relative error of an operand 2^-17). Tiles arrive as Float32 and are split where they lie: a tile of 64
// columns, two boxes of 64 rows of 128 bytes, becomes a hi tile and a lo tile.
#pragma once

#include "gpu/exact/lightning.cuh"

namespace causeway::gpu::la {

template <int R>
struct SplitLayout {
    static constexpr uint32_t block = 2 * tile_bytes;  // 64 columns, as 64 × 64 Float32 or as hi and lo
    static constexpr uint32_t qk_bytes = R / 64 * block;
    static constexpr int stages = R == 128 ? 2 : 3, scores = 2;
    static constexpr uint32_t q_at = 0, k_at = stages * qk_bytes, v_at = 2 * stages * qk_bytes;
    static constexpr uint32_t scores_at = v_at + stages * block, output_at = scores_at + scores * block, barriers_at = output_at + block;
    static constexpr uint32_t bytes = barriers_at + 256 + 1024;
};

// A ring of tiles of one tensor: loaded (full), split (ready), free again (empty).
template <int stages>
struct Tiles {
    uint32_t at, bytes, bars;
    Ring<stages> ring;
    __device__ __forceinline__ Tiles(uint32_t data, uint32_t size, uint32_t barriers) : at(data), bytes(size), bars(barriers) {}
    __device__ __forceinline__ uint32_t tile() const { return at + ring.stage * bytes; }
    __device__ __forceinline__ uint32_t full() const { return bars + 8 * ring.stage; }
    __device__ __forceinline__ uint32_t ready() const { return full() + 8 * stages; }
    __device__ __forceinline__ uint32_t empty() const { return full() + 16 * stages; }
    __device__ __forceinline__ void wait_ready() const { ptx::barrier_wait(ready(), ring.parity); }
};

// x ≈ hi + lo, two at a time.
__device__ __forceinline__ void split(float x, float y, uint32_t& hi, uint32_t& lo) {
    hi = pack(__nv_bfloat16{}, x, y);
    lo = pack(__nv_bfloat16{}, x - __uint_as_float(hi << 16), y - __uint_as_float(hi & 0xFFFF0000u));
}
// The sums of two pairs.
__device__ __forceinline__ float2 join(uint32_t hi, uint32_t lo) {
    return {__uint_as_float(hi << 16) + __uint_as_float(lo << 16), __uint_as_float(hi & 0xFFFF0000u) + __uint_as_float(lo & 0xFFFF0000u)};
}

// Splits one block of 64 × 64 in place, four warps together; each row of 64 stays with one warp.
__device__ __forceinline__ void split_block(uint32_t at, int thread) {
    float4 x[4][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int unit = thread + 128 * i, token = unit / 8, column = unit % 8;  // eight columns of one token
        const uint32_t row = at + column / 4 * tile_bytes + token * 128;
        // The upper four read their halves the other way round: no two of eight threads meet in a bank.
        const int first = 2 * (column % 4) + column / 4, second = first ^ 1;
        x[i][0] = ptx::load_shared(row + ((first ^ (token % 8)) * 16));
        x[i][1] = ptx::load_shared(row + ((second ^ (token % 8)) * 16));
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int unit = thread + 128 * i, token = unit / 8, column = unit % 8;
        const float4 a = column < 4 ? x[i][0] : x[i][1], b = column < 4 ? x[i][1] : x[i][0];
        uint32_t hi[4], lo[4];
        split(a.x, a.y, hi[0], lo[0]), split(a.z, a.w, hi[1], lo[1]), split(b.x, b.y, hi[2], lo[2]), split(b.z, b.w, hi[3], lo[3]);
        const uint32_t to = at + token * 128 + ((column ^ (token % 8)) * 16);
        ptx::store_shared(to, hi);
        ptx::store_shared(to + tile_bytes, lo);
    }
}

// V'ᵀ = vᵀ γ^(63-j) · f of one warp's 16 columns, split, as A operands.
template <int R>
__device__ __forceinline__ void split_weighed_v(const State<__nv_bfloat16, R>& state, uint32_t v_tile, float f, int warp, int lane, uint32_t (&hi)[16],
                                                uint32_t (&lo)[16]) {
    state.load_v(hi, v_tile, warp, lane);
    state.load_v(lo, v_tile + tile_bytes, warp, lane);
#pragma unroll
    for (int ks = 0; ks < 4; ++ks) {
        const float up = ks == 3 ? f : f * state.v_up[2 - ks];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 x = join(hi[4 * ks + i], lo[4 * ks + i]);
            const int w = i < 2 ? 0 : 2;
            split(x.x * (state.v_low[w] * up), x.y * (state.v_low[w + 1] * up), hi[4 * ks + i], lo[4 * ks + i]);
        }
    }
}

// U = V'ᵀ K, asynchronously. The tensor cores cut off what they add to an accumulator, so the running state is summed outside.
template <int R>
__device__ __forceinline__ void queue_split_outer(float (&u)[R / 2], const uint32_t (&hi)[16], const uint32_t (&lo)[16], uint32_t k_tile) {
    using E = __nv_bfloat16;
    constexpr uint32_t block = SplitLayout<R>::block;
    ptx::matrix_fence();
#pragma unroll
    for (int ks = 0; ks < 4; ++ks) {
        const uint32_t at = k_tile + ks * 16 * 128;
        ptx::product_rs<E, 1>(u, lo[4 * ks], lo[4 * ks + 1], lo[4 * ks + 2], lo[4 * ks + 3], ptx::tile(at, block), ks > 0);
        ptx::product_rs<E, 1>(u, hi[4 * ks], hi[4 * ks + 1], hi[4 * ks + 2], hi[4 * ks + 3], ptx::tile(at + tile_bytes, block), 1);
        ptx::product_rs<E, 1>(u, hi[4 * ks], hi[4 * ks + 1], hi[4 * ks + 2], hi[4 * ks + 3], ptx::tile(at, block), 1);
    }
    ptx::matrix_commit();
}

// Warpgroup 0 loads, 1 splits, 2 makes the scores, 3 owns 64 columns of v; stretches, clusters and formulas are la_output's. With
// `leave_states` it does what la_state does instead.
template <int R, int C, bool leave_states>
__global__ __launch_bounds__(512, 1) void la_split(const __grid_constant__ Maps maps, const __grid_constant__ Work work) {
    using E = __nv_bfloat16;
    using L = SplitLayout<R>;
    extern __shared__ uint8_t raw[];
    const uint32_t base = (ptx::shared_address(raw) + 1023) & ~1023u, bars = base + L::barriers_at;
    const uint32_t score_full = bars + 72 * L::stages, score_empty = score_full + 8 * L::scores;
    Tiles<L::stages> q(base + L::q_at, L::qk_bytes, bars), k(base + L::k_at, L::qk_bytes, bars + 24 * L::stages), v(base + L::v_at, L::block, bars + 48 * L::stages);
    const uint32_t index = blockIdx.x / C, rank = C > 1 ? ptx::cluster_rank() : 0;
    const uint32_t stretch = leave_states ? index / work.parts : index;
    const int group = threadIdx.x / 128, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    if (threadIdx.x == 0) {
        ptx::prefetch_map(maps.q), ptx::prefetch_map(maps.k), ptx::prefetch_map(maps.v), ptx::prefetch_map(maps.o);
        for (int i = 0; i < L::stages; ++i) {
            for (const uint32_t at : {q.bars, k.bars, v.bars}) {
                ptx::barrier_init(at + 8 * i, 1), ptx::barrier_init(at + 8 * (L::stages + i), 4), ptx::barrier_init(at + 8 * (2 * L::stages + i), at == v.bars ? 4 : 8 * C);
            }
        }
        for (int i = 0; i < L::scores; ++i) ptx::barrier_init(score_full + 8 * i, 4), ptx::barrier_init(score_empty + 8 * i, 4);
        ptx::barrier_init_fence();
    }
    __syncthreads();
    if constexpr (C > 1) ptx::cluster_barrier();
    if constexpr (leave_states) ptx::let_next_kernel_start();

    // Calls f(piece, chunks to replay before it) for every piece of the stretch; a part of one that leaves a state has no chunks of
    // its own.
    const auto each_piece = [&](const auto& f) {
        uint32_t pos = work.bound[stretch];
        const uint32_t end = work.bound[stretch + 1];
        if constexpr (leave_states) {
            if (end % work.chunks == 0) return;
            pos = max(pos, end / work.chunks * work.chunks);
            Piece p = piece_at(work, pos, end);
            if (p.head.reach != from_memory) return;
            const uint32_t i = index % work.parts, from = part_start(p.first, p.last, i, work.parts), to = part_start(p.first, p.last, i + 1, work.parts);
            p.first = p.last = to;
            f(p, to - from);
        } else {
            while (pos < end) {
                const Piece p = piece_at(work, pos, end);
                f(p, replayed(p));
                pos += p.last - p.first;
            }
        }
    };
    // This warp needs the tile no more: every block that may write into it is told.
    const auto release_shared = [&](const Tiles<L::stages>& x) {
        if (C == 1 && lane == 0) ptx::barrier_arrive(x.empty());
        if (C > 1 && lane < C) ptx::barrier_arrive_at(x.empty(), lane);
    };

    if (group == 0) {
        ptx::give_registers<40>();
        if (threadIdx.x == 0) {
            const auto load_shared_rows = [&](Tiles<L::stages>& x, const CUtensorMap& map, const Piece& p, uint32_t c) {
                ptx::barrier_wait(x.empty(), x.ring.parity ^ 1);
                ptx::barrier_arrive_expect(x.full(), L::qk_bytes);
#pragma unroll
                for (int i = 0; i < R / 32; ++i) {
                    const uint32_t box = x.tile() + i * tile_bytes + rank * (tile_bytes / C);
                    const int token = c * chunk + rank * (chunk / C);
                    if constexpr (C == 1) ptx::load_box(box, map, x.full(), 32 * i, token, p.h, p.b, work.read_once);
                    else ptx::load_box_for((1 << C) - 1, box, map, x.full(), 32 * i, token, p.h, p.b, work.read_once);
                }
                x.ring.next();
            };
            const auto load = [&](const Piece& p, uint32_t c, bool with_q) {
                if (with_q) load_shared_rows(q, maps.q, p, c);
                load_shared_rows(k, maps.k, p, c);
                ptx::barrier_wait(v.empty(), v.ring.parity ^ 1);
                ptx::barrier_arrive_expect(v.full(), L::block);
                for (int i = 0; i < 2; ++i) ptx::load_box(v.tile() + i * tile_bytes, maps.v, v.full(), rank * 64 + 32 * i, c * chunk, p.h, p.b, work.read_once);
                v.ring.next();
            };
            each_piece([&](const Piece& p, uint32_t back) {
                for (uint32_t i = 1; i <= back; ++i) load(p, p.first - i, false);
                for (uint32_t c = p.first; c < p.last; ++c) load(p, c, true);
            });
        }
    } else if (group == 1) {
        ptx::give_registers<80>();
        const auto split_tile = [&](Tiles<L::stages>& x) {
            ptx::barrier_wait(x.full(), x.ring.parity);
            for (uint32_t at = 0; at < x.bytes; at += L::block) split_block(x.tile() + at, thread);
            ptx::proxy_fence();
            __syncwarp();
            if (lane == 0) ptx::barrier_arrive(x.ready());
            x.ring.next();
        };
        each_piece([&](const Piece& p, uint32_t back) {
            for (uint32_t i = 0; i < back + p.last - p.first; ++i) {
                if (i >= back) split_tile(q);
                split_tile(k);
                split_tile(v);
            }
        });
    } else if (group == 2) {
        ptx::take_registers<136>();
        Ring<L::scores> out;
        float mask[32];
        const int row = 16 * warp + lane / 4, col = 2 * (lane % 4);
        const uint32_t put = (16 * warp + lane % 16) * 128;
        each_piece([&](const Piece& p, uint32_t back) {
            for (; back > 0; --back) {
                k.wait_ready();
                release_shared(k);
                k.ring.next();
            }
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                const int n = row + (i % 4 / 2) * 8 - (8 * (i / 4) + col + i % 2);
                mask[i] = n < 0 ? 0.0f : power(p.head.log2_gamma, n);
            }
            for (uint32_t c = p.first; c < p.last; ++c) {
                float acc[32];
                q.wait_ready();
                k.wait_ready();
                ptx::matrix_fence();
#pragma unroll
                for (int ks = 0; ks < R / 16; ++ks) {
                    const uint32_t qs = q.tile() + ks / 4 * L::block + ks % 4 * 32, kt = k.tile() + ks / 4 * L::block + ks % 4 * 32;
                    ptx::product_ss<E, 0, 0>(acc, ptx::tile(qs + tile_bytes), ptx::tile(kt), ks > 0);
                    ptx::product_ss<E, 0, 0>(acc, ptx::tile(qs), ptx::tile(kt + tile_bytes), 1);
                    ptx::product_ss<E, 0, 0>(acc, ptx::tile(qs), ptx::tile(kt), 1);
                }
                ptx::matrix_commit();
                ptx::matrix_wait<0>();
                ptx::hold(acc);
                release_shared(q);
                release_shared(k);
                q.ring.next();
                k.ring.next();
                ptx::barrier_wait(score_empty + 8 * out.stage, out.parity ^ 1);
                const uint32_t to = base + L::scores_at + out.stage * L::block + put;
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    uint32_t hi[4], lo[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) split(acc[8 * j + 2 * i] * mask[8 * j + 2 * i], acc[8 * j + 2 * i + 1] * mask[8 * j + 2 * i + 1], hi[i], lo[i]);
                    const uint32_t block = to + (((2 * j + lane / 16) ^ (lane % 8)) * 16);
                    ptx::store_matrices(block, hi[0], hi[1], hi[2], hi[3]);
                    ptx::store_matrices(block + tile_bytes, lo[0], lo[1], lo[2], lo[3]);
                }
                ptx::proxy_fence();
                __syncwarp();
                if (lane == 0) ptx::barrier_arrive(score_full + 8 * out.stage);
                out.next();
            }
        });
    } else {
        ptx::take_registers<256>();
        const bool leader = thread == 0;
        Ring<L::scores> in;
        State<E, R> state;
        const uint32_t out = base + L::output_at;
        const auto release_v = [&] {
            if (lane == 0) ptx::barrier_arrive(v.empty());
        };
        each_piece([&](const Piece& p, uint32_t back) {
            const float log2_gamma = p.head.log2_gamma;
            state.clear();
            state.set_decay(log2_gamma, lane);
            float f = 1.0f;
            for (; back > 0; --back) {
                uint32_t hi[16], lo[16];
                float u[R / 2];
                v.wait_ready();
                split_weighed_v(state, v.tile(), f, warp, lane, hi, lo);
                release_v();
                v.ring.next();
                k.wait_ready();
                queue_split_outer<R>(u, hi, lo, k.tile());
                ptx::matrix_wait<0>();
                ptx::hold(u);
                release_shared(k);
                k.ring.next();
#pragma unroll
                for (int i = 0; i < R / 2; ++i) state.s[i] += u[i];
                f *= state.step;
            }
            if constexpr (leave_states) {
                state.leave(work, index * C + rank, thread);
                return;
            }
            if (p.first > 0 && p.head.reach == from_memory) state.take(work, p, stretch, C, rank, thread);
            const float o_low[2] = {power(log2_gamma, 2 * (lane % 4) + 1), power(log2_gamma, 2 * (lane % 4) + 2)}, o_8 = power(log2_gamma, 8);
            float o[32];
            const auto leave = [&](uint32_t c) {
                if (leader) ptx::store_wait_read<0>();
                ptx::named_barrier(1, 128);
#pragma unroll
                for (int i = 0; i < 32; ++i) {
                    const int token = 8 * (i / 4) + 2 * (lane % 4) + i % 2, column = 16 * warp + lane / 4 + i % 4 / 2 * 8;
                    ptx::store_shared(out + column / 32 * tile_bytes + token * 128 + ((column % 32 / 4 ^ token % 8) * 16) + column % 4 * 4, o[i]);
                }
                ptx::proxy_fence();
                ptx::named_barrier(1, 128);
                if (leader) {
                    for (int i = 0; i < 2; ++i) ptx::store_box(maps.o, out + i * tile_bytes, rank * 64 + 32 * i, c * chunk, p.h, p.b, work.write);
                    ptx::store_commit();
                }
            };

            for (uint32_t c = p.first; c < p.last; ++c) {
                float from_state[32], u[R / 2];
                uint32_t sh[R / 4], sl[R / 4], vh[16], vl[16];
#pragma unroll
                for (int i = 0; i < R / 4; ++i) split(state.s[2 * i], state.s[2 * i + 1], sh[i], sl[i]);
                q.wait_ready();
                ptx::matrix_fence();
#pragma unroll
                for (int ks = 0; ks < R / 16; ++ks) {
                    const uint32_t qs = q.tile() + ks / 4 * L::block + ks % 4 * 32;
                    ptx::product_rs<E, 0>(from_state, sl[4 * ks], sl[4 * ks + 1], sl[4 * ks + 2], sl[4 * ks + 3], ptx::tile(qs), ks > 0);
                    ptx::product_rs<E, 0>(from_state, sh[4 * ks], sh[4 * ks + 1], sh[4 * ks + 2], sh[4 * ks + 3], ptx::tile(qs + tile_bytes), 1);
                    ptx::product_rs<E, 0>(from_state, sh[4 * ks], sh[4 * ks + 1], sh[4 * ks + 2], sh[4 * ks + 3], ptx::tile(qs), 1);
                }
                ptx::matrix_commit();
                if (c > p.first) leave(c - 1);  // while the tensor cores are at work
                v.wait_ready();
                split_weighed_v(state, v.tile(), 1.0f, warp, lane, vh, vl);
                k.wait_ready();
                ptx::matrix_wait<0>();
                ptx::hold(from_state);
                release_shared(q);
                q.ring.next();
                float up = 1.0f;
#pragma unroll
                for (int n = 0; n < 8; ++n) {
                    const float w0 = o_low[0] * up, w1 = o_low[1] * up;
                    o[4 * n] = from_state[4 * n] * w0, o[4 * n + 1] = from_state[4 * n + 1] * w1;
                    o[4 * n + 2] = from_state[4 * n + 2] * w0, o[4 * n + 3] = from_state[4 * n + 3] * w1;
                    up *= o_8;
                }
                queue_split_outer<R>(u, vh, vl, k.tile());
                ptx::barrier_wait(score_full + 8 * in.stage, in.parity);
                ptx::hold(o);
                ptx::matrix_fence();
                const uint32_t scores = base + L::scores_at + in.stage * L::block;
#pragma unroll
                for (int ks = 0; ks < 4; ++ks) {
                    const uint32_t vt = v.tile() + ks * 16 * 128, s = scores + ks * 32;
                    ptx::product_ss<E, 1, 0>(o, ptx::tile(vt + tile_bytes), ptx::tile(s), 1);
                    ptx::product_ss<E, 1, 0>(o, ptx::tile(vt), ptx::tile(s + tile_bytes), 1);
                    ptx::product_ss<E, 1, 0>(o, ptx::tile(vt), ptx::tile(s), 1);
                }
                ptx::matrix_commit();
                ptx::matrix_wait<1>();
                ptx::hold(u);
                release_shared(k);
                k.ring.next();
#pragma unroll
                for (int i = 0; i < R / 2; ++i) state.s[i] = fmaf(state.s[i], state.step, u[i]);
                ptx::matrix_wait<0>();
                ptx::hold(o);
                release_v();
                v.ring.next();
                if (lane == 0) ptx::barrier_arrive(score_empty + 8 * in.stage);
                in.next();
            }
            leave(p.last - 1);
        });
        if (leader) ptx::store_wait_read<0>();
    }
    if constexpr (C > 1) {
        __syncwarp();
        ptx::cluster_barrier();
    }
}

}  // namespace causeway::gpu::la
