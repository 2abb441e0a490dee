// Packed sequences for kernels that go over a part of the tokens of every sequence at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gpu/gated/sequences.hpp"

namespace causeway::gpu::gated {

// Tokens of a packed sequence that are worked on in one launch.
struct SequencePart {
    std::uint32_t first, tokens;  // of the tensors
    std::uint32_t sequence;       // whose state it goes on from
    std::uint32_t first_chunk;    // chunks of the round before it
};

// Parts of different sequences, which are worked on together; the next part of one of them is in a later round.
struct Round {
    std::vector<SequencePart> parts;
    std::vector<std::uint32_t> part_of_chunk;  // of every chunk of them all

    std::int64_t chunks() const { return static_cast<std::int64_t>(part_of_chunk.size()); }
};

// Sequences in parts of `each` tokens, chunks of C, at most `most_chunks` chunks to a round or a single part.
std::vector<Round> rounds_of(const Sequences& sequences, std::int64_t each, int C, std::int64_t most_chunks);

// The two lists of a round on the device.
struct RoundLists {
    const SequencePart* parts;
    const std::uint32_t* part_of_chunk;
};
// Bytes of the lists, and their copy to `to`, at a multiple of 16.
std::size_t bytes_of(const Round& round);
RoundLists copy_lists(const Round& round, void* to, cudaStream_t stream);

}  // namespace causeway::gpu::gated
