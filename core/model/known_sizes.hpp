// What checkpoints of known models hold, without their weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model/checkpoint.hpp"

namespace causeway::model {

struct NamedShape {
    std::string name;
    std::vector<Index> shape;  // outermost first
};

// As a Hugging Face folder has it: the text of config.json, and the tensors.
struct KnownSize {
    std::string config;
    std::vector<NamedShape> tensors;
};

// "llama", "transnormer", "retnet", "qwen3_next", "minimax"
std::vector<std::string> known_architectures();

// "tiny", "1b", "7b" … of one of these; none for another.
std::vector<std::string> known_sizes(const std::string& architecture);

// Throws Error for an architecture and for a size that is not known.
KnownSize known_size(const std::string& architecture, const std::string& size);

// One of them with random weights, those of norms 1: what it computes means nothing, what it costs does. Throws Error
// for an architecture, a size or a type that is not known, OutOfMemory.
std::shared_ptr<const Checkpoint> random_checkpoint_of(const std::string& architecture, const std::string& size,
                                                       WeightType type = WeightType::bf16, std::uint64_t seed = 0);

}  // namespace causeway::model
