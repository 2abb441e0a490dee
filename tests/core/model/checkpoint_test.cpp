#include "core/model/checkpoint.hpp"

#include <filesystem>

#include "core/base/error.hpp"
#include "core/model/folder.hpp"
#include "core/tensor/safetensors.hpp"
#include "tests/catch.hpp"
#include "tests/core/model/model_files.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::model;
using namespace causeway::testing;

namespace {

std::string open_fault(const std::string& path) {
    return message_of([&] { Checkpoint::open(path); });
}

Tensor counting(DType type, const Shape& shape) {
    Tensor out(type, shape);
    for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<double>(i + 1));
    return out;
}

std::vector<float> row_of(const Checkpoint& c, const std::string& name, Index i) {
    const Weight* w = c.find(name);
    REQUIRE(w);
    std::vector<float> out(static_cast<std::size_t>(w->columns));
    read_row(*w, i, out.data());
    return out;
}

std::string fault_of_json(const std::string& text) {
    return message_of([&] { read_json_entries(text, "c.json"); });
}

}  // namespace

TEST_CASE("a folder with one .safetensors file is opened", "[model][checkpoint][files]") {
    const TemporaryFolder folder;
    write_bytes(folder / "config.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "head_dim": null, "model_type": "llama",
        "rope_scaling": {"factor": 8, "type": "linear", "deep": {"er": -1}}, "eos_token_id": [1, 2.5],
        "layer_types": [], "mixed": [1, "a"], "objects": [{"a": 1, "b": [1]}, 2], "lists": [[1], [2]],
        "switches": [true, false]})");
    NamedTensors tensors;
    tensors.tensors.emplace("a.weight", counting(DType::f32, {2, 3}));
    tensors.tensors.emplace("half", counting(DType::f16, {4}));
    tensors.tensors.emplace("brain", counting(DType::bf16, {3, 1, 2}));
    tensors.tensors.emplace("wide", counting(DType::f64, {2}));
    tensors.tensors.emplace("empty", Tensor::zeros(DType::f32, {0, 3}));
    save_safetensors(folder / "model.safetensors", tensors);

    const auto c = Checkpoint::open(folder.path());
    CHECK_FALSE(c->gguf());
    CHECK(c->path() == folder.path());
    CHECK(c->names() == std::vector<std::string>{"a.weight", "brain", "empty", "half", "wide"});
    CHECK(row_of(*c, "a.weight", 1) == std::vector<float>{4, 5, 6});
    CHECK(row_of(*c, "half", 0) == std::vector<float>{1, 2, 3, 4});
    CHECK(row_of(*c, "brain", 2) == std::vector<float>{5, 6});
    CHECK(c->shape("brain") == std::vector<Index>{3, 1, 2});
    CHECK(message_of([&] { c->find("wide"); }) ==
          folder / "model.safetensors" + ": tensor \"wide\": has elements of type \"F64\", expected F32, F16 or BF16");
    CHECK(message_of([&] { c->find("empty"); }) ==
          folder / "model.safetensors" + ": tensor \"empty\": has no elements");
    CHECK(c->find("none") == nullptr);

    CHECK(c->number("hidden_size") == 64);
    CHECK(c->number("rms_norm_eps") == 1e-5);
    CHECK(c->flag("tie_word_embeddings") == true);
    CHECK(c->text("model_type") == "llama");
    CHECK(c->texts("architectures") == std::vector<std::string>{"LlamaForCausalLM"});
    CHECK(c->number("rope_scaling.factor") == 8);
    CHECK(c->text("rope_scaling.type") == "linear");
    CHECK(c->number("rope_scaling.deep.er") == -1);
    CHECK(c->numbers("eos_token_id") == std::vector<double>{1, 2.5});
    CHECK(c->count("eos_token_id") == 2);
    CHECK(c->count("layer_types") == 0);
    CHECK(c->flags("switches") == std::vector<bool>{true, false});
    for (const char* key : {"head_dim", "mixed", "objects", "lists", "objects.a", "rope_scaling"}) {
        INFO(key);
        CHECK_FALSE(c->number(key));
        CHECK_FALSE(c->count(key));
        CHECK(c->numbers(key).empty());
    }
    CHECK_FALSE(c->number("model_type"));
    CHECK_FALSE(c->count("model_type"));
}

TEST_CASE("the shards of a folder are opened", "[model][checkpoint][files]") {
    const TemporaryFolder folder;
    write_bytes(folder / "config.json", "{}");
    save_safetensors(folder / "m-1.safetensors", {{{"a.b", counting(DType::f32, {2})}}, {}});
    save_safetensors(folder / "m-2.safetensors", {{{"c", counting(DType::bf16, {3})}}, {}});
    const auto index = [&](const std::string& map) {
        write_bytes(folder / "model.safetensors.index.json",
                    "{\"metadata\":{\"total_size\":1},\"weight_map\":" + map + "}");
        return open_fault(folder.path());
    };
    const std::string at = folder / "model.safetensors.index.json";
    CHECK(index(R"({"a.b":"m-1.safetensors","c":"m-2.safetensors"})").empty());
    CHECK(Checkpoint::open(folder.path())->names() == std::vector<std::string>{"a.b", "c"});
    CHECK(index(R"({"d":"m-1.safetensors"})") ==
          at + ": says that \"m-1.safetensors\" holds the tensor \"d\", but it does not");
    CHECK(index(R"({"a.b":"../m-1.safetensors"})") ==
          at + ": tensor \"a.b\": lies in \"../m-1.safetensors\", expected the name of a file in the same folder");
    CHECK(index(R"({"a.b":".."})") ==
          at + ": tensor \"a.b\": lies in \"..\", expected the name of a file in the same folder");
    CHECK(index(R"({"a.b":1})") == at + ": tensor \"a.b\": has no file name, expected a text");
    CHECK(index("{}") == at + ": has no weight_map, expected one that names the file of each tensor");
    CHECK(index(R"({"a.b":"m-3.safetensors"})") ==
          folder / "m-3.safetensors" + ": cannot be read: No such file or directory");
    save_safetensors(folder / "m-2.safetensors", {{{"a.b", counting(DType::f32, {2})}}, {}});
    CHECK(index(R"({"a.b":"m-1.safetensors","c":"m-2.safetensors"})") ==
          folder / "m-2.safetensors" + ": tensor \"a.b\": is in another file of the model as well");
}

TEST_CASE("what is no checkpoint is named", "[model][checkpoint][files]") {
    const TemporaryFolder folder;
    CHECK(open_fault(folder / "none.gguf") == folder / "none.gguf" + ": cannot be read: No such file or directory");
    CHECK(open_fault(folder.path()) ==
          folder.path() + ": is a folder without config.json, expected a model of Hugging Face's or a .gguf file");
    write_bytes(folder / "config.json", "{}");
    CHECK(open_fault(folder.path()) ==
          folder.path() + ": has no weights, expected model.safetensors or model.safetensors.index.json");
    write_bytes(folder / "model.safetensors",
                safetensors_file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"));
    CHECK(open_fault(folder.path()) ==
          folder / "model.safetensors" + ": tensor \"a\": the shape 2 of F32 needs 8 bytes of data, got 4");
    write_bytes(folder / "empty.gguf", "");
    CHECK(open_fault(folder / "empty.gguf") == folder / "empty.gguf" + ": the file is empty");
}

TEST_CASE("faults of a model's JSON are named", "[model][checkpoint][files]") {
    CHECK(fault_of_json("{}").empty());
    CHECK(fault_of_json("").starts_with("c.json: is not valid JSON at byte "));
    CHECK(fault_of_json("{\"a\":1").starts_with("c.json: is not valid JSON at byte "));
    CHECK(fault_of_json("{\"a\":1e999}").starts_with("c.json: is not valid JSON at byte "));
    CHECK(fault_of_json(std::string("{}\0x", 4)) == "c.json: is not valid JSON at byte 2");
    CHECK(fault_of_json("[1]") == "c.json: is a list, expected an object");
    CHECK(fault_of_json("1") == "c.json: is a single value, expected an object");
    CHECK(fault_of_json("null") == "c.json: is null, expected an object");
    CHECK(fault_of_json(R"({"a":1,"a":2})") == "c.json: has the key \"a\" twice");
    CHECK(fault_of_json(R"({"a":{"b":1},"a.b":2})") == "c.json: has the key \"a.b\" twice");
    for (const char* deep : {"{\"a\":", "["}) {
        std::string text = "{\"a\":";
        for (int i = 0; i < 100'000; ++i) text += deep;
        CHECK(fault_of_json(text) == "c.json: is nested deeper than 64");
    }
}

TEST_CASE("a checkpoint whose file is cut off says so, and the process goes on", "[model][checkpoint][files]") {
    const TemporaryFolder folder;
    GgufFile file;
    const std::uint64_t columns = 64, rows = 1024;  // several pages
    std::string values;
    for (std::uint64_t i = 0; i < columns * rows; ++i) values += raw(1.0f);
    file.tensor("a", {columns, rows}, 0, values);
    write_bytes(folder / "a.gguf", file.bytes());
    const auto c = Checkpoint::open(folder / "a.gguf");
    const auto other = Checkpoint::open(folder / "a.gguf");
    const std::string cut_off = folder / "a.gguf" + ": was cut off while it was in use";
    CHECK(message_of([&] { c->check(); }).empty());
    CHECK(row_of(*c, "a", 1023).back() == 1);

    std::filesystem::resize_file(folder / "a.gguf", 4096);
    CHECK(message_of([&] { other->check(); }) == cut_off);
    std::vector<float> x(columns, 1.0f), y(rows);
    CHECK(message_of([&] { multiply(*c->find("a"), x.data(), 1, columns, y.data(), rows); }) == cut_off);
    CHECK(message_of([&] { c->check(); }) == cut_off);

    write_bytes(folder / "b.gguf", file.bytes());
    const auto b = Checkpoint::open(folder / "b.gguf");
    CHECK(row_of(*b, "a", 1023).back() == 1);
    std::filesystem::last_write_time(folder / "b.gguf",
                                     std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
    CHECK(message_of([&] { b->check(); }) == folder / "b.gguf" + ": was changed while it was in use");
}
