#include "core/model/gguf.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace causeway::model {
namespace {

constexpr std::uint64_t most_keys = 1'000'000, most_tensors = 1'000'000;
constexpr std::uint32_t most_dimensions = 4;
constexpr std::uint32_t default_alignment = 32, largest_alignment = 1u << 20;
constexpr Index largest_index = std::numeric_limits<Index>::max();

enum Kind : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, list, u64, i64, f64, kinds };

// Bytes of a value, 0 where they differ.
constexpr std::size_t size_of_kind[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::size_t least_size(std::uint32_t kind) { return kind == text ? 8 : size_of_kind[kind]; }
constexpr bool is_number(std::uint32_t kind) { return kind != boolean && kind != text && kind != list; }

// The types of tensors by ggml's numbers; those with no WeightType are only known by name.
struct FileType {
    std::uint32_t number;
    const char* name;
    std::optional<WeightType> type;
};
const FileType file_types[] = {{0, "F32", WeightType::f32},
                               {1, "F16", WeightType::f16},
                               {2, "Q4_0", WeightType::q4_0},
                               {3, "Q4_1", WeightType::q4_1},
                               {6, "Q5_0", {}},
                               {7, "Q5_1", {}},
                               {8, "Q8_0", WeightType::q8_0},
                               {9, "Q8_1", {}},
                               {10, "Q2_K", {}},
                               {11, "Q3_K", {}},
                               {12, "Q4_K", WeightType::q4_k},
                               {13, "Q5_K", WeightType::q5_k},
                               {14, "Q6_K", WeightType::q6_k},
                               {15, "Q8_K", {}},
                               {16, "IQ2_XXS", {}},
                               {17, "IQ2_XS", {}},
                               {18, "IQ3_XXS", {}},
                               {19, "IQ1_S", {}},
                               {20, "IQ4_NL", {}},
                               {21, "IQ3_S", {}},
                               {22, "IQ2_S", {}},
                               {23, "IQ4_XS", {}},
                               {24, "I8", {}},
                               {25, "I16", {}},
                               {26, "I32", {}},
                               {27, "I64", {}},
                               {28, "F64", {}},
                               {29, "IQ1_M", {}},
                               {30, "BF16", WeightType::bf16},
                               {34, "TQ1_0", {}},
                               {35, "TQ2_0", {}},
                               {39, "MXFP4", {}}};

constexpr const char* types_read = "expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K or Q6_K";

// Takes values off the front of bytes; what is not all there is refused.
class Cursor {
public:
    Cursor(Bytes bytes, std::size_t at, const std::string& name) : bytes_(bytes), at_(at), name_(name) {}

    std::size_t at() const { return at_; }

    const unsigned char* take(std::uint64_t size, const char* what) {
        const std::size_t left = bytes_.size() - at_;
        if (size > left)
            fail_as<IoError>(name_, ": is cut off or damaged: ", what, " at byte ", at_, " needs ", size,
                             " bytes, but only ", left, " follow");
        const unsigned char* const p = bytes_.data() + at_;
        at_ += static_cast<std::size_t>(size);
        return p;
    }

    template <class T>
    T number(const char* what) {
        T value;
        std::memcpy(&value, take(sizeof value, what), sizeof value);
        return value;
    }

    std::string_view text_value(const char* what) {
        const auto length = number<std::uint64_t>(what);
        return {reinterpret_cast<const char*>(take(length, what)), static_cast<std::size_t>(length)};
    }

private:
    Bytes bytes_;
    std::size_t at_;
    const std::string& name_;
};

double take_number(Cursor& from, std::uint32_t kind) {
    constexpr const char* what = "a value";
    switch (kind) {
        case u8: return from.number<std::uint8_t>(what);
        case i8: return from.number<std::int8_t>(what);
        case u16: return from.number<std::uint16_t>(what);
        case i16: return from.number<std::int16_t>(what);
        case u32: return from.number<std::uint32_t>(what);
        case i32: return from.number<std::int32_t>(what);
        case f32: return static_cast<double>(from.number<float>(what));
        case u64: return static_cast<double>(from.number<std::uint64_t>(what));
        case i64: return static_cast<double>(from.number<std::int64_t>(what));
        default: return from.number<double>(what);
    }
}

// Where a value stands; it is read when it is asked for. Every reading checks the bounds again: the file may have been
// changed meanwhile.
struct Entry {
    std::uint32_t kind = 0, element = 0;  // `element`, `count`: of a list
    std::uint64_t count = 0;
    std::size_t at = 0;  // of the value, or of the first of the list
};

class GgufMetadata final : public Metadata {
public:
    GgufMetadata(Bytes bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

    std::map<std::string, Entry> entries;

    std::vector<std::string> keys() const override {
        std::vector<std::string> out;
        for (const auto& [key, entry] : entries) out.push_back(key);
        return out;
    }

    std::optional<double> number(const std::string& key) const override {
        const Entry* e = find(key);
        if (!e || !is_number(e->kind)) return {};
        Cursor from = cursor(*e);
        return take_number(from, e->kind);
    }

    std::optional<bool> flag(const std::string& key) const override {
        const Entry* e = find(key);
        if (!e || e->kind != boolean) return {};
        return cursor(*e).number<std::uint8_t>("a value") != 0;
    }

    std::optional<std::string> text(const std::string& key) const override {
        const Entry* e = find(key);
        if (!e || e->kind != Kind::text) return {};
        return std::string(cursor(*e).text_value("a text"));
    }

    std::optional<Index> count(const std::string& key) const override {
        const Entry* e = find(key);
        if (!e || e->kind != list) return {};
        return static_cast<Index>(e->count);
    }

    std::vector<double> numbers(const std::string& key) const override {
        const Entry* e = find_list(key, [](std::uint32_t kind) { return is_number(kind); });
        return e ? elements<double>(*e, [&](Cursor& from) { return take_number(from, e->element); })
                 : std::vector<double>();
    }

    std::vector<bool> flags(const std::string& key) const override {
        const Entry* e = find_list(key, [](std::uint32_t kind) { return kind == boolean; });
        return e ? elements<bool>(*e, [](Cursor& from) { return from.number<std::uint8_t>("a value") != 0; })
                 : std::vector<bool>();
    }

    std::vector<std::string> texts(const std::string& key) const override {
        const Entry* e = find_list(key, [](std::uint32_t kind) { return kind == Kind::text; });
        return e ? elements<std::string>(*e, [](Cursor& from) { return std::string(from.text_value("a text")); })
                 : std::vector<std::string>();
    }

private:
    const Entry* find(const std::string& key) const {
        const auto at = entries.find(key);
        return at == entries.end() ? nullptr : &at->second;
    }

    template <class F>
    const Entry* find_list(const std::string& key, F&& fits) const {
        const Entry* e = find(key);
        return e && e->kind == list && fits(e->element) ? e : nullptr;
    }

    Cursor cursor(const Entry& e) const { return Cursor(bytes_, e.at, name_); }

    template <class T, class F>
    std::vector<T> elements(const Entry& e, F&& next) const {
        std::vector<T> out;
        out.reserve(static_cast<std::size_t>(e.count));
        Cursor from = cursor(e);
        for (std::uint64_t i = 0; i < e.count; ++i) out.push_back(next(from));
        return out;
    }

    Bytes bytes_;
    std::string name_;
};

class Reader {
public:
    Reader(Bytes bytes, const std::string& name) : bytes_(bytes), name_(name), from_(bytes, 0, name) {}

    Contents read() {
        const auto [tensors, keys] = read_start();
        auto metadata = std::make_unique<GgufMetadata>(bytes_, name_);
        for (std::uint64_t i = 0; i < keys; ++i) read_key(metadata->entries);
        check_whole(*metadata);
        const std::uint64_t alignment = read_alignment(*metadata);
        std::vector<Draft> drafts;
        for (std::uint64_t i = 0; i < tensors; ++i) drafts.push_back(read_tensor(alignment));
        place(drafts, alignment);

        Contents out;
        for (Draft& draft : drafts) {
            std::string name = std::move(draft.name);
            if (!out.tensors.emplace(name, finish(name, draft)).second)
                fail_as<IoError>(name_, ": tensor ", in_quotes(name), ": the name is given twice");
        }
        out.metadata = std::move(metadata);
        return out;
    }

private:
    struct Draft {
        std::string name;
        std::vector<Index> shape;
        const FileType* type = nullptr;
        std::uint64_t begin = 0, bytes = 0;  // of the data; first from where all data begins, then in the file
    };

    template <class... What>
    [[noreturn]] void wrong(const What&... what) const {
        fail_as<IoError>(name_, ": ", what...);
    }

    std::string tensor(const std::string& name) const { return sentence("tensor ", in_quotes(name), ": "); }

    std::pair<std::uint64_t, std::uint64_t> read_start() {
        if (bytes_.empty()) wrong("the file is empty");
        if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0)
            wrong("is not a GGUF file: it does not begin with GGUF");
        from_.take(4, "the start");
        const auto version = from_.number<std::uint32_t>("the version");
        if (version == 0x02000000 || version == 0x03000000) wrong("is big-endian, expected a little-endian GGUF file");
        if (version != 2 && version != 3) wrong("is GGUF version ", version, ", expected 2 or 3");
        const auto tensors = from_.number<std::uint64_t>("the number of tensors");
        const auto keys = from_.number<std::uint64_t>("the number of keys");
        if (tensors > most_tensors) wrong("has ", tensors, " tensors, expected at most ", most_tensors);
        if (keys > most_keys) wrong("has ", keys, " keys, expected at most ", most_keys);
        return {tensors, keys};
    }

    void read_key(std::map<std::string, Entry>& entries) {
        const std::string key(from_.text_value("the name of a key"));
        Entry e;
        e.kind = from_.number<std::uint32_t>("the kind of a value");
        if (e.kind >= kinds) wrong("key ", in_quotes(key), ": has a value of kind ", e.kind, ", expected 0 to 12");
        if (e.kind == list) {
            e.element = from_.number<std::uint32_t>("the kind of a list");
            e.count = from_.number<std::uint64_t>("the length of a list");
            if (e.element >= kinds)
                wrong("key ", in_quotes(key), ": is a list of values of kind ", e.element, ", expected 0 to 12");
            if (e.element == list) wrong("key ", in_quotes(key), ": is a list of lists, expected numbers or texts");
            e.at = from_.at();
            skip_list(key, e);
        } else {
            e.at = from_.at();
            if (e.kind == text) from_.text_value("a text");
            else from_.take(size_of_kind[e.kind], "a value");
        }
        if (!entries.emplace(key, e).second) wrong("key ", in_quotes(key), ": is given twice");
    }

    void skip_list(const std::string& key, const Entry& e) {
        const std::size_t left = bytes_.size() - e.at, each = least_size(e.element);
        if (e.count > left / each)
            wrong("key ", in_quotes(key), ": is a list of ", e.count, " elements, but only ", left, " bytes follow");
        if (e.element != text) from_.take(e.count * each, "a list");
        else
            for (std::uint64_t i = 0; i < e.count; ++i) from_.text_value("a text of a list");
    }

    void check_whole(const GgufMetadata& metadata) const {
        const double parts = metadata.number("split.count").value_or(1);
        if (parts > 1) wrong("is one of ", parts, " parts of a model, expected the whole in one file");
    }

    std::uint64_t read_alignment(const GgufMetadata& metadata) const {
        const auto at = metadata.entries.find("general.alignment");
        if (at == metadata.entries.end()) return default_alignment;
        if (at->second.kind != u32) wrong("general.alignment: has kind ", at->second.kind, ", expected 4 (u32)");
        const double value = *metadata.number("general.alignment");
        const auto alignment = static_cast<std::uint32_t>(value);
        if (alignment < 8 || alignment > largest_alignment || (alignment & (alignment - 1)) != 0)
            wrong("general.alignment: ", alignment, ", expected a power of 2 from 8 to ", largest_alignment);
        return alignment;
    }

    Draft read_tensor(std::uint64_t alignment) {
        Draft out;
        out.name = from_.text_value("the name of a tensor");
        const auto dimensions = from_.number<std::uint32_t>("the dimensions of a tensor");
        if (dimensions > most_dimensions)
            wrong(tensor(out.name), "has ", dimensions, " dimensions, expected at most ", most_dimensions);
        Index elements = 1;
        for (std::uint32_t i = 0; i < dimensions; ++i) {
            const auto n = from_.number<std::uint64_t>("the shape of a tensor");
            // A dimension of 0 must not hide that the others are impossible.
            if (n > static_cast<std::uint64_t>(largest_index) ||
                __builtin_mul_overflow(elements, std::max<Index>(static_cast<Index>(n), 1), &elements))
                wrong(tensor(out.name), "has more elements than any file");
            out.shape.insert(out.shape.begin(), static_cast<Index>(n));
        }
        const auto number = from_.number<std::uint32_t>("the type of a tensor");
        out.type = std::find_if(std::begin(file_types), std::end(file_types),
                                [&](const FileType& t) { return t.number == number; });
        if (out.type == std::end(file_types))
            wrong(tensor(out.name), "has elements of type ", number, ", ", types_read);
        out.begin = from_.number<std::uint64_t>("the offset of a tensor");
        if (out.begin % alignment != 0)
            wrong(tensor(out.name), "its data begins at ", out.begin, ", expected a multiple of ", alignment);
        if (std::find(out.shape.begin(), out.shape.end(), 0) != out.shape.end()) elements = 0;
        if (out.type->type) out.bytes = bytes_of(out, elements);
        return out;
    }

    std::uint64_t bytes_of(const Draft& draft, Index elements) const {
        const Index weights = weights_in_block(*draft.type->type), bytes = bytes_of_block(*draft.type->type);
        const Index columns = draft.shape.empty() ? 1 : draft.shape.back();
        if (columns % weights != 0)
            wrong(tensor(draft.name), "has rows of ", columns, " elements, expected a multiple of ", weights, " for ",
                  draft.type->name);
        std::uint64_t out;
        if (__builtin_mul_overflow(static_cast<std::uint64_t>(elements / weights), static_cast<std::uint64_t>(bytes),
                                   &out))
            wrong(tensor(draft.name), "has more elements than any file");
        return out;
    }

    // Offsets become those in the file; every tensor's data lies within it and is no other's.
    void place(std::vector<Draft>& drafts, std::uint64_t alignment) const {
        const std::uint64_t start = (from_.at() + alignment - 1) / alignment * alignment;
        const std::uint64_t room = start <= bytes_.size() ? bytes_.size() - start : 0;
        for (Draft& draft : drafts) {
            if (draft.begin > room || draft.bytes > room - draft.begin)
                wrong(tensor(draft.name), "its data has ", draft.bytes, " bytes from byte ", draft.begin,
                      " on, but the file has ", room, " bytes of data");
            draft.begin += start;
        }
        std::vector<const Draft*> order;
        for (const Draft& draft : drafts)
            if (draft.bytes > 0) order.push_back(&draft);
        std::sort(order.begin(), order.end(), [](const Draft* a, const Draft* b) { return a->begin < b->begin; });
        for (std::size_t i = 1; i < order.size(); ++i)
            if (order[i]->begin < order[i - 1]->begin + order[i - 1]->bytes)
                wrong(tensor(order[i]->name), "its data begins within that of ", in_quotes(order[i - 1]->name));
    }

    StoredTensor finish(const std::string& name, Draft& draft) const {
        const std::string where = sentence(name_, ": tensor ", in_quotes(name));
        if (draft.type->type)
            return stored_tensor(std::move(draft.shape), *draft.type->type, bytes_.data() + draft.begin, where);
        StoredTensor out;
        out.shape = std::move(draft.shape);
        out.fault = sentence(where, ": has elements of type ", draft.type->name, ", ", types_read);
        return out;
    }

    Bytes bytes_;
    const std::string& name_;
    Cursor from_;
};

}  // namespace

Contents read_gguf(Bytes bytes, const std::string& name) { return Reader(bytes, name).read(); }

Contents load_gguf(const std::string& path) {
    auto file = std::make_unique<const Mapping>(path);
    Contents out = read_gguf(file->bytes(), path);
    out.files.push_back(std::move(file));
    return out;
}

}  // namespace causeway::model
