// The figures of several GPUs, in their shortest form.
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"

using namespace causeway::testing;

TEST_CASE("the experiments on several GPUs leave figures and tables", "[experiments][parallel]") {
    const std::string parallel = source_dir() + "/experiments/parallel/";
    const TemporaryFolder folder;
    // What the script printed, and what it left.
    const auto run = [&](const std::string& name, std::vector<std::string> more) {
        std::filesystem::remove(folder / "out");
        std::filesystem::remove(folder / "err");
        std::vector<std::string> arguments{parallel + name + ".lua"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Output output = wait_for_program(folder, start_program(folder, std::move(arguments)));
        CAPTURE(name, output.out, output.err);
        CHECK(output.status == 0);
        CHECK(contains(read_bytes(folder / ("results/parallel/" + name + "/" + name + ".html")), "<svg"));
        return output.out + read_bytes(folder / ("results/parallel/" + name + "/item.json"));
    };
    const std::string decoding = run("decoding_time", {"--devices", "1,2,128", "--lengths", "80000"});
    // The rows of one GPU are what the constants are fitted to.
    CHECK(contains(decoding, " tree, merged on the CPU    80000     1     0.172     0.172      1.00 "));
    CHECK(contains(decoding, " ring                      640000     4    11.409 "));
    CHECK(contains(run("decoding_volume", {"--devices", "2,8"}), "counted at every number of GPUs"));
    CHECK(contains(run("decoding_memory", {"--devices", "1,8"}), "ring ÷ tree at least 2.00"));
    const std::string linear = run("linear_time", {"--quick", "--devices", "1,2,8,1024"});
    CHECK(contains(linear, "all-scan (ZeCO)"));
    CHECK(contains(linear, " gated delta, a quarter kept  131072     1     2.320   2.320      1.00 "));
    CHECK(contains(linear, "Measured on two GPUs, more than 25 % from the model's time: "));
    const std::string volume = run("linear_volume", {"--devices", "2,32,1024", "--check", "200"});
    CHECK(contains(volume, "48 counts"));
    CHECK(contains(volume, "at every number of GPUs"));
    // More GPUs than chunks of tokens, some of which have none: no closed form is asked for there.
    CHECK(contains(run("linear_volume", {"--length", "100", "--devices", "2,1024", "--check", "100"}),
                   "at every number of GPUs"));
    CHECK(contains(run("linear_memory", {"--devices", "1,4,64"}), "counted at every number of GPUs"));
    // One sentence for a wrong option.
    const Output wrong =
        wait_for_program(folder, start_program(folder, {parallel + "linear_time.lua", "--devices", "0"}));
    CHECK(wrong.status == 2);
    CHECK(contains(wrong.err, "error: --devices: 0, expected a whole number from 1 to 4096\n"));
}
