// How products of Float32 tensors are made on a GPU: a choice of the callers, and of the kernels.
#pragma once

#include <string>
#include <vector>

namespace causeway {

// On FMA units; on tensor cores from operands split into two BFloat16 (relative error about 7e-6); or there from
// operands rounded to 11 bits (about 4e-4). In fleet and causal-dot-product both of the latter mean operands split into
// two TF32 (1.2e-6), in the states before the cuts of a sequence alone.
enum class Precision { exact, bf16x3, tf32 };

inline constexpr Precision default_precision = Precision::bf16x3;

namespace calls {

// Their names, in the order of the enumeration.
inline std::vector<std::string> precisions() { return {"exact", "bf16x3", "tf32"}; }

}  // namespace calls
}  // namespace causeway
