// The experiments run, in their shortest form, and leave what they promise.
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"

using causeway::testing::contains;
using causeway::testing::Output;
using causeway::testing::read_bytes;
using causeway::testing::run_in;
using causeway::testing::TemporaryFolder;

namespace {

const std::string experiments = CAUSEWAY_SOURCE_DIR "/experiments/";

}  // namespace

TEST_CASE("the tour shows every method and leaves its results", "[experiments]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "tour.lua", "--quick", "--seconds", "0.001"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    for (const char* method : {"vanilla", "row-based", "causal-dot-product", "block-based", "recursion", "lightning-attention-2", "fleet"}) {
        CAPTURE(method);
        CHECK(contains(output.out, method));
        CHECK(contains(read_bytes(folder / "results/tour/tour.csv"), std::string("128,") + method));
    }
    CHECK(contains(read_bytes(folder / "results/tour/tour.html"), "<svg"));
    CHECK(contains(read_bytes(folder / "results/tour/time.svg"), "</svg>"));
    CHECK(contains(read_bytes(folder / "results/tour/tour.json"), "\"processor\""));
}

TEST_CASE("bench_exact measures rates, goes on where it was and refuses what it does not know", "[experiments]") {
    const TemporaryFolder folder;
    const std::vector<std::string> command{experiments + "bench_exact.lua", "--lengths", "64,100", "--heads", "1", "--rank", "8", "--dim", "8", "--seconds", "0.001", "--methods", "recursion,fleet"};
    const Output output = run_in(folder, command);
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "of product rate (%)"));
    const std::string rows = read_bytes(folder / "results/bench_exact/rows.jsonl");
    CHECK(run_in(folder, command).status == 0);
    CHECK(read_bytes(folder / "results/bench_exact/rows.jsonl") == rows);

    const Output wrong = run_in(folder, {experiments + "bench_exact.lua", "--head", "1"});
    CHECK(wrong.status == 1);
    CHECK(contains(wrong.err, "unknown option \"--head\", expected one of --dim --fresh --heads"));
    CHECK(contains(run_in(folder, {experiments + "bench_exact.lua", "--methods", "fleat"}).err, "\"fleat\" is not registered"));
}

TEST_CASE("gates/step compares a token with a copy of the states", "[experiments]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "gates/step.lua", "--heads", "1,3", "--dim", "8", "--seconds", "0.001"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "of copy (%)"));
    const std::string rows = read_bytes(folder / "results/gates_step/gates_step.csv");
    for (const char* row : {"8,1,linear,", "8,3,gated,", "8,3,delta,", "8,1,gated_delta,"}) CHECK(contains(rows, row));
    CHECK(contains(read_bytes(folder / "results/gates_step/step.html"), "<table>"));
}

TEST_CASE("tpu/crossover predicts, measures and prints the document's claims", "[experiments]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "tpu/crossover.lua", "--width", "8", "--lengths", "8,24,100", "--seconds", "0.001"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "predicted, dense         N = 17  (n > 2d = 16)"));
    CHECK(contains(output.out, "predicted, triangular    N = 25"));
    const std::string page = read_bytes(folder / "results/tpu/crossover/crossover.html");
    for (const char* part : {"<svg", "G4", "G5", "G11", "256 multiply-adds a token", "512 multiply-adds on 64 useful ones: 8×"}) {
        CAPTURE(part);
        CHECK(contains(page, part));
    }
    const std::string figure = read_bytes(folder / "results/tpu/crossover/time.svg");
    CHECK(contains(figure, "predicted, dense: 17"));
    CHECK(contains(figure, "</svg>"));
    CHECK(contains(read_bytes(folder / "results/tpu/crossover/crossover.csv"), "hybrid"));
    CHECK(contains(run_in(folder, {experiments + "tpu/crossover.lua", "--width", "0"}).err, "--width: 0, expected a whole number, at least 1"));
}

TEST_CASE("bench_softmax measures rates and memory of softmax attention", "[experiments]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "bench_softmax.lua", "--lengths", "32,64", "--heads", "1", "--dim", "8", "--seconds", "0.001", "--product", "32"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "of product rate (%)"));
    const std::string rows = read_bytes(folder / "results/bench_softmax/bench_softmax.csv");
    for (const char* row : {"32,causal,flash,", "64,full,standard,", "64,causal,gradient,"}) CHECK(contains(rows, row));
    CHECK(contains(read_bytes(folder / "results/bench_softmax/memory.svg"), "</svg>"));
    CHECK(contains(run_in(folder, {experiments + "bench_softmax.lua", "--methods", "flesh"}).err, "--methods: \"flesh\", expected flash, standard or gradient"));
}
