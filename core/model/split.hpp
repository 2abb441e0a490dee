// Where a text is cut into words before pairs of bytes are merged inside each, which is what tokenizers call
// pre-tokenisation. A model's ids are those it was trained with only where the cuts are the same.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::model {

class Splitter {
public:
    // That of a GGUF file's tokenizer.ggml.pre: "gpt-2", "llama-bpe", "qwen2", "smollm" and their other names. Nothing
    // for another name.
    static std::optional<Splitter> named(std::string_view pre);

    // Those names, for messages.
    static std::vector<std::string> names();

    // Adds a cut: every match of the regular expression, as a tokenizer.json spells it, is a word of its own, and so
    // is what stands between two; the cuts before have been made. False where the expression is none of the known.
    bool add(std::string_view expression);

    // Digits one by one, or runs of them: \p{N} or \p{N}+.
    void add_digits(bool one_by_one);

    // That of GPT-2.
    void add_gpt2();

    // Calls `word` for each word of the text in order; together they are the text. A run of bytes that are no UTF-8 is
    // a word. O(size). Throws SystemError where the matcher gives up, which it must not on the known expressions.
    void split(std::string_view text, const std::function<void(std::string_view)>& word) const;

private:
    struct Cut;
    void cut(std::string_view text, std::size_t step, const std::function<void(std::string_view)>& word) const;

    std::vector<std::shared_ptr<const Cut>> cuts_;
};

}  // namespace causeway::model
