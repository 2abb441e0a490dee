// The kernels around the outputs: la_state stores states inside the splits, la_scan sums them along each batch-head,
// la_finish makes the states after the last token, and la_ends those states before there are outputs.
#pragma once

#include "gpu/exact/lightning/layout.cuh"
#include "gpu/exact/lightning/state.cuh"

namespace causeway::gpu::la {

// The load producer of la_state: k and v of the chunks of p, the last first.
template <int R, int D, bool bidirectional>
__device__ __forceinline__ void load_states_role(const StagePipeline<StateShared<R, D>>& stages,
                                                 const Maps<bidirectional>& maps, const Work& work, const Piece& p) {
    using Stage = StateStage<R, D>;
    typename StagePipeline<StateShared<R, D>>::State position;
    const Tensors& map = maps.of[p.problem];
    for (uint32_t c = p.last; c-- > p.first;) {
        const uint32_t at = stages.at(position), bar = stages.full(position);
        stages.producer_acquire(position);
        stages.producer_expect(position, sizeof(Stage));
#pragma unroll
        for (int i = 0; i < R / 64; ++i)
            ptx::tma_load(at + offsetof(Stage, k) + i * tile_bytes, map.k, bar, 64 * i, p.token(c), p.h, p.b,
                          state_input_policy);
#pragma unroll
        for (int i = 0; i < D / 64; ++i)
            ptx::tma_load(at + offsetof(Stage, v) + i * tile_bytes, map.v, bar, 64 * i, p.token(c), p.h, p.b,
                          state_input_policy);
        position.advance();
    }
}

// One block to a part of a split, and then of the end of each batch-head: the state that its chunks add up to.
// Warpgroup 0 loads, each of the others owns 64 columns of v.
template <class E, int R, int D, bool bidirectional>
__global__ __launch_bounds__(128 * (1 + D / 64), 1) void la_state(const __grid_constant__ Maps<bidirectional> maps,
                                                                  const __grid_constant__ Work work) {
    using Stage = StateStage<R, D>;
    using Stages = StagePipeline<StateShared<R, D>>;
    constexpr int groups = D / 64;
    extern __shared__ uint8_t raw[];
    const Stages stages{round_up_to_swizzle_atom(ptx::shared_address(raw))};
    const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        stages.init(1, 4 * groups);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    ptx::griddepcontrol_launch_dependents();

    const uint32_t of_splits = work.splits * work.parts;
    const bool of_end = blockIdx.x >= of_splits;
    const uint32_t index = of_end ? blockIdx.x - of_splits : blockIdx.x, parts = of_end ? work.end_parts : work.parts,
                   part = index % parts;
    Piece p;
    if (of_end) {
        p = end_piece<bidirectional>(work, index / parts);
    } else {
        // Only a split that goes on in the next block stores states.
        const uint32_t split = index / parts, end = work.bound[split + 1];
        if (end % work.chunks == 0) return;
        p = piece_at<bidirectional>(work, max(work.bound[split], end / work.chunks * work.chunks), end);
        if (p.head.reach != from_memory) return;
    }
    const uint32_t first = part_start(p.first, p.last, part, parts);
    p.last = part_start(p.first, p.last, part + 1, parts), p.first = first;

    if (group == 0) {
        if (threadIdx.x == 0) load_states_role<R, D>(stages, maps, work, p);
        return;
    }
    typename Stages::State position;
    State<E, R> state;
    state.clear();
    state.set_decay(p, lane);
    state.replay(p.last - p.first, stages, position, offsetof(Stage, k), offsetof(Stage, v) + (group - 1) * tile_bytes,
                 warp, lane, [&](const typename Stages::State& at) {
                     if (lane == 0) ptx::mbarrier_arrive(stages.empty(at));
                 });
    state.store(work.states, size_t{blockIdx.x} * groups + group - 1, threadIdx.x % 128);
}

// The stored states become, in place of each split's last, the states at the ends of the splits. One thread per element
// of one batch-head's state.
template <int size, class W>
__global__ __launch_bounds__(256) void la_scan(const __grid_constant__ W work) {
    ptx::griddepcontrol_wait();
    const uint32_t bh = blockIdx.y, from = bh * work.chunks, to = from + work.chunks;
    const Head head = work.head[bh % work.heads];
    if (head.reach != from_memory) return;
    float* x = work.states + blockIdx.x * 256 + threadIdx.x;
    float s = 0.0f;
    for (uint32_t b = 0; b < work.splits; ++b) {
        const uint32_t end = work.bound[b + 1];
        if (end <= from || end >= to) continue;
        size_t last = 0;
        each_stored(work, b, max(work.bound[b], from), end, false, [&](uint32_t index, uint32_t n) {
            last = size_t{index} * size;
            s = s * power(head.log2_gamma, static_cast<int>(n) * chunk) + x[last];
        });
        x[last] = s;
    }
}

// The states after the last chunk, [batch][head][r][d], from those stored, zeros being before the first. One thread per
// element of one batch-head's state.
template <int R, int D>
__global__ __launch_bounds__(256) void la_ends(const __grid_constant__ Work work, float* after) {
    const uint32_t bh = blockIdx.y, at = blockIdx.x * 256 + threadIdx.x;
    const Piece p = end_piece<false>(work, bh);
    const float* const x = work.states + at;
    float s = 0.0f;
    const auto add = [&](uint32_t index, uint32_t n) {
        s = s * power(p.head.log2_gamma, static_cast<int>(n) * chunk) + x[size_t{index} * (R * D)];
    };
    if (p.head.reach == from_memory && p.first > 0) {
        const uint32_t from = bh * work.chunks, to = from + p.first;  // where the last split begins
        for (uint32_t b = 0; b < work.splits; ++b) {
            const uint32_t end = work.bound[b + 1];
            if (end <= from || end > to) continue;
            if (work.scanned) s = 0.0f;  // the last one is the sum of all before
            each_stored(work, b, max(work.bound[b], from), end, work.scanned, add);
        }
    }
    for (uint32_t i = 0; i < work.end_parts; ++i)
        add(work.splits * work.parts + bh * work.end_parts + i,
            part_start(p.first, p.last, i + 1, work.end_parts) - part_start(p.first, p.last, i, work.end_parts));
    // Where the element is of, the other way round than stored_at().
    const uint32_t in_block = at % (R * 64), four = in_block / 4, row = four / 128 * 8 + four % 4 * 2 + in_block % 2,
                   column = at / (R * 64) * 64 + four / 32 % 4 * 16 + in_block / 2 % 2 * 8 + four / 4 % 8;
    if (static_cast<int>(row) < work.r && static_cast<int>(column) < work.d)
        after[(int64_t{bh} * work.r + row) * work.d + column] = s;
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
    for (int i = 0; i < 8; ++i) s[i] = decay * last[stored_at(column % 64, first + i)];
    for (int t = 0; t < n; ++t) {
        const float x = static_cast<float>(v[t * v_stride.token]) * power(log2_gamma, n - 1 - t);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (i < rows) s[i] = fmaf(static_cast<float>(k[t * k_stride.token + i]), x, s[i]);
        }
    }
    for (int i = 0; i < rows; ++i) state[b * work.initial_batch + (h * work.r + first + i) * work.d + column] = s[i];
}

}  // namespace causeway::gpu::la
