#include <nlohmann/json.hpp>

#include "core/model/tokenizer_builder.hpp"

namespace causeway::model {
namespace {

using Json = nlohmann::json;

// Reads a tokenizer.json.
class JsonReader : public Builder {
public:
    using Builder::Builder;

    void read(const Json& file) {
        if (!file.is_object()) wrong("is no object, expected a tokenizer.json");
        read_normalizer(entry(file, "normalizer"));
        read_pre_tokenizer(entry(file, "pre_tokenizer"));
        if (!ends_in_bytes_) refuse("pre_tokenizer", entry(file, "pre_tokenizer"), "one that ends in ByteLevel");
        read_model(entry(file, "model"));
        read_added(entry(file, "added_tokens"), entry(entry(file, "model"), "vocab"));
        read_post_processor(entry(file, "post_processor"));
    }

private:
    static const Json& entry(const Json& object, const char* key) {
        static const Json nothing;
        const auto found = object.find(key);
        return found == object.end() ? nothing : *found;
    }

    // What a message says of a value: its type where it has one. Values may be nested without end, so they are not
    // written out.
    static std::string shown(const Json& value) {
        if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
        if (value.is_array()) return "a list";
        if (!value.is_object()) return value.dump();
        const Json& type = entry(value, "type");
        return type.is_string() ? in_quotes(type.get_ref<const std::string&>()) : "an object without a type";
    }

    [[noreturn]] void refuse(const char* what, const Json& got, const char* expected) const {
        wrong(what, ": got ", shown(got), ", expected ", expected);
    }

    std::string type_of(const Json& step, const char* what) const {
        const Json& type = step.is_object() ? entry(step, "type") : step;
        if (!type.is_string()) refuse(what, step, "an object with a type");
        return type.get<std::string>();
    }

    bool flag(const Json& object, const char* key, bool otherwise) const {
        const Json& value = entry(object, key);
        if (value.is_null()) return otherwise;
        if (!value.is_boolean()) refuse(key, value, "true or false");
        return value.get<bool>();
    }

    // Calls read(step) for the steps of a sequence, whose list has the name `key`, or for the one step that it is.
    template <class Read>
    void steps(const Json& step, const char* what, const char* key, Read&& read) {
        if (type_of(step, what) != "Sequence") return read(step);
        const Json& list = entry(step, key);
        if (!list.is_array()) refuse(what, step, "a list of steps in it");
        for (const Json& one : list) {
            if (type_of(one, what) == "Sequence") refuse(what, one, "no sequence within a sequence");
            read(one);
        }
    }

    void read_normalizer(const Json& normalizer) {
        if (normalizer.is_null()) return;
        steps(normalizer, "normalizer", "normalizers", [&](const Json& step) {
            if (type_of(step, "normalizer") != "NFC") refuse("normalizer", step, "none or NFC");
            parts.nfc = true;
        });
    }

    void read_pre_tokenizer(const Json& pre) {
        if (pre.is_null()) return;
        steps(pre, "pre_tokenizer", "pretokenizers", [&](const Json& step) {
            const std::string type = type_of(step, "pre_tokenizer");
            if (ends_in_bytes_) refuse("pre_tokenizer", step, "nothing behind ByteLevel");
            if (type == "Split") {
                read_split(step);
            } else if (type == "Digits") {
                parts.splitter.add_digits(flag(step, "individual_digits", false));
            } else if (type == "ByteLevel") {
                if (flag(step, "add_prefix_space", true))
                    wrong("pre_tokenizer: ByteLevel puts a blank in front, which is not known here");
                if (flag(step, "use_regex", true)) parts.splitter.add_gpt2();
                ends_in_bytes_ = true;
            } else {
                refuse("pre_tokenizer", step, "Split, Digits or ByteLevel");
            }
        });
    }

    void read_split(const Json& step) {
        const Json &pattern = entry(step, "pattern"), &behavior = entry(step, "behavior");
        const Json& expression = pattern.is_object() ? entry(pattern, "Regex") : pattern;
        // Where the matches cover the text, removing what is between them removes nothing.
        const bool isolated = behavior == "Isolated" && !flag(step, "invert", false);
        const bool kept = behavior == "Removed" && flag(step, "invert", false);
        if (!isolated && !kept) refuse("pre_tokenizer: Split: behavior", behavior, "Isolated");
        if (!expression.is_string()) refuse("pre_tokenizer: Split: pattern", pattern, "a regular expression");
        const auto& text = expression.get_ref<const std::string&>();
        if (!parts.splitter.add(text) || (kept && text.find("\\s+") == std::string::npos))
            refuse("pre_tokenizer: Split: pattern", expression, "that of gpt-2, llama 3 or qwen2");
    }

    void read_model(const Json& model) {
        if (!model.is_object()) refuse("model", model, "an object");
        const Json& type = entry(model, "type");
        if (!type.is_null() && type != "BPE") refuse("model", model, "BPE");
        if (flag(model, "byte_fallback", false))
            wrong("model: has byte_fallback, as SentencePiece's vocabularies have, expected one of bytes");
        for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
            if (const Json& mark = entry(model, key); !mark.is_null() && mark != "") refuse(key, mark, "none");
        if (const Json& dropout = entry(model, "dropout"); !dropout.is_null() && dropout != 0.0)
            refuse("dropout", dropout, "none");
        parts.ignore_merges = flag(model, "ignore_merges", false);
        parts.fuse_unknown = flag(model, "fuse_unk", false);
        read_vocabulary(entry(model, "vocab"));
        read_merges(entry(model, "merges"));
        if (const Json& unknown = entry(model, "unk_token"); !unknown.is_null()) {
            if (!unknown.is_string()) refuse("unk_token", unknown, "a text");
            parts.unknown = id_of(entry(model, "vocab"), unknown.get<std::string>(), "unk_token");
        }
    }

    Token id_of(const Json& vocabulary, const std::string& spelling, const char* what) const {
        const auto found = vocabulary.find(spelling);
        if (found == vocabulary.end())
            wrong(what, ": got ", in_quotes(spelling), ", which the vocabulary does not have");
        return static_cast<Token>(id(*found, what));
    }

    std::size_t id(const Json& value, const char* what) const {
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= most_tokens)
            refuse(what, value, "a whole number from 0 on as id");
        return value.get<std::size_t>();
    }

    void read_vocabulary(const Json& vocabulary) {
        if (!vocabulary.is_object()) refuse("vocab", vocabulary, "an object of token and id");
        for (const auto& [spelling, value] : vocabulary.items()) {
            const std::size_t at = id(value, "vocab");
            if (at < parts.tokens.size() && parts.tokens[at]) wrong("vocab: two tokens have the id ", at);
            word(at, spelling);
        }
    }

    void read_merges(const Json& merges) {
        if (!merges.is_array()) refuse("merges", merges, "a list");
        for (const Json& pair : merges) {
            if (pair.is_string()) merge(pair.get_ref<const std::string&>());
            else if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
                merge(pair[0].get_ref<const std::string&>(), pair[1].get_ref<const std::string&>());
            else refuse("merges", pair, "two tokens");
        }
    }

    void read_added(const Json& added, const Json& vocabulary) {
        if (added.is_null()) return;
        if (!added.is_array()) refuse("added_tokens", added, "a list");
        for (const Json& token : added) {
            const Json& content = token.is_object() ? entry(token, "content") : token;
            if (!token.is_object() || !content.is_string()) refuse("added_tokens", token, "an object with a content");
            const auto& spelling = content.get_ref<const std::string&>();
            for (const char* key : {"single_word", "lstrip", "rstrip"})
                if (flag(token, key, false))
                    wrong("added_tokens: ", in_quotes(spelling), " has ", key, ", which is not known here");
            const std::size_t at = id(entry(token, "id"), "added_tokens");
            check_place(spelling, at, vocabulary);
            text(at, spelling);
            const bool special = flag(token, "special", false);
            parts.added.push_back({static_cast<Token>(at), spelling, special, flag(token, "normalized", !special)});
        }
    }

    // An added token may stand in the vocabulary too, under the same id; as text, not as bytes that it spells.
    void check_place(const std::string& spelling, std::size_t at, const Json& vocabulary) const {
        const auto found = vocabulary.find(spelling);
        const bool in_vocabulary = found != vocabulary.end();
        const bool same = in_vocabulary && *found == at && alphabet().bytes_of(spelling).value_or(spelling) == spelling;
        const bool free = !in_vocabulary && (at >= parts.tokens.size() || !parts.tokens[at]);
        if (!same && !free)
            wrong("added_tokens: ", in_quotes(spelling), " has the id ", at, ", which another token has");
    }

    void read_post_processor(const Json& post) {
        if (post.is_null()) return;
        steps(post, "post_processor", "processors", [&](const Json& step) {
            const std::string type = type_of(step, "post_processor");
            if (type == "TemplateProcessing") read_template(step);
            else if (type != "ByteLevel") refuse("post_processor", step, "TemplateProcessing or ByteLevel");
        });
    }

    // A text may begin with one special token.
    void read_template(const Json& step) {
        const Json& single = entry(step, "single");
        if (!single.is_array()) refuse("post_processor: single", single, "a list");
        bool text_seen = false;
        for (const Json& part : single) {
            if (part.is_object() && part.contains("Sequence")) {
                text_seen = true;
                continue;
            }
            const Json& token = part.is_object() ? entry(part, "SpecialToken") : part;
            if (!token.is_object() || !entry(token, "id").is_string() || text_seen || parts.adds_bos)
                refuse("post_processor: single", single, "a text, or one special token and a text");
            const auto spelling = entry(token, "id").get<std::string>();
            for (const AddedToken& added : parts.added)
                if (added.text == spelling) parts.bos = added.id;
            if (!parts.bos) wrong("post_processor: ", in_quotes(spelling), " is none of the added tokens");
            parts.adds_bos = true;
        }
    }

    bool ends_in_bytes_ = false;
};

}  // namespace

TokenizerParts parts_of_json(std::string_view text, const std::string& name) {
    JsonReader reader(name);
    Json file;
    try {
        file = Json::parse(text.begin(), text.end());
    } catch (const Json::parse_error& error) {
        fail_as<IoError>(name, ": is not valid JSON at byte ", error.byte);
    } catch (const Json::out_of_range&) {
        fail_as<IoError>(name, ": has a number beyond Float64");
    }
    reader.read(file);
    return std::move(reader.parts);
}

}  // namespace causeway::model
