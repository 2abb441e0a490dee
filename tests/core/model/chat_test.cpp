// Conversations as the templates of checkpoints write them out; the expected texts are what Jinja makes of these
// templates, without the token that begins a text.
#include "core/model/chat.hpp"

#include <filesystem>

#include "core/base/error.hpp"
#include "core/model/checkpoint.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::model;
using namespace causeway::testing;

namespace {

// Of SmolLM2, Qwen 2.5 (its part without tools), Llama 3, Llama 3.1 (where it matters) and two versions of Mistral.
const std::string smollm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const std::string qwen25 =
    "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
    "assistant.<|im_end|>"
    "\\n' }}{%- endif %}";
const std::string plain_chatml =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n'}}"
    "{% endfor %}";
const std::string llama3 =
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{{ content }}{% endfor %}";
const std::string llama31 =
    llama3 + "{{- \"Cutting Knowledge Date: December 2023\\n\" }}{{- \"Today Date: \" + date_string + \"\\n\\n\" }}";
const std::string mistral1 =
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + "
    "' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}{% endif %}"
    "{% endfor %}";
const std::string mistral3 =
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + "
    "'[/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token}}{% endif %}"
    "{% endfor %}";

const std::vector<Message> talk{{"user", "Hi "}, {"assistant", "Hello."}, {"user", "2+2?"}};
const std::vector<Message> with_system{{"system", "Be short."}, {"user", "Hi"}};

}  // namespace

TEST_CASE("ChatML, with what the template says where no system speaks", "[model][chat]") {
    CHECK(Chat(smollm2).kind() == "chatml");
    CHECK(Chat(smollm2).text(talk) ==
          "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
          "<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n"
          "<|im_start|>assistant\n");
    CHECK(Chat(smollm2).text(with_system) ==
          "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    CHECK(Chat(qwen25).system() == "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
    CHECK(!Chat(plain_chatml).system());
    CHECK(Chat(plain_chatml).text({{"user", "Hi"}}, false) == "<|im_start|>user\nHi<|im_end|>\n");
}

TEST_CASE("Llama 3, from 3.1 on with its dates", "[model][chat]") {
    const auto turn = [](const std::string& role, const std::string& text) {
        return "<|start_header_id|>" + role + "<|end_header_id|>\n\n" + text + "<|eot_id|>";
    };
    const std::string answer = "<|start_header_id|>assistant<|end_header_id|>\n\n";
    const std::string dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
    CHECK(Chat(llama3).kind() == "llama3");
    CHECK(Chat(llama3).text(talk) == turn("user", "Hi") + turn("assistant", "Hello.") + turn("user", "2+2?") + answer);
    CHECK(Chat(llama31).text(talk, false) ==
          turn("system", dates) + turn("user", "Hi") + turn("assistant", "Hello.") + turn("user", "2+2?"));
    CHECK(Chat(llama31).text(with_system) == turn("system", dates + "Be short.") + turn("user", "Hi") + answer);
}

TEST_CASE("Mistral, in the versions that differ by blanks", "[model][chat]") {
    CHECK(Chat(mistral1).kind() == "mistral");
    CHECK(Chat(mistral1).text(talk) == "[INST] Hi  [/INST]Hello.</s> [INST] 2+2? [/INST]");
    CHECK(Chat(mistral3).text(talk) == "[INST] Hi [/INST] Hello.</s>[INST] 2+2?[/INST]");
    CHECK(Chat(mistral3).text(with_system) == "[INST] Be short.\n\nHi[/INST]");
    CHECK(message_of([] {
              (void)Chat(mistral3).text({{"user", "a"}, {"user", "b"}});
          }) ==
          "messages: a message of the user, expected one of the assistant: the model knows questions and answers in "
          "turn, "
          "after one message of the system at most");
}

TEST_CASE("what is no conversation or no known template is refused in one sentence", "[model][chat]") {
    CHECK(message_of([] { (void)Chat(smollm2).text({}); }) == "messages: none, expected at least one");
    CHECK(message_of([] {
              (void)Chat(smollm2).text({{"robot", "x"}});
          }) == "messages: the role \"robot\", expected \"system\", \"user\" or \"assistant\"");
    CHECK(message_of([] { Chat("{{ messages }}"); }) ==
          "chat: the model's template, \"{{ messages }}\", is none of those known here, ChatML's, Llama 3's and "
          "Mistral's: "
          "write the turns as text");
}

TEST_CASE("the template stands in a file of its own or in tokenizer_config.json", "[model][chat]") {
    const TemporaryFolder folder;
    const std::string data = source_dir() + "/experiments/data/tiny-llama/";
    for (const std::string name : {"config.json", "model.safetensors"})
        std::filesystem::copy(data + name, folder / name);
    const auto checkpoint = Checkpoint::open(folder.path());
    CHECK(!chat_template_of(*checkpoint));
    write_bytes(folder / "tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
    CHECK(!chat_template_of(*checkpoint));
    write_bytes(folder / "tokenizer_config.json", "{\"chat_template\": \"one\"}");
    CHECK(chat_template_of(*checkpoint) == "one");
    write_bytes(folder / "tokenizer_config.json",
                "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"}, "
                "{\"name\": \"default\", \"template\": \"two\"}]}");
    CHECK(chat_template_of(*checkpoint) == "two");
    write_bytes(folder / "chat_template.jinja", "three");
    CHECK(chat_template_of(*checkpoint) == "three");
    std::filesystem::remove(folder / "chat_template.jinja");
    write_bytes(folder / "tokenizer_config.json", "[");
    CHECK(message_of([&] { (void)chat_template_of(*checkpoint); }) ==
          folder.path() + "/tokenizer_config.json: is no JSON object");
}
