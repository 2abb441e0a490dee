// What checkpoints of known models hold, without their weights.
#pragma once

#include <string>
#include <vector>

#include "core/base/memory.hpp"  // Index

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

}  // namespace causeway::model
