// .npz: named tensors, as NumPy keeps them: a zip archive with a file NAME.npy for each.
// Read: members stored or deflated, as savez and savez_compressed write them. Written: stored.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/file.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

// name (without .npy) -> tensor. Throw Error, naming the source, the member and the fault, for an archive that
// zip::members refuses, for a member that is not a whole .npy file or has another checksum, and for two members of one
// name. A member's tensor is allocated once its shape is known to have the size that the archive says, which a file of
// n bytes cannot bring above 1032 n; nothing is unpacked but into the tensors.
//
// With `left_out`, a member that no Tensor can hold (of complex numbers, of texts) is passed over where the archive has
// others, and the sentence of its error is added to that list.
std::map<std::string, Tensor> read_npz(const Source& source, std::vector<std::string>* left_out = nullptr);
std::map<std::string, Tensor> read_npz(Bytes bytes, const std::string& name);
std::map<std::string, Tensor> load_npz(const std::string& path, std::vector<std::string>* left_out = nullptr);

// Throws Error for BFloat16, for a name that a member cannot have (not UTF-8, or a path out of its folder), and when
// the file cannot be written.
void save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors);

}  // namespace causeway
