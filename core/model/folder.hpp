// Folders as Hugging Face's libraries save them: config.json beside model.safetensors, or beside shards that
// model.safetensors.index.json names.
#pragma once

#include <string>
#include <string_view>

#include "core/model/checkpoint.hpp"

namespace causeway::model {

// Throws Error, in one sentence with the file and the fault.
Contents read_folder(const std::string& path);

// The entries of a JSON object, those of nested objects with dots between the keys. Lists of texts, of numbers and of
// truth values are kept; null and lists of anything else are left out. Throws IoError, beginning with `name`, for what
// is not such an object, a key given twice, or nesting deeper than 64.
std::unique_ptr<const Metadata> read_json_entries(std::string_view text, const std::string& name);

// The shards of an index: tensor -> file name. A name that leads out of the folder is refused.
std::map<std::string, std::string> read_shard_index(std::string_view text, const std::string& name);

// Adds the tensors of one .safetensors file, whose bytes outlive `into`.
void add_safetensors(Contents& into, Bytes bytes, const std::string& name);

}  // namespace causeway::model
