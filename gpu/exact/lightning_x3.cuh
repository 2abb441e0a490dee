// Lightning Attention-2 on Float32 tensors with BFloat16 tensor cores: every operand is split into hi + lo, and hi·hi +
// hi·lo + lo·hi stand for the product (relative error of an operand 2^-17). Tiles of q and k arrive as Float32 and are
// split where they lie: a tile of 64 columns, two boxes of 64 rows of 128 bytes, becomes a hi tile and a lo tile. Tiles
// of v are split on their way into registers, and the outputs leave from where the values were.
#pragma once

#include "gpu/exact/lightning.cuh"

namespace causeway::gpu::la {

// Half a score tile, as hi and as lo.
constexpr uint32_t half_bytes = 2 * half_tile;

template <int R, int D, bool leave_states>
struct SplitLayout {
    static constexpr int groups = D / 64;  // warpgroups that own 64 columns of the state each
    static constexpr int q_splitters = 4, k_splitters = leave_states ? 7 : 3;  // warps that split
    static constexpr uint32_t block = 2 * tile_bytes;  // 64 columns, as 64 × 64 Float32 or as hi and lo
    static constexpr uint32_t qk_bytes = R / 64 * block,
                              stage_bytes = (leave_states ? 1 : 2) * qk_bytes + groups * block;
    static constexpr int scores = leave_states ? 0 : 2;
    static constexpr uint32_t barrier_bytes = 512, rest = scores * block + barrier_bytes +
                                                          1024;  // 1024: the base is rounded up to a swizzle atom
    static constexpr int fitting = static_cast<int>((227 * 1024 - rest) / stage_bytes),
                         stages = fitting < 4 ? fitting : 4;
    static constexpr uint32_t k_at = 0, v_at = stages * qk_bytes, q_at = v_at + stages * groups * block;
    static constexpr uint32_t scores_at = stages * stage_bytes, barriers_at = scores_at + scores * block;
    static constexpr uint32_t bytes = barriers_at + barrier_bytes + 1024;
    static constexpr int threads = 128 * (2 + groups);
};

// A ring of tiles of one tensor: loaded (full), split (ready; q and k), free again (empty).
template <int stages>
struct Tiles {
    uint32_t at, bytes, bars;
    Ring<stages> ring;
    __device__ __forceinline__ Tiles(uint32_t data, uint32_t size, uint32_t barriers)
        : at(data), bytes(size), bars(barriers) {}
    __device__ __forceinline__ uint32_t tile() const { return at + ring.stage * bytes; }
    __device__ __forceinline__ uint32_t full() const { return bars + 8 * ring.stage; }
    __device__ __forceinline__ uint32_t ready() const { return full() + 8 * stages; }
    __device__ __forceinline__ uint32_t empty() const { return full() + 16 * stages; }
    __device__ __forceinline__ void wait_full() const { ptx::mbarrier_wait(full(), ring.parity); }
    __device__ __forceinline__ void wait_ready() const { ptx::mbarrier_wait(ready(), ring.parity); }
    __device__ __forceinline__ void wait_empty() const { ptx::mbarrier_wait(empty(), ring.parity ^ 1); }
};

// x ≈ hi + lo, two at a time.
__device__ __forceinline__ void split(float x, float y, uint32_t& hi, uint32_t& lo) {
    hi = pack(__nv_bfloat16{}, x, y);
    lo = pack(__nv_bfloat16{}, x - __uint_as_float(hi << 16), y - __uint_as_float(hi & 0xFFFF0000u));
}
// The sums of two pairs.
__device__ __forceinline__ float2 join(uint32_t hi, uint32_t lo) {
    return {__uint_as_float(hi << 16) + __uint_as_float(lo << 16),
            __uint_as_float(hi & 0xFFFF0000u) + __uint_as_float(lo & 0xFFFF0000u)};
}

// Splits a tile of R columns in place, `splitters` warps together. A step of a warp, `at_once` of them loaded at once,
// is eight tokens of 64 columns, of which a thread has eight columns of either half of one token. Eight threads that
// access shared memory at once have two tokens, t and t ^ 5: in the swizzle their pieces of 16 bytes, every other one
// of Float32 or four in a row of hi or lo, never meet in a bank.
template <int R, int splitters, int at_once>
__device__ __forceinline__ void split_tile(uint32_t tile, int warp, int lane) {
    constexpr int steps = R / 64 * 8;
    static_assert(at_once == 1 || steps % (at_once * splitters) == 0);
    const int token = lane / 8 ^ lane / 4 % 2 * 5, piece = lane % 4;
    const uint32_t row = tile + token * 128, from = row + (2 * piece ^ token) * 16, to = row + (piece ^ token) * 16;
#pragma unroll 1
    for (int s = warp; s < steps; s += at_once * splitters) {
        float4 x[at_once][4];
        uint32_t at[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const int step = s + i * splitters;
            at[i] = step / 8 * (2 * tile_bytes) + step % 8 * 1024;
#pragma unroll
            for (int j = 0; j < 4; ++j)
                x[i][j] = ptx::ld_shared_f32x4((from ^ j % 2 * 16) + at[i] + j / 2 * tile_bytes);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float4 a = x[i][2 * half], b = x[i][2 * half + 1];
                uint32_t hi[4], lo[4];
                split(a.x, a.y, hi[0], lo[0]), split(a.z, a.w, hi[1], lo[1]), split(b.x, b.y, hi[2], lo[2]),
                    split(b.z, b.w, hi[3], lo[3]);
                ptx::st_shared((to ^ half * 64) + at[i], hi);
                ptx::st_shared((to ^ half * 64) + at[i] + tile_bytes, lo);
            }
        }
    }
}

// The share of warp `splitter`, once the tile is there.
template <int R, int splitters, int at_once, int stages>
__device__ __forceinline__ void split_share(const Tiles<stages>& x, int splitter, int lane) {
    x.wait_full();
    split_tile<R, splitters, at_once>(x.tile(), splitter, lane);
    ptx::fence_proxy_async();
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(x.ready());
}

// Where element (token, column) of a Float32 tile of 64 columns lies.
__device__ __forceinline__ uint32_t value_at(int token, int column) {
    return column / 32 * tile_bytes + token * 128 + ((column % 32 / 4 ^ token % 8) * 16) + column % 4 * 4;
}

// The elements of a transposed 64 × 64 tile that one thread has, as an accumulator or as A operands: element i is token
// 8(i/4) + 2(lane % 4) + i % 2 of column 16 warp + lane/4 + 8(i/2 % 2). The 32 lanes of an access are in 32 banks.
struct Own {
    uint32_t at[4];

    __device__ __forceinline__ Own(int warp, int lane) {
#pragma unroll
        for (int i = 0; i < 4; ++i) at[i] = value_at(2 * (lane % 4) + i % 2, 16 * warp + lane / 4 + 8 * (i / 2));
    }
    __device__ __forceinline__ void load(uint32_t tile, float (&x)[32]) const {
#pragma unroll
        for (int i = 0; i < 32; ++i) x[i] = ptx::ld_shared_f32(tile + at[i % 4] + i / 4 * 8 * 128);
    }
    __device__ __forceinline__ void store(uint32_t tile, const float (&x)[32]) const {
#pragma unroll
        for (int i = 0; i < 32; ++i) ptx::st_shared(tile + at[i % 4] + i / 4 * 8 * 128, x[i]);
    }
};

// γ^distance of the tokens that a thread has: of values to the next state, and of outputs from the state.
struct SplitDecay {
    float value[2], output[2], step, chunk_step;  // of the token pair nearest to the state; γ^8, γ^64

    __device__ __forceinline__ void set(const Piece& p, int lane) {
        const int first = 2 * (lane % 4);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            value[i] = power(p.head.log2_gamma, p.reversed ? first + i : 7 - first - i);
            output[i] = power(p.head.log2_gamma, p.reversed ? 8 - first - i : first + i + 1);
        }
        step = power(p.head.log2_gamma, 8);
        chunk_step = power(p.head.log2_gamma, chunk);
    }
    // Keeps the compiler from making all weights of a chunk before the loop over chunks: there are no registers for
    // them.
    __device__ __forceinline__ void renew() { asm volatile("" : "+f"(step)); }
    // f(n, γ^8k) for the eight tokens 8n ... in order of their distance, k = 0, 1 ...
    template <class F>
    __device__ __forceinline__ void outwards(bool from_first, float up, const F& f) const {
        if (from_first) {
#pragma unroll
            for (int n = 0; n < 8; ++n) f(n, up), up *= step;
        } else {
#pragma unroll
            for (int n = 7; n >= 0; --n) f(n, up), up *= step;
        }
    }
    __device__ __forceinline__ void weigh_outputs(const Piece& p, float (&o)[32]) const {
        outwards(!p.reversed, 1.0f, [&](int n, float up) {
            const float w0 = output[0] * up, w1 = output[1] * up;
            o[4 * n] *= w0, o[4 * n + 1] *= w1, o[4 * n + 2] *= w0, o[4 * n + 3] *= w1;
        });
    }
    // V'ᵀ = vᵀ γ^(63-j) · f, reversed vᵀ γ^j · f, split.
    __device__ __forceinline__ void weigh_values(const Piece& p, float f, const float (&v)[32], uint32_t (&hi)[16],
                                                 uint32_t (&lo)[16]) const {
        outwards(p.reversed, f, [&](int n, float up) {
            const float w0 = value[0] * up, w1 = value[1] * up;
            split(v[4 * n] * w0, v[4 * n + 1] * w1, hi[2 * n], lo[2 * n]);
            split(v[4 * n + 2] * w0, v[4 * n + 3] * w1, hi[2 * n + 1], lo[2 * n + 1]);
        });
    }
};

// The mask of a score tile of 64 queries and keys: blocks of 16 by 16 are seen wholly, not at all, or (on the diagonal)
// in part.
struct SplitMask {
    float far[2], near[2], step, step2;  // γ^(8 + distance), γ^distance or 0, γ^8, γ^16
    uint32_t seen;                       // of a pair on the diagonal, as ones
    bool reversed;

    __device__ __forceinline__ void set(const Piece& p, int lane) {
        seen = 0;
        reversed = p.reversed;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int n = lane / 4 - 2 * (lane % 4) - i, back = p.reversed ? -n : n;
            far[i] = power(p.head.log2_gamma, 8 + back);
            near[i] = power(p.head.log2_gamma, max(back, 0));
            if (back >= 0) seen |= 0xFFFFu << (16 * i);
        }
        step = power(p.head.log2_gamma, 8), step2 = step * step;
    }
    // Scores of this warp's 16 queries and 16 keys, in pairs: [8 keys][8 queries]; `ahead` blocks of 16 keys lie
    // between.
    __device__ __forceinline__ void apply(int ahead, const float* x, uint32_t (&hi)[4], uint32_t (&lo)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) hi[i] = lo[i] = 0;
        if (ahead < 0) return;
        const auto far_pair = [&](int i, float up) {
            split(x[2 * i] * (far[0] * up), x[2 * i + 1] * (far[1] * up), hi[i], lo[i]);
        };
        if (ahead == 0) {
#pragma unroll
            for (int i = 0; i < 4; i += 3) {
                split(x[2 * i] * near[0], x[2 * i + 1] * near[1], hi[i], lo[i]);
                hi[i] &= seen, lo[i] &= seen;
            }
            if (reversed) far_pair(2, 1.0f);
            else far_pair(1, 1.0f);
        } else {
            const float base = ahead == 1 ? 1.0f : ahead == 2 ? step2 : step2 * step2;
            const float middle = base * step, most = base * step2;
            far_pair(0, middle), far_pair(3, middle);
            far_pair(1, reversed ? base : most), far_pair(2, reversed ? most : base);
        }
    }
};

// As Remake does it; what the state has given is kept in the thread's own memory.
struct SplitRemake {
    float kept[32];

    __device__ __forceinline__ void keep(const float (&o)[32]) {
#pragma unroll
        for (int i = 0; i < 32; ++i) kept[i] = o[i];
    }
    // `values` is the tile of these 64 columns, `scores` the score tile.
    __device__ __forceinline__ void make(const Piece& p, float (&o)[32], uint32_t values, uint32_t scores, int warp,
                                         int lane) {
#pragma unroll 1
        for (int e = 0; e < 32; ++e) {
            const int i = 8 * (e / 4) + 2 * (lane % 4) + e % 2, column = 16 * warp + lane / 4 + e % 4 / 2 * 8;
            float sum = kept[e];
#pragma unroll 1
            for (int j = p.reversed ? i : 0; j < (p.reversed ? 64 : i + 1); ++j) {
                const uint32_t at = scores + j / 32 * half_bytes + score_at(i, j % 32 / 8) + j % 8 / 2 * 4;
                const float2 pair = join(ptx::ld_shared_b32(at), ptx::ld_shared_b32(at + half_tile));
                sum = fmaf(j % 2 ? pair.y : pair.x, ptx::ld_shared_f32(values + value_at(j, column)), sum);
            }
            kept[e] = sum;
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) o[i] = isfinite(o[i]) ? o[i] : kept[i];
        __syncwarp();  // other lanes have read the values that these outputs replace
    }
};

// U = V'ᵀ K for 64 columns of K, asynchronously. The tensor cores cut off what they add to an accumulator, so the
// running state is summed outside.
__device__ __forceinline__ void queue_split_outer(float (&u)[32], const uint32_t (&hi)[16], const uint32_t (&lo)[16],
                                                  uint32_t k_block) {
    using E = __nv_bfloat16;
    const ptx::TileDescriptor k(k_block);
    ptx::wgmma_fence();
#pragma unroll
    for (int ks = 0; ks < 4; ++ks) {
        const uint32_t at = ks * 16 * 128;
        ptx::wgmma_rs<E, 1>(u, lo[4 * ks], lo[4 * ks + 1], lo[4 * ks + 2], lo[4 * ks + 3], k + at, ks > 0);
        ptx::wgmma_rs<E, 1>(u, hi[4 * ks], hi[4 * ks + 1], hi[4 * ks + 2], hi[4 * ks + 3], k + (at + tile_bytes), 1);
        ptx::wgmma_rs<E, 1>(u, hi[4 * ks], hi[4 * ks + 1], hi[4 * ks + 2], hi[4 * ks + 3], k + at, 1);
    }
    ptx::wgmma_commit();
}

// One block to a stretch. Of warpgroup 0 one warp loads and the others split k; 1 splits q and makes the scores; 2 and
// 3 own 64 columns of v each: stretches and formulas are la_output's. With `leave_states`, one block to a task, it does
// what la_state does instead, and 1 splits k too.
template <int R, int D, bool leave_states, bool turning>
__global__ __launch_bounds__(SplitLayout<R, D, leave_states>::threads,
                             1) void la_split(const __grid_constant__ Maps<turning> maps,
                                              const __grid_constant__ SplitWork work) {
    using E = __nv_bfloat16;
    using L = SplitLayout<R, D, leave_states>;
    extern __shared__ uint8_t raw[];
    const uint32_t base = (ptx::shared_address(raw) + 1023) & ~1023u, bars = base + L::barriers_at;
    constexpr uint32_t ring_bars = 24 * L::stages;
    const uint32_t score_full = bars + (2 + L::groups) * ring_bars, score_empty = score_full + 8 * L::scores;
    static_assert((2 + L::groups) * ring_bars + 16 * L::scores <= L::barrier_bytes);
    const int thread = threadIdx.x % 128, lane = thread % 32;
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0), warp = __shfl_sync(~0u, thread / 32, 0);
    const auto shared_tiles = [&](uint32_t at, int ring) {
        return Tiles<L::stages>(base + at, L::qk_bytes, bars + ring * ring_bars);
    };
    constexpr uint32_t values_of_group = L::stages * L::block;
    const auto value_tiles = [&](int g) {
        return Tiles<L::stages>(base + L::v_at + g * values_of_group, L::block, bars + (2 + g) * ring_bars);
    };
    if (threadIdx.x == 0) {
        if constexpr (!turning) prefetch(maps.of[0]);
        for (int ring = 0; ring < 2 + L::groups; ++ring) {
            for (int i = 0; i < L::stages; ++i) {
                const uint32_t at = bars + ring * ring_bars + 8 * i;
                ptx::mbarrier_init(at, 1),
                    ptx::mbarrier_init(at + 8 * L::stages, ring == 0 ? L::q_splitters : L::k_splitters);
                ptx::mbarrier_init(at + 16 * L::stages, ring >= 2 ? 1 : 4 * (L::groups + (leave_states ? 0 : 1)));
            }
        }
        for (int i = 0; i < L::scores; ++i)
            ptx::mbarrier_init(score_full + 8 * i, 1), ptx::mbarrier_init(score_empty + 8 * i, 4 * L::groups);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if constexpr (leave_states) ptx::griddepcontrol_launch_dependents();

    uint32_t stretch = leave_states ? 0 : work.order[blockIdx.x];
    // Calls f(piece, chunks to replay before it) for every piece of the stretch, or of the task: that has no chunks of
    // its own, and leaves a state for each stretch that it has a part of.
    const auto each_piece = [&](const auto& f) {
        if constexpr (leave_states) {
            uint32_t pos = blockIdx.x * work.task;
            const uint32_t end = min(pos + work.task, work.followed[work.stretches]);
            for (stretch = stretch_followed(work, pos); pos < end; ++stretch) {
                const uint32_t to = min(end, work.followed[stretch + 1]);
                if (to <= pos) continue;
                const uint32_t in_line = work.bound[stretch + 1] - work.followed[stretch + 1];
                Piece p = piece_at<turning>(work, in_line + pos, in_line + to);
                p.first = p.last;
                f(p, to - pos);
                pos = to;
            }
        } else {
            uint32_t pos = work.bound[stretch];
            const uint32_t end = work.bound[stretch + 1];
            while (pos < end) {
                const Piece p = piece_at<turning>(work, pos, end);
                f(p, replayed(p));
                pos += p.last - p.first;
            }
        }
    };
    // This warp needs the tile no more.
    const auto release = [&](uint32_t empty) {
        __syncwarp();
        if (lane == 0) ptx::mbarrier_arrive(empty);
    };

    const auto split_keys = [&](int splitter) {
        auto k = shared_tiles(L::k_at, 1);
        each_piece([&](const Piece& p, uint32_t back) {
#pragma unroll 1
            for (uint32_t i = 0; i < back + p.last - p.first; ++i) {
                split_share<R, L::k_splitters, 1>(k, splitter, lane);
                k.ring.next();
            }
        });
    };

    if (group == 0) {
        ptx::reg_dealloc<32>();
        auto q = shared_tiles(L::q_at, 0), k = shared_tiles(L::k_at, 1);
        if (warp == 3) {
            if (lane == 0) {
                auto v = value_tiles(0);
                const auto load_rows = [&](Tiles<L::stages>& x, const CUtensorMap& map, const Piece& p, uint32_t c) {
                    x.wait_empty();
                    ptx::mbarrier_arrive_expect_tx(x.full(), L::qk_bytes);
#pragma unroll
                    for (int i = 0; i < R / 32; ++i) {
                        ptx::tma_load(x.tile() + i * tile_bytes, map, x.full(), 32 * i, p.token(c), p.h, p.b,
                                      work.read_once);
                    }
                    x.ring.next();
                };
                const auto load = [&](const Piece& p, uint32_t c, bool with_q) {
                    const Tensors& map = maps.of[p.problem];
                    if (with_q) load_rows(q, map.q, p, c);
                    load_rows(k, map.k, p, c);
#pragma unroll
                    for (int i = 0; i < D / 32; ++i) {
                        const uint32_t tile = v.tile() + i / 2 * values_of_group, bar = i / 2 * ring_bars;
                        if (i % 2 == 0) {
                            ptx::mbarrier_wait(v.empty() + bar, v.ring.parity ^ 1);
                            ptx::mbarrier_arrive_expect_tx(v.full() + bar, L::block);
                        }
                        ptx::tma_load(tile + i % 2 * tile_bytes, map.v, v.full() + bar, 32 * i, p.token(c), p.h, p.b,
                                      work.read_once);
                    }
                    v.ring.next();
                };
                each_piece([&](const Piece& p, uint32_t back) {
#pragma unroll 1
                    for (uint32_t i = 1; i <= back; ++i) load(p, p.first - i, false);
#pragma unroll 1
                    for (uint32_t c = p.first; c < p.last; ++c) load(p, c, true);
                });
            }
        } else {
            split_keys(warp);
        }
    } else if (group == 1) {
        ptx::reg_dealloc<80>();
        auto q = shared_tiles(L::q_at, 0), k = shared_tiles(L::k_at, 1);
        Ring<L::scores> out;
        SplitMask mask;
        if constexpr (leave_states) split_keys(3 + warp);
        else
            each_piece([&](const Piece& p, uint32_t back) {
#pragma unroll 1
                for (; back > 0; --back) {
                    k.wait_ready();
                    release(k.empty());
                    k.ring.next();
                }
                mask.set(p, lane);
#pragma unroll 1
                for (uint32_t c = p.first; c < p.last; ++c) {
                    float acc[32];
                    split_share<R, L::q_splitters, 2>(q, warp, lane);
                    q.wait_ready();
                    k.wait_ready();
                    const ptx::TileDescriptor qs(q.tile()), kt(k.tile());
                    ptx::wgmma_fence();
#pragma unroll
                    for (int ks = 0; ks < R / 16; ++ks) {
                        const uint32_t at = ks / 4 * L::block + ks % 4 * 32;
                        ptx::wgmma_ss<E, 0, 0>(acc, qs + (at + tile_bytes), kt + at, ks > 0);
                        ptx::wgmma_ss<E, 0, 0>(acc, qs + at, kt + (at + tile_bytes), 1);
                        ptx::wgmma_ss<E, 0, 0>(acc, qs + at, kt + at, 1);
                    }
                    ptx::wgmma_commit();
                    ptx::wgmma_wait<0>();
                    ptx::hold(acc);
                    release(q.empty());
                    release(k.empty());
                    q.ring.next();
                    k.ring.next();
                    ptx::mbarrier_wait(score_empty + 8 * out.stage, out.parity ^ 1);
                    const uint32_t tile = base + L::scores_at + out.stage * L::block;
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        uint32_t hi[4], lo[4];
                        mask.apply(p.reversed ? j - warp : warp - j, acc + 8 * j, hi, lo);
                        __syncwarp();
                        const uint32_t to =
                            tile + j / 2 * half_bytes + score_at(16 * warp + lane % 16, 2 * (j % 2) + lane / 16);
                        ptx::stmatrix_x4(to, hi[0], hi[1], hi[2], hi[3]);
                        ptx::stmatrix_x4(to + half_tile, lo[0], lo[1], lo[2], lo[3]);
                    }
                    ptx::fence_proxy_async();
                    ptx::named_barrier_sync(1, 128);
                    if (thread == 0) ptx::mbarrier_arrive(score_full + 8 * out.stage);
                    out.next();
                }
            });
    } else {
        ptx::reg_alloc<200>();
        const int g = group - 2;
        const bool leader = thread == 0;
        auto q = shared_tiles(L::q_at, 0), k = shared_tiles(L::k_at, 1), v = value_tiles(g);
        Ring<L::scores> in;
        State<E, R> state;
        const Own own(warp, lane);
        // Outputs leave from the tile that held the values; it is free when they are gone, about half a chunk later.
        uint32_t leaving = 0;
        const auto free_left = [&] {
            if (leader && leaving) {
                ptx::tma_store_wait_read<0>();
                ptx::mbarrier_arrive(leaving);
            }
            leaving = 0;
        };
        each_piece([&](const Piece& p, uint32_t back) {
            SplitDecay decay;
            decay.set(p, lane);
            state.clear();
            float f = 1.0f, values[32];
            uint32_t hi[16], lo[16];
            float u[R / 64][32];
            const auto add_update = [&](float keep) {
                ptx::wgmma_wait<0>();
#pragma unroll
                for (int i = 0; i < R / 64; ++i) ptx::hold(u[i]);
                release(k.empty());
                k.ring.next();
#pragma unroll
                for (int i = 0; i < R / 2; ++i) state.s[i] = fmaf(state.s[i], keep, u[i / 32][i % 32]);
            };
#pragma unroll 1
            for (; back > 0; --back) {
                decay.renew();
                v.wait_full();
                own.load(v.tile(), values);
                ptx::named_barrier_sync(2 + g, 128);
                if (leader) ptx::mbarrier_arrive(v.empty());
                v.ring.next();
                decay.weigh_values(p, f, values, hi, lo);
                k.wait_ready();
#pragma unroll
                for (int i = 0; i < R / 64; ++i) queue_split_outer(u[i], hi, lo, k.tile() + i * L::block);
                add_update(1.0f);
                f *= decay.chunk_step;
            }
            if constexpr (leave_states) {
                state.leave(work.states, size_t{stretch + blockIdx.x} * L::groups + g, thread);
                return;
            }
            if (p.first > 0 && p.head.reach == from_memory) state.take(work, p, stretch, L::groups, g, thread);
            if (!turning && work.initial) state.add_initial(work, p, g, warp, lane);
            SplitRemake remake;
#pragma unroll 1
            for (uint32_t c = p.first; c < p.last; ++c) {
                if (!turning && work.last && c + 1 == work.chunks)
                    state.leave(work.last, size_t{p.line} * L::groups + g, thread);
                decay.renew();
                // What the state gives: it is split by parts, while the tensor cores are at work on the part before.
                float o[32];
                q.wait_ready();
                const ptx::TileDescriptor qs(q.tile());
#pragma unroll
                for (int part = 0; part < R / 32; ++part) {
                    uint32_t sh[8], sl[8];
#pragma unroll
                    for (int i = 0; i < 8; ++i)
                        split(state.s[16 * part + 2 * i], state.s[16 * part + 2 * i + 1], sh[i], sl[i]);
                    ptx::wgmma_fence();
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const uint32_t at = part / 2 * L::block + (2 * (part % 2) + i) * 32;
                        ptx::wgmma_rs<E, 0>(o, sl[4 * i], sl[4 * i + 1], sl[4 * i + 2], sl[4 * i + 3], qs + at,
                                            part + i > 0);
                        ptx::wgmma_rs<E, 0>(o, sh[4 * i], sh[4 * i + 1], sh[4 * i + 2], sh[4 * i + 3],
                                            qs + (at + tile_bytes), 1);
                        ptx::wgmma_rs<E, 0>(o, sh[4 * i], sh[4 * i + 1], sh[4 * i + 2], sh[4 * i + 3], qs + at, 1);
                    }
                    ptx::wgmma_commit();
                    if (part > 0) ptx::wgmma_wait<1>();
                }
                free_left();
                v.wait_full();
                own.load(v.tile(), values);
#pragma unroll
                for (int i = 0; i < 16; ++i) split(values[2 * i], values[2 * i + 1], hi[i], lo[i]);
                const bool odd = __any_sync(~0u, unusual<E>(hi));
                ptx::wgmma_wait<0>();
                ptx::hold(o);
                release(q.empty());
                q.ring.next();
                decay.weigh_outputs(p, o);
                if (odd) remake.keep(o);

                ptx::mbarrier_wait(score_full + 8 * in.stage, in.parity);
                const uint32_t scores = base + L::scores_at + in.stage * L::block;
                const ptx::NarrowTileDescriptor s(scores);
                ptx::hold(o);
                ptx::wgmma_fence();
#pragma unroll
                for (int ks = 0; ks < 4; ++ks) {
                    const uint32_t at = ks / 2 * half_bytes + ks % 2 * 32;
                    ptx::wgmma_rs<E, 0>(o, lo[4 * ks], lo[4 * ks + 1], lo[4 * ks + 2], lo[4 * ks + 3], s + at, 1);
                    ptx::wgmma_rs<E, 0>(o, hi[4 * ks], hi[4 * ks + 1], hi[4 * ks + 2], hi[4 * ks + 3],
                                        s + (at + half_tile), 1);
                    ptx::wgmma_rs<E, 0>(o, hi[4 * ks], hi[4 * ks + 1], hi[4 * ks + 2], hi[4 * ks + 3], s + at, 1);
                }
                ptx::wgmma_commit();
                uint32_t weighed_hi[16], weighed_lo[16];
                decay.weigh_values(p, 1.0f, values, weighed_hi, weighed_lo);
                k.wait_ready();
                ptx::wgmma_wait<0>();
                ptx::hold(o);
                if (odd) remake.make(p, o, v.tile(), scores, warp, lane);
                release(score_empty + 8 * in.stage);
                in.next();

                queue_split_outer(u[0], weighed_hi, weighed_lo, k.tile());
                own.store(v.tile(), o);  // while the tensor cores are at work
                ptx::fence_proxy_async();
                ptx::named_barrier_sync(2 + g, 128);
                if (leader) {
                    for (int i = 0; i < 2; ++i) {
                        ptx::tma_store(maps.of[p.problem].o, v.tile() + i * tile_bytes, g * 64 + 32 * i, p.token(c),
                                       p.h, p.b, work.write);
                    }
                    ptx::tma_store_commit();
                }
#pragma unroll
                for (int i = 1; i < R / 64; ++i)
                    queue_split_outer(u[i], weighed_hi, weighed_lo, k.tile() + i * L::block);
                leaving = v.empty();
                v.ring.next();
                add_update(decay.chunk_step);
            }
            free_left();
        });
    }
}

}  // namespace causeway::gpu::la
