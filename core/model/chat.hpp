// The text that a model trained on conversations continues with its answer. Checkpoints say how turns are marked in a
// template of a language of its own (Jinja); here each kind is a plain function, and the template only tells which.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::model {

class Checkpoint;

struct Message {
    std::string role;  // "system", "user", "assistant"
    std::string text;
};

// <|im_start|>role\ntext<|im_end|>\n, as SmolLM2 and Qwen have it. A conversation that does not begin with a system's
// message gets `system`, where that is given.
std::string chatml(const std::vector<Message>& messages, const std::optional<std::string>& system, bool answer = true);

// <|start_header_id|>role<|end_header_id|>\n\ntext<|eot_id|>. `dated`: from 3.1 on, the system's message begins with
// two dates, when the data end and today; today is what the template itself takes where nobody tells it.
std::string llama3_chat(const std::vector<Message>& messages, bool dated, bool answer = true);

// [INST] question [/INST]answer</s>, where the versions differ in the blanks; a system's message stands before the
// first question. There is nothing behind the last question: the answer follows.
struct MistralMarks {
    std::string before = "[INST] ", after = " [/INST]", answer = "", end = "</s>";
};
std::string mistral_chat(const std::vector<Message>& messages, const MistralMarks& marks = {});

// How a checkpoint marks the turns.
class Chat {
public:
    // By its template. Throws Error, in one sentence, for one that is none of the above.
    explicit Chat(std::string_view chat_template);

    // "chatml", "llama3", "mistral"
    const std::string& kind() const { return kind_; }
    const std::optional<std::string>& system() const { return system_; }  // what is said where nobody says another

    // The text of the conversation, with the beginning of an answer where `answer` asks for it. A token that begins
    // every text is not in it. Throws Error for a role that is none, and where the roles do not take turns as the
    // model was trained.
    std::string text(const std::vector<Message>& messages, bool answer = true) const;

private:
    std::string kind_;
    std::optional<std::string> system_;
    bool dated_ = false;
    MistralMarks marks_;
};

// The template of a checkpoint: GGUF's tokenizer.chat_template, or in a folder chat_template.jinja or the entry of
// tokenizer_config.json. Nothing where it has none; throws IoError where the file cannot be read.
std::optional<std::string> chat_template_of(const Checkpoint& checkpoint);

}  // namespace causeway::model
