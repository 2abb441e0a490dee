// A call on packed sequences, or one that keeps states on its way, is made of calls on pieces of consecutive tokens.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway::gpu {

// Tokens first ... first + n - 1 of every head, which go on from the state of a packed sequence; of all batch entries
// where nothing is packed. checkpoint: which of the states that are kept the state behind them is, or -1.
struct Piece {
    Index first, n, sequence, checkpoint;
};

struct Pieces {
    std::vector<Piece> list;  // none without tokens
    std::vector<Index> cuts;  // where they begin, and N
    Index kept = 0;           // checkpoints of all sequences, or of one batch entry
};

// The pieces of N tokens between the offsets, of at most `every` tokens where that is above 0. The offsets were checked
// (core/kit/packed.hpp); none: one sequence.
Pieces pieces_of(const std::vector<Index>& cu_seqlens, Index N, Index every);

// Copies `rows` states of `bytes` bytes each, one behind the other, to place `checkpoint` of each of as many groups of
// `kept` such states.
void keep_states(const void* states, void* kept_states, Index rows, Index kept, Index checkpoint, std::size_t bytes,
                 cudaStream_t stream);

}  // namespace causeway::gpu
