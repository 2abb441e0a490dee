// Numbers that several kernels share: of the device, and of Float32 itself. Each is written here and nowhere else.
#pragma once

#include <cstdint>

namespace causeway::gpu::limits {

// Shared memory that one thread block may ask for on Hopper, in bytes.
constexpr std::uint32_t max_shared_bytes = 227 * 1024;

// A tile in the 128-byte swizzle begins at a multiple of this many bytes. Dynamic shared memory does not: a kernel asks
// for one more of these than it needs and rounds its base up.
constexpr std::uint32_t swizzle_atom = 1024;

// exp(x) = 2^(log2_e · x).
constexpr float log2_e = 1.44269504f;

// Two thresholds below which a decay cannot be seen in Float32. A term of weight 2^-24 beside one of weight 1 is lost
// in the rounding of their sum, whose significand has 24 bits: what lies further back than that is not read.
constexpr float unseen_weight_bits = 24.0f;
// A gate of 2^-160 is 0: the smallest positive Float32 is 2^-149. Log gates are cut off there, so that differences of
// their sums stay numbers where a gate is exactly 0 and its logarithm -Inf.
constexpr float zero_gate_bits = 160.0f;

}  // namespace causeway::gpu::limits
