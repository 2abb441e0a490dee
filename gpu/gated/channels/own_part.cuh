// What a thread block works on: the part of the tokens that the kernel is told or, of packed sequences, one of the
// round.
#pragma once

#include <type_traits>

#include "gpu/gated/channels/round.hpp"

namespace causeway::gpu::channels {

template <bool packed>
using Told = std::conditional_t<packed, RoundPart, Part>;

inline __host__ __device__ const Part& shared_part(const Part& told) { return told; }
inline __host__ __device__ const Part& shared_part(const RoundPart& told) { return told.part; }

// By all threads of the block; i: which of the round's parts it has.
__device__ __forceinline__ const Part& own_part(const Part& told, uint32_t) { return told; }
__device__ __forceinline__ const Part& own_part(const RoundPart& told, uint32_t i) {
    __shared__ Part own;
    if (threadIdx.x == 0) {
        own = told.part;
        const gated::Call& call = own.call;
        const gated::SequencePart x = told.lists.parts[i];
        own.first = x.first, own.tokens = x.tokens;
        own.chunks = static_cast<int>((x.tokens + C - 1) / C);
        const int64_t tiles = int64_t{x.first_chunk} * call.all_heads,
                      state = int64_t{x.sequence} * call.all_heads * call.dk * call.dv;
        own.keys += tiles * KeyTiles(own.DK, call.beta != nullptr).bytes;
        own.queries += tiles * call.group * QueryTiles(own.DK).bytes;
        if (own.values) own.values += tiles * (own.DV / sweep_columns) * value_bytes;
        own.state_in += state, own.state_out += state;
    }
    __syncthreads();
    return own;
}

}  // namespace causeway::gpu::channels
