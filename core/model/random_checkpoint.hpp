// Models of known sizes with random weights: what they compute means nothing, what they cost does not depend on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/model/checkpoint.hpp"

namespace causeway::model {

// A checkpoint as a Hugging Face folder would have it, in memory, of one of known_sizes.hpp: weights of matrices are
// drawn with the variance 1 / columns, those of norms are 1, in Float32 or BFloat16. Numbers of one sequence come again
// and again, so that it is made at the rate of writing. Throws Error for an architecture, a size or a type that is not
// known, OutOfMemory.
std::shared_ptr<const Checkpoint> random_checkpoint(const std::string& architecture, const std::string& size,
                                                    WeightType type = WeightType::bf16, std::uint64_t seed = 0);

}  // namespace causeway::model
