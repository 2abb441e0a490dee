// The experiments on tree decoding run, in their shortest form, and leave what they promise.
#include <array>
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/experiments/folder.hpp"
#include "tests/lua/mpi.hpp"
#include "tests/paths.hpp"

using namespace causeway::testing;

TEST_CASE("tree/decoding compares tree and ring in a whole model over processes", "[experiments][model]") {
    if (no_mpi()) return;
    const std::string script = experiments + "tree/decoding.lua";
    const Output output = run_mpi_script(
        2, "arg = {[0] = '" + script + "', '--lengths', '16,40', '--tokens', '2', '--rounds', '1'} dofile(arg[0])");
    CAPTURE(output.out, output.err);
    CHECK(output.status == 0);
    CHECK(contains(output.out, "Seconds for 2 tokens of a Llama (tiny), keys and values on 2 processes"));
    CHECK(contains(output.out, "ring ÷ tree"));
    const TemporaryFolder folder;
    CHECK(contains(run_in(folder, {script}).err,
                   "expected several processes: ./lab mpi 2 experiments/tree/decoding.lua"));
}

TEST_CASE("the experiments of tree decoding leave figures and tables", "[experiments][tree]") {
    const std::string tree = source_dir() + "/experiments/tree/";
    const TemporaryFolder folder;
    const auto run = [&](std::vector<std::string> arguments) {
        std::filesystem::remove(folder / "out");
        std::filesystem::remove(folder / "err");
        return wait_for_program(folder, start_program(folder, std::move(arguments)));
    };
    const Output latency = run({tree + "figure3.lua", "--lengths", "80000,5120000", "--devices", "8,128", "--here",
                                "50,100", "--seconds", "0.001", "--shards", "2", "--ranks", "2"});
    CAPTURE(latency.err);
    CHECK(latency.status == 0);
    CHECK(contains(latency.out, "moved 127 times at 50 GB/s (NDR, one way)    832 ms"));
    CHECK(contains(latency.out, "4 × mi300x   256000    19.82  20.90             1.05"));
    CHECK(contains(latency.out, "threads, 2 ranks: a message takes"));
    CHECK(contains(latency.out, "by_length.svg: Lines on one another within 3 %: ring, 128 devices ≈ ring, 8"));
    CHECK(contains(read_bytes(folder / "results/tree/figure3/figure3.html"),
                   "ring ÷ tree at 128 devices and 5.12M tokens, model"));
    CHECK(contains(read_bytes(folder / "results/tree/figure3/figure3.html"), "<pre>  keys and values of a device"));
    // Other machines are not told what holds for that of the document.
    const Output other = run({tree + "figure3.lua", "--cluster", "rtx4090", "--devices", "2,4", "--lengths", "1000",
                              "--here", "50", "--seconds", "0", "--ranks", "0", "--shards", "2", "--save", "other"});
    CAPTURE(other.err);
    CHECK(other.status == 0);
    CHECK(contains(other.out, "The model, 4 × rtx4090 at 1000 tokens: ring ÷ tree "));
    CHECK(contains(other.out, "Points of MPI: not measured, as --ranks 0 asks."));
    for (const char* none : {"NDR", "fixed cost", "nan", "Slope"}) CHECK_FALSE(contains(other.out, none));
    CHECK(contains(read_bytes(folder / "results/tree/figure3/by_devices.svg"), "published: ring ÷ 8"));
    const std::string here = read_bytes(folder / "results/tree/figure3/here.svg");
    CHECK(contains(here, "ring, threads, model"));
    if (!no_mpi()) {  // the script has started itself under mpirun
        CHECK(contains(latency.out, "mpi, 2 ranks: a message takes"));
        CHECK(contains(here, "tree, mpi"));
        CHECK(contains(here, "tree, mpi, model"));
        // Started by hand; the points of threads are still there.
        const Output by_hand = run_mpi_script(3,
                                              "arg = {[0] = '" + tree +
                                                  "figure3.lua', '--lengths', '80000', '--devices', '8', '--here', "
                                                  "'50,100', '--seconds', '0.001'} dofile(arg[0])",
                                              folder);
        CAPTURE(by_hand.err);
        CHECK(by_hand.status == 0);
        CHECK(contains(by_hand.out, "mpi, 3 ranks: a message takes"));
        CHECK(contains(by_hand.out, "threads, 2 ranks: a message takes"));
        CHECK(by_hand.out.find("This machine") == by_hand.out.rfind("This machine"));  // rank 0 alone prints
        // A file of earlier points that holds something else is as none.
        write_bytes(folder / "results/tree/figure3/here-threads.json", "{\"x\": 5");
        const Output alone = run_mpi_script(2,
                                            "arg = {[0] = '" + tree +
                                                "figure3.lua', '--lengths', '80000', '--devices', '8', '--here', '50', "
                                                "'--seconds', '0.001'} dofile(arg[0])",
                                            folder);
        CAPTURE(alone.err);
        CHECK(alone.status == 0);
        CHECK(contains(alone.out, "Points of threads: run it without mpirun first"));
    }
    for (const char* name : {"by_length.svg", "by_devices.svg", "here.svg"})
        CHECK(contains(read_bytes(folder / ("results/tree/figure3/" + std::string(name))), "</svg>"));
    CHECK(contains(read_bytes(folder / "results/tree/figure3/figure3.html"), "<svg"));
    const Output memory = run({tree + "figure4.lua", "--lengths", "64000,128000"});
    CAPTURE(memory.err);
    CHECK(memory.status == 0);
    CHECK(contains(memory.out, "Lines on one another within 3 %: ring, d = 2048 ≈ tree, d = 4096."));
    CHECK(contains(memory.out, "hidden 2048: gap 524.28 MB, printed 524 MB (+0.1 %)"));
    CHECK(contains(read_bytes(folder / "results/tree/figure4/figure4.html"), "<svg"));
    const Output volume = run({tree + "volume.lua", "--devices", "1,2,8", "--check", "64"});
    CAPTURE(volume.err);
    CHECK(volume.status == 0);
    CHECK(contains(volume.out, "18 counts of decodes with data on threads equal those of the schedules"));
    for (const char* curve : {"ring, counted", "tree, counted", "ring, (10) as printed", "tree, (14) × p"})
        CHECK(contains(read_bytes(folder / "results/tree/volume/volume.html"), curve));
    CHECK_FALSE(contains(volume.out, "differs from (14)"));
    CHECK(contains(run({tree + "volume.lua", "--devices", "2,64", "--check", "64"}).out,
                   "The tree's count differs from (14) at p = 64: 4160, (14) 4095.0: "));
    // One sentence for a wrong option.
    for (const auto& [script, option, value, sentence] : std::vector<std::array<std::string, 4>>{
             {"figure4", "--lengths", "1.5", "--lengths: 1.5, expected a whole number of at least 1"},
             {"figure4", "--hidden", "2000", "--hidden: 2000, expected a multiple of 128, the width of a head"},
             {"figure3", "--seconds", "1e999", "--seconds: \"1e999\", expected a finite number"},
             {"figure4", "--shards", "2.5", "--shards: 2.5, expected a whole number from 1 to 4096"},
             {"figure4", "--shards", "0", "--shards: 0, expected a whole number from 1 to 4096"},
             {"figure3", "--shards", "0", "--shards: 0, expected a whole number from 1 to 1024"},
             {"figure3", "--ranks", "1.5", "--ranks: 1.5, expected a whole number from 0 to 1024"},
             {"figure3", "--cluster", "h200", "--cluster: \"h200\", expected h100, mi300x or rtx4090"},
             {"volume", "--devices", ",", "--devices: \",\", expected a list: 1, ..."},
             {"volume", "--heads", "x", "--heads: \"x\", expected a number"}}) {
        const Output wrong = run({tree + script + ".lua", option, value});
        CHECK(wrong.status == 2);
        CHECK(wrong.err == "error: " + sentence + "\n");
    }
}
