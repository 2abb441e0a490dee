// What a thread block of delta_rule is told and which share of the work it has.
#pragma once

#include <cuda.h>

#include <type_traits>

#include "gpu/gated/delta/plan.hpp"

namespace causeway::gpu::gated_delta {

struct Maps {
    CUtensorMap q, k, v, o;
};

// Whether walks without gates have loops of their own, in which no factor of gates is read or multiplied by: they are
// all 1. For the widest tiles alone, since it makes the kernel half as large again.
template <int R, int D, bool delta, bool lengths>
constexpr bool has_ungated_walks = delta && !lengths && R == 128 && D == 128;

struct Work {
    uint32_t chunks, splits, column_blocks, heads, group;  // heads: of q; group of them share a head of k and v
    int64_t N;
    int dk, dv;
    float scale;
    float length_eps;       // q and k are divided by √(Σ x² + length_eps); 0: they are not
    const float *g, *beta;  // [B, heads / group, N]; null: no gate
    const float* initial;   // [(sequences,) B, heads / group, dk, dv]; null: zeros
    float* final;           // the same shape; null: dropped
    uint32_t bound[max_splits + 1];
    const void *q, *k, *v, *o;  // as the maps have them, for walk_again()
    Strides q_stride, k_stride, v_stride, o_stride;
    // The maps S ↦ A S + B of the parts of all splits but the last (plan.hpp, Scratch); B null: there is one split.
    float *A, *B;
    int* transfers;  // [(sequences of several splits,) state_heads], which heads take them; null: all
    // Of packed sequences, [parts, state_heads]: whether the split behind a part starts from the state behind it; null:
    // all splits of heads that take the maps do.
    int* starts;
    bool making;      // this launch makes A and B, and no outputs but those of splits that lead
    bool leads;       // the first split makes its outputs in that launch, by the lead_blocks thread blocks in front
    bool first_maps;  // the first part has A too; the scan starts from `initial`
    uint32_t finer, columns, rows, identity_blocks, state_heads;
    uint32_t lead_blocks;
    // Packed sequences: N, g, beta and the tensors are those of all of them together; chunks, splits, bound, finer,
    // leads and lead_blocks are not used. `walks` are those of this launch, each with so many thread blocks; null:
    // PackedWork has them, from first_walk on.
    const Walk* walks;
    uint32_t first_walk, walk_blocks, each;  // each: of split_bound()
};
struct PackedWork : Work {
    Walk few[few_walks];
};
// What the kernels take.
template <bool packed>
using Told = std::conditional_t<packed, PackedWork, Work>;

// Where a thread block finds its walk over a packed sequence: in a list in memory, or in shared memory. Loops over
// chunks read it anew. From shared memory, where its address takes no registers, texts with 128 columns of v took 2 to
// 5 % less, those with 64, for which ptxas then ordered the state's loop otherwise, 2 to 8 % more
// (docs/kernels/delta.md).
enum class Walks { none, listed, own };
template <bool packed, int D>
constexpr Walks walks_of = !packed    ? Walks::none
                           : D == 128 ? Walks::own
                                      : Walks::listed;

constexpr uint32_t walk_words = sizeof(Walk) / sizeof(uint32_t);
__device__ __forceinline__ uint32_t* own_walk() {
    __shared__ uint32_t words[walk_words];
    return words;
}
// Fills it from what the kernel is told, if it lies there: by all threads, before anything is waited for.
__device__ __forceinline__ void take_walk(const PackedWork& work) {
    const uint32_t i = work.first_walk + blockIdx.x / work.walk_blocks;
    if (!work.walks && threadIdx.x < walk_words)
        own_walk()[threadIdx.x] = reinterpret_cast<const uint32_t*>(work.few)[i * walk_words + threadIdx.x];
}
// From the list, otherwise. Then all threads have it.
__device__ __forceinline__ void await_walk(const PackedWork& work) {
    const Walk* const from = work.walks + blockIdx.x / work.walk_blocks;
    if (work.walks && threadIdx.x < walk_words)
        own_walk()[threadIdx.x] = reinterpret_cast<const uint32_t*>(from)[threadIdx.x];
    __syncthreads();
}

// The sequence that a thread block works on: that of a batch entry or, where they are packed, the one of its walk.
template <Walks walks>
struct Sequence {
    static constexpr bool packed = walks != Walks::none;
    const Work& work;

    __device__ __forceinline__ const Walk& walk() const {
        if constexpr (walks == Walks::own) return *reinterpret_cast<const Walk*>(own_walk());
        else return work.walks[blockIdx.x / work.walk_blocks];
    }
    // Whether this thread block makes the outputs of a split that leads.
    __device__ __forceinline__ bool leading() const {
        return work.making && (packed ? walk().lead > 0 && walk().index == 0 : blockIdx.x < work.lead_blocks);
    }
    // Which of the tensors' tokens is its first, and how many it has.
    __device__ __forceinline__ uint32_t first_token() const { return packed ? walk().first : 0; }
    __device__ __forceinline__ int64_t tokens() const { return packed ? int64_t{walk().tokens} : work.N; }
    __device__ __forceinline__ uint32_t chunks() const {
        return packed ? (walk().tokens + chunk - 1) / chunk : work.chunks;
    }
    __device__ __forceinline__ uint32_t splits() const { return packed ? walk().splits : work.splits; }
    __device__ __forceinline__ uint32_t finer() const { return packed ? walk().finer : work.finer; }
    __device__ __forceinline__ bool leads() const { return packed ? walk().lead > 0 : work.leads; }
    __device__ __forceinline__ uint32_t parts() const {
        return leads() ? 1 + (splits() - 2) * finer() : (splits() - 1) * finer();
    }
    // The last part before split i > 0.
    __device__ __forceinline__ uint32_t part_before(uint32_t i) const {
        return leads() ? (i - 1) * finer() : i * finer() - 1;
    }

    // The first chunk of split i; that of split splits() is the end.
    __device__ __forceinline__ uint32_t bound(uint32_t i) const {
        return packed ? split_bound(chunks(), splits(), i, work.each, walk().lead) : work.bound[i];
    }
    // The first chunk of part i; that of part parts() is the end of the last part.
    __device__ __forceinline__ uint32_t part_bound(uint32_t i) const {
        if (leads() && i == 0) return 0;
        const uint32_t j = leads() ? i - 1 : i, split = j / finer() + (leads() ? 1 : 0), first = bound(split);
        return i == parts() ? first : first + (bound(split + 1) - first) * (j % finer()) / finer();
    }
    // B of a part, and after the scan the state behind it.
    __device__ __forceinline__ float* B_of(uint32_t part, uint32_t kv_bh) const {
        if constexpr (packed) part += walk().first_part;
        return work.B + (int64_t{part} * work.state_heads + kv_bh) * work.dk * work.dv;
    }
    // The first part of a sequence has none, but with first_maps, where work.A is that of the second one.
    __device__ __forceinline__ float* A_of(uint32_t part, uint32_t kv_bh) const {
        if constexpr (packed) part += walk().first_part - walk().cut;
        return work.A + ((int64_t{part} - 1) * work.state_heads + kv_bh) * work.dk * static_cast<int>(work.rows);
    }
    __device__ __forceinline__ int* transfers_of(uint32_t kv_bh) const {
        return work.transfers + (packed ? int64_t{walk().cut} * work.state_heads : 0) + kv_bh;
    }
    // Whether the maps of the head's parts are made.
    __device__ __forceinline__ bool takes_maps(uint32_t kv_bh) const { return !work.transfers || *transfers_of(kv_bh); }
    // Where each split decides by itself: whether split i starts from the state that the maps give.
    __device__ __forceinline__ int* start_of(uint32_t split, uint32_t kv_bh) const {
        return work.starts + (int64_t{walk().first_part} + part_before(split)) * work.state_heads + kv_bh;
    }
    // Whether split i does; else it starts from zeros, as far back as gates let something through.
    __device__ __forceinline__ bool starts_from_maps(uint32_t split, uint32_t kv_bh) const {
        return packed && work.starts ? *start_of(split, kv_bh) != 0 : takes_maps(kv_bh);
    }
    // Of a head, from its first token on; null: no gate.
    __device__ __forceinline__ const float* g_of(uint32_t kv_bh) const {
        return work.g ? work.g + kv_bh * work.N + first_token() : nullptr;
    }
    __device__ __forceinline__ const float* beta_of(uint32_t kv_bh) const {
        return work.beta + kv_bh * work.N + first_token();
    }
    // Where a head's state lies in `initial` and `final`.
    __device__ __forceinline__ int64_t state_at(uint32_t kv_bh) const {
        const int64_t state = (packed ? int64_t{walk().sequence} * work.state_heads : 0) + kv_bh;
        return state * work.dk * work.dv;
    }
};

// A walk of one thread block over the chunks [start, last) of one head of a sequence, for up to 128 columns of the
// state; it makes the outputs of [first, last) for a head of q. Either a split, or a part whose map is made: then
// first = last, and the columns are those of B or, with the identity to start from and no values, those of A.
template <Walks walks>
struct Split {
    static constexpr bool packed = walks != Walks::none;
    // index: of the split or part; h: the head of q; kv_h: that of k, v, g, β and the state, kv_bh: the same counted
    // through all batches.
    uint32_t column_block, index, b, h, kv_h, kv_bh;
    uint32_t start, first, last;
    bool making;     // A or B of a part
    const float* g;  // of the head, from the sequence's first token on; null: no gate

    explicit __device__ __forceinline__ Split(const Work& work) {
        const Sequence<walks> sequence{work};
        const bool leading = sequence.leading();
        making = work.making && !leading;
        const uint32_t kv_heads = work.heads / work.group,
                       block = packed || leading ? blockIdx.x : blockIdx.x - work.lead_blocks, led = work.leads ? 1 : 0,
                       wide = work.column_blocks + (making ? work.identity_blocks : 0);
        uint32_t bh;  // of k and v where maps are made, else of q
        if (packed) {
            index = sequence.walk().index, column_block = block % wide;
            bh = block % work.walk_blocks / wide;
        } else if (leading) {
            index = 0, column_block = block % wide, bh = block / wide;
        } else if (making) {
            const uint32_t count = sequence.parts() - led;
            column_block = block % wide, index = led + block / wide % count, bh = block / wide / count;
        } else {
            const uint32_t count = sequence.splits() - led;
            index = led + block % count, column_block = block / count % wide, bh = block / count / wide;
        }
        if (making) {
            // Blocks of the identity's columns come behind the last columns of v, where TMA finds zeros.
            kv_bh = bh;
            b = kv_bh / kv_heads, kv_h = kv_bh - b * kv_heads, h = kv_h * work.group;
            start = sequence.part_bound(index), first = last = sequence.part_bound(index + 1);
        } else {
            b = bh / work.heads, h = bh - b * work.heads, kv_h = h / work.group, kv_bh = b * kv_heads + kv_h;
            start = first = sequence.bound(index), last = sequence.bound(index + 1);
        }
        g = sequence.g_of(kv_bh);
    }

    // Whether there is such a head: all walks of a launch have the same number of thread blocks, of which those that
    // lead and those that make maps need different ones.
    __device__ __forceinline__ bool exists(const Work& work) const { return !packed || kv_bh < work.state_heads; }
    // Which of the tensors' tokens is the sequence's first, and how many it has.
    __device__ __forceinline__ uint32_t first_token(const Work& work) const {
        return Sequence<walks>{work}.first_token();
    }
    __device__ __forceinline__ int64_t tokens(const Work& work) const { return Sequence<walks>{work}.tokens(); }
    __device__ __forceinline__ const float* beta(const Work& work) const {
        return Sequence<walks>{work}.beta_of(kv_bh);
    }
    // The end of the chunks behind which no token of another sequence stands that TMA would take for one of this.
    __device__ __forceinline__ uint32_t whole(const Work& work) const {
        return packed ? min(last, static_cast<uint32_t>(tokens(work)) / chunk) : last;
    }
    // Whether the columns are those of A.
    __device__ __forceinline__ bool identity(const Work& work) const { return column_block >= work.column_blocks; }
    __device__ __forceinline__ bool takes_maps(const Work& work) const {
        return Sequence<walks>{work}.takes_maps(kv_bh);
    }
    __device__ __forceinline__ bool starts_from_maps(const Work& work) const {
        return Sequence<walks>{work}.starts_from_maps(index, kv_bh);
    }
    // The state before `start`, [dk, dv]; null: zeros, or the identity.
    __device__ __forceinline__ const float* from(const Work& work) const {
        const Sequence<walks> sequence{work};
        if (start == 0) return work.initial && !identity(work) ? work.initial + sequence.state_at(kv_bh) : nullptr;
        return making || start < first ? nullptr : sequence.B_of(sequence.part_before(index), kv_bh);
    }
    // Where the state after `last` goes, [dk, width()]; null: nowhere.
    __device__ __forceinline__ float* to(const Work& work) const {
        const Sequence<walks> sequence{work};
        if (!making) {
            if (h % work.group > 0) return nullptr;
            if (sequence.leading()) return sequence.B_of(0, kv_bh);
            return last == sequence.chunks() && work.final ? work.final + sequence.state_at(kv_bh) : nullptr;
        }
        if (!identity(work)) return sequence.B_of(index, kv_bh);
        return index > 0 || work.first_maps ? sequence.A_of(index, kv_bh) : nullptr;
    }
    __device__ __forceinline__ int width(const Work& work) const {
        return identity(work) ? static_cast<int>(work.rows) : work.dv;
    }
    // The first of the block's columns there.
    __device__ __forceinline__ int first_column(const Work& work) const {
        return static_cast<int>((column_block - (identity(work) ? work.column_blocks : 0)) * work.columns);
    }
};

}  // namespace causeway::gpu::gated_delta
