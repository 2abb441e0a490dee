// Shared memory of a thread block of delta_rule, and the pipelines that go through it.
//
// Tiles are 64 rows (tokens) of 128 bytes in the 128-byte swizzle (gpu/kit/swizzle.cuh), as TMA writes and wgmma reads
// them; a tile of more than 64 columns is several of them, one behind the other.
#pragma once

#include <cstddef>

#include "gpu/gated/delta/plan.hpp"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/pipeline.cuh"
#include "gpu/kit/swizzle.cuh"

namespace causeway::gpu::gated_delta {

// What the tokens of a chunk have of gates. G_i is the sum of log2 of the gates of the tokens up to i; a factor is
// never above 1.
struct ChunkGates {
    float G[chunk];
    float from_start[chunk];    // 2^G_i: what token i still sees of the state before the chunk
    float to_end[chunk];        // 2^(G_63 - G_i): what the state after the chunk still has of token i
    float beta[chunk];          // 0 without the delta rule
    float to_sixteenth[chunk];  // 2^(G_l - G_i), l the last token of the sixteen that i belongs to
};

// The same, and what the lengths of keys and queries make of it where the call divides by them; elsewhere `keys` alone.
// A token's factors are 1/√(Σ x² + ε) of its key and of its query. In `keys` from_start, to_end and to_sixteenth are
// times the key's.
struct DeltaGates {
    ChunkGates keys;
    float k_factor[chunk], q_factor[chunk];
    float q_from_start[chunk];  // 2^G_i times the factor of the query
    float all[4];               // 2^G_63, in the first of them
};

// Bytes from the start of a ChunkGates, or of a DeltaGates, to a token's element.
__device__ __forceinline__ uint32_t G_at(int token) { return uint32_t{offsetof(ChunkGates, G)} + 4 * token; }
__device__ __forceinline__ uint32_t from_start_at(int token) {
    return uint32_t{offsetof(ChunkGates, from_start)} + 4 * token;
}
__device__ __forceinline__ uint32_t to_end_at(int token) { return uint32_t{offsetof(ChunkGates, to_end)} + 4 * token; }
__device__ __forceinline__ uint32_t beta_at(int token) { return uint32_t{offsetof(ChunkGates, beta)} + 4 * token; }
__device__ __forceinline__ uint32_t to_sixteenth_at(int token) {
    return uint32_t{offsetof(ChunkGates, to_sixteenth)} + 4 * token;
}
__device__ __forceinline__ uint32_t k_factor_at(int token) {
    return uint32_t{offsetof(DeltaGates, k_factor)} + 4 * token;
}
__device__ __forceinline__ uint32_t q_factor_at(int token) {
    return uint32_t{offsetof(DeltaGates, q_factor)} + 4 * token;
}
__device__ __forceinline__ uint32_t q_from_start_at(int token) {
    return uint32_t{offsetof(DeltaGates, q_from_start)} + 4 * token;
}

// A 16×16 block in Float16. Its rows are 48 bytes apart: ldmatrix wants multiples of 16, and eight rows that follow
// each other then lie in different banks.
struct alignas(16) HalfBlock {
    uint16_t row[16][24];
};
// A 16×16 block on the diagonal of A, by its 8×8 quarters; the upper right one is 0.
struct alignas(16) DiagonalBlock {
    float upper_left[8][12];  // by columns, 48 bytes apart
    // Lanes 0-7 and 8-15 read a column of one quarter each at once; four words keep them in different banks.
    float skew[4];
    float lower_right[8][12];   // by columns
    float unused[4];            // not needed: without it what follows is moved, but to a multiple of 16 bytes too
    uint16_t lower_left[8][8];  // by rows, Float16
};

constexpr uint32_t half_row = sizeof(HalfBlock::row[0]), column_bytes = sizeof(DiagonalBlock::upper_left[0]),
                   lower_right_at = offsetof(DiagonalBlock, lower_right),
                   lower_left_at = offsetof(DiagonalBlock, lower_left);

// R: columns of q and k, 64 or 128, D: of v that the thread block owns, 64 or 128.
template <int R, int D>
struct Shared {
    static constexpr uint32_t state_warpgroups = D / 64, warps = 8 + 4 * state_warpgroups;
    static constexpr uint32_t qk_bytes = R / 64 * tile_bytes, v_bytes = D / 64 * tile_bytes;
    static constexpr uint32_t k_stages = 4, q_stages = 3, v_stages = 2, p_stages = 2, t_stages = 2, gate_stages = 4,
                              out_stages = 1;

    PipelineBarriers<k_stages> k_barriers;
    PipelineBarriers<q_stages> q_barriers;
    PipelineBarriers<v_stages> v_barriers;
    PipelineBarriers<p_stages> p_barriers;
    PipelineBarriers<t_stages> t_barriers;
    PipelineBarriers<gate_stages> gate_barriers;
    PipelineBarriers<out_stages> out_barriers[state_warpgroups];
    uint64_t gates_alone[gate_stages];  // gates are made, and lengths are not in them yet
    uint64_t landed;                    // k, then v, of the last chunk of a packed sequence has come
    uint64_t cleared;                   // and has zeros behind its end (for racecheck)
    // These alignments are larger than any access asks for, which is 16 bytes: offsets stay round whatever stands
    // above.
    alignas(512) float sum_of_gates[warps];  // of the chunk that each warp sums in find_start()
    alignas(1024) DeltaGates gates[gate_stages];
    HalfBlock below[2][6];      // A's blocks below the diagonal, row by row, of this chunk and the next
    DiagonalBlock diagonal[4];  // and those on it, one a warp
    HalfBlock inverse[2][4];    // inverses of those, of this chunk and the next
    alignas(limits::swizzle_atom) uint8_t k[k_stages][qk_bytes];
    uint8_t q[q_stages][qk_bytes], v[v_stages][v_bytes];
    uint8_t p[p_stages][tile_bytes], t[t_stages][tile_bytes];  // P and T, [row][column]
    uint8_t out[state_warpgroups][out_stages][tile_bytes];
};

// What the kernel asks for: its base is rounded up to where a tile may begin.
template <int R, int D>
constexpr uint32_t shared_bytes = sizeof(Shared<R, D>) + limits::swizzle_atom;
static_assert(shared_bytes<128, 128> <= limits::max_shared_bytes && shared_bytes<64, 128> <= limits::max_shared_bytes &&
              shared_bytes<128, 64> <= limits::max_shared_bytes && shared_bytes<64, 64> <= limits::max_shared_bytes);

template <int R, int D>
struct Pipelines {
    using S = Shared<R, D>;
    using Out = Pipeline<S::out_stages, tile_bytes, offsetof(S, out), offsetof(S, out_barriers)>;
    Pipeline<S::k_stages, S::qk_bytes, offsetof(S, k), offsetof(S, k_barriers)> k;
    Pipeline<S::q_stages, S::qk_bytes, offsetof(S, q), offsetof(S, q_barriers)> q;
    Pipeline<S::v_stages, S::v_bytes, offsetof(S, v), offsetof(S, v_barriers)> v;
    Pipeline<S::p_stages, tile_bytes, offsetof(S, p), offsetof(S, p_barriers)> p;
    Pipeline<S::t_stages, tile_bytes, offsetof(S, t), offsetof(S, t_barriers)> t;
    Pipeline<S::gate_stages, sizeof(DeltaGates), offsetof(S, gates), offsetof(S, gate_barriers)> gate;
    uint32_t base;

    explicit __device__ __forceinline__ Pipelines(uint32_t base)
        : k{base}, q{base}, v{base}, p{base}, t{base}, gate{base}, base(base) {}
    // The outputs of state warpgroup i.
    __device__ __forceinline__ Out out(uint32_t i) const {
        return {base, i * static_cast<uint32_t>(sizeof(S::out[0])),
                i * static_cast<uint32_t>(sizeof(S::out_barriers[0]))};
    }
    __device__ __forceinline__ uint32_t gates_alone(uint32_t n) const {
        return base + static_cast<uint32_t>(offsetof(S, gates_alone)) + gate.stage_of(n) * 8;
    }
    __device__ __forceinline__ uint32_t landed() const { return base + static_cast<uint32_t>(offsetof(S, landed)); }
    __device__ __forceinline__ uint32_t cleared() const { return base + static_cast<uint32_t>(offsetof(S, cleared)); }
    // Arrivals: TMA's one thread, one lane of each warp, or, for gates, every lane.
    // lengths: whether the auxiliary warpgroup fills the stages of gates, from what the gates' warp has made.
    template <bool lengths>
    __device__ __forceinline__ void init() const {
        constexpr uint32_t auxiliary_warps = 4, state_warps = 4 * S::state_warpgroups,
                           auxiliary = auxiliary_warps * warp_arrivals, state = state_warps * warp_arrivals;
        k.init(1, auxiliary + state), q.init(1, auxiliary + state), v.init(1, state);
        p.init(auxiliary, state), t.init(auxiliary, state);
        gate.init(lengths ? 32 * auxiliary_warps : 32, 32 * (auxiliary_warps + state_warps));
        for (uint32_t i = 0; i < S::gate_stages; ++i) ptx::mbarrier_init(gates_alone(i), 32);
        for (uint32_t i = 0; i < S::state_warpgroups; ++i) out(i).init(4 * warp_arrivals, 1);
        ptx::fence_mbarrier_init();
    }
};

}  // namespace causeway::gpu::gated_delta
