#include "core/model/folder.hpp"

#include <filesystem>
#include <limits>
#include <set>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/tensor/safetensors_header.hpp"
#include "core/tensor/stored.hpp"

namespace causeway::model {
namespace {

constexpr std::size_t deepest = 64;                  // objects and lists within each other
constexpr std::uint64_t longest_json = 100'000'000;  // bytes

using Value = std::variant<double, bool, std::string, std::vector<double>, std::vector<bool>, std::vector<std::string>>;

class JsonMetadata final : public Metadata {
public:
    std::map<std::string, Value> entries;

    std::vector<std::string> keys() const override {
        std::vector<std::string> out;
        for (const auto& [key, value] : entries) out.push_back(key);
        return out;
    }
    std::optional<double> number(const std::string& key) const override { return one<double>(key); }
    std::optional<bool> flag(const std::string& key) const override { return one<bool>(key); }
    std::optional<std::string> text(const std::string& key) const override { return one<std::string>(key); }
    std::vector<double> numbers(const std::string& key) const override { return several<double>(key); }
    std::vector<bool> flags(const std::string& key) const override { return several<bool>(key); }
    std::vector<std::string> texts(const std::string& key) const override { return several<std::string>(key); }
    std::optional<Index> count(const std::string& key) const override {
        const auto at = entries.find(key);
        if (at == entries.end()) return {};
        return std::visit(
            [](const auto& value) -> std::optional<Index> {
                if constexpr (requires { value.capacity(); } && !std::is_same_v<decltype(value), const std::string&>)
                    return static_cast<Index>(value.size());
                else return {};
            },
            at->second);
    }

private:
    template <class T>
    std::optional<T> one(const std::string& key) const {
        const auto at = entries.find(key);
        const T* value = at == entries.end() ? nullptr : std::get_if<T>(&at->second);
        return value ? std::optional<T>(*value) : std::nullopt;
    }
    template <class T>
    std::vector<T> several(const std::string& key) const {
        const auto at = entries.find(key);
        const auto* value = at == entries.end() ? nullptr : std::get_if<std::vector<T>>(&at->second);
        return value ? *value : std::vector<T>();
    }
};

// Reads event by event: nothing is built but the entries, and nesting is bounded.
class EntryReader final : public nlohmann::json_sax<nlohmann::json> {
public:
    EntryReader(const std::string& name, std::map<std::string, Value>& entries) : name_(name), entries_(entries) {}

    bool null() override { return put_other("null"); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(number_integer_t value) override { return put(static_cast<double>(value)); }
    bool number_unsigned(number_unsigned_t value) override { return put(static_cast<double>(value)); }
    bool number_float(number_float_t value, const string_t&) override { return put(static_cast<double>(value)); }
    bool string(string_t& value) override { return put(std::move(value)); }
    bool binary(binary_t&) override { return put_other("binary data"); }

    bool key(string_t& value) override {
        if (lists_ == 0) path_.resize(prefixes_.back()), path_ += value;
        return true;
    }

    bool start_object(std::size_t) override {
        deeper();
        if (lists_ > 0) {
            mixed_ = true;
            return true;
        }
        if (!prefixes_.empty()) path_ += '.';
        prefixes_.push_back(path_.size());
        return true;
    }
    bool end_object() override {
        --depth_;
        if (lists_ == 0) prefixes_.pop_back();
        return true;
    }

    bool start_array(std::size_t) override {
        if (prefixes_.empty()) return put_other("a list");
        deeper();
        if (lists_++ > 0) mixed_ = true;
        else list_ = Value(), mixed_ = false, length_ = 0;
        return true;
    }
    bool end_array() override {
        --depth_;
        if (--lists_ > 0 || mixed_) return true;
        return keep(length_ == 0 ? Value(std::vector<double>()) : std::move(list_));
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
        fail_as<IoError>(name_, ": is not valid JSON at byte ", position);
    }

private:
    void deeper() {
        if (++depth_ > deepest) fail_as<IoError>(name_, ": is nested deeper than ", deepest);
    }

    template <class T>
    bool put(T value) {
        if (prefixes_.empty()) return put_other("a single value");
        if (lists_ == 0) return keep(Value(std::move(value)));
        if (length_++ == 0) list_ = std::vector<T>();
        auto* list = std::get_if<std::vector<T>>(&list_);
        if (list) list->push_back(std::move(value));
        else mixed_ = true;
        return true;
    }

    bool put_other(const char* what) {
        if (prefixes_.empty()) fail_as<IoError>(name_, ": is ", what, ", expected an object");
        mixed_ = true;
        return true;
    }

    bool keep(Value value) {
        if (!entries_.emplace(path_, std::move(value)).second)
            fail_as<IoError>(name_, ": has the key ", in_quotes(path_), " twice");
        return true;
    }

    const std::string& name_;
    std::map<std::string, Value>& entries_;
    std::string path_;                   // of the value that comes
    std::vector<std::size_t> prefixes_;  // for each open object, how much of the path stands before its keys
    std::size_t depth_ = 0, lists_ = 0, length_ = 0;
    Value list_;
    bool mixed_ = false;  // the list is none of one kind
};

std::unique_ptr<const JsonMetadata> read_entries(std::string_view text, const std::string& name) {
    if (const auto zero = text.find('\0'); zero != text.npos)  // the parser takes it for the end of the text
        fail_as<IoError>(name, ": is not valid JSON at byte ", zero);
    auto out = std::make_unique<JsonMetadata>();
    EntryReader reader(name, out->entries);
    nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
    return out;
}

// What a .json file of the folder says.
template <class F>
auto read_json_file(const std::string& path, F&& read) {
    const Source source(path);
    if (source.size() > longest_json)
        fail_as<IoError>(path, ": has ", source.size(), " bytes, expected at most ", longest_json);
    const Buffer<char> text = source.text();
    return read(std::string_view(text.data(), static_cast<std::size_t>(text.size())), path);
}

struct FileType {
    const char* name;
    WeightType type;
    Stored stored;
};
constexpr FileType file_types[] = {{"F32", WeightType::f32, Stored::f32},
                                   {"F16", WeightType::f16, Stored::f16},
                                   {"BF16", WeightType::bf16, Stored::bf16}};

StoredTensor tensor_of(const safetensors::Entry& entry, Bytes bytes, const std::string& where) {
    const auto* type =
        std::find_if(std::begin(file_types), std::end(file_types), [&](auto& t) { return entry.type == t.name; });
    if (type == std::end(file_types)) {
        StoredTensor out;
        for (const std::uint64_t n : entry.shape) out.shape.push_back(static_cast<Index>(n));
        out.fault = sentence(where, ": has elements of type ", in_quotes(entry.type), ", expected F32, F16 or BF16");
        return out;
    }
    const Shape shape = checked_shape(entry.shape, type->stored, entry.type, entry.end - entry.begin, where);
    std::vector<Index> dims;
    for (int i = 0; i < shape.ndim(); ++i) dims.push_back(shape[i]);
    return stored_tensor(std::move(dims), type->type, bytes.data() + entry.begin, where);
}

void map_and_add(Contents& into, const std::string& path) {
    auto file = std::make_unique<const Mapping>(path);
    add_safetensors(into, file->bytes(), path);
    into.files.push_back(std::move(file));
}

void add_shards(Contents& into, const std::string& folder, const std::string& index) {
    const auto shards = read_json_file(index, read_shard_index);
    std::set<std::string> files;
    for (const auto& [tensor, file] : shards) files.insert(file);
    for (const auto& file : files) map_and_add(into, folder + "/" + file);
    for (const auto& [tensor, file] : shards)
        if (!into.tensors.contains(tensor))
            fail_as<IoError>(index, ": says that ", in_quotes(file), " holds the tensor ", in_quotes(tensor),
                             ", but it does not");
}

}  // namespace

std::unique_ptr<const Metadata> read_json_entries(std::string_view text, const std::string& name) {
    return read_entries(text, name);
}

std::map<std::string, std::string> read_shard_index(std::string_view text, const std::string& name) {
    const std::string prefix = "weight_map.";
    const auto metadata = read_entries(text, name);
    std::map<std::string, std::string> out;
    for (const auto& [key, value] : metadata->entries) {
        if (!key.starts_with(prefix)) continue;
        const std::string tensor = key.substr(prefix.size());
        const std::string* file = std::get_if<std::string>(&value);
        if (!file) fail_as<IoError>(name, ": tensor ", in_quotes(tensor), ": has no file name, expected a text");
        if (file->empty() || *file == "." || *file == ".." || file->find_first_of(std::string("/\0", 2)) != file->npos)
            fail_as<IoError>(name, ": tensor ", in_quotes(tensor), ": lies in ", in_quotes(*file),
                             ", expected the name of a file in the same folder");
        out.emplace(tensor, *file);
    }
    if (out.empty()) fail_as<IoError>(name, ": has no weight_map, expected one that names the file of each tensor");
    return out;
}

void add_safetensors(Contents& into, Bytes bytes, const std::string& name) {
    const Source source(bytes, name);
    for (const auto& [tensor, entry] : safetensors::read_header(source).entries) {
        const std::string where = sentence(name, ": tensor ", in_quotes(tensor));
        if (!into.tensors.emplace(tensor, tensor_of(entry, bytes, where)).second)
            fail_as<IoError>(where, ": is in another file of the model as well");
    }
}

Contents read_folder(const std::string& path) {
    namespace fs = std::filesystem;
    const std::string config = path + "/config.json", one = path + "/model.safetensors",
                      index = path + "/model.safetensors.index.json";
    std::error_code ignored;
    if (!fs::exists(config, ignored))
        fail_as<IoError>(path, ": is a folder without config.json, expected a model of Hugging Face's or a .gguf file");
    Contents out;
    out.metadata = read_json_file(config, read_json_entries);
    if (fs::exists(index, ignored)) add_shards(out, path, index);
    else if (fs::exists(one, ignored)) map_and_add(out, one);
    else fail_as<IoError>(path, ": has no weights, expected model.safetensors or model.safetensors.index.json");
    return out;
}

}  // namespace causeway::model
