// Lightning Attention-2 on Float32 tensors with BFloat16 tensor cores: every operand is split into hi + lo, and hi·hi + hi·lo + lo·hi
// stand for the product (relative error of an operand 2^-17). Tiles arrive as Float32 and are split where they lie: a tile of 64
// columns, two boxes of 64 rows of 128 bytes, becomes a hi tile and a lo tile.
#pragma once

#include "gpu/exact/lightning.cuh"

namespace causeway::gpu::la {

// Half a score tile, as hi and as lo.
constexpr uint32_t half_bytes = 2 * half_tile;

template <int R>
struct SplitLayout {
    static constexpr uint32_t block = 2 * tile_bytes;  // 64 columns, as 64 × 64 Float32 or as hi and lo
    static constexpr uint32_t qk_bytes = R / 64 * block;
    static constexpr int stages = R == 128 ? 2 : 3, scores = 2;
    static constexpr uint32_t q_at = 0, k_at = stages * qk_bytes, v_at = 2 * stages * qk_bytes;
    static constexpr uint32_t scores_at = v_at + stages * block, output_at = scores_at + scores * block, kept_at = output_at + block;
    static constexpr uint32_t barriers_at = kept_at + kept_bytes;
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

// vᵀ of one warp's 16 columns, split, as A operands. Whether it has NaN or Inf.
template <int R>
__device__ __forceinline__ bool load_split_v(uint32_t v_tile, int warp, int lane, uint32_t (&hi)[16], uint32_t (&lo)[16]) {
    State<__nv_bfloat16, R>::load_v(hi, v_tile, warp, lane);
    State<__nv_bfloat16, R>::load_v(lo, v_tile + tile_bytes, warp, lane);
    return __any_sync(~0u, unusual<__nv_bfloat16>(hi));
}
// V'ᵀ = vᵀ γ^(63-j) · f, reversed vᵀ γ^j · f.
template <int R>
__device__ __forceinline__ void weigh_split_v(const State<__nv_bfloat16, R>& state, float f, const uint32_t (&hi)[16], const uint32_t (&lo)[16],
                                              uint32_t (&weighed_hi)[16], uint32_t (&weighed_lo)[16]) {
#pragma unroll
    for (int ks = 0; ks < 4; ++ks) {
        const float up = f * state.v_up[ks];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 x = join(hi[4 * ks + i], lo[4 * ks + i]);
            const int w = i < 2 ? 0 : 2;
            split(x.x * (state.v_low[w] * up), x.y * (state.v_low[w + 1] * up), weighed_hi[4 * ks + i], weighed_lo[4 * ks + i]);
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

// Warpgroup 0 loads, 1 splits, 2 makes the scores, 3 owns 64 columns of v; stretches, clusters and formulas are la_output's.
// With `leave_states` it does what la_state does instead.
template <int R, int C, bool leave_states, bool turning>
__global__ __launch_bounds__(512, 1) void la_split(const __grid_constant__ Maps<turning> maps, const __grid_constant__ Work work) {
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
        if constexpr (!turning) prefetch(maps.of[0]);
        for (int i = 0; i < L::stages; ++i) {
            for (const uint32_t at : {q.bars, k.bars, v.bars}) {
                // Tiles of v are read by ordinary loads too: every thread arrives for itself.
                const bool of_v = at == v.bars;
                ptx::barrier_init(at + 8 * i, 1);
                ptx::barrier_init(at + 8 * (L::stages + i), of_v ? 128 : 4), ptx::barrier_init(at + 8 * (2 * L::stages + i), of_v ? 128 : 8 * C);
            }
        }
        for (int i = 0; i < L::scores; ++i) ptx::barrier_init(score_full + 8 * i, 1), ptx::barrier_init(score_empty + 8 * i, 4 * C);
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
            Piece p = piece_at<turning>(work, pos, end);
            if (p.head.reach != from_memory) return;
            const uint32_t i = index % work.parts, from = part_start(p.first, p.last, i, work.parts), to = part_start(p.first, p.last, i + 1, work.parts);
            p.first = p.last = to;
            f(p, to - from);
        } else {
            while (pos < end) {
                const Piece p = piece_at<turning>(work, pos, end);
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
                    const int token = p.token(c) + rank * (chunk / C);
                    if constexpr (C == 1) ptx::load_box(box, map, x.full(), 32 * i, token, p.h, p.b, work.read_once);
                    else ptx::load_box_for((1 << C) - 1, box, map, x.full(), 32 * i, token, p.h, p.b, work.read_once);
                }
                x.ring.next();
            };
            const auto load = [&](const Piece& p, uint32_t c, bool with_q) {
                const Tensors& map = maps.of[p.problem];
                if (with_q) load_shared_rows(q, map.q, p, c);
                load_shared_rows(k, map.k, p, c);
                ptx::barrier_wait(v.empty(), v.ring.parity ^ 1);
                ptx::barrier_arrive_expect(v.full(), L::block);
                for (int i = 0; i < 2; ++i) ptx::load_box(v.tile() + i * tile_bytes, map.v, v.full(), rank * 64 + 32 * i, p.token(c), p.h, p.b, work.read_once);
                v.ring.next();
            };
            each_piece([&](const Piece& p, uint32_t back) {
                for (uint32_t i = 1; i <= back; ++i) load(p, p.first - i, false);
                for (uint32_t c = p.first; c < p.last; ++c) load(p, c, true);
            });
        }
    } else if (group == 1) {
        ptx::give_registers<96>();
        const auto split_tile = [&](Tiles<L::stages>& x) {
            ptx::barrier_wait(x.full(), x.ring.parity);
            for (uint32_t at = 0; at < x.bytes; at += L::block) split_block(x.tile() + at, thread);
            ptx::proxy_fence();
            __syncwarp();
            if (lane == 0 || &x == &v) ptx::barrier_arrive(x.ready());
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
        ptx::give_registers<120>();
        // Each block of a pair makes the scores of half the keys, and sends them to the other.
        constexpr int keys = 64 / C;
        Ring<L::scores> out;
        Mask<keys> mask;
        const int first_half = C > 1 ? static_cast<int>(rank) : 0;
        each_piece([&](const Piece& p, uint32_t back) {
            for (; back > 0; --back) {
                k.wait_ready();
                release_shared(k);
                k.ring.next();
            }
            mask.set(p, 32 * first_half, warp, lane);
            for (uint32_t c = p.first; c < p.last; ++c) {
                float acc[keys / 2];
                q.wait_ready();
                k.wait_ready();
                ptx::matrix_fence();
#pragma unroll
                for (int ks = 0; ks < R / 16; ++ks) {
                    const uint32_t at = ks / 4 * L::block + ks % 4 * 32, qs = q.tile() + at, kt = k.tile() + at + 32 * first_half * 128;
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
                const uint32_t mine = base + L::scores_at + out.stage * L::block + first_half * half_bytes;
#pragma unroll
                for (int j = 0; j < keys / 16; ++j) {
                    uint32_t hi[4], lo[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int at = 8 * j + 2 * i;
                        split(acc[at] * mask.weight[at], acc[at + 1] * mask.weight[at + 1], hi[i], lo[i]);
                        hi[i] &= mask.seen[at / 2], lo[i] &= mask.seen[at / 2];
                    }
                    const uint32_t to = mine + j / 2 * half_bytes + score_at(16 * warp + lane % 16, 2 * (j % 2) + lane / 16);
                    ptx::store_matrices(to, hi[0], hi[1], hi[2], hi[3]);
                    ptx::store_matrices(to + half_tile, lo[0], lo[1], lo[2], lo[3]);
                }
                ptx::proxy_fence();
                ptx::named_barrier(2, 128);
                if (thread == 0) send_scores<C>(mine, half_bytes, score_full + 8 * out.stage, rank);
                out.next();
            }
        });
    } else {
        ptx::take_registers<256>();
        const bool leader = thread == 0;
        Ring<L::scores> in;
        State<E, R> state;
        const uint32_t out = base + L::output_at;
        const auto release_v = [&] { ptx::barrier_arrive(v.empty()); };
        each_piece([&](const Piece& p, uint32_t back) {
            state.clear();
            state.set_decay(p, lane);
            float f = 1.0f;
            for (; back > 0; --back) {
                uint32_t hi[16], lo[16];
                float u[R / 2];
                v.wait_ready();
                load_split_v<R>(v.tile(), warp, lane, hi, lo);
                weigh_split_v(state, f, hi, lo, hi, lo);
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
                state.leave(work.states, index * C + rank, thread);
                return;
            }
            if (p.first > 0 && p.head.reach == from_memory) state.take(work, p, stretch, C, rank, thread);
            if (!turning && work.initial) state.add_initial(work, p, rank, warp, lane);
            OutputDecay decay;
            decay.set(p, lane);
            const Remake remake{base + L::kept_at, thread};
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
                    for (int i = 0; i < 2; ++i) ptx::store_box(maps.of[p.problem].o, out + i * tile_bytes, rank * 64 + 32 * i, p.token(c), p.h, p.b, work.write);
                    ptx::store_commit();
                }
            };

            for (uint32_t c = p.first; c < p.last; ++c) {
                if (!turning && work.last && c + 1 == work.chunks) state.leave(work.last, size_t{p.line} * C + rank, thread);
                uint32_t vh[16], vl[16];
                bool odd;
                {
                    float from_state[32];
                    uint32_t sh[R / 4], sl[R / 4];
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
                    v.wait_ready();  // while the tensor cores are at work
                    odd = load_split_v<R>(v.tile(), warp, lane, vh, vl);
                    ptx::matrix_wait<0>();
                    ptx::hold(from_state);
                    release_shared(q);
                    q.ring.next();
                    decay.apply(p, o, from_state);
                }
                if (odd) remake.keep(o);
                ptx::barrier_wait(score_full + 8 * in.stage, in.parity);
                ptx::hold(o);
                ptx::matrix_fence();
                const uint32_t scores = base + L::scores_at + in.stage * L::block;
#pragma unroll
                for (int ks = 0; ks < 4; ++ks) {
                    const uint32_t s = scores + ks / 2 * half_bytes + ks % 2 * 32;
                    ptx::product_rs<E, 0>(o, vl[4 * ks], vl[4 * ks + 1], vl[4 * ks + 2], vl[4 * ks + 3], ptx::narrow_tile(s), 1);
                    ptx::product_rs<E, 0>(o, vh[4 * ks], vh[4 * ks + 1], vh[4 * ks + 2], vh[4 * ks + 3], ptx::narrow_tile(s + half_tile), 1);
                    ptx::product_rs<E, 0>(o, vh[4 * ks], vh[4 * ks + 1], vh[4 * ks + 2], vh[4 * ks + 3], ptx::narrow_tile(s), 1);
                }
                ptx::matrix_commit();
                float u[R / 2];
                uint32_t wh[16], wl[16];
                weigh_split_v(state, 1.0f, vh, vl, wh, wl);
                k.wait_ready();
                queue_split_outer<R>(u, wh, wl, k.tile());
                ptx::matrix_wait<1>();
                ptx::hold(o);
                if (odd) {
                    const auto value = [&](int j, int column) {
                        return tile_element<E>(v.tile(), j, column) + tile_element<E>(v.tile() + tile_bytes, j, column);
                    };
                    const auto score = [&](int i, int j) {
                        const uint32_t at = scores + j / 32 * half_bytes + score_at(i, j % 32 / 8) + j % 8 / 2 * 4;
                        const float2 pair = join(ptx::load_shared_word(at), ptx::load_shared_word(at + half_tile));
                        return j % 2 ? pair.y : pair.x;
                    };
                    remake.make(p, o, value, score);
                }
                release_v();
                v.ring.next();
                if (C == 1 && lane == 0) ptx::barrier_arrive(score_empty + 8 * in.stage);
                if (C > 1 && lane < C) ptx::barrier_arrive_at(score_empty + 8 * in.stage, lane);
                in.next();
                leave(c);
                ptx::matrix_wait<0>();
                ptx::hold(u);
                release_shared(k);
                k.ring.next();
#pragma unroll
                for (int i = 0; i < R / 2; ++i) state.s[i] = fmaf(state.s[i], state.step, u[i]);
            }
        });
        if (leader) ptx::store_wait_read<0>();
    }
    if constexpr (C > 1) {
        __syncwarp();
        ptx::cluster_barrier();
    }
}

}  // namespace causeway::gpu::la
