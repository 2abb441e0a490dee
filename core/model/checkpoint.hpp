// A model as it lies on the disk: named weights and what is said about them, from a GGUF file or a Hugging Face folder.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/mapping.hpp"
#include "core/model/weight.hpp"

namespace causeway::model {

// What a file says about the model: named numbers, truth values, texts and lists of one of them. Each call gives
// nothing (an empty list) where the key is absent or its value of another kind.
class Metadata {
public:
    virtual ~Metadata() = default;
    virtual std::vector<std::string> keys() const = 0;
    virtual std::optional<double> number(const std::string& key) const = 0;  // integers beyond 2^53 are rounded
    virtual std::optional<bool> flag(const std::string& key) const = 0;
    virtual std::optional<std::string> text(const std::string& key) const = 0;
    virtual std::optional<Index> count(const std::string& key) const = 0;  // of the elements of a list
    virtual std::vector<double> numbers(const std::string& key) const = 0;
    virtual std::vector<bool> flags(const std::string& key) const = 0;
    virtual std::vector<std::string> texts(const std::string& key) const = 0;
};

// A tensor of a file.
struct StoredTensor {
    std::vector<Index> shape;  // outermost first
    Weight weight;
    std::string fault;  // why the weight cannot be had, as a sentence: a type that is not read, or no elements
};

// What the readers of the two formats give.
struct Contents {
    std::map<std::string, StoredTensor> tensors;
    std::unique_ptr<const Metadata> metadata;
    std::vector<std::unique_ptr<const Mapping>> files;   // the memory of the weights, in files
    std::vector<Buffer<unsigned char>> memory;           // or made here
    std::vector<std::unique_ptr<const MadeUp>> made_up;  // or made where they are used
};

// Weights stay where they are in the mapped files (core/base/mapping.hpp): opening reads the headers alone, and nothing
// is held twice.
class Checkpoint {
public:
    // A .gguf file (version 2 or 3), or a folder with config.json and model.safetensors or the shards that
    // model.safetensors.index.json names. Throws Error, in one sentence with the file and the fault, for whatever is
    // not one: every length, count, type, offset and name is checked before it is used.
    static std::shared_ptr<const Checkpoint> open(const std::string& path);

    Checkpoint(std::string path, bool gguf, Contents contents);

    bool gguf() const { return gguf_; }  // which names tensors and metadata have
    const std::string& path() const { return path_; }

    std::vector<std::string> names() const;  // of tensors
    bool has(const std::string& name) const { return contents_.tensors.contains(name); }
    // Null where there is none. One dimension is a row, none a single number; of three, [c, 1, k] of a convolution, the
    // first counts rows and the rest are columns. Throws Error where the tensor has a type that is not read.
    const Weight* find(const std::string& name) const;
    // Throws Error where there is none.
    const std::vector<Index>& shape(const std::string& name) const;
    std::size_t bytes() const;  // of all weights that can be had

    // GGUF's keys, or those of config.json with dots for nesting: "rope_scaling.factor".
    const Metadata& metadata() const { return *contents_.metadata; }
    std::optional<double> number(const std::string& key) const { return metadata().number(key); }
    std::optional<bool> flag(const std::string& key) const { return metadata().flag(key); }
    std::optional<std::string> text(const std::string& key) const { return metadata().text(key); }
    std::optional<Index> count(const std::string& key) const { return metadata().count(key); }
    std::vector<double> numbers(const std::string& key) const { return metadata().numbers(key); }
    std::vector<bool> flags(const std::string& key) const { return metadata().flags(key); }
    std::vector<std::string> texts(const std::string& key) const { return metadata().texts(key); }

    // Throws IoError where a file was changed since it was opened.
    void check() const;

private:
    std::string path_;
    bool gguf_;
    Contents contents_;
};

// The tensor of this shape whose bytes begin at `data`; `where` begins the sentence of its fault. The caller has
// checked that the bytes are there.
StoredTensor stored_tensor(std::vector<Index> shape, WeightType type, const unsigned char* data,
                           const std::string& where);

}  // namespace causeway::model
