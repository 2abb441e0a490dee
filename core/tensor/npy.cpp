#include "core/tensor/npy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/little_endian.hpp"
#include "core/base/text.hpp"  // in_quotes
#include "core/tensor/stored.hpp"

namespace causeway {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint64_t longest_header = 1u << 20;  // those of plain arrays have about a hundred bytes
constexpr std::size_t most_dims = 32;               // NumPy's own limit

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Header {
public:
    Header(std::string_view text, const std::string& name) : text_(text), name_(name) {
        expect('{');
        while (!accept('}')) {
            entry();
            if (accept('}')) break;
            expect(',');
        }
        skip_spaces();
        if (at_ != text_.size()) wrong("the end of the header");
        if (!descr_) fail_as<IoError>(name_, ": the header lacks 'descr'");
        if (!column_major_) fail_as<IoError>(name_, ": the header lacks 'fortran_order'");
        if (!dims_) fail_as<IoError>(name_, ": the header lacks 'shape'");
    }

    const std::string& descr() const { return *descr_; }
    bool column_major() const { return *column_major_; }
    const std::vector<std::uint64_t>& dims() const { return *dims_; }

private:
    [[noreturn]] void wrong(const char* expected) const {
        fail_as<IoError>(name_, ": the header has ", at_ < text_.size() ? in_quotes(text_.substr(at_, 20)) : "its end",
                         " where ", expected, " is expected");
    }

    void skip_spaces() {
        while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) && text_[at_] != '\0') ++at_;
    }

    bool accept(char c) {
        skip_spaces();
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }

    void expect(char c) {
        const char name[] = {'\'', c, '\'', '\0'};
        if (!accept(c)) wrong(name);
    }

    bool accept_word(std::string_view word) {
        skip_spaces();
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }

    std::string string() {
        skip_spaces();
        const char quote = at_ < text_.size() ? text_[at_] : '\0';
        if (quote != '\'' && quote != '"') wrong("a string");
        const std::size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) wrong("a string with an end");
        const std::string out(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return out;
    }

    std::uint64_t integer() {
        skip_spaces();
        std::uint64_t value = 0;
        const char* begin = text_.data() + at_;
        const auto [end, status] = std::from_chars(begin, text_.data() + text_.size(), value);
        if (status != std::errc{}) wrong("a dimension");
        at_ += static_cast<std::size_t>(end - begin);
        if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote long integers
        return value;
    }

    std::vector<std::uint64_t> tuple() {
        std::vector<std::uint64_t> out;
        expect('(');
        while (!accept(')')) {
            if (out.size() == most_dims)
                fail_as<IoError>(name_, ": the header has a shape of more than ", most_dims, " dimensions");
            out.push_back(integer());
            if (accept(',')) continue;
            expect(')');
            if (out.size() == 1) wrong("a comma after the one dimension of a tuple");
            break;
        }
        return out;
    }

    template <class T>
    void once(std::optional<T>& field, const std::string& key, T value) {
        if (field) fail_as<IoError>(name_, ": the header has ", in_quotes(key), " twice");
        field = std::move(value);
    }

    void entry() {
        const std::string key = string();
        expect(':');
        if (key == "descr") {
            if (accept('['))
                fail_as<FitsNoTensor>(name_, ": holds records of several fields, expected numbers of one type");
            once(descr_, key, string());
        } else if (key == "fortran_order") {
            const bool yes = accept_word("True");
            if (!yes && !accept_word("False")) wrong("True or False");
            once(column_major_, key, yes);
        } else if (key == "shape") {
            once(dims_, key, tuple());
        } else {
            fail_as<IoError>(name_, ": the header has an unknown key ", in_quotes(key));
        }
    }

    std::string_view text_;
    const std::string& name_;
    std::size_t at_ = 0;
    std::optional<std::string> descr_;
    std::optional<bool> column_major_;
    std::optional<std::vector<std::uint64_t>> dims_;
};

// '<f4': byte order (optional), kind, bytes of an element.
Layout parse_descr(const std::string& descr, const std::string& name) {
    static const auto& types = *new std::map<std::string_view, Stored>{
        {"?", Stored::boolean}, {"b1", Stored::boolean}, {"i1", Stored::i8},  {"i2", Stored::i16}, {"i4", Stored::i32},
        {"i8", Stored::i64},    {"u1", Stored::u8},      {"u2", Stored::u16}, {"u4", Stored::u32}, {"u8", Stored::u64},
        {"f2", Stored::f16},    {"f4", Stored::f32},     {"f8", Stored::f64}};
    std::string_view type = descr;
    Layout layout;
    if (!type.empty() && std::string_view("<>=|").find(type[0]) != std::string_view::npos) {
        layout.big_endian = type[0] == '>';
        type.remove_prefix(1);
    }
    const auto found = types.find(type);
    if (found == types.end())
        fail_as<FitsNoTensor>(name, ": has elements of type ", in_quotes(descr),
                              ", expected bool, i1 to i8, u1 to u8, f2, f4 or f8");
    layout.type = found->second;
    return layout;
}

// Little-endian number of n bytes at `offset`.
std::uint64_t read_length(const Source& source, std::uint64_t offset, std::size_t n) {
    std::array<unsigned char, 4> bytes{};
    source.read(offset, {bytes.data(), n});
    return little_endian({bytes.data(), n});
}

}  // namespace

Tensor read_npy(const Source& source) {
    const std::string& name = source.name();
    if (source.size() == 0) fail_as<IoError>(name, ": the file is empty");
    std::array<unsigned char, 8> start{};
    const auto known = static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), start.size()));
    source.read(0, {start.data(), known});
    if (std::memcmp(start.data(), magic.data(), std::min(known, magic.size())) != 0)
        fail_as<IoError>(name, ": is not a .npy file: it does not start with \\x93NUMPY");
    if (known < start.size()) fail_as<IoError>(name, ": ends after ", known, " bytes, within the start of a .npy file");
    const int version = start[6];
    if (version < 1 || version > 3 || start[7] != 0)
        fail_as<IoError>(name, ": has version ", version, ".", int{start[7]},
                         " of the format, expected 1.0, 2.0 or 3.0");

    const std::size_t width = version == 1 ? 2 : 4;  // bytes of the header's length
    const std::uint64_t header_at = start.size() + width;
    if (header_at > source.size())
        fail_as<IoError>(name, ": ends after ", source.size(), " bytes, within the start of a .npy file");
    const std::uint64_t length = read_length(source, start.size(), width);
    if (length > source.size() - header_at)
        fail_as<IoError>(name, ": says that its header has ", length, " bytes, but only ", source.size() - header_at,
                         " follow");
    if (length > longest_header)
        fail_as<IoError>(name, ": has a header of ", length, " bytes, expected at most ", longest_header);
    Buffer<char> text(static_cast<Index>(length));
    source.read(header_at, {reinterpret_cast<unsigned char*>(text.data()), static_cast<std::size_t>(length)});
    const Header header({text.data(), static_cast<std::size_t>(length)}, name);

    Layout layout = parse_descr(header.descr(), name);
    layout.column_major = header.column_major();
    const std::uint64_t data_at = header_at + length;
    layout.shape = checked_shape(header.dims(), layout.type, header.descr(), source.size() - data_at, name);
    return read_elements(source, data_at, layout, name);
}

Tensor read_npy(Bytes bytes, const std::string& name) { return read_npy(Source(bytes, name)); }
Tensor load_npy(const std::string& path) { return read_npy(Source(path)); }

std::string npy_header(const Tensor& value, const std::string& where) {
    if (value.dtype() == DType::bf16)
        fail(where,
             ": the .npy format has no BFloat16, expected another element type, as of f32(A), or a .safetensors file");
    const Shape& shape = value.shape();
    std::string dims;
    for (int i = 0; i < shape.ndim(); ++i) dims += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    if (shape.ndim() == 1) dims += ',';
    std::string text = "{'descr': '<f" + std::to_string(size_of(value.dtype())) +
                       "', 'fortran_order': False, 'shape': (" + dims + "), }";
    // NumPy leaves room for the first dimension to grow to 21 digits in place, and lets the data begin at a multiple
    // of 64.
    if (shape.ndim() > 0) text.append(21 - std::to_string(shape[0]).size(), ' ');
    const std::size_t start = magic.size() + 4;
    text.append(64 - (start + text.size() + 1) % 64, ' ');
    text += '\n';

    std::string out(magic);
    for (const int byte : {1, 0, static_cast<int>(text.size() & 0xFF), static_cast<int>(text.size() >> 8)})
        out += static_cast<char>(byte);
    return out + text;
}

void save_npy(const std::string& path, const Tensor& value) {
    const std::string header = npy_header(value, path);
    Writer out(path);
    out.write(header);
    out.write(Bytes(value.raw(), value.bytes()));
    out.commit();
}

}  // namespace causeway
