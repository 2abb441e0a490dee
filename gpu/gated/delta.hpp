// The gated delta rule on Hopper's tensor cores: chunks of 64 tokens, one kernel, which writes o and, where the caller
// wants it, the last state, but nothing in between.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gated/problem.hpp"
#include "gpu/gated/sequences.hpp"

namespace causeway::gpu {

// Whether delta_hopper computes this problem: a Hopper device, BFloat16 or Float16, at most one gate per head and
// token, dk <= 128, dv <= 256; addresses and strides (not widths) of q, k, v and o are multiples of 16 bytes. beta may
// be null (no delta rule), g too.
bool delta_hopper_takes(const GatedArgs& a);

// Bytes of device memory that the call needs besides its tensors: a copy of the state if there is a state and several
// splits or several heads of q share it, and for several splits the maps of their parts, d_k (d_k + d_v) Float32 each
// (without the delta rule d_k d_v). At h = 32, N = 100000 and widths of 128 without gates: 25 MB.
std::size_t delta_hopper_workspace(const GatedArgs& a);

// Launches on `stream` and returns; may be captured into a CUDA graph. The state, the sums of log gates and all
// accumulators are Float32; operands of the products are rounded once to the type of the tensors, and to Float16 inside
// the inverse of I + A. Long sequences are cut into splits; where a head's gates forget, a split starts as far before
// itself as a gate product of 2^-24 reaches, so that keys must not let the state grow: β‖k‖² <= 2. Splits of other
// heads start from their true states. In Float16 an operand above 65504, of the state or of what is written to it, is
// Inf: the thread block then walks over its split once more in Float32, but the maps between splits are not made again,
// and the splits behind one such part start from a state that is not finite. Throws Error on bad arguments. Yang,
// Kautz, Hatamizadeh 2025, "Gated Delta Networks"; Yang et al. 2024, §3, for the form in chunks.
void delta_hopper(const GatedArgs& a, cudaStream_t stream);

// The same in steps, for the part of a sequence whose state before it is known last, with a delta rule:
// delta_hopper_maps queues what does not depend on that state, the maps S ↦ A S + B of pieces of the part;
// delta_hopper_states makes of them and a.state the states between the pieces and the one after the last token, to
// `after`, which may be a.state and null and without goes_on is null; delta_hopper_outputs all else, from the same
// state, which becomes the one after the last token. Each is called once, in this order. The arguments are the same in
// all three but for the state, and a.workspace, of delta_hopper_steps_workspace bytes, is left alone between them.
// Heads that forget take maps here like all others.
bool delta_hopper_in_steps(const GatedArgs& a);
std::size_t delta_hopper_steps_workspace(const GatedArgs& a, bool goes_on);
void delta_hopper_maps(const GatedArgs& a, bool goes_on, cudaStream_t stream);
void delta_hopper_states(const GatedArgs& a, bool goes_on, float* after, cudaStream_t stream);
void delta_hopper_outputs(const GatedArgs& a, bool goes_on, cudaStream_t stream);

// The same for packed sequences, all in one launch of each kernel, or a few where their maps would take more than a
// quarter of a gigabyte: to the bit what calls on each alone give, or with cut_together cut so that all of them take
// the least time. A CUDA graph keeps which sequences there are.
std::size_t delta_hopper_packed_workspace(const GatedArgs& a, const Sequences& sequences);
void delta_hopper_packed(const GatedArgs& a, const Sequences& sequences, cudaStream_t stream);

// The same, so that no bit of a finite output depends on later tokens and gates, N, the batch, the heads or the other
// sequences: splits have 2048 tokens from the start of their sequence, and the gates before a split alone decide how it
// starts.
std::size_t delta_hopper_prefix_workspace(const GatedArgs& a, const Sequences& sequences);
void delta_hopper_prefix(const GatedArgs& a, const Sequences& sequences, cudaStream_t stream);

}  // namespace causeway::gpu
