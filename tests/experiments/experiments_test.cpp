// The experiments run, in their shortest form, and leave what they promise.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/experiments/folder.hpp"
#include "tests/lua/mpi.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/width.hpp"
#include "tests/paths.hpp"

using causeway::testing::contains;
using causeway::testing::no_mpi;
using causeway::testing::Output;
using causeway::testing::read_bytes;
using causeway::testing::run_in;
using causeway::testing::run_mpi_script;
using causeway::testing::TemporaryFolder;
using causeway::testing::too_wide;

TEST_CASE("the tour shows every method and leaves its results", "[experiments]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "tour.lua", "--quick", "--seconds", "0.001"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    for (const char* method :
         {"vanilla", "row-based", "causal-dot-product", "block-based", "recursion", "lightning-attention-2", "fleet"}) {
        CAPTURE(method);
        CHECK(contains(output.out, method));
        CHECK(contains(read_bytes(folder / "results/tour/tour.csv"), std::string("128,") + method));
    }
    CHECK(too_wide(output.out, 80) == "");
    CHECK(contains(read_bytes(folder / "results/tour/tour.html"), "<svg"));
    CHECK(contains(read_bytes(folder / "results/tour/time.svg"), "</svg>"));
    CHECK(contains(read_bytes(folder / "results/tour/tour.json"), "\"processor\""));
}

TEST_CASE("the speed of a model stands beside the rates of memory and of products", "[experiments][model]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "models/speed.lua", "--model", experiments + "data/tiny-llama",
                                          "--tokens", "4", "--prompt", "16", "--rounds", "1"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "n = 3)"));
    CHECK(contains(output.out, "% of the"));
    CHECK(contains(output.out, "a prompt of 16 tokens"));
    CHECK_FALSE(contains(output.out, "nan"));
    const Output refused = run_in(folder, {experiments + "models/speed.lua", "--tokens", "1"});
    CHECK(refused.status != 0);
    CHECK(contains(refused.err, "--tokens: 1, expected a whole number of at least 2"));
}

TEST_CASE("the general rule in chunks stands beside the rate of products, on one thread", "[experiments]") {
    const TemporaryFolder folder;
    const std::vector<std::string> command{
        experiments + "gates/general.lua", "--tokens", "64", "--d", "8,20", "--rounds", "1"};
    const char* const before = std::getenv("CAUSEWAY_THREADS");
    const std::string kept = before ? before : "";
    setenv("CAUSEWAY_THREADS", "1", 1);
    const Output output = run_in(folder, command);
    setenv("CAUSEWAY_THREADS", "2", 1);
    const Output refused = run_in(folder, command);
    if (before) setenv("CAUSEWAY_THREADS", kept.c_str(), 1);
    else unsetenv("CAUSEWAY_THREADS");
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "Float64: products at "));
    for (const char* kind : {"none", "a head", "a channel"}) CHECK(contains(output.out, kind));
    CHECK_FALSE(contains(output.out, "nan"));
    CHECK(too_wide(output.out, 80) == "");
    CHECK(refused.status == 2);
    CHECK(contains(refused.err, "2 threads, expected CAUSEWAY_THREADS=1"));
}

TEST_CASE("bench_exact measures rates, goes on where it was and refuses what it does not know", "[experiments]") {
    const TemporaryFolder folder;
    const std::vector<std::string> command{experiments + "bench_exact.lua",
                                           "--lengths",
                                           "64,100",
                                           "--heads",
                                           "1",
                                           "--rank",
                                           "8",
                                           "--dim",
                                           "8",
                                           "--seconds",
                                           "0.001",
                                           "--methods",
                                           "recursion,fleet"};
    const Output output = run_in(folder, command);
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "rate (%)"));
    const std::string rows = read_bytes(folder / "results/bench_exact/rows.jsonl");
    CHECK(run_in(folder, command).status == 0);
    CHECK(read_bytes(folder / "results/bench_exact/rows.jsonl") == rows);

    const Output wrong = run_in(folder, {experiments + "bench_exact.lua", "--head", "1"});
    CHECK(wrong.status == 2);
    CHECK(contains(wrong.err, "unknown option \"--head\", expected one of --dim --fresh --heads"));
}

TEST_CASE("blocks times a recurrence written in three ways, and does without NumPy", "[experiments]") {
    const TemporaryFolder folder;
    const Output output =
        run_in(folder, {experiments + "blocks.lua", "--length", "3", "--seconds", "0", "--python", "none"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    for (const char* row : {"two-sided gates       scan ", "delta rule            in place ", "A:add_(B, 0.5)",
                            "bhnd,bhmd,bhme->bhne  einsum "})
        CHECK(contains(output.out, row));
    CHECK(too_wide(output.out, 80) == "");
}

TEST_CASE("gates/step compares a token with a copy of the states", "[experiments]") {
    const TemporaryFolder folder;
    const Output output =
        run_in(folder, {experiments + "gates/step.lua", "--heads", "1,3", "--dim", "8", "--seconds", "0.001"});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "of copy (%)"));
    const std::string rows = read_bytes(folder / "results/gates_step/gates_step.csv");
    for (const char* row : {"8,1,linear,", "8,3,gated,", "8,3,delta,", "8,1,gated_delta,"}) CHECK(contains(rows, row));
    CHECK(contains(read_bytes(folder / "results/gates_step/step.html"), "<table>"));
}

TEST_CASE("tpu/crossover predicts, measures and prints the document's claims", "[experiments]") {
    const TemporaryFolder folder;
    const Output output = run_in(
        folder, {experiments + "tpu/crossover.lua", "--width", "8", "--lengths", "8,24,100", "--seconds", "0.001"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "predicted, dense         N = 17  (n > 2d = 16)"));
    CHECK(contains(output.out, "predicted, triangular    N = 25"));
    const std::string page = read_bytes(folder / "results/tpu/crossover/crossover.html");
    for (const char* part :
         {"<svg", "G4", "G5", "G11", "256 multiply-adds a token", "512 multiply-adds on 64 useful ones: 8×"}) {
        CAPTURE(part);
        CHECK(contains(page, part));
    }
    const std::string figure = read_bytes(folder / "results/tpu/crossover/time.svg");
    CHECK(contains(figure, "predicted, dense: 17"));
    CHECK(contains(figure, "</svg>"));
    CHECK(contains(read_bytes(folder / "results/tpu/crossover/crossover.csv"), "hybrid"));
}

TEST_CASE("bench_softmax measures rates and memory of softmax attention", "[experiments]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "bench_softmax.lua", "--lengths", "32,64", "--heads", "1",
                                          "--dim", "8", "--seconds", "0.001", "--product", "32"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "rate (%)"));
    const std::string rows = read_bytes(folder / "results/bench_softmax/bench_softmax.csv");
    for (const char* row : {"32,causal,flash,", "64,full,standard,", "64,causal,gradient,"}) CHECK(contains(rows, row));
    CHECK(contains(read_bytes(folder / "results/bench_softmax/memory.svg"), "</svg>"));
}

TEST_CASE("bench_sharded compares one worker with several, on threads and under mpirun", "[experiments][sharded]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "bench_sharded.lua", "--length", "200", "--heads", "2", "--dim",
                                          "8", "--rounds", "1", "--shards", "3"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "one worker and 3"));
    for (const char* row :
         {"linear_attention, gated_delta", "gated_delta by all-scan", "heads that forget", "softmax_attention, causal"})
        CHECK(contains(output.out, row));
    if (no_mpi()) return;
    const Output ranks = run_mpi_script(2, "arg = {[0] = '" + experiments +
                                               "bench_sharded.lua', '--length', '200', '--heads', '2', '--dim', '8', "
                                               "'--rounds', '1'} dofile(arg[0])");
    CAPTURE(ranks.err, ranks.out);
    CHECK(ranks.status == 0);
    CHECK(contains(ranks.out, "(processes)"));
}

TEST_CASE("--help of every experiment tells the options that it knows", "[experiments]") {
    const TemporaryFolder folder;
    int found = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(experiments)) {
        if (entry.path().extension() != ".lua" || entry.path().parent_path().filename() == "lib") continue;
        ++found;
        CAPTURE(entry.path().string());
        const Output help = run_in(folder, {entry.path().string(), "--help"});
        CHECK(help.status == 0);
        CHECK(help.err.empty());
        std::istringstream lines(help.out);
        for (std::string line; std::getline(lines, line);) {
            CAPTURE(line);  // in characters: the bytes that begin one
            CHECK(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }) <= 80);
        }
        const Output unknown = run_in(folder, {entry.path().string(), "--unheard-of"});
        CHECK(unknown.status == 2);  // as for a wrong option of the program
        CHECK(unknown.out.empty());
        const std::string start = "error: unknown option \"--unheard-of\", expected one of ";
        REQUIRE(unknown.err.substr(0, start.size()) == start);
        std::istringstream known(unknown.err.substr(start.size()));
        for (std::string option; known >> option;) {
            CAPTURE(option);
            CHECK((option == "--help" || contains(help.out, option + " ")));
        }
    }
    CHECK(found >= 16);
}

TEST_CASE("kernels stand under their roofs", "[experiments]") {
    const TemporaryFolder folder;
    const Output out = run_in(folder, {experiments + "roofline.lua"});
    CHECK(out.status == 0);
    CHECK(out.err == "");
    CHECK(contains(out.out, "fleet, f32"));
    CHECK(std::filesystem::exists(folder / "results/roofline/roofline.svg"));
    // 96 FLOP a byte: the copies are 4.22e12 · 96 = 4.1e14, and a row of 1e14 and one of FMA units have this share.
    const std::string columns = "name,N,units,time,bandwidth,rate\n";
    write_bytes(folder / "rows.csv", columns +
                                         "delta,1,\"tensor cores, 16 bits\",1,1e12,9.6e13\n"
                                         "fleet,1,\"FMA units, Float32\",1,1e12,3.35e13\n");
    const Output own = run_in(folder, {experiments + "roofline.lua", "--rows", "rows.csv"});
    CHECK(contains(own.out, "24 %"));
    CHECK(contains(own.out, "50 %"));
    write_bytes(folder / "other.csv", columns + "x,1,abacus,1,1e12,9.6e13\n");
    const Output other = run_in(folder, {experiments + "roofline.lua", "--rows", "other.csv"});
    CHECK(other.status == 1);
    CHECK(contains(other.err, "rows: units of x: abacus, expected tensor cores, 16 bits, "));
    write_bytes(folder / "none.csv", "name,N,time\nx,1,2\n");
    const Output none = run_in(folder, {experiments + "roofline.lua", "--rows", "none.csv"});
    CHECK(none.status == 1);
    CHECK(contains(none.err, "rows: none.csv has no row with a rate and a bandwidth"));
}

TEST_CASE("numbers of threads are compared", "[experiments]") {
    const TemporaryFolder folder;
    const Output out = run_in(folder, {experiments + "threads.lua", "--length", "130", "--dim", "8", "--heads", "1,2",
                                       "--threads", "1,3", "--rounds", "1"});
    CHECK(out.status == 0);
    CHECK(out.err == "");
    CHECK(contains(out.out, "gated_delta, per channel, gradient"));
    CHECK(contains(out.out, "3 threads"));
}

TEST_CASE("the experiments refuse a bad value in one sentence", "[experiments]") {
    const TemporaryFolder folder;
    struct Wrong {
        const char *experiment, *option, *value, *message;
    };
    const Wrong all[] = {
        {"bench_exact", "--lengths", "64,0", "0, expected a whole number of at least 1"},
        {"bench_exact", "--seconds", "0", "0, expected a number above 0"},
        {"bench_exact", "--timeout", "1e999", "\"1e999\", expected a finite number"},
        {"bench_exact", "--methods", "fleat", "\"fleat\", expected vanilla, row-based, "},
        {"bench_exact", "--save", "", "\"\", expected the name of a folder"},
        {"bench_exact", "--heads", "--quick", "expected a value after it"},
        {"bench_gpu", "--part", "kernel", "\"kernel\", expected all, kernels or leet"},
        {"bench_gpu", "--repeats", "0", "0, expected a whole number of at least 1"},
        {"bench_softmax", "--methods", "flesh", "\"flesh\", expected flash, standard or gradient"},
        {"bench_softmax", "--dim", "-8", "-8, expected a whole number of at least 1"},
        {"blocks", "--length", "0", "0, expected a whole number of at least 1"},
        {"threads", "--threads", "0", "0, expected a whole number from 1 to 1024"},
        {"tour", "--device", "tpu", "\"tpu\", expected cpu or gpu"},
        {"fleet/cost", "--lengths", "1", "1, expected a whole number of at least 2"},
        {"fleet/cost", "--rate_length", "many", "\"many\", expected a number"},
        {"fleet/cost", "--methods", "favor", "\"favor\", expected favor+, "},
        {"fleet/opcounts", "--width", "1.5", "1.5, expected a whole number of at least 1"},
        {"fleet/opcounts", "--lengths", ",", "\",\", expected a list: 64, ..."},
        {"fleet/masked_error", "--methods", "nystroem", "\"nystroem\", expected favor+, "},
        {"gates/bench", "--turns", "0", "0, expected a whole number of at least 1"},
        {"gates/chunk", "--updates", "delta,dalta", "\"dalta\", expected linear, gated, delta or gated_delta"},
        {"gates/chunk", "--chunks", "0", "0, expected a whole number of at least 1"},
        {"gates/general", "--chunk", "0", "0, expected a whole number of at least 1"},
        {"gates/recall", "--rate", "-1", "-1, expected a number above 0"},
        {"gates/recall", "--rewrites", "-1", "-1, expected a whole number of at least 0"},
        {"gates/step", "--heads", "1,x", "\"x\", expected a number"},
        {"tpu/crossover", "--width", "0", "0, expected a whole number of at least 1"},
        {"tpu/crossover", "--block", "-1", "-1, expected a whole number of at least 0"},
        {"tree/figure3", "--seconds", "-1", "-1, expected a number of at least 0"},
    };
    for (const Wrong& w : all) {
        CAPTURE(w.experiment, w.option, w.value);
        const Output output = run_in(folder, {experiments + w.experiment + ".lua", w.option, w.value});
        CHECK(output.status == 2);
        CHECK(output.out.empty());
        const std::string start = std::string("error: ") + w.option + ": " + w.message;
        CHECK(output.err.substr(0, start.size()) == start);
        CHECK(output.err.find('\n') == output.err.size() - 1);
    }
    CHECK(run_in(folder, {experiments + "bench_exact.lua", "--quick", "--lengths", "16384"}).err ==
          "error: --lengths: 16384, expected one of at most 8192 with --quick\n");
    CHECK(
        run_in(folder, {experiments + "fleet/opcounts.lua", "--width", "2", "--lengths", "4", "--save", "kept/here//"})
            .status == 0);
    CHECK(contains(read_bytes(folder / "kept/here/here.csv"), "recursion,"));
}
