// The tensor-core kernels of Lightning Attention-2 for Hopper, and how the work is cut over the multiprocessors.
//
// A head is a row of chunks of 64 tokens; all heads one after the other are a line of chunks, and every thread block
// (or pair of them) owns one stretch of it. Where a stretch starts inside a head, the state there is rebuilt: from the
// chunks just before it, as far back as the decay reaches (Head::reach), or from states that an earlier kernel has left
// in memory; a state given for the first token is added with what the decay has left of it. In reversed time the last
// chunk of a head is its first.
//
// Kernels are made twice: for one problem in forward time, and (`turning`) for up to three, each with its own
// direction.
#pragma once

#include "gpu/exact/lightning_plan.hpp"
#include "gpu/kit/pack.cuh"
#include "gpu/kit/ptx.cuh"
#include "gpu/kit/swizzle.cuh"

namespace causeway::gpu::la {

struct Work {
    uint32_t chunks;    // per head
    uint32_t heads;     // with one decay each; batches repeat them
    uint32_t lines;     // heads of all batches: so many for each problem
    uint32_t reversed;  // bit i: problem i runs over later tokens
    uint32_t stretches;
    uint32_t parts;        // states that each stretch leaves, of equal shares of it, the first first
    uint32_t scanned;      // whether la_scan has made them the states at the ends of stretches
    float* states;         // [stretch][part][r·d] (SplitWork: below), in the order of the accumulators
    float* last;           // [line][r·d], likewise: the states before the last chunks, for la_finish; null: not wanted
    const float* initial;  // state before the first token, [batch][head][r][d]; null: zeros
    int64_t initial_batch;                  // elements from one batch to the next
    int32_t r, d;                           // of `initial`
    uint64_t read_once, read_twice, write;  // cache policies
    uint32_t bound[most_stretches + 1];     // stretch b is the chunks [bound[b], bound[b+1]) of the line
    Head head[most_heads];
};

// For Float32: states are left by tasks, blocks of equal shares of what there is to follow, cut without regard to the
// stretches. A task leaves one for each stretch that it has chunks of: `states` is [stretch + task][r·d].
struct SplitWork : Work {
    uint32_t task;                          // chunks for each
    uint32_t followed[most_stretches + 1];  // chunks of stretches before b that tasks follow
    uint8_t order[most_stretches];          // the stretches, those that wait for no state first
};

// The stretch of one block inside one head: chunks [first, last).
struct Piece {
    uint32_t line, first, last;
    uint32_t problem;
    bool reversed;
    uint32_t chunks;  // of the whole head
    int h, b;
    Head head;

    // Where chunk c is in memory.
    __device__ __forceinline__ int token(uint32_t c) const {
        return static_cast<int>(reversed ? chunks - 1 - c : c) * chunk;
    }
};

template <bool turning>
__device__ __forceinline__ Piece piece_at(const Work& w, uint32_t pos, uint32_t end) {
    const uint32_t line = pos / w.chunks, first = pos - line * w.chunks;
    const uint32_t last = min(w.chunks, first + (end - pos));
    const uint32_t problem = turning ? line / w.lines : 0, in_problem = turning ? line - problem * w.lines : line;
    const uint32_t b = in_problem / w.heads, h = in_problem - b * w.heads;
    return {line,
            first,
            last,
            problem,
            turning && (w.reversed >> problem & 1),
            w.chunks,
            static_cast<int>(h),
            static_cast<int>(b),
            w.head[h]};
}

// How many chunks before `first` are replayed to rebuild the state there.
__device__ __forceinline__ uint32_t replayed(const Piece& p) {
    return p.head.reach == from_memory ? 0 : min(p.first, static_cast<uint32_t>(p.head.reach));
}

// First chunk of part i of [first, last).
__device__ __forceinline__ uint32_t part_start(uint32_t first, uint32_t last, uint32_t i, uint32_t parts) {
    return first + (last - first) * i / parts;
}

// The stretch with chunk `pos` of those that are followed.
__device__ __forceinline__ uint32_t stretch_followed(const SplitWork& w, uint32_t pos) {
    uint32_t b = 0;
    for (uint32_t n = w.stretches; n > 1;) {
        const uint32_t half = n / 2;
        if (w.followed[b + half] <= pos) b += half, n -= half;
        else n = half;
    }
    return b;
}

// Calls f(index, chunks) for every state left by stretch b, or its part [from, to) in one head; the first first, or
// only the last.
template <class W, class F>
__device__ __forceinline__ void each_left(const W& w, uint32_t b, uint32_t from, uint32_t to, bool only_last,
                                          const F& f) {
    if constexpr (std::is_same_v<W, SplitWork>) {
        const uint32_t end = w.followed[b + 1];
        uint32_t pos = only_last ? max(w.followed[b], (end - 1) / w.task * w.task) : w.followed[b];
        for (uint32_t task = pos / w.task; pos < end; ++task) {
            const uint32_t next = min(end, (task + 1) * w.task);
            f(b + task, next - pos);
            pos = next;
        }
    } else {
        for (uint32_t i = only_last ? w.parts - 1 : 0; i < w.parts; ++i)
            f(b * w.parts + i, part_start(from, to, i + 1, w.parts) - part_start(from, to, i, w.parts));
    }
}

// γ^n, exact for n = 0 and for γ = 0 or 1.
__device__ __forceinline__ float power(float log2_gamma, int n) {
    return n == 0 ? 1.0f : exp2f(log2_gamma * static_cast<float>(n));
}

// The mask of a score tile of 64 queries and `keys` keys in the accumulators of one warpgroup: γ^(i-j) where query i
// sees key j; and for pairs of 16-bit numbers, ones where it does: what is not seen becomes 0, NaN too.
template <int keys>
struct Mask {
    float weight[keys / 2];
    uint32_t seen[keys / 4];

    __device__ __forceinline__ void set(const Piece& p, int first_key, int warp, int lane) {
        const int row = 16 * warp + lane / 4, col = first_key + 2 * (lane % 4);
#pragma unroll
        for (int i = 0; i < keys / 2; ++i) {
            const int n = row + (i % 4 / 2) * 8 - (8 * (i / 4) + col + i % 2), back = p.reversed ? -n : n;
            weight[i] = power(p.head.log2_gamma, max(back, 0));
            const uint32_t ones = back < 0 ? 0 : 0xFFFFu << (i % 2 * 16);
            seen[i / 2] = i % 2 ? seen[i / 2] | ones : ones;
        }
    }
};

// γ^(distance from the state) of the tokens that a thread has in an output tile, i = 8n + 2(lane % 4) + {0, 1}.
struct OutputDecay {
    float low[2], step;

    __device__ __forceinline__ void set(const Piece& p, int lane) {
        const int first = 2 * (lane % 4);
        low[0] = power(p.head.log2_gamma, p.reversed ? 8 - first : first + 1);
        low[1] = power(p.head.log2_gamma, p.reversed ? 7 - first : first + 2);
        step = power(p.head.log2_gamma, 8);
    }
    __device__ __forceinline__ void apply(const Piece& p, float (&o)[32], const float (&x)[32]) const {
        float up = 1.0f;
        const auto next = [&](int n) {
            const float w0 = low[0] * up, w1 = low[1] * up;
            o[4 * n] = x[4 * n] * w0, o[4 * n + 1] = x[4 * n + 1] * w1;
            o[4 * n + 2] = x[4 * n + 2] * w0, o[4 * n + 3] = x[4 * n + 3] * w1;
            up *= step;
        };
        if (p.reversed) {
#pragma unroll
            for (int n = 7; n >= 0; --n) next(n);
        } else {
#pragma unroll
            for (int n = 0; n < 8; ++n) next(n);
        }
    }
};

template <int stages>
struct Ring {
    uint32_t stage = 0, parity = 0;
    __device__ __forceinline__ void next() {
        if (++stage == stages) stage = 0, parity ^= 1;
    }
};

// Shared memory of both kernels.
constexpr uint32_t kept_bytes = 64 * 64 * 4;

template <int R, int D, bool with_q>
struct Layout {
    static constexpr int groups = D / 64;  // warpgroups that own 64 columns of the state each
    static constexpr uint32_t k_at = with_q ? R / 64 * tile_bytes : 0, v_at = k_at + R / 64 * tile_bytes;
    static constexpr uint32_t stage_bytes = v_at + D / 64 * tile_bytes;
    static constexpr uint32_t scores = with_q ? 3 : 0, outputs = with_q ? 2 : 0;
    static constexpr uint32_t kept = with_q ? kept_bytes : 0;
    static constexpr uint32_t rest = (scores + outputs) * tile_bytes + kept + 1024 + 256;
    static constexpr int stages = static_cast<int>((227 * 1024 - rest) / stage_bytes) < 6
                                      ? static_cast<int>((227 * 1024 - rest) / stage_bytes)
                                      : 6;
    static constexpr uint32_t scores_at = stages * stage_bytes, outputs_at = scores_at + scores * tile_bytes;
    static constexpr uint32_t kept_at = outputs_at + outputs * tile_bytes, barriers_at = kept_at + kept;
    static constexpr uint32_t bytes = barriers_at + 256 + 1024;  // 1024: the base is rounded up to a swizzle atom
};

// Whether one of these pairs has NaN or Inf.
template <class E, int n>
__device__ __forceinline__ bool unusual(const uint32_t (&x)[n]) {
    constexpr uint32_t exponent = std::is_same_v<E, __half> ? 0x7C007C00 : 0x7F807F80,
                       one = std::is_same_v<E, __half> ? 0x04000400 : 0x00800080;
    uint32_t carries = 0;
#pragma unroll
    for (int i = 0; i < n; ++i) carries |= (x[i] & exponent) + one;
    return carries & 0x80008000;
}

// A score tile is 64 queries by two times 32 keys, rows of 64 bytes in the 64-byte swizzle: where eight keys of a row
// of a half are.
constexpr uint32_t half_tile = 64 * 64;
__device__ __forceinline__ uint32_t score_at(int row, int eighth) { return row * 64 + ((eighth ^ row / 2 % 4) * 16); }

// The half at `mine` is in this block's tile; with a pair of blocks the other one gets it too, and both have the whole.
template <int C>
__device__ __forceinline__ void send_scores(uint32_t mine, uint32_t bytes, uint32_t bar, uint32_t rank) {
    if constexpr (C > 1) {
        ptx::mbarrier_arrive_expect_tx(bar, bytes);
        ptx::bulk_copy_remote(mine, bytes, bar, rank ^ 1);
    } else {
        ptx::mbarrier_arrive(bar);
    }
}

// The tensor cores make NaN of a score of 0 times a value that is NaN or Inf, for tokens that do not see it. Where a
// chunk has such values, what the state has given to its outputs is kept in `at`, and outputs that are not finite are
// made again, by the terms that count: value(j, column) and score(i, j) read the tiles.
struct Remake {
    uint32_t at;
    int thread;

    __device__ __forceinline__ uint32_t slot(int i) const { return at + (128 * i + thread) * 4; }
    __device__ __forceinline__ void keep(const float (&o)[32]) const {
#pragma unroll
        for (int i = 0; i < 32; ++i) ptx::st_shared(slot(i), o[i]);
    }
    template <class Value, class Score>
    __device__ __forceinline__ void make(const Piece& p, float (&o)[32], const Value& value, const Score& score) const {
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
// Element (row, column) of a tile of 16-bit elements.
template <class E>
__device__ __forceinline__ float tile_element(uint32_t tile, int row, int column) {
    const uint32_t word = ptx::ld_shared_b32(tile + row * 128 + ((column / 8 ^ row % 8) * 16) + column % 8 / 2 * 4);
    const float2 x = unpack(E{}, word);
    return column % 2 ? x.y : x.x;
}

// The state Sᵀ (64 columns of v by R) of one warpgroup, in the accumulators of m64nRk16.
template <class E, int R>
struct State {
    static constexpr int count = R / 2;
    float s[count];
    float v_low[4],
        v_up[4];  // γ^(distance to the next state) of a value: of this thread's four tokens of a k-step, of the k-steps
    float step;   // γ^64

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
        const int row = lane % 8 + 8 * (lane / 16), block = 2 * warp + (lane / 8) % 2;
        const uint32_t at = v_tile + row * 128 + ((block ^ (lane % 8)) * 16);
#pragma unroll
        for (int ks = 0; ks < 4; ++ks)
            ptx::ldmatrix_x4_trans(reinterpret_cast<uint32_t(&)[4]>(va[4 * ks]), at + ks * 16 * 128);
    }
    // v_j γ^(63-j) · f, reversed v_j γ^j · f.
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
    // Sᵀ += V'ᵀ K, asynchronously.
    __device__ __forceinline__ void add_outer(const uint32_t (&va)[16], uint32_t k_tile) {
        const ptx::TileDescriptor k(k_tile, tile_bytes);
        ptx::wgmma_fence();
#pragma unroll
        for (int ks = 0; ks < 4; ++ks)
            ptx::wgmma_rs<E, 1>(s, va[4 * ks], va[4 * ks + 1], va[4 * ks + 2], va[4 * ks + 3], k + ks * 16 * 128, 1);
        ptx::wgmma_commit();
    }
    // Adds `count` earlier chunks, the latest first, as they come through the ring; the latest ends where the state
    // stands. The values of one are weighed while the tensor cores work on the one before.
    template <class R_, class Release>
    __device__ __forceinline__ void replay(uint32_t count, R_& ring, uint32_t stages_at, uint32_t stage_bytes,
                                           uint32_t k_at, uint32_t v_at, uint32_t full, int warp, int lane,
                                           const Release& release) {
        if (count == 0) return;
        float f = 1.0f;
        uint32_t x[16], y[16];
        const auto fetch = [&](uint32_t(&va)[16]) {
            ptx::mbarrier_wait(full + 8 * ring.stage, ring.parity);
            load_v(va, stages_at + ring.stage * stage_bytes + v_at, warp, lane);
            weigh_v(va, f);
            f *= step;
        };
        const auto take = [&](const uint32_t(&now)[16], uint32_t(&next)[16]) {
            const uint32_t stage = ring.stage;
            add_outer(now, stages_at + stage * stage_bytes + k_at);
            ring.next();
            if (--count) fetch(next);
            ptx::wgmma_wait<0>();
            ptx::hold(s);
            release(stage);
        };
        fetch(x);
        while (true) {
            take(x, y);
            if (!count) break;
            take(y, x);
            if (!count) break;
        }
    }
    // To memory, as state `index` of this warpgroup's columns.
    __device__ __forceinline__ void leave(float* states, size_t index, int thread) const {
        float4* out = reinterpret_cast<float4*>(states + index * (R * 64)) + thread;
#pragma unroll
        for (int i = 0; i < R / 8; ++i) out[128 * i] = make_float4(s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]);
    }
    // From memory, the state where this stretch starts: the states left in the head summed, the first first; only the
    // last where la_scan has summed them. A state is C times 64 columns, of which this is number `rank`.
    template <class W>
    __device__ __forceinline__ void take(const W& work, const Piece& p, uint32_t stretch, uint32_t C, uint32_t rank,
                                         int thread) {
        ptx::griddepcontrol_wait();
        const uint32_t start = p.line * work.chunks;
        uint32_t b = stretch - 1;
        while (!work.scanned && work.bound[b] > start) --b;
        for (; b < stretch; ++b) {
            each_left(
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

// Where element (column of v, row of k) of a state left in memory is, counted from that of its 64 columns.
__device__ __forceinline__ int left_at(int column, int row) {
    return (row / 8 * 128 + 32 * (column / 16) + 4 * (column % 8) + row % 8 / 2) * 4 + column % 16 / 8 * 2 + row % 2;
}

struct Tensors {
    CUtensorMap q, k, v, o;
};
template <bool turning>
struct Maps {
    Tensors of[turning ? most_problems : 1];
};
__device__ __forceinline__ void prefetch(const Tensors& map) {
    ptx::prefetch_tensor_map(map.q), ptx::prefetch_tensor_map(map.k), ptx::prefetch_tensor_map(map.v),
        ptx::prefetch_tensor_map(map.o);
}

// ---- States at the ends of stretches ----

template <class E, int R, int D, bool turning>
__global__ __launch_bounds__(128 * (1 + D / 64), 1) void la_state(const __grid_constant__ Maps<turning> maps,
                                                                  const __grid_constant__ Work work) {
    using L = Layout<R, D, false>;
    extern __shared__ uint8_t raw[];
    const uint32_t base = (ptx::shared_address(raw) + 1023) & ~1023u;
    const uint32_t full = base + L::barriers_at, empty = full + 8 * L::stages;
    const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < L::stages; ++i)
            ptx::mbarrier_init(full + 8 * i, 1), ptx::mbarrier_init(empty + 8 * i, 4 * L::groups);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    ptx::griddepcontrol_launch_dependents();

    // Only a stretch that goes on in the next block leaves states.
    const uint32_t stretch = blockIdx.x / work.parts, part = blockIdx.x % work.parts, end = work.bound[stretch + 1];
    if (end % work.chunks == 0) return;
    const uint32_t begin = max(work.bound[stretch], end / work.chunks * work.chunks);
    Piece p = piece_at<turning>(work, begin, end);
    if (p.head.reach != from_memory) return;
    const uint32_t first = part_start(p.first, p.last, part, work.parts);
    p.last = part_start(p.first, p.last, part + 1, work.parts), p.first = first;

    Ring<L::stages> ring;
    if (group == 0) {
        if (threadIdx.x == 0) {
            const Tensors& map = maps.of[p.problem];
            for (uint32_t c = p.last; c-- > p.first;) {
                const uint32_t at = base + ring.stage * L::stage_bytes, bar = full + 8 * ring.stage;
                ptx::mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
                ptx::mbarrier_arrive_expect_tx(bar, L::stage_bytes);
#pragma unroll
                for (int i = 0; i < R / 64; ++i)
                    ptx::tma_load(at + L::k_at + i * tile_bytes, map.k, bar, 64 * i, p.token(c), p.h, p.b,
                                  work.read_twice);
#pragma unroll
                for (int i = 0; i < D / 64; ++i)
                    ptx::tma_load(at + L::v_at + i * tile_bytes, map.v, bar, 64 * i, p.token(c), p.h, p.b,
                                  work.read_twice);
                ring.next();
            }
        }
        return;
    }
    State<E, R> state;
    state.clear();
    state.set_decay(p, lane);
    state.replay(p.last - p.first, ring, base, L::stage_bytes, L::k_at, L::v_at + (group - 1) * tile_bytes, full, warp,
                 lane, [&](uint32_t stage) {
                     if (lane == 0) ptx::mbarrier_arrive(empty + 8 * stage);
                 });
    state.leave(work.states, size_t{blockIdx.x} * L::groups + group - 1, threadIdx.x % 128);
}

// The states that were left become, in place of each stretch's last, the states at the ends of the stretches.
// One thread per element of one head's state.
template <int size, class W>
__global__ __launch_bounds__(256) void la_scan(const __grid_constant__ W work) {
    ptx::griddepcontrol_wait();
    const uint32_t line = blockIdx.y, from = line * work.chunks, to = from + work.chunks;
    const Head head = work.head[line % work.heads];
    if (head.reach != from_memory) return;
    float* x = work.states + blockIdx.x * 256 + threadIdx.x;
    float s = 0.0f;
    for (uint32_t b = 0; b < work.stretches; ++b) {
        const uint32_t end = work.bound[b + 1];
        if (end <= from || end >= to) continue;
        size_t last = 0;
        each_left(work, b, max(work.bound[b], from), end, false, [&](uint32_t index, uint32_t n) {
            last = size_t{index} * size;
            s = s * power(head.log2_gamma, static_cast<int>(n) * chunk) + x[last];
        });
        x[last] = s;
    }
}

// The states after the last token, [batch][head][r][d], from those before the last chunk of n tokens, in Float32. One
// block: 16 rows of one head's state, up to 128 columns.
template <class E>
__global__ __launch_bounds__(256) void la_finish(const __grid_constant__ Work work, const E* k, const E* v,
                                                 Strides k_stride, Strides v_stride, int64_t N, int blocks_of_64,
                                                 int padded_r, float* state) {
    const int64_t b = blockIdx.x / work.heads, h = blockIdx.x % work.heads;
    const int column = threadIdx.x % 128, first = blockIdx.y * 16 + threadIdx.x / 128 * 8;
    if (column >= work.d || first >= work.r) return;
    const int64_t start = int64_t{work.chunks - 1} * chunk;
    const int n = static_cast<int>(N - start);
    const float log2_gamma = work.head[h].log2_gamma, decay = power(log2_gamma, n);
    const float* last = work.last + (int64_t{blockIdx.x} * blocks_of_64 + column / 64) * padded_r * 64;
    k += b * k_stride.batch + h * k_stride.head + start * k_stride.token + first;
    v += b * v_stride.batch + h * v_stride.head + start * v_stride.token + column;
    const int rows = min(8, work.r - first);
    float s[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i] = decay * last[left_at(column % 64, first + i)];
    for (int t = 0; t < n; ++t) {
        const float x = static_cast<float>(v[t * v_stride.token]) * power(log2_gamma, n - 1 - t);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (i < rows) s[i] = fmaf(static_cast<float>(k[t * k_stride.token + i]), x, s[i]);
        }
    }
    for (int i = 0; i < rows; ++i) state[b * work.initial_batch + (h * work.r + first + i) * work.d + column] = s[i];
}

// ---- Outputs ----

// Warpgroup 0 loads, and one warp of it looks for NaN and Inf; 1 makes the scores P = Q Kᵀ ⊙ Λ; 2 owns 64 columns of v:
// Oᵀ = γ^(i+1) Sᵀ Qᵀ + Vᵀ Pᵀ, S ← γ^64 S + V'ᵀ K.
// With C = 2, a cluster of two blocks shares a stretch: each has half of up to 128 columns of v, and makes half the
// scores and reads half of q and k for both.
template <class E, int R, int C, bool turning>
__global__ __launch_bounds__(384, 1) void la_output(const __grid_constant__ Maps<turning> maps,
                                                    const __grid_constant__ Work work) {
    using L = Layout<R, 64, true>;
    extern __shared__ uint8_t raw[];
    const uint32_t base = (ptx::shared_address(raw) + 1023) & ~1023u;
    const uint32_t full = base + L::barriers_at, empty = full + 8 * L::stages, score_full = empty + 8 * L::stages,
                   score_empty = score_full + 8 * L::scores;
    const uint32_t odd_values = score_empty + 8 * L::scores;  // one for each score tile
    const uint32_t stretch = blockIdx.x / C, rank = C > 1 ? ptx::cluster_rank() : 0;
    const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        if constexpr (!turning) prefetch(maps.of[0]);
        for (int i = 0; i < L::stages; ++i)
            ptx::mbarrier_init(full + 8 * i, 1), ptx::mbarrier_init(empty + 8 * i, 8 * C + 1);
        for (int i = 0; i < L::scores; ++i)
            ptx::mbarrier_init(score_full + 8 * i, 2), ptx::mbarrier_init(score_empty + 8 * i, 4 * C);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if constexpr (C > 1) ptx::cluster_sync();
    const uint32_t start = work.bound[stretch], end = work.bound[stretch + 1];
    Ring<L::stages> ring;
    // This warp needs the stage no more: every block that may write into it is told.
    const auto release = [&](uint32_t stage) {
        if (C == 1 && lane == 0) ptx::mbarrier_arrive(empty + 8 * stage);
        if (C > 1 && lane < C) ptx::mbarrier_arrive_remote(empty + 8 * stage, lane);
    };

    if (group == 0) {
        ptx::reg_dealloc<40>();
        if (threadIdx.x == 0) {
            const auto load = [&](const Piece& p, uint32_t c, bool with_q) {
                const uint32_t at = base + ring.stage * L::stage_bytes, bar = full + 8 * ring.stage;
                const Tensors& map = maps.of[p.problem];
                ptx::mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
                ptx::mbarrier_arrive_expect_tx(bar, with_q ? L::stage_bytes : L::stage_bytes - L::k_at);
                const auto shared_rows = [&](uint32_t to, const CUtensorMap& tensor) {
#pragma unroll
                    for (int i = 0; i < R / 64; ++i) {
                        const uint32_t box = to + i * tile_bytes + rank * (tile_bytes / C);
                        const int token = p.token(c) + rank * (chunk / C);
                        if constexpr (C == 1) ptx::tma_load(box, tensor, bar, 64 * i, token, p.h, p.b, work.read_once);
                        else
                            ptx::tma_load_multicast((1 << C) - 1, box, tensor, bar, 64 * i, token, p.h, p.b,
                                                    work.read_once);
                    }
                };
                if (with_q) shared_rows(at, map.q);
                shared_rows(at + L::k_at, map.k);
                ptx::tma_load(at + L::v_at, map.v, bar, rank * 64, p.token(c), p.h, p.b, work.read_once);
                ring.next();
            };
            for (uint32_t pos = start; pos < end;) {
                const Piece p = piece_at<turning>(work, pos, end);
                const uint32_t back = replayed(p);
                for (uint32_t i = 1; i <= back; ++i) load(p, p.first - i, false);
                for (uint32_t c = p.first; c < p.last; ++c) load(p, c, true);
                pos += p.last - p.first;
            }
        } else if (warp == 1) {
            // Looks for NaN and Inf among the values of every chunk.
            Ring<L::scores> out;
            for (uint32_t pos = start; pos < end;) {
                const Piece p = piece_at<turning>(work, pos, end);
                for (uint32_t i = replayed(p); i > 0; --i) {
                    ptx::mbarrier_wait(full + 8 * ring.stage, ring.parity);
                    if (lane == 0) ptx::mbarrier_arrive(empty + 8 * ring.stage);
                    ring.next();
                }
                for (uint32_t c = p.first; c < p.last; ++c) {
                    ptx::mbarrier_wait(full + 8 * ring.stage, ring.parity);
                    const uint32_t v_tile = base + ring.stage * L::stage_bytes + L::v_at + lane * 16;
                    bool odd = false;
#pragma unroll 4
                    for (uint32_t i = 0; i < tile_bytes; i += 512) {
                        const float4 x = ptx::ld_shared_f32x4(v_tile + i);
                        odd |= unusual<E>(
                            {__float_as_uint(x.x), __float_as_uint(x.y), __float_as_uint(x.z), __float_as_uint(x.w)});
                    }
                    odd = __any_sync(~0u, odd);
                    // An arrival does not wait for loads on their way: which lane arrives hangs on what came.
                    if (lane == (odd ? 1 : 0)) ptx::mbarrier_arrive(empty + 8 * ring.stage);
                    ptx::mbarrier_wait(score_empty + 8 * out.stage, out.parity ^ 1);
                    if (lane == 0) {
                        ptx::st_shared(odd_values + 4 * out.stage, odd);
                        ptx::mbarrier_arrive(score_full + 8 * out.stage);
                    }
                    out.next();
                    ring.next();
                }
                pos += p.last - p.first;
            }
        }
    } else if (group == 1) {
        ptx::reg_dealloc<152>();
        // Each block of a pair makes the scores of half the keys, and sends them to the other.
        constexpr int keys = 64 / C;
        const int first_half = C > 1 ? static_cast<int>(rank) : 0;
        Ring<L::scores> out;
        Mask<keys> mask;
        for (uint32_t pos = start; pos < end;) {
            const Piece p = piece_at<turning>(work, pos, end);
            mask.set(p, 32 * first_half, warp, lane);
            for (uint32_t i = replayed(p); i > 0; --i) {
                ptx::mbarrier_wait(full + 8 * ring.stage, ring.parity);
                release(ring.stage);
                ring.next();
            }
            for (uint32_t c = p.first; c < p.last; ++c) {
                const uint32_t at = base + ring.stage * L::stage_bytes;
                float acc[keys / 2];
                const ptx::TileDescriptor q(at), k(at + L::k_at + 32 * first_half * 128);
                ptx::mbarrier_wait(full + 8 * ring.stage, ring.parity);
                ptx::wgmma_fence();
#pragma unroll
                for (int ks = 0; ks < R / 16; ++ks) {
                    const uint32_t off = ks / 4 * tile_bytes + ks % 4 * 32;
                    ptx::wgmma_ss<E, 0, 0>(acc, q + off, k + off, ks > 0);
                }
                ptx::wgmma_commit();
                ptx::wgmma_wait<0>();
                ptx::hold(acc);
                release(ring.stage);
                ptx::mbarrier_wait(score_empty + 8 * out.stage, out.parity ^ 1);
                const uint32_t mine = base + L::scores_at + out.stage * tile_bytes + first_half * half_tile;
#pragma unroll
                for (int j = 0; j < keys / 16; ++j) {
                    uint32_t x[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int n = 8 * j + 2 * i;
                        x[i] = pack(E{}, acc[n] * mask.weight[n], acc[n + 1] * mask.weight[n + 1]) & mask.seen[n / 2];
                    }
                    ptx::stmatrix_x4(
                        mine + j / 2 * half_tile + score_at(16 * warp + lane % 16, 2 * (j % 2) + lane / 16), x[0], x[1],
                        x[2], x[3]);
                }
                ptx::fence_proxy_async();
                ptx::named_barrier_sync(2, 128);
                if (warp == 0 && lane == 0) send_scores<C>(mine, half_tile, score_full + 8 * out.stage, rank);
                out.next();
                ring.next();
            }
            pos += p.last - p.first;
        }
    } else {
        ptx::reg_alloc<256>();
        const bool leader = threadIdx.x % 128 == 0;
        const uint32_t put = (lane % 8 + 8 * (lane / 16)) * 128 + (((2 * warp + lane / 8 % 2) ^ (lane % 8)) * 16);
        Ring<L::scores> in;
        State<E, R> state;
        uint32_t buffer = 0;
        for (uint32_t pos = start; pos < end;) {
            const Piece p = piece_at<turning>(work, pos, end);
            state.clear();
            state.set_decay(p, lane);
            state.replay(replayed(p), ring, base, L::stage_bytes, L::k_at, L::v_at, full, warp, lane, release);
            if (p.first > 0 && p.head.reach == from_memory) state.take(work, p, stretch, C, rank, threadIdx.x % 128);
            if (!turning && work.initial) state.add_initial(work, p, rank, warp, lane);
            OutputDecay decay;
            decay.set(p, lane);

            // Each turn of the loop queues three products: what the state gives to chunk c, what the scores add to
            // chunk c - 1, and the update of the state by chunk c; while they run, chunk c - 2 leaves.
            float o[32], from_state[32];
            uint32_t packed[16];
            bool odd = false;  // the values whose scores are being queued have NaN or Inf
            const auto queue_from_state = [&] {
                uint32_t sa[R / 4];
#pragma unroll
                for (int i = 0; i < R / 4; ++i) sa[i] = pack(E{}, state.s[2 * i], state.s[2 * i + 1]);
                ptx::mbarrier_wait(full + 8 * ring.stage, ring.parity);
                const ptx::TileDescriptor q(base + ring.stage * L::stage_bytes);
                ptx::wgmma_fence();
#pragma unroll
                for (int ks = 0; ks < R / 16; ++ks) {
                    ptx::wgmma_rs<E, 0>(from_state, sa[4 * ks], sa[4 * ks + 1], sa[4 * ks + 2], sa[4 * ks + 3],
                                        q + (ks / 4 * tile_bytes + ks % 4 * 32), ks > 0);
                }
                ptx::wgmma_commit();
            };
            const Remake remake{base + L::kept_at, static_cast<int>(threadIdx.x % 128)};
            const auto queue_scores = [&](uint32_t stage) {
                ptx::mbarrier_wait(score_full + 8 * in.stage, in.parity);
                // Read by the one lane that will tell this block's score group that the word may be written again.
                odd = __any_sync(~0u, ptx::ld_shared_b32_if(lane == static_cast<int>(rank), odd_values + 4 * in.stage));
                if (odd) remake.keep(o);
                const ptx::TileDescriptor v(base + stage * L::stage_bytes + L::v_at);
                const ptx::NarrowTileDescriptor scores(base + L::scores_at + in.stage * tile_bytes);
                ptx::hold(o);
                ptx::wgmma_fence();
#pragma unroll
                for (int ks = 0; ks < 4; ++ks)
                    ptx::wgmma_ss<E, 1, 0>(o, v + ks * 16 * 128, scores + (ks / 2 * half_tile + ks % 2 * 32), 1);
                ptx::wgmma_commit();
            };
            const auto queue_update = [&] {
                const uint32_t at = base + ring.stage * L::stage_bytes;
                uint32_t va[16];
                state.load_v(va, at + L::v_at, warp, lane);
#pragma unroll
                for (int i = 0; i < R / 2; ++i) state.s[i] *= state.step;
                state.weigh_v(va, 1.0f);
                state.add_outer(va, at + L::k_at);
            };
            const auto decay_outputs = [&] { decay.apply(p, o, from_state); };
            const auto pack_outputs = [&] {
#pragma unroll
                for (int i = 0; i < 16; ++i) packed[i] = pack(E{}, o[2 * i], o[2 * i + 1]);
            };
            const auto leave = [&](uint32_t c) {
                const uint32_t out = base + L::outputs_at + buffer * tile_bytes;
                if (leader) ptx::tma_store_wait_read<1>();  // the store before the last has left this buffer
                ptx::named_barrier_sync(1, 128);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    ptx::stmatrix_x4_trans(out + put + j * 16 * 128, packed[4 * j], packed[4 * j + 1],
                                           packed[4 * j + 2], packed[4 * j + 3]);
                }
                ptx::fence_proxy_async();
                ptx::named_barrier_sync(1, 128);
                if (leader) {
                    ptx::tma_store(maps.of[p.problem].o, out, rank * 64, p.token(c), p.h, p.b, work.write);
                    ptx::tma_store_commit();
                }
                buffer ^= 1;
            };
            const auto chunk_done = [&](uint32_t stage) {
                release(stage);
                if (C == 1 && lane == 0) ptx::mbarrier_arrive(score_empty + 8 * in.stage);
                if (C > 1 && lane < C) ptx::mbarrier_arrive_remote(score_empty + 8 * in.stage, lane);
                in.next();
            };

            const auto leave_before = [&](uint32_t c) {
                if (!turning && work.last && c + 1 == work.chunks)
                    state.leave(work.last, size_t{p.line} * C + rank, threadIdx.x % 128);
            };
            const auto remake_outputs = [&](uint32_t stage) {
                const uint32_t v_tile = base + stage * L::stage_bytes + L::v_at,
                               scores = base + L::scores_at + in.stage * tile_bytes;
                const auto value = [&](int j, int column) { return tile_element<E>(v_tile, j, column); };
                const auto score = [&](int i, int j) {
                    const float2 pair = unpack(
                        E{}, ptx::ld_shared_b32(scores + j / 32 * half_tile + score_at(i, j % 32 / 8) + j % 8 / 2 * 4));
                    return j % 2 ? pair.y : pair.x;
                };
                remake.make(p, o, value, score);
            };

            leave_before(p.first);
            queue_from_state();
            queue_update();
            ptx::wgmma_wait<1>();
            ptx::hold(from_state);
            decay_outputs();
            uint32_t before = ring.stage;
            ptx::wgmma_wait<0>();
            ptx::hold(state.s);
            ring.next();
            for (uint32_t c = p.first + 1; c < p.last; ++c) {
                leave_before(c);
                queue_from_state();
                queue_scores(before);
                queue_update();
                if (c > p.first + 1) leave(c - 2);
                ptx::wgmma_wait<1>();
                ptx::hold(o);
                ptx::hold(from_state);
                if (odd) remake_outputs(before);
                chunk_done(before);
                pack_outputs();
                decay_outputs();
                before = ring.stage;
                ptx::wgmma_wait<0>();
                ptx::hold(state.s);
                ring.next();
            }
            queue_scores(before);
            if (p.last > p.first + 1) leave(p.last - 2);
            ptx::wgmma_wait<0>();
            ptx::hold(o);
            if (odd) remake_outputs(before);
            chunk_done(before);
            pack_outputs();
            leave(p.last - 1);
            pos += p.last - p.first;
        }
        if (leader) ptx::tma_store_wait_read<0>();
    }
    // The other block still tells this one's barriers what it has read.
    if constexpr (C > 1) {
        __syncwarp();
        ptx::cluster_sync();
    }
}

}  // namespace causeway::gpu::la
