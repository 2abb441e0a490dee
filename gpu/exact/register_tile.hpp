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
    fleet,               // rank by rank (64 at a time) through a few tokens, then the next ranks
    state,               // no outputs: the state alone
};

struct Args {
    const void *q, *k, *v;
    void* o;
    std::int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3];  // batch, head, token
    std::int64_t N, length;                                           // tokens; of a segment, a multiple of a tile
    std::int32_t r, d, all_heads, first_head, heads;                  // of the tensors; of this launch
    std::int32_t segments, column_blocks;
    bool quads_qk, quads_v;  // rows can be read four elements at a time
    float* state;            // [B, all_heads, r, d] or null
    float* carried;  // [B, all_heads, segments, r, d]: the given state, then what each segment but the last leaves;
                     // null: one segment
    double log2_gamma[max_heads];
};

// Segments that the sequence is cut into so that a call of few heads fills the device.
std::int64_t segments_of(const CausalArgs& a);
std::size_t workspace(const CausalArgs& a, std::int64_t segments);

// Bytes of shared memory that a block can have.
std::size_t shared_memory();

// Leaves in `carried` the states that segments start from.
void run_states(const CausalArgs& a, const Args& x, cudaStream_t stream);

}  // namespace causeway::gpu::tile
