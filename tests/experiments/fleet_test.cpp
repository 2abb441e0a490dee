// The experiments on low-rank attention run, in their shortest form, and leave what they promise.
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"

using causeway::testing::contains;
using causeway::testing::Output;
using causeway::testing::read_bytes;
using causeway::testing::run_in;
using causeway::testing::TemporaryFolder;

namespace {

const std::string fleet = source_dir() + "/experiments/fleet/";

}  // namespace

TEST_CASE("fleet/opcounts counts what the closed forms say", "[experiments]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {fleet + "opcounts.lua", "--lengths", "9,40", "--width", "3"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "counts compared, sum of differences 0."));
    const std::string rows = read_bytes(folder / "results/fleet/opcounts/opcounts.csv");
    for (const char* method : {"vanilla", "recursion", "lightning-attention-2", "fleet", "hybrid"})
        CHECK(contains(rows, std::string("\n") + method + ","));
    CHECK(contains(read_bytes(folder / "results/fleet/opcounts/opcounts.html"), "<table>"));
    CHECK(contains(read_bytes(folder / "results/fleet/opcounts/opcounts.svg"), "lightning-attention-2"));
}

TEST_CASE("fleet/masked_error stays below its bounds and draws them", "[experiments]") {
    const TemporaryFolder folder;
    const Output output =
        run_in(folder, {fleet + "masked_error.lua", "--lengths", "16,40", "--heads", "1", "--rank", "4"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "18 measurements, 0 above their bound"));
    const std::string figure = read_bytes(folder / "results/fleet/masked_error/ratio.svg");
    for (const char* part : {"worst case W", "layer 4, nystrom", "random, favor+", "U_N", "</svg>"})
        CHECK(contains(figure, part));
    CHECK(contains(read_bytes(folder / "results/fleet/masked_error/masked_error.html"), "<svg"));
}

TEST_CASE("fleet/accuracy measures every factorisation with and without the mask", "[experiments]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {fleet + "accuracy.lua", "--length", "24", "--heads", "1", "--ranks", "4,24",
                                          "--seeds", "2", "--inputs", "random,layer4"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    const std::string rows = read_bytes(folder / "results/fleet/accuracy/accuracy.csv");
    for (const char* row : {"random,favor+ 4 1", "layer4,favor+ 24 2", "layer4,svd 24 1", "random,taylor 0 1"}) {
        CAPTURE(row);
        CHECK(contains(rows, row));
    }
    const std::string figure = read_bytes(folder / "results/fleet/accuracy/accuracy.svg");
    for (const char* part : {"random, causal mask", "layer 4, no mask", "transformer-vq", "hedgehog", "</svg>"}) {
        CAPTURE(part);
        CHECK(contains(figure, part));
    }
    CHECK(contains(figure, "hyper ↓"));  // exact at this length, so below the figure
    CHECK(contains(output.out, "Points with an error under 0.0001 are below the figure: least errors of "));
    CHECK(contains(read_bytes(folder / "results/fleet/accuracy/accuracy.html"), "<svg"));
}

TEST_CASE("the experiments on low-rank attention refuse an option in one sentence", "[experiments]") {
    const TemporaryFolder folder;
    const std::vector<std::vector<std::string>> wrong{{"accuracy", "--ranks", "0", "at least 1"},
                                                      {"accuracy", "--seeds", "0", "at least 1"},
                                                      {"accuracy", "--heads", "9", "from 1 to 4"},
                                                      {"accuracy", "--heads", "1.5", "from 1 to 4"},
                                                      {"masked_error", "--lengths", "1", "of at least 2"}};
    for (const auto& w : wrong) {
        const Output output = run_in(folder, {fleet + w[0] + ".lua", w[1], w[2]});
        CHECK(output.status == 2);
        CHECK(contains(output.err, "error: " + w[1] + ": " + w[2] + ", expected a whole number"));
        CHECK(contains(output.err, w[3] + "\n"));
        CHECK_FALSE(contains(output.err, "traceback"));
    }
    CHECK(run_in(folder, {fleet + "accuracy.lua", "--inputs", "layer2"}).err ==
          "error: --inputs: \"layer2\", expected random, layer1 or layer4\n");
}

TEST_CASE("fleet/cost times every factorisation against length and rank", "[experiments]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {fleet + "cost.lua", "--lengths", "64,128", "--ranks", "4,8", "--dim", "8",
                                          "--seconds", "0.001", "--rate_length", "64"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "favor+ at N = 64, 8 heads, d = 64, r = 256, Float32"));
    const std::string rows = read_bytes(folder / "results/fleet/cost/cost.csv");
    for (const char* row : {"nystrom", "svd", "taylor", "rank N=64 r=8", "length N=128 r=64", "length N=32 r=0"}) {
        CAPTURE(row);
        CHECK(contains(rows, row));
    }
    CHECK(contains(read_bytes(folder / "results/fleet/cost/cost.html"), "<svg"));
}
