#include "core/tensor/safetensors.hpp"

#include <algorithm>
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

constexpr std::uint64_t page = 4096;  // what a file is read by below

// Rows of `width` bytes, each `stride` behind the one before, one after the other. Gaps of less than a page are read
// too, up to 1 MiB at once, for a row of a few bytes would else take a call of the system's.
class Rows final : public Source {
public:
    Rows(const Source& file, std::uint64_t first, std::uint64_t count, std::uint64_t width, std::uint64_t stride)
        : Source(file.name(), count * width), file_(file), first_(first), width_(width), stride_(stride) {}

    void read(std::uint64_t offset, std::span<unsigned char> into) const override {
        check_range(offset, into.size());
        if (into.empty()) return;
        const std::uint64_t together = stride_ - width_ < page ? std::max<std::uint64_t>(most / stride_, 1) : 1;
        while (!into.empty()) {
            const std::uint64_t row = offset / width_, at = offset % width_;
            const std::uint64_t rows = std::min(together, (at + into.size() + width_ - 1) / width_);
            const std::uint64_t bytes = std::min<std::uint64_t>(rows * width_ - at, into.size());
            const std::span<unsigned char> now = into.first(static_cast<std::size_t>(bytes));
            if (rows == 1) file_.read(first_ + row * stride_ + at, now);
            else read_across(row, at, now);
            into = into.subspan(now.size());
            offset += bytes;
        }
    }

private:
    static constexpr std::uint64_t most = std::uint64_t{1} << 20;

    void read_across(std::uint64_t row, std::uint64_t at, std::span<unsigned char> into) const {
        const std::uint64_t last = (at + into.size() - 1) / width_, end = (at + into.size() - 1) % width_ + 1;
        Buffer<unsigned char> all(static_cast<Index>(last * stride_ + end - at));
        file_.read(first_ + row * stride_ + at, {all.data(), static_cast<std::size_t>(all.size())});
        for (std::uint64_t from = 0, left = width_ - at; !into.empty();
             from += left + stride_ - width_, left = width_) {
            const std::size_t n = std::min(static_cast<std::size_t>(left), into.size());
            std::copy_n(all.data() + from, n, into.data());
            into = into.subspan(n);
        }
    }

    const Source& file_;
    std::uint64_t first_, width_, stride_;
};

void check_part(const TensorPart& part, const Shape& shape, const std::string& where) {
    if (part.dim < 0 || part.dim >= shape.ndim())
        fail(where, ": dim: ", part.dim + 1, ", expected from 1 to ", shape.ndim(), ", the dimensions of ",
             shape.text());
    const Index length = shape[part.dim];
    if (part.first < 0 || part.n < 0 || part.first > length || part.n > length - part.first)
        fail(where, ": part: ", part.n, " positions behind the first ", part.first, ", expected some of the ", length,
             " of dimension ", part.dim + 1, " of ", shape.text());
}

// The elements of a part; `layout` is that of the whole tensor, which begins at `begin`.
Tensor read_part(const Source& source, std::uint64_t begin, Layout layout, const TensorPart& part,
                 const std::string& where) {
    check_part(part, layout.shape, where);
    const Along whole(layout.shape, part.dim, size_of(layout.type));
    layout.shape[part.dim] = part.n;
    const Rows wanted(source, begin + static_cast<std::uint64_t>(part.first * whole.width),
                      static_cast<std::uint64_t>(whole.rows), static_cast<std::uint64_t>(part.n * whole.width),
                      static_cast<std::uint64_t>(whole.length * whole.width));
    return read_elements(wanted, 0, layout, where);
}

// The tensor of an entry of the header, or the part of it that is wanted.
Tensor read_tensor(const Source& source, const std::string& name, const safetensors::Entry& entry,
                   const Wanted& wanted) {
    const std::string where = sentence(source.name(), ": tensor ", in_quotes(name));
    const std::string& type = entry.type;
    const auto* found =
        std::find_if(std::begin(types), std::end(types), [&](const TypeName& t) { return t.name == type; });
    if (found == std::end(types))
        fail_as<FitsNoTensor>(where, ": has elements of type ", in_quotes(type),
                              ", expected BOOL, I8 to I64, U8 to U64, F16, BF16, F32 or F64");
    Layout layout;
    layout.type = found->type;
    layout.shape = checked_shape(entry.shape, found->type, type, entry.end - entry.begin, where);
    if (!wanted.part) return read_elements(source, entry.begin, layout, where);
    return read_part(source, entry.begin, layout, wanted.part(layout.shape, name), where);
}

// Leaves the entries of these names alone in the header; of all where there are none.
void keep(const std::vector<std::string>& names, const std::string& path,
          std::map<std::string, safetensors::Entry>& entries) {
    if (names.empty()) return;
    std::map<std::string, safetensors::Entry> kept;
    for (const std::string& name : names) {
        const auto found = entries.find(name);
        if (found == entries.end()) {
            std::vector<std::string> known;
            for (const auto& [other, entry] : entries) known.push_back(other);
            fail(path, ": has no tensor ", in_quotes(name), did_you_mean(name, known));
        }
        kept.insert(*found);
    }
    entries = std::move(kept);
}

using Order = std::vector<const std::pair<const std::string, Planned>*>;  // in which tensors stand in a file

std::uint64_t bytes_of(const Planned& tensor) {
    return static_cast<std::uint64_t>(tensor.shape.size()) * size_of(tensor.dtype);
}

// The header in JSON, written part by part: the end of a nested JSON value of the library allocates, which no error of
// memory may pass through.
std::string header_text(const std::string& path, const Order& order, const std::map<std::string, std::uint64_t>& begin,
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
    for (const auto* item : order) {
        const auto& [tensor, planned] = *item;
        if (tensor == metadata_key) fail(path, ": a tensor cannot have the name ", metadata_key);
        key(tensor);
        (out += "{\"dtype\":\"") += file_name(planned.dtype);
        out += "\",\"shape\":[";
        for (int i = 0; i < planned.shape.ndim(); ++i) (out += i > 0 ? "," : "") += std::to_string(planned.shape[i]);
        const std::uint64_t at = begin.at(tensor);
        out += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + bytes_of(planned)) + "]}";
    }
    return out + "}";
}

}  // namespace

NamedTensors read_safetensors(const Source& source, const Wanted& wanted, std::vector<std::string>* left_out) {
    safetensors::Header header = safetensors::read_header(source);
    keep(wanted.names, source.name(), header.entries);
    NamedTensors out;
    std::vector<std::string> passed_over;
    for (const auto& [tensor, entry] : header.entries) {
        try {
            out.tensors.emplace(tensor, read_tensor(source, tensor, entry, wanted));
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

NamedTensors read_safetensors(const Source& source, std::vector<std::string>* left_out) {
    return read_safetensors(source, Wanted{}, left_out);
}
NamedTensors read_safetensors(Bytes bytes, const std::string& name) { return read_safetensors(Source(bytes, name)); }
NamedTensors load_safetensors(const std::string& path, const Wanted& wanted, std::vector<std::string>* left_out) {
    return read_safetensors(Source(path), wanted, left_out);
}
NamedTensors load_safetensors(const std::string& path, std::vector<std::string>* left_out) {
    return load_safetensors(path, Wanted{}, left_out);
}

FilePlan plan_safetensors(const std::string& path, const std::map<std::string, Planned>& tensors,
                          const std::map<std::string, std::string>& metadata) {
    Order order;
    for (const auto& item : tensors) order.push_back(&item);
    std::stable_sort(order.begin(), order.end(),
                     [](auto* a, auto* b) { return rank(a->second.dtype) < rank(b->second.dtype); });
    FilePlan plan;
    std::uint64_t at = 0;
    for (const auto* item : order) {
        plan.order.push_back(item->first);
        plan.begin.emplace(item->first, at);
        at += bytes_of(item->second);
    }
    std::string text = header_text(path, order, plan.begin, metadata);
    text.append((8 - text.size() % 8) % 8, ' ');
    if (text.size() > longest_header)
        fail(path, ": the header would have ", text.size(), " bytes, the format allows ", longest_header);
    for (std::size_t i = 0; i < length_bytes; ++i) plan.start += static_cast<char>(text.size() >> (8 * i) & 0xFF);
    plan.start += text;
    return plan;
}

void save_safetensors(const std::string& path, const NamedTensors& value) {
    std::map<std::string, Planned> tensors;
    for (const auto& [name, tensor] : value.tensors) tensors.emplace(name, Planned{tensor.dtype(), tensor.shape()});
    const FilePlan plan = plan_safetensors(path, tensors, value.metadata);
    Writer out(path);
    out.write(plan.start);
    for (const std::string& name : plan.order) {
        const Tensor& tensor = value.tensors.at(name);
        out.write(Bytes(tensor.raw(), tensor.bytes()));
    }
    out.commit();
}

}  // namespace causeway
