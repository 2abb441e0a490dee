#include "core/model/chat.hpp"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/file.hpp"
#include "core/base/text.hpp"  // in_quotes
#include "core/model/checkpoint.hpp"

namespace causeway::model {
namespace {

constexpr std::uint64_t longest_template = std::uint64_t{16} << 20;

// Without white space at both ends, as the templates trim messages.
std::string trimmed(std::string_view text) {
    constexpr std::string_view white = " \t\n\r\v\f";
    const std::size_t first = text.find_first_not_of(white);
    if (first == std::string_view::npos) return "";
    return std::string(text.substr(first, text.find_last_not_of(white) - first + 1));
}

void check_roles(const std::vector<Message>& messages) {
    if (messages.empty()) fail("messages: none, expected at least one");
    for (const Message& message : messages) {
        if (message.role != "system" && message.role != "user" && message.role != "assistant")
            fail("messages: the role ", in_quotes(message.role), ", expected \"system\", \"user\" or \"assistant\"");
    }
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// What a ChatML template says for the system where nobody does: the text between its marks, where that is a plain one.
std::optional<std::string> default_system(std::string_view chat_template) {
    constexpr std::string_view end = "<|im_end|>";
    for (const std::string_view start : {"<|im_start|>system\n", "<|im_start|>system\\n"}) {
        for (std::size_t at = 0; (at = chat_template.find(start, at)) != std::string_view::npos;) {
            at += start.size();
            const std::size_t stop = chat_template.find(end, at);
            if (stop == std::string_view::npos) break;
            const std::string_view text = chat_template.substr(at, stop - at);
            if (text.find_first_of("'\"{}") == std::string_view::npos) return std::string(text);
        }
    }
    return std::nullopt;
}

std::string text_of_file(const std::string& path) {
    const Source file(path);
    if (file.size() > longest_template)
        fail_as<IoError>(path, ": got ", file.size(), " bytes, expected at most ", longest_template);
    const Buffer<char> text = file.text();
    return {text.data(), static_cast<std::size_t>(text.size())};
}

// The entry chat_template of a tokenizer_config.json: a text, or a list of texts with names, of which "default" counts.
std::optional<std::string> template_in(const std::string& text, const std::string& path) {
    using Json = nlohmann::json;
    const Json config = Json::parse(text, nullptr, false);
    if (!config.is_object()) fail_as<IoError>(path, ": is no JSON object");
    const auto found = config.find("chat_template");
    if (found == config.end() || found->is_null()) return std::nullopt;
    if (found->is_string()) return found->get<std::string>();
    if (!found->is_array()) fail_as<IoError>(path, ": chat_template is neither a text nor a list of texts");
    for (const Json& one : *found) {
        if (!one.is_object() || !one.contains("name") || !one.contains("template")) continue;
        if (one["name"] == "default" && one["template"].is_string()) return one["template"].get<std::string>();
    }
    return std::nullopt;
}

}  // namespace

std::string chatml(const std::vector<Message>& messages, const std::optional<std::string>& system, bool answer) {
    check_roles(messages);
    const auto turn = [](const std::string& role, const std::string& text) {
        return "<|im_start|>" + role + "\n" + text + "<|im_end|>\n";
    };
    std::string out;
    if (system && messages.front().role != "system") out += turn("system", *system);
    for (const Message& message : messages) out += turn(message.role, message.text);
    return answer ? out + "<|im_start|>assistant\n" : out;
}

std::string llama3_chat(const std::vector<Message>& messages, bool dated, bool answer) {
    check_roles(messages);
    const auto head = [](const std::string& role) { return "<|start_header_id|>" + role + "<|end_header_id|>\n\n"; };
    std::string out;
    std::size_t first = 0;
    if (dated) {
        const bool has_system = messages.front().role == "system";
        out += head("system") + "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
        if (has_system) out += trimmed(messages.front().text);
        out += "<|eot_id|>";
        first = has_system ? 1 : 0;
    }
    for (std::size_t i = first; i < messages.size(); ++i)
        out += head(messages[i].role) + trimmed(messages[i].text) + "<|eot_id|>";
    return answer ? out + head("assistant") : out;
}

std::string mistral_chat(const std::vector<Message>& messages, const MistralMarks& marks) {
    check_roles(messages);
    std::string out, system;
    bool question = true;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const auto& [role, text] = messages[i];
        if (role == "system" && i == 0) {
            system = text + "\n\n";
            continue;
        }
        if (role != (question ? "user" : "assistant"))
            fail("messages: a message of the ", role, ", expected one of the ", question ? "user" : "assistant",
                 ": the model knows questions and answers in turn, after one message of the system at most");
        if (question) out += marks.before + system + text + marks.after;
        else out += marks.answer + text + marks.end;
        if (question) system.clear();
        question = !question;
    }
    return out;
}

Chat::Chat(std::string_view chat_template) {
    if (contains(chat_template, "<|im_start|>")) {
        kind_ = "chatml";
        system_ = default_system(chat_template);
    } else if (contains(chat_template, "<|start_header_id|>")) {
        kind_ = "llama3";
        dated_ = contains(chat_template, "Cutting Knowledge Date: December 2023");
    } else if (contains(chat_template, "[INST]") && !contains(chat_template, "<<SYS>>") &&
               !contains(chat_template, "[SYSTEM_PROMPT]")) {
        kind_ = "mistral";
        if (!contains(chat_template, "[INST] ")) marks_.before = "[INST]";
        if (!contains(chat_template, " [/INST]")) marks_.after = "[/INST]";
        if (contains(chat_template, "' ' + message") || contains(chat_template, "\" \" + message")) marks_.answer = " ";
        if (contains(chat_template, "eos_token + ' '")) marks_.end += " ";
    } else {
        fail("chat: the model's template, ", in_quotes(chat_template.substr(0, 60)),
             ", is none of those known here, ChatML's, Llama 3's and Mistral's: write the turns as text");
    }
}

std::string Chat::text(const std::vector<Message>& messages, bool answer) const {
    if (kind_ == "chatml") return chatml(messages, system_, answer);
    if (kind_ == "llama3") return llama3_chat(messages, dated_, answer);
    return mistral_chat(messages, marks_);
}

std::optional<std::string> chat_template_of(const Checkpoint& checkpoint) {
    if (checkpoint.gguf()) return checkpoint.text("tokenizer.chat_template");
    const std::string alone = checkpoint.path() + "/chat_template.jinja";
    if (std::filesystem::exists(alone)) return text_of_file(alone);
    const std::string config = checkpoint.path() + "/tokenizer_config.json";
    if (!std::filesystem::exists(config)) return std::nullopt;
    return template_in(text_of_file(config), config);
}

}  // namespace causeway::model
