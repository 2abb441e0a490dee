// Packed sequences in rounds: what the two kernels of this folder are told then.
#pragma once

#include "gpu/gated/channels/part.hpp"
#include "gpu/gated/rounds.hpp"

namespace causeway::gpu::channels {

// `parts` of packed sequences, forwards. `part` has what they share: first and tokens are not set, chunks are those of
// all of them, tiles lie one part after the other, and states one sequence after the other.
struct RoundPart {
    Part part;
    gated::RoundLists lists;
    int parts;
};

void launch_prepare(const RoundPart& p, cudaStream_t stream);
void launch_sweep(const RoundPart& p, cudaStream_t stream);

}  // namespace causeway::gpu::channels
