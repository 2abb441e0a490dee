// Layouts: what the tensors of an architecture are called and how they are put together. A layout is one file in
// layouts/ and one line in layout.cpp.
#pragma once

#include <string>
#include <vector>

#include "core/model/network.hpp"
#include "core/model/reader.hpp"

namespace causeway::model {

struct Layout {
    std::string name;                 // "llama"
    std::string text;                 // what it is, in a sentence
    std::vector<std::string> gguf;    // the architectures that it reads: general.architecture
    std::vector<std::string> folder;  // and model_type of config.json
    Network (*build)(Reader&);
};

const std::vector<Layout>& layouts();

// The network of a checkpoint. Throws Error for an architecture without a layout, and for tensors that are missing or
// of the wrong shape.
Network build(const std::shared_ptr<const Checkpoint>&);

// Each defined in its file.
Layout llama_layout();
Layout transnormer_layout();
Layout retnet_layout();
Layout qwen3_next_layout();
Layout minimax_layout();

}  // namespace causeway::model
