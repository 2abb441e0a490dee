// Tensors of which every rank has a part, in one .safetensors file: no rank reads or holds what is another's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/distributed/communicator.hpp"
#include "core/tensor/safetensors.hpp"

namespace causeway {

// Of the file's tensors, or of those with these names, the part of this rank along dimension `dim`, 0 being the first,
// or along the last but one: what shard() takes of the whole tensor, read without the rest. Of a process that is alone
// everything. Every rank may read for itself. Throws Error as load_safetensors does.
NamedTensors load_safetensors_sharded(const std::string& path, const std::vector<std::string>& names,
                                      std::optional<int> dim, std::vector<std::string>* left_out = nullptr);

// The ranks' tensors, each a part along `dim` of the one of that name, as one file: what save_safetensors writes of the
// whole, every rank writing its part, at once. The parts stand in the order of the ranks and may be of any length;
// metadata are rank 0's. The file appears complete or not at all, and all ranks throw the same Error: where they differ
// in names, types or other dimensions, or with the sentence of one that cannot write. All need to see the same folder.
void save_safetensors_sharded(distributed::Communicator& comm, const std::string& path, const NamedTensors& value,
                              std::optional<int> dim);
// The same of the ranks of MPI, which all make this call; of a process that is alone save_safetensors.
void save_safetensors_sharded(const std::string& path, const NamedTensors& value, std::optional<int> dim);

}  // namespace causeway
