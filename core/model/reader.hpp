// How a layout reads a checkpoint: sizes and tensors under the names of its format, each checked.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/memory.hpp"
#include "core/model/checkpoint.hpp"

namespace causeway::model {

// Where a number stands: in config.json ("rope_scaling.factor"), and in GGUF after the architecture ("rope.freq_base"
// is "llama.rope.freq_base"). Empty: the format does not have it.
struct Key {
    std::string folder, gguf;
};

class Reader {
public:
    explicit Reader(const Checkpoint&);

    const Checkpoint& checkpoint() const { return checkpoint_; }
    bool gguf() const { return checkpoint_.gguf(); }
    // What the checkpoint calls itself: GGUF's general.architecture, or model_type of config.json.
    const std::string& architecture() const { return architecture_; }

    // A whole number from `least` to 2^20, so that products of three of them are numbers too. Throws Error where it is
    // missing (unless there is a fallback) or another.
    Index size(const Key& key, std::optional<Index> fallback = {}, Index least = 1) const;
    // The same of tokens, which may be more; 0 where it is missing.
    Index tokens(const Key& key) const;
    double number(const Key& key, std::optional<double> fallback = {}) const;  // finite
    bool flag(const Key& key, bool fallback) const;
    std::string text(const Key& key, const std::string& fallback) const;
    std::string full(const Key& key) const;  // the name that the format has for it
    bool knows(const Key& key) const { return !(gguf() ? key.gguf : key.folder).empty(); }

    bool has(const std::string& tensor) const { return checkpoint_.find(tensor) != nullptr; }
    // Throws Error where it is missing or of another shape.
    Weight matrix(const std::string& tensor, Index rows, Index columns);
    Weight matrix(const std::string& tensor, Index columns);  // of any number of rows
    // All of n numbers, in Float32.
    Buffer<float> vector(const std::string& tensor, Index n);

    // Of the tensors that were asked for, each once.
    Index parameters() const;
    Index bytes() const;

    // Throws Error that begins with the path of the checkpoint.
    template <class... Parts>
    [[noreturn]] void refuse(const Parts&... parts) const {
        fail(checkpoint_.path(), ": ", parts...);
    }

private:
    Index whole(const Key& key, double value, Index least, Index most) const;
    const Weight& find(const std::string& tensor);

    const Checkpoint& checkpoint_;
    std::string architecture_;
    std::map<std::string, Weight> used_;
};

}  // namespace causeway::model
