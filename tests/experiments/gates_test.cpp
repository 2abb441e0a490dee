// The experiments with gates and delta rules run, in their shortest form, and leave what they promise.
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"

using causeway::testing::contains;
using causeway::testing::Output;
using causeway::testing::read_bytes;
using causeway::testing::run_in;
using causeway::testing::TemporaryFolder;

namespace {

const std::string gates = source_dir() + "/experiments/gates/";

}  // namespace

TEST_CASE("recall: the delta rule learns what a memory blind to the order cannot", "[experiments][gates]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {gates + "recall.lua",
                                          "--pairs",
                                          "4",
                                          "--rewrites",
                                          "8",
                                          "--keys",
                                          "6",
                                          "--values",
                                          "4",
                                          "--d",
                                          "4",
                                          "--model",
                                          "12",
                                          "--steps",
                                          "300",
                                          "--batch",
                                          "16",
                                          "--rate",
                                          "0.02",
                                          "--seed",
                                          "2",
                                          "--updates",
                                          "linear,delta"});
    CAPTURE(output.out, output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "order-blind"));
    for (const char* figure : {"loss.svg", "accuracy.svg"})
        CHECK(contains(read_bytes(folder / (std::string("results/recall/") + figure)), "</svg>"));
    CHECK(contains(read_bytes(folder / "results/recall/curves.csv"), "delta,300,"));
    CHECK(contains(read_bytes(folder / "results/recall/recall.json"), "\"processor\""));

    // 2048 questions: three standard deviations of a share are 0.033.
    const Output compared =
        run_in(folder, {"-e",
                        "local linear, delta = table.unpack((load('results/recall/recall.csv')))\n"
                        "print(linear.update, linear.accuracy < linear.ceiling + 0.033, delta.update, delta.accuracy > "
                        "delta.ceiling + 0.033, delta.loss < linear.loss)"});
    CAPTURE(compared.out, compared.err);
    CHECK(contains(compared.out, "linear\ttrue\tdelta\ttrue\ttrue"));
}

TEST_CASE("recurrence: a rule without a name runs, has its times and learns", "[experiments][gates]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {gates + "recurrence.lua", "--length", "1000", "--lengths", "50,100",
                                          "--steps", "10", "--seconds", "0.001"});
    CAPTURE(output.out, output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "1000 tokens, one head of 64: "));
    CHECK(contains(output.out, "recurrent 20480 multiplies and 16448 adds a token"));
    CHECK(contains(output.out, "Right answers in 256 new sequences"));
    for (const char* figure : {"times.svg", "accuracy.svg"})
        CHECK(contains(read_bytes(folder / (std::string("results/recurrence/") + figure)), "</svg>"));
    CHECK(contains(read_bytes(folder / "results/recurrence/times.csv"), "spared keys,100,"));
    CHECK(contains(read_bytes(folder / "results/recurrence/recall/recall.csv"), "gated_delta,10,"));
    CHECK(contains(run_in(folder, {gates + "recurrence.lua", "--steps", "0"}).err,
                   "--steps: 0, expected a whole number of at least 1"));
}

TEST_CASE("recall: the same seed gives the same layers", "[experiments][gates]") {
    const TemporaryFolder folder;
    const auto curves = [&](const char* seed) {
        const Output output = run_in(folder, {gates + "recall.lua",
                                              "--pairs",
                                              "3",
                                              "--rewrites",
                                              "3",
                                              "--keys",
                                              "4",
                                              "--values",
                                              "3",
                                              "--heads",
                                              "2",
                                              "--d",
                                              "4",
                                              "--model",
                                              "6",
                                              "--steps",
                                              "5",
                                              "--batch",
                                              "4",
                                              "--seed",
                                              seed});
        CAPTURE(output.err);
        CHECK(output.status == 0);
        return read_bytes(folder / "results/recall/curves.csv");
    };
    const std::string first = curves("1");
    CHECK(curves("1") == first);
    CHECK(curves("2") != first);
    CHECK(contains(run_in(folder, {gates + "recall.lua", "--pairs", "40"}).err,
                   "--pairs: 40, expected at most --keys, 32"));
}

TEST_CASE("gates/bench compares updates forwards and backwards", "[experiments][gates]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {gates + "bench.lua", "--lengths", "70,100", "--heads", "1", "--dim", "8",
                                          "--seconds", "0.001", "--product", "32", "--turns", "2"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "backward /"));
    const std::string rows = read_bytes(folder / "results/gates_bench/gates_bench.csv");
    for (const char* row : {"linear", "gated_delta, channels"}) CHECK(contains(rows, row));
    CHECK(contains(read_bytes(folder / "results/gates_bench/bench.html"), "<table>"));
}

TEST_CASE("chunk: times and counts over the chunk length, and the chunk that each prefers", "[experiments][gates]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {gates + "chunk.lua", "--length", "64", "--heads", "2", "--d", "4", "--chunks",
                                          "1,8,64", "--rounds", "2", "--seconds", "0.001"});
    CAPTURE(output.out, output.err);
    CHECK(output.status == 0);
    for (const char* figure : {"time.svg", "operations.svg"})
        CHECK(contains(read_bytes(folder / (std::string("results/chunk/") + figure)), "</svg>"));
    CHECK(contains(read_bytes(folder / "results/chunk/chunk.json"), "\"processor\""));
    CHECK(contains(read_bytes(folder / "results/chunk/fit.csv"),
                   "gated_delta,1,"));  // by operations chunks of one token are best

    // Claim F8 for two heads of 64 tokens: n (C (dk + dv) + 3 dk dv), and dv subtractions a token.
    const Output counted = run_in(folder, {"-e",
                                           "for _, row in ipairs(load('results/chunk/chunk.csv')) do\n"
                                           "  if row.update == 'delta' and row.operations ~= 2 * 64 * (row.chunk * 8 + "
                                           "3 * 16 + 4) then print('wrong at', row.chunk) end\n"
                                           "end\n"
                                           "print('compared')"});
    CHECK(counted.out == "compared\n");
    CHECK(contains(run_in(folder, {gates + "chunk.lua", "--chunks", "3"}).err,
                   "--chunks: 3, expected divisors of --length, 4096"));
}
