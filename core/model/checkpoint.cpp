#include "core/model/checkpoint.hpp"

#include <filesystem>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/model/folder.hpp"
#include "core/model/gguf.hpp"

namespace causeway::model {

Checkpoint::Checkpoint(std::string path, bool gguf, Contents contents)
    : path_(std::move(path)), gguf_(gguf), contents_(std::move(contents)) {}

std::shared_ptr<const Checkpoint> Checkpoint::open(const std::string& path) {
    std::error_code ignored;
    const bool folder = std::filesystem::is_directory(path, ignored);
    auto out = std::make_shared<const Checkpoint>(path, !folder, folder ? read_folder(path) : load_gguf(path));
    out->check();
    return out;
}

std::vector<std::string> Checkpoint::names() const {
    std::vector<std::string> out;
    for (const auto& [name, tensor] : contents_.tensors) out.push_back(name);
    return out;
}

const Weight* Checkpoint::find(const std::string& name) const {
    const auto at = contents_.tensors.find(name);
    if (at == contents_.tensors.end()) return nullptr;
    if (!at->second.fault.empty()) fail_as<IoError>(at->second.fault);
    return &at->second.weight;
}

const std::vector<Index>& Checkpoint::shape(const std::string& name) const {
    const auto at = contents_.tensors.find(name);
    if (at == contents_.tensors.end())
        fail_as<IoError>(path_, ": has no tensor ", in_quotes(name), did_you_mean(name, names()));
    return at->second.shape;
}

std::size_t Checkpoint::bytes() const {
    std::size_t out = 0;
    for (const auto& [name, tensor] : contents_.tensors)
        if (tensor.fault.empty()) out += tensor.weight.bytes();
    return out;
}

void Checkpoint::check() const {
    for (const auto& file : contents_.files) file->check();
}

StoredTensor stored_tensor(std::vector<Index> shape, WeightType type, const unsigned char* data,
                           const std::string& where) {
    StoredTensor out;
    out.weight = {type, shape.size() > 1 ? shape.front() : 1, 1, data};
    for (std::size_t i = shape.size() > 1 ? 1 : 0; i < shape.size(); ++i) out.weight.columns *= shape[i];
    if (out.weight.rows == 0 || out.weight.columns == 0) out.fault = sentence(where, ": has no elements");
    out.shape = std::move(shape);
    return out;
}

}  // namespace causeway::model
