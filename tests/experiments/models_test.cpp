// The experiments on language models run on a small one, with the questions of a small set in MMLU's format.
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/experiments/folder.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"

using causeway::testing::contains;
using causeway::testing::Output;
using causeway::testing::read_bytes;
using causeway::testing::run_in;
using causeway::testing::TemporaryFolder;
using causeway::testing::write_bytes;

namespace {

// The folder of a set with two subjects of different groups.
std::string small_mmlu(const TemporaryFolder& folder) {
    for (const char* part : {"dev", "test"}) std::filesystem::create_directories(folder / "mmlu/" + part);
    for (const char* subject : {"astronomy", "philosophy"}) {
        write_bytes(folder / "mmlu/dev/" + subject + "_dev.csv", "One?,a,b,c,d,A\n");
        write_bytes(folder / "mmlu/test/" + subject + "_test.csv", "Two?,a,b,c,d,B\nThree?,a,b,c,d,C\n");
    }
    return folder / "mmlu";
}

}  // namespace

TEST_CASE("models/replace asks the questions of MMLU beside the next token", "[experiments][model]") {
    const TemporaryFolder folder;
    const Output output =
        run_in(folder, {experiments + "models/replace.lua", "--model", experiments + "data/tiny-llama", "--quick",
                        "--tokens", "80", "--methods", "taylor,nystrom", "--ranks", "16", "--shown", "16", "--mmlu",
                        small_mmlu(folder), "--limit", "1", "--shots", "1"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "next token   MMLU"));
    CHECK(contains(read_bytes(folder / "results/models/replace/replace.html"), "MMLU: 2 questions, 1 shots"));
    const std::string rows = read_bytes(folder / "results/models/replace/replace.csv");
    CHECK(contains(rows, "mmlu_accuracy"));
    CHECK(contains(rows, "taylor 0 1"));
}

TEST_CASE("models/replace runs without MMLU as before", "[experiments][model]") {
    const TemporaryFolder folder;
    const Output output =
        run_in(folder, {experiments + "models/replace.lua", "--model", experiments + "data/tiny-llama", "--quick",
                        "--tokens", "32", "--methods", "taylor", "--shown", "16"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "bits per byte"));
    CHECK_FALSE(contains(output.out, "MMLU"));
}

TEST_CASE("models/qwen3_next's layer is the model's, at once and token by token", "[experiments][model]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "models/qwen3_next.lua", "--layer", "3", "--tokens", "20"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    for (const char* what : {"one prefill     off the model's by ", "token by token  off the model's by ",
                             "off those of transformers by "}) {
        const auto at = output.out.find(what);
        REQUIRE(at != std::string::npos);
        CHECK(std::stod(output.out.substr(at + std::string(what).size())) < 2e-5);
    }
    CHECK(contains(run_in(folder, {experiments + "models/qwen3_next.lua", "--layer", "2"}).err,
                   "--layer: 2 has no linear attention"));
}

TEST_CASE("fleet/table2 asks the questions of MMLU in their groups", "[experiments][model]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "fleet/table2.lua", "--quick", "--mmlu", small_mmlu(folder),
                                          "--model", experiments + "data/tiny-llama", "--shots", "1"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "Accuracy in % on MMLU, here: tiny-llama, layers 4 to 5 of 6"));
    CHECK(contains(output.out, "4 questions, 1 shots;"));
    CHECK(contains(output.out, "farthest "));
    // The prompts are shorter than the rank of LARA, which its row says.
    CHECK(contains(output.out, "expected at most"));
    const Output refused = run_in(folder, {experiments + "fleet/table2.lua", "--quick", "--mmlu", folder / "none",
                                           "--model", experiments + "data/tiny-llama"});
    CHECK(refused.status == 2);
    CHECK(refused.err == "error: --mmlu: " + (folder / "none") + ": No such file or directory\n");
    CHECK_FALSE(contains(refused.out, "Table 2"));  // said before anything is computed
}

TEST_CASE("models/linearise fits every map to the attention of a layer", "[experiments][model]") {
    for (const std::string map : {"hedgehog", "favor+", "taylor", "gated_delta"}) {
        const TemporaryFolder folder;
        const Output output =
            run_in(folder, {experiments + "models/linearise.lua", "--model", experiments + "data/tiny-llama",
                            "--layers", "1", "--map", map, "--features", "4,8", "--near", "8", "--steps", "6",
                            "--windows", "2", "--window", "32", "--tokens", "32"});
        CAPTURE(map, output.err, output.out);
        CHECK(output.status == 0);
        CHECK(contains(output.out, map + ", 8 features, layer 6: relative square error of its output on new text"));
        CHECK(contains(output.out, "layers replaced: 1; bits per byte by features of a head, 8 near keys"));
        const std::string rows = read_bytes(folder / "results/models/linearise/linearise.csv");
        CHECK(contains(rows, "replaced,alone,untrained,trained,recovered,accuracy"));
        CHECK(std::filesystem::exists(folder / "results/models/linearise/linearise_features.svg"));
    }
    const TemporaryFolder folder;
    CHECK(contains(run_in(folder, {experiments + "models/linearise.lua", "--map", "performer"}).err,
                   "--map: \"performer\", expected hedgehog, favor+, taylor or gated_delta"));
}
