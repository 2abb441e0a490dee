#include "core/tensor/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/text.hpp"  // in_quotes
#include "core/tensor/stored.hpp"

namespace causeway {
namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // the library's own limit
constexpr std::size_t length_bytes = 8;
constexpr const char* metadata_key = "__metadata__";

struct TypeName {
    const char* name;
    Stored type;
};

constexpr TypeName types[] = {
    {"BOOL", Stored::boolean}, {"U8", Stored::u8},     {"I8", Stored::i8},   {"I16", Stored::i16}, {"U16", Stored::u16},
    {"F16", Stored::f16},      {"BF16", Stored::bf16}, {"I32", Stored::i32}, {"U32", Stored::u32}, {"F32", Stored::f32},
    {"F64", Stored::f64},      {"I64", Stored::i64},   {"U64", Stored::u64}};

struct Entry {
    std::string type;
    std::optional<std::vector<std::uint64_t>> shape, offsets;
};

struct Header {
    std::map<std::string, Entry> entries;
    std::map<std::string, std::string> metadata;
};

// Reads the header event by event: what is not a header is refused where it stands, so nesting has no depth to
// overflow and nothing is built but the entries.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
public:
    explicit HeaderReader(const std::string& name) : name_(name) {}

    Header header;

    bool null() override { return wrong("null"); }
    bool boolean(bool) override { return wrong("a truth value"); }
    bool number_integer(number_integer_t) override { return wrong("a negative number"); }
    bool number_float(number_float_t, const string_t& text) override {
        return wrong("the number " + text.substr(0, 24));
    }
    bool binary(binary_t&) override { return wrong("binary data"); }

    bool number_unsigned(number_unsigned_t value) override {
        if (place_ == Place::shape) {
            if (entry_->shape->size() == Shape::max_ndim)
                fail_as<IoError>(where(), ": has more than ", Shape::max_ndim, " dimensions");
            entry_->shape->push_back(value);
        } else if (place_ == Place::offsets) {
            if (entry_->offsets->size() == 2) return wrong("a third number");
            entry_->offsets->push_back(value);
        } else {
            return wrong("a number");
        }
        return true;
    }

    bool string(string_t& value) override {
        if (place_ == Place::metadata) {
            if (!header.metadata.emplace(field_, std::move(value)).second)
                fail_as<IoError>(where(), ": has the key ", in_quotes(field_), " twice");
        } else if (place_ == Place::entry && field_ == "dtype") {
            if (!entry_->type.empty()) fail_as<IoError>(where(), ": has a dtype twice");
            entry_->type = std::move(value);
        } else {
            return wrong("the text " + in_quotes(value));
        }
        return true;
    }

    bool start_object(std::size_t) override {
        if (place_ == Place::outside) {
            place_ = Place::header;
        } else if (place_ == Place::header) {
            place_ = key_ == metadata_key ? Place::metadata : Place::entry;
            if (place_ == Place::entry) {
                const auto [at, fresh] = header.entries.emplace(key_, Entry{});
                if (!fresh) fail_as<IoError>(where(), ": the name is given twice");
                entry_ = &at->second;
            } else if (std::exchange(metadata_seen_, true)) {
                fail_as<IoError>(name_, ": has ", metadata_key, " twice");
            }
        } else {
            return wrong("an object");
        }
        return true;
    }

    bool key(string_t& value) override {
        (place_ == Place::header ? key_ : field_) = std::move(value);
        return true;
    }

    bool end_object() override {
        if (place_ == Place::entry) {
            const char* missing = entry_->type.empty() ? "dtype"
                                  : !entry_->shape     ? "shape"
                                  : !entry_->offsets   ? "data_offsets"
                                                       : nullptr;
            if (missing) fail_as<IoError>(where(), ": lacks ", missing);
            if (entry_->offsets->size() != 2)
                fail_as<IoError>(where(), ": data_offsets has ", entry_->offsets->size(), " numbers, expected 2");
        }
        place_ = place_ == Place::header ? Place::outside : Place::header;
        return true;
    }

    bool start_array(std::size_t) override {
        if (place_ == Place::entry && (field_ == "shape" || field_ == "data_offsets")) {
            auto& list = field_ == "shape" ? entry_->shape : entry_->offsets;
            if (list) fail_as<IoError>(where(), ": has ", field_, " twice");
            list.emplace();
            place_ = field_ == "shape" ? Place::shape : Place::offsets;
            return true;
        }
        return wrong("an array");
    }

    bool end_array() override {
        place_ = Place::entry;
        return true;
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
        fail_as<IoError>(name_, ": the header is not valid JSON at byte ", position);
    }

private:
    enum class Place { outside, header, metadata, entry, shape, offsets };

    std::string where() const {
        return sentence(name_, place_ == Place::metadata ? ": " : ": tensor ", in_quotes(key_));
    }

    [[noreturn]] bool wrong(const std::string& what) const {
        switch (place_) {
            case Place::outside: fail_as<IoError>(name_, ": the header is ", what, ", expected an object");
            case Place::header: fail_as<IoError>(where(), ": is ", what, ", expected an object");
            case Place::metadata: fail_as<IoError>(where(), ": ", in_quotes(field_), " is ", what, ", expected a text");
            case Place::shape:
                fail_as<IoError>(where(), ": the shape has ", what, ", expected whole numbers from 0 on");
            case Place::offsets:
                fail_as<IoError>(where(), ": data_offsets has ", what, ", expected 2 whole numbers from 0 on");
            default:
                fail_as<IoError>(where(), ": ", in_quotes(field_), " is ", what,
                                 ", expected a dtype (text), a shape and data_offsets (arrays)");
        }
    }

    const std::string& name_;
    Place place_ = Place::outside;
    bool metadata_seen_ = false;
    std::string key_, field_;
    Entry* entry_ = nullptr;
};

Header read_header(const Source& source, std::uint64_t length) {
    const std::string& name = source.name();
    Buffer<char> text(static_cast<Index>(length));
    source.read(length_bytes, {reinterpret_cast<unsigned char*>(text.data()), static_cast<std::size_t>(length)});
    if (length == 0 || text[0] != '{')
        fail_as<IoError>(name, ": is not a .safetensors file: its header does not start with {");
    // The parser takes a zero byte for the end of the text.
    if (const void* zero = std::memchr(text.data(), 0, length))
        fail_as<IoError>(name, ": the header is not valid JSON at byte ", static_cast<const char*>(zero) - text.data());
    HeaderReader reader(name);
    nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &reader);
    return std::move(reader.header);
}

// Every byte belongs to one tensor: sorted by offset, each begins where the one before ends, the last ends the file.
void check_offsets(const Header& header, std::uint64_t bytes, const std::string& name) {
    struct Range {
        std::uint64_t begin, end;
        const std::string* tensor;
    };
    std::vector<Range> ranges;
    ranges.reserve(header.entries.size());
    for (const auto& [tensor, entry] : header.entries)
        ranges.push_back({(*entry.offsets)[0], (*entry.offsets)[1], &tensor});
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::uint64_t at = 0;
    for (const auto& [begin, end, tensor] : ranges) {
        const auto wrong = [&, &tensor = tensor](const auto&... what) {
            fail_as<IoError>(name, ": tensor ", in_quotes(*tensor), ": ", what...);
        };
        if (begin > end) wrong("data_offsets are ", begin, " and ", end, ", expected the first not to be larger");
        if (end > bytes) wrong("its data ends at byte ", end, ", but the file has ", bytes, " bytes of data");
        if (begin < at) wrong("its data begins at byte ", begin, ", within that of another tensor");
        if (begin > at) wrong("its data begins at byte ", begin, ", which leaves a hole of ", begin - at, " bytes");
        at = end;
    }
    if (at != bytes) fail_as<IoError>(name, ": has ", bytes - at, " bytes behind the data of its tensors");
}

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

// The tensor of an entry of the header, whose elements begin at byte `data_at` of the source.
Tensor read_tensor(const Source& source, std::uint64_t data_at, const std::string& name, const Entry& entry) {
    const std::string where = sentence(source.name(), ": tensor ", in_quotes(name));
    const std::string& wanted = entry.type;
    const auto* found =
        std::find_if(std::begin(types), std::end(types), [&](const TypeName& t) { return t.name == wanted; });
    if (found == std::end(types))
        fail_as<FitsNoTensor>(where, ": has elements of type ", in_quotes(wanted),
                              ", expected BOOL, I8 to I64, U8 to U64, F16, BF16, F32 or F64");
    Layout layout;
    layout.type = found->type;
    layout.shape = checked_shape(*entry.shape, found->type, wanted, (*entry.offsets)[1] - (*entry.offsets)[0], where);
    return read_elements(source, data_at + (*entry.offsets)[0], layout, where);
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
    const std::string& name = source.name();
    if (source.size() == 0) fail_as<IoError>(name, ": the file is empty");
    if (source.size() < length_bytes)
        fail_as<IoError>(name, ": is not a .safetensors file: it has ", source.size(), " bytes, expected at least ",
                         length_bytes);
    std::uint64_t length = 0;
    std::array<unsigned char, length_bytes> start{};
    source.read(0, start);
    for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | start[i];
    if (length > source.size() - length_bytes) {
        fail_as<IoError>(name, ": is cut off or not a .safetensors file: it says that its header has ", length,
                         " bytes, but only ", source.size() - length_bytes, " follow");
    }
    if (length > longest_header)
        fail_as<IoError>(name, ": has a header of ", length, " bytes, expected at most ", longest_header);
    Header header = read_header(source, length);

    const std::uint64_t data_at = length_bytes + length;
    check_offsets(header, source.size() - data_at, name);
    NamedTensors out;
    std::vector<std::string> passed_over;
    for (const auto& [tensor, entry] : header.entries) {
        try {
            out.tensors.emplace(tensor, read_tensor(source, data_at, tensor, entry));
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
