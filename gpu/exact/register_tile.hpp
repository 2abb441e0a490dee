// One engine for the recurrent methods on FMA units: the state lies in the registers of a block of threads, tokens go
// by in shared memory. The methods differ in the order of their loops.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu::tile {

// Tokens of a tile.
constexpr int tokens = 16;
// Heads of one launch.
constexpr int max_heads = 256;
// A weight below 2^-unseen_bits is not seen beside 1 by any sum of Float32.
constexpr double unseen_bits = 60;

enum class Order {       // of the work on a tile
    row_based,           // token by token: the whole state, then the whole output
    causal_dot_product,  // token by token: each row of the state is used as soon as it is new
    fleet,               // rank by rank (32 or 64 at a time) through a few tokens, then the next ranks
    state,               // no outputs: the state alone
};

struct Args {
    const void *q, *k, *v;
    void* o;
    std::int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3];  // batch, head, token
    std::int64_t N, piece;                                            // tokens; of a piece, a multiple of a tile
    std::int32_t r, d, all_heads, first_head, heads;                  // of the tensors; of this launch
    std::int32_t segments, pieces, column_blocks;                     // pieces: of a segment
    bool quads_qk, quads_v;                                           // rows can be read four elements at a time
    float* state;                                                     // [B, all_heads, r, d] or null
    float* carried;  // [B, all_heads, 1 + carried_pieces(), r, d]: the given state, then the state that each piece adds
                     // up to, in whose last of a segment's the state after it comes to lie; null: one segment
    double log2_gamma[max_heads];

    // Of all segments but the last.
    __host__ __device__ std::int64_t carried_pieces() const { return std::int64_t{segments - 1} * pieces; }
};

// Columns of a block whose warps have so many groups of ranks.
constexpr int width_of(int groups) { return 4 * 4 * 32 / groups; }

// How a sequence is cut: into segments, of which each makes its outputs from the state before it, and those into pieces
// whose states are made first, all at the same time. wide: threads with 16 ranks × 4 columns of the state, where the
// usual ones have 8 × 4. They issue fewer loads and shuffles for each product, but need more segments to fill a device.
struct Cut {
    bool wide = false;
    std::int32_t segments = 1, pieces = 1;
    std::int64_t piece = 0;  // tokens
};
Cut cut_into(const CausalArgs& a, std::int64_t segments, int pieces, bool wide);  // or fewer
Cut cut_of(const CausalArgs& a);                                                  // the quickest, as estimated
bool may_be_wide(const CausalArgs& a);
std::size_t workspace(const CausalArgs& a, const Cut& cut);

// The methods, cut so.
void fleet(const CausalArgs& a, const Cut& cut, cudaStream_t stream);
void causal_dot_product(const CausalArgs& a, const Cut& cut, cudaStream_t stream);

// Whether rows of so many columns can be read four elements at a time.
bool lies_in_fours(const void* data, Type type, Strides s, int columns);

// Bytes of shared memory that a block can have.
std::size_t shared_memory();

// Leaves in `carried` the states that segments start from: that before segment i lies before piece i · pieces.
void run_states(const CausalArgs& a, const Args& x, bool wide, cudaStream_t stream);

}  // namespace causeway::gpu::tile
