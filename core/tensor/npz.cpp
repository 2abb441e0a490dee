#include "core/tensor/npz.hpp"

#include <string_view>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text.hpp"  // in_quotes
#include "core/base/zip.hpp"
#include "core/tensor/npy.hpp"
#include "core/tensor/stored.hpp"  // FitsNoTensor

namespace causeway {
namespace {

constexpr std::string_view extension = ".npy";

}  // namespace

std::map<std::string, Tensor> read_npz(const Source& source, std::vector<std::string>* left_out) {
    std::map<std::string, Tensor> out;
    std::vector<std::string> passed_over;
    for (const zip::Member& member : zip::members(source)) {
        const std::string where = sentence(source.name(), ": member ", in_quotes(member.name));
        std::string name = member.name;
        if (name.ends_with(extension)) name.resize(name.size() - extension.size());
        if (out.contains(name)) fail_as<IoError>(where, ": another member is called ", in_quotes(name), " too");
        const zip::Unpacked bytes(source, member, where);
        try {
            Tensor tensor = read_npy(bytes);
            bytes.finish();
            out.emplace(std::move(name), std::move(tensor));
        } catch (const FitsNoTensor& error) {
            if (!left_out) throw;
            passed_over.emplace_back(error.what());
        }
    }
    if (out.empty() && !passed_over.empty()) throw FitsNoTensor(passed_over.front());
    if (left_out) *left_out = std::move(passed_over);
    return out;
}

std::map<std::string, Tensor> read_npz(Bytes bytes, const std::string& name) { return read_npz(Source(bytes, name)); }
std::map<std::string, Tensor> load_npz(const std::string& path, std::vector<std::string>* left_out) {
    return read_npz(Source(path), left_out);
}

void save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors) {
    zip::Archive out(path);
    for (const auto& [name, tensor] : tensors) {
        const std::string header = npy_header(tensor, sentence(path, ": ", in_quotes(name)));
        out.add(name + std::string(extension),
                {Bytes(reinterpret_cast<const unsigned char*>(header.data()), header.size()),
                 Bytes(tensor.raw(), tensor.bytes())});
    }
    out.commit();
}

}  // namespace causeway
