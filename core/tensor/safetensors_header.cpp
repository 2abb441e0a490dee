#include "core/tensor/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/text.hpp"      // in_quotes
#include "core/tensor/tensor.hpp"  // Shape::max_ndim

namespace causeway::safetensors {
namespace {

// An entry as it is read: what is missing or given twice shows.
struct Draft {
    std::string type;
    std::optional<std::vector<std::uint64_t>> shape, offsets;
};

using Drafts = std::map<std::string, Draft>;

struct DraftHeader {
    Drafts entries;
    std::map<std::string, std::string> metadata;
};

// Reads the header event by event: what is not a header is refused where it stands, so nesting has no depth to
// overflow and nothing is built but the entries.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
public:
    explicit HeaderReader(const std::string& name) : name_(name) {}

    DraftHeader header;

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
                const auto [at, fresh] = header.entries.emplace(key_, Draft{});
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

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
        constexpr int number_overflow = 406;  // of nlohmann's errors
        if (error.id == number_overflow)
            fail_as<IoError>(name_, ": the header has a number beyond Float64 at byte ", position);
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
                fail_as<IoError>(where(), ": the shape has ", what, ", expected whole numbers from 0 to 2^64 - 1");
            case Place::offsets:
                fail_as<IoError>(where(), ": data_offsets has ", what, ", expected 2 whole numbers from 0 to 2^64 - 1");
            default:
                fail_as<IoError>(where(), ": ", in_quotes(field_), " is ", what,
                                 ", expected a dtype (text), a shape and data_offsets (arrays)");
        }
    }

    const std::string& name_;
    Place place_ = Place::outside;
    bool metadata_seen_ = false;
    std::string key_, field_;
    Draft* entry_ = nullptr;
};

DraftHeader read_drafts(const Source& source, std::uint64_t length) {
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
void check_offsets(const Drafts& entries, std::uint64_t bytes, const std::string& name) {
    struct Range {
        std::uint64_t begin, end;
        const std::string* tensor;
    };
    std::vector<Range> ranges;
    ranges.reserve(entries.size());
    for (const auto& [tensor, entry] : entries) ranges.push_back({(*entry.offsets)[0], (*entry.offsets)[1], &tensor});
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

}  // namespace

Header read_header(const Source& source) {
    const std::string& name = source.name();
    if (source.size() == 0) fail_as<IoError>(name, ": the file is empty");
    if (source.size() < length_bytes)
        fail_as<IoError>(name, ": is not a .safetensors file: it has ", source.size(), " bytes, expected at least ",
                         length_bytes);
    std::array<unsigned char, length_bytes> start{};
    source.read(0, start);
    const std::uint64_t length = little_endian(start);
    if (length > source.size() - length_bytes) {
        fail_as<IoError>(name, ": is cut off or not a .safetensors file: it says that its header has ", length,
                         " bytes, but only ", source.size() - length_bytes, " follow");
    }
    if (length > longest_header)
        fail_as<IoError>(name, ": has a header of ", length, " bytes, expected at most ", longest_header);
    DraftHeader drafts = read_drafts(source, length);

    const std::uint64_t data_at = length_bytes + length;
    check_offsets(drafts.entries, source.size() - data_at, name);
    Header out;
    for (auto& [tensor, draft] : drafts.entries) {
        const std::uint64_t begin = (*draft.offsets)[0], end = (*draft.offsets)[1];
        out.entries.emplace(tensor,
                            Entry{std::move(draft.type), std::move(*draft.shape), data_at + begin, data_at + end});
    }
    out.metadata = std::move(drafts.metadata);
    return out;
}

}  // namespace causeway::safetensors
