// What the kernels are told, and how a thread block walks over what is its own.
//
// All chunks of all batch-heads of all problems, one after the other, are one row of chunks; a split is a range of it,
// and the part of a split that lies in one batch-head is a piece. In reversed time the last chunk of a batch-head is
// its first.
#pragma once

#include <cuda.h>

#include <type_traits>

#include "gpu/exact/lightning/plan.hpp"
#include "gpu/kit/ptx.cuh"

namespace causeway::gpu::la {

// Cache policies: of the inputs of outputs and of all that Float32 reads, of the inputs of states, of outputs. Inputs
// of outputs are lines like those of any other tensor. As the first to leave the second-level cache they took 12 % more
// time: then they take each other's places alone, and lines of other tensors stay for good (docs/kernels/lightning.md).
constexpr uint64_t input_policy = ptx::evict_normal, state_input_policy = ptx::evict_first,
                   output_policy = ptx::evict_first;

struct Work {
    uint32_t chunks;       // per batch-head
    uint32_t heads;        // with one decay each; batches repeat them
    uint32_t batch_heads;  // of each problem
    uint32_t reversed;     // bit i: problem i runs over later tokens
    uint32_t splits;
    uint32_t parts;      // states that each split stores: one for each of so many equal shares of it, in order
    uint32_t scanned;    // whether la_scan has made them the states at the ends of splits
    uint32_t end_parts;  // states stored for the end of each batch-head too: of the chunks behind its last split, or of
                         // those that the decay does not forget
    // [split][part][r·d] (Bf16x3Work: below), or [split][r·d] where states are handed on; then [bh][end_part][r·d]; in
    // the order of the accumulators.
    float* states;
    // By split and block of a cluster, 0 before the launch: becomes 1 when `states` has the state where the split ends
    // inside a batch-head, and the split behind it goes on from there. null: la_state stores states, or none are.
    uint32_t* handed;
    float* last;  // [bh][r·d], in that order too: the states before the last chunks, for la_finish; null: none
    const float* initial;            // state before the first token, [batch][head][r][d]; null: zeros
    int64_t initial_batch;           // elements from one batch to the next
    int32_t r, d;                    // of `initial`
    uint32_t bound[max_splits + 1];  // split i is the chunks [bound[i], bound[i+1]) of all
    Head head[max_heads];
};

// For Float32: states are stored by tasks, blocks of equal shares of what there is to follow, cut without regard to the
// splits. A task stores one for each split that it has chunks of: `states` is [split + task][r·d].
struct Bf16x3Work : Work {
    uint32_t task;                      // chunks that each task follows
    uint32_t followed[max_splits + 1];  // [i]: chunks of the splits before i that tasks follow
    uint8_t order[max_splits];          // the splits, those that wait for no state first
};

// Tensor maps of one problem, and of all.
struct Tensors {
    CUtensorMap q, k, v, o;
};
template <bool bidirectional>
struct Maps {
    Tensors of[bidirectional ? max_problems : 1];
};
__device__ __forceinline__ void prefetch(const Tensors& map) {
    ptx::prefetch_tensor_map(map.q), ptx::prefetch_tensor_map(map.k), ptx::prefetch_tensor_map(map.v),
        ptx::prefetch_tensor_map(map.o);
}

// The part of one split inside one batch-head: chunks [first, last).
struct Piece {
    uint32_t bh, first, last;
    uint32_t problem;
    bool reversed;
    uint32_t chunks;  // of the whole batch-head
    int h, b;
    Head head;

    // Where chunk c is in memory.
    __device__ __forceinline__ int token(uint32_t c) const {
        return static_cast<int>(reversed ? chunks - 1 - c : c) * chunk;
    }
};

template <bool bidirectional>
__device__ __forceinline__ Piece piece_at(const Work& w, uint32_t pos, uint32_t end) {
    const uint32_t bh = pos / w.chunks, first = pos - bh * w.chunks;
    const uint32_t last = min(w.chunks, first + (end - pos));
    const uint32_t problem = bidirectional ? bh / w.batch_heads : 0,
                   in_problem = bidirectional ? bh - problem * w.batch_heads : bh;
    const uint32_t b = in_problem / w.heads, h = in_problem - b * w.heads;
    return {bh,
            first,
            last,
            problem,
            bidirectional && (w.reversed >> problem & 1),
            w.chunks,
            static_cast<int>(h),
            static_cast<int>(b),
            w.head[h]};
}

// How many chunks before `first` are replayed to rebuild the state there.
__device__ __forceinline__ uint32_t replayed(const Piece& p) {
    return p.head.reach == from_memory ? 0 : min(p.first, static_cast<uint32_t>(p.head.reach));
}

// Calls f(piece, chunks to replay before it) for every piece of the chunks [pos, end): in order, or where states are
// handed on the last piece first, if its batch-head goes on behind it, and that which waits for a state at the end.
template <bool bidirectional, class F>
__device__ __forceinline__ void each_piece(const Work& work, uint32_t pos, uint32_t end, const F& f) {
    const uint32_t ahead = end % work.chunks, behind = pos % work.chunks;
    const uint32_t whole_end = work.handed && ahead > 0 ? max(pos, end - ahead) : end,
                   whole = work.handed && behind > 0 ? min(whole_end, pos + work.chunks - behind) : pos;
#pragma unroll 1
    for (uint32_t turn = 0; turn < 3; ++turn) {
        uint32_t at = turn == 0 ? whole_end : turn == 1 ? whole : pos;
        const uint32_t to = turn == 0 ? end : turn == 1 ? whole_end : whole;
        while (at < to) {
            const Piece p = piece_at<bidirectional>(work, at, to);
            f(p, replayed(p));
            at += p.last - p.first;
        }
    }
}

// The chunks of a batch-head, counted through all problems, of which states are stored for its end.
template <bool bidirectional>
__device__ __forceinline__ Piece end_piece(const Work& w, uint32_t bh) {
    const uint32_t from = bh * w.chunks, to = from + w.chunks;
    Piece p = piece_at<bidirectional>(w, from, to);
    if (p.head.reach != from_memory) {
        p.first = w.chunks - min(w.chunks, static_cast<uint32_t>(p.head.reach));
    } else {
        for (uint32_t b = 1; b < w.splits && w.bound[b] < to; ++b)
            if (w.bound[b] > from) p.first = w.bound[b] - from;
    }
    return p;
}

// First chunk of part i of [first, last).
__device__ __forceinline__ uint32_t part_start(uint32_t first, uint32_t last, uint32_t i, uint32_t parts) {
    return first + (last - first) * i / parts;
}

// Calls f(index of the state, chunks that it is of) for the states stored of a split, or of its part [from, to) in one
// batch-head: for all in order, or only for the last.
template <class W, class F>
__device__ __forceinline__ void each_stored(const W& w, uint32_t split, uint32_t from, uint32_t to, bool only_last,
                                            const F& f) {
    if constexpr (std::is_same_v<W, Bf16x3Work>) {
        const uint32_t end = w.followed[split + 1];
        uint32_t pos = only_last ? max(w.followed[split], (end - 1) / w.task * w.task) : w.followed[split];
        for (uint32_t task = pos / w.task; pos < end; ++task) {
            const uint32_t next = min(end, (task + 1) * w.task);
            f(split + task, next - pos);
            pos = next;
        }
    } else {
        for (uint32_t i = only_last ? w.parts - 1 : 0; i < w.parts; ++i)
            f(split * w.parts + i, part_start(from, to, i + 1, w.parts) - part_start(from, to, i, w.parts));
    }
}

}  // namespace causeway::gpu::la
