#include "core/tensor/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/text.hpp"  // in_quotes
#include "core/tensor/safetensors_header.hpp"
#include "core/tensor/stored.hpp"

namespace causeway {
namespace {

using safetensors::length_bytes;
using safetensors::longest_header;
using safetensors::metadata_key;

struct TypeName {
    const char* name;
    Stored type;
};

constexpr TypeName types[] = {
    {"BOOL", Stored::boolean}, {"U8", Stored::u8},     {"I8", Stored::i8},   {"I16", Stored::i16}, {"U16", Stored::u16},
    {"F16", Stored::f16},      {"BF16", Stored::bf16}, {"I32", Stored::i32}, {"U32", Stored::u32}, {"F32", Stored::f32},
    {"F64", Stored::f64},      {"I64", Stored::i64},   {"U64", Stored::u64}};

const char* file_name(DType t) {
    switch (t) {
        case DType::f64: return "F64";
        case DType::f16: return "F16";
        case DType::bf16: return "BF16";
        default: return "F32";
    }
}

// Where the library puts an element type: the widest first, so that every tensor is aligned.
int rank(DType t) {
    switch (t) {
        case DType::f64: return 0;
        case DType::f32: return 1;
        case DType::bf16: return 2;
        default: return 3;
    }
}

// The tensor of an entry of the header.
Tensor read_tensor(const Source& source, const std::string& name, const safetensors::Entry& entry) {
    const std::string where = sentence(source.name(), ": tensor ", in_quotes(name));
    const std::string& wanted = entry.type;
    const auto* found =
        std::find_if(std::begin(types), std::end(types), [&](const TypeName& t) { return t.name == wanted; });
    if (found == std::end(types))
        fail_as<FitsNoTensor>(where, ": has elements of type ", in_quotes(wanted),
                              ", expected BOOL, I8 to I64, U8 to U64, F16, BF16, F32 or F64");
    Layout layout;
    layout.type = found->type;
    layout.shape = checked_shape(entry.shape, found->type, wanted, entry.end - entry.begin, where);
    return read_elements(source, entry.begin, layout, where);
}

using Order = std::vector<const std::pair<const std::string, Tensor>*>;  // in which tensors stand in a file

// The header in JSON, written part by part: the end of a nested JSON value of the library allocates, which no error of
// memory may pass through.
std::string header_text(const std::string& path, const Order& order,
                        const std::map<std::string, std::string>& metadata) {
    const auto quoted = [&](const std::string& text) {
        try {
            return nlohmann::json(text).dump();
        } catch (const nlohmann::json::type_error&) {
            fail(path, ": the names of tensors and the metadata must be UTF-8");
        }
    };
    std::string out = "{";
    const auto key = [&](const std::string& name) { (out += out.size() > 1 ? "," : "") += quoted(name) + ":"; };
    if (!metadata.empty()) {
        key(metadata_key);
        char before = '{';
        for (const auto& [name, text] : metadata) {
            ((out += before) += quoted(name) + ":") += quoted(text);
            before = ',';
        }
        out += '}';
    }
    std::size_t at = 0;
    for (const auto* item : order) {
        const auto& [tensor, elements] = *item;
        if (tensor == metadata_key) fail(path, ": a tensor cannot have the name ", metadata_key);
        key(tensor);
        (out += "{\"dtype\":\"") += file_name(elements.dtype());
        out += "\",\"shape\":[";
        for (int i = 0; i < elements.ndim(); ++i) (out += i > 0 ? "," : "") += std::to_string(elements.shape()[i]);
        const std::size_t end = at + elements.bytes();
        out += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
        at = end;
    }
    return out + "}";
}

}  // namespace

NamedTensors read_safetensors(const Source& source, std::vector<std::string>* left_out) {
    safetensors::Header header = safetensors::read_header(source);
    NamedTensors out;
    std::vector<std::string> passed_over;
    for (const auto& [tensor, entry] : header.entries) {
        try {
            out.tensors.emplace(tensor, read_tensor(source, tensor, entry));
        } catch (const FitsNoTensor& error) {
            if (!left_out) throw;
            passed_over.emplace_back(error.what());
        }
    }
    if (out.tensors.empty() && !passed_over.empty()) throw FitsNoTensor(passed_over.front());
    if (left_out) *left_out = std::move(passed_over);
    out.metadata = std::move(header.metadata);
    return out;
}

NamedTensors read_safetensors(Bytes bytes, const std::string& name) { return read_safetensors(Source(bytes, name)); }
NamedTensors load_safetensors(const std::string& path, std::vector<std::string>* left_out) {
    return read_safetensors(Source(path), left_out);
}

void save_safetensors(const std::string& path, const NamedTensors& value) {
    Order order;
    for (const auto& item : value.tensors) order.push_back(&item);
    std::stable_sort(order.begin(), order.end(),
                     [](auto* a, auto* b) { return rank(a->second.dtype()) < rank(b->second.dtype()); });

    std::string text = header_text(path, order, value.metadata);
    text.append((8 - text.size() % 8) % 8, ' ');
    if (text.size() > longest_header)
        fail(path, ": the header would have ", text.size(), " bytes, the format allows ", longest_header);
    std::array<unsigned char, length_bytes> start{};
    for (std::size_t i = 0; i < length_bytes; ++i) start[i] = static_cast<unsigned char>(text.size() >> (8 * i));

    Writer out(path);
    out.write(Bytes(start));
    out.write(text);
    for (const auto* item : order) out.write(Bytes(item->second.raw(), item->second.bytes()));
    out.commit();
}

}  // namespace causeway
