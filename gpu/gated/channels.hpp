// A gate per key channel, with the delta rule (Kimi Delta Attention) and without (gated linear attention), on tensor
// cores. channels/README.md has the formulas and who does what.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gated/problem.hpp"
#include "gpu/gated/sequences.hpp"

namespace causeway::gpu {

// BFloat16, a gate per channel, 1 < dk <= 128, dv <= 128, on Hopper.
bool gated_channels_takes(const GatedArgs& a);
// Whether their gates are made within the kernel: of a projection in BFloat16 or Float32, keys of an even width.
bool gated_channels_makes_gates(const GatedArgs& a);

// Bytes of device memory that the call needs besides its tensors: the tiles of a part of the tokens, 131072 of all
// heads together (at dk = dv = 128 and h = 32 85 MB, with the delta rule 152 MB), and, for more than one such part
// without a state from the caller, a state of every head.
std::size_t gated_channels_workspace(const GatedArgs& a);

// The chunkwise form of core/gated/chunkwise.hpp in chunks of 64, for gates of any size: what is multiplied by a gate's
// exponential is anchored where the exponent is at most 0, or bounded by what the numbers themselves allow. Products
// take BFloat16 operands and Float32 sums; the state is Float32. Launches on `stream` and returns; may be captured into
// a CUDA graph. Throws Error on bad arguments.
void gated_channels(const GatedArgs& a, cudaStream_t stream);

// The same for packed sequences, which must have states: in rounds of as many sequences as have 262144 tokens of all
// heads together, in chunks of 64, with the tiles of so many; to the bit what calls on each alone give. A CUDA graph
// keeps which sequences there are.
std::size_t gated_channels_packed_workspace(const GatedArgs& a, const Sequences& sequences);
void gated_channels_packed(const GatedArgs& a, const Sequences& sequences, cudaStream_t stream);

}  // namespace causeway::gpu
