// Models of known sizes without their weights: what they compute means nothing, what they cost does not depend on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model/random_checkpoint.hpp"

namespace causeway::model {

// As a Hugging Face folder has it: the text of config.json, and the tensors.
struct KnownSize {
    std::string config;
    std::vector<RandomTensor> tensors;
};

// "llama", "transnormer", "retnet", "qwen3_next", "minimax"
std::vector<std::string> known_architectures();

// "tiny", "1b", "7b" … of one of these; none for another.
std::vector<std::string> known_sizes(const std::string& architecture);

// Its first `layers` layers; 0: all that it has. Throws Error for an architecture and for a size that is not known, and
// for more layers than that size has.
KnownSize known_size(const std::string& architecture, const std::string& size, Index layers = 0);

// Of such a size with random weights; throws as random_checkpoint too.
std::shared_ptr<const Checkpoint> random_model(const std::string& architecture, const std::string& size,
                                               WeightType type, std::uint64_t seed, Index layers = 0,
                                               bool matrices = true);

}  // namespace causeway::model
