// The general rule in chunks, for every device, shape and stride: on FMA units in Float32, and the walk from chunk to
// chunk on tensor cores where v is BFloat16, dk at most 128 and the queries on a head are few.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gated/general/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory: the tiles of the chunks that are worked on between two launches, and the lists of packed
// sequences.
std::size_t general_chunks_workspace(const GeneralArgs& a, const Sequences& sequences = {});

// Chunks of 16 tokens in the form of core/gated/general/chunkwise.hpp, with what needs no state done first for all
// chunks in parallel (chunks/README.md has the formulas): the sweep from chunk to chunk multiplies tiles with the state
// alone. All decays are running products of a, so a factor of 0 is exact and where |a| <= 1 nothing overflows that the
// rule keeps in bounds. No bit of a finite output depends on later tokens, on N, on the batch or on packed neighbours.
// With sequences (batch 1) each of them starts from its own state. Launches on `stream` and returns; may be captured
// into a CUDA graph. Throws Error on bad arguments.
void general_chunks(const GeneralArgs& a, const Sequences& sequences, cudaStream_t stream);

// How general_chunks cuts its work: tokens of all heads between two launches (enough chunks to fill a GPU, few enough
// that their tiles stay in its cache), and columns of v to a thread block on tensor cores, 32 or 64. No bit of a result
// depends on it.
struct GeneralShape {
    std::int64_t tokens;
    int columns;
};
GeneralShape general_shape(const GeneralArgs& a);
// The same in a given shape: for the bench and the tests.
std::size_t general_chunks_shaped_workspace(const GeneralArgs& a, const Sequences& sequences, GeneralShape shape);
void general_chunks_shaped(const GeneralArgs& a, const Sequences& sequences, GeneralShape shape, cudaStream_t stream);

}  // namespace causeway::gpu
