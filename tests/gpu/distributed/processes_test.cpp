// Processes under mpirun that share a sequence, each on a GPU of its own: on GPUs, and on such that do not exist, whose
// kernels are definitions on the CPU.
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "tests/gpu/device.hpp"
#include "tests/gpu/distributed/ranks.hpp"
#include "tests/lua/mpi.hpp"

using namespace causeway;
using causeway::testing::check_told_alike;
using causeway::testing::no_mpi;
using causeway::testing::Output;
using causeway::testing::read_bytes;
using causeway::testing::run_mpi_script;
using causeway::testing::TemporaryFolder;
using causeway::testing::write_bytes;

namespace {

std::string every_call() { return read_bytes(source_dir() + "/tests/gpu/distributed/processes.lua"); }

// The shell on GPUs that do not exist; empty, and the test is counted as skipped, where it is not built.
std::string without_gpus() {
    const auto program = std::filesystem::path(program_path()).parent_path() / "tests" / "causeway-without-gpus";
    if (std::filesystem::exists(program)) return program.string();
    test::skip("tests of processes on GPUs that do not exist", "causeway-without-gpus is not built");
    return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("processes that share a sequence on GPUs compute what one GPU does", "[gpu][nccl][mpi][processes]") {
    if (!test::gpus(2) || no_mpi()) return;
    for (const char* environment : {"", "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 "}) {
        const Output output = run_mpi_script(2, every_call(), TemporaryFolder(), environment, program_path(), "", 600);
        INFO(environment << output.err);
        CHECK(output.status == 0);
        CHECK(has(output.out, " comparisons"));
    }
}

TEST_CASE("processes that share a sequence on GPUs that do not exist compute what one does", "[mpi][processes]") {
    if (no_mpi() || without_gpus().empty()) return;
    // The second of lengths that leave ranks without tokens.
    for (const auto& [ranks, calls] : {std::pair(2, "bf16"), std::pair(3, "'N = 100'")}) {
        const Output output = run_mpi_script(ranks, every_call(), TemporaryFolder(), "", without_gpus(),
                                             std::string("narrow ") + calls, 600);
        INFO(output.err);
        CHECK(output.status == 0);
        CHECK(has(output.out, " comparisons"));
    }
}

TEST_CASE("processes on two hosts share a sequence on GPUs that do not exist", "[mpi][processes]") {
    if (no_mpi() || without_gpus().empty()) return;
    // The second time two on one host, whose GPUs have other numbers there than the ranks have.
    for (const auto& [ranks, calls] :
         {std::pair("1 1", "bf16 .*N = 100"), std::pair("2 1", "bf16 gated_delta 5, N = 100$")}) {
        const TemporaryFolder folder;
        write_bytes(folder / "script.lua", every_call());
        const std::string command = "cd '" + folder.path() + "' && CAUSEWAY_THREADS=1 timeout 600 '" + source_dir() +
                                    "/tests/lua/two_hosts.sh' " + ranks + " '" + without_gpus() +
                                    "' script.lua narrow '" + calls + "' > out 2> err";
        const int status = testing::shell_status(std::system(command.c_str()));
        constexpr int no_namespaces = 3;
        if (status == no_namespaces) return test::skip("a test of two hosts", "there can be no network namespaces");
        INFO(read_bytes(folder / "err"));
        CHECK(status == 0);
        CHECK(has(read_bytes(folder / "out"), " comparisons"));
    }
}

TEST_CASE("GPUs of one process that do not exist compute what one does", "[processes]") {
    if (without_gpus().empty()) return;
    const TemporaryFolder folder;
    write_bytes(folder / "script.lua", every_call());
    const std::string command = "cd '" + folder.path() + "' && CAUSEWAY_GPUS=3 timeout 600 '" + without_gpus() +
                                "' script.lua narrow f32 > out 2> err";
    CHECK(std::system(command.c_str()) == 0);
    INFO(read_bytes(folder / "err"));
    CHECK(has(read_bytes(folder / "out"), " comparisons"));
}

TEST_CASE("tests of several GPUs pass on GPUs that do not exist", "[processes]") {
    if (without_gpus().empty()) return;
    const TemporaryFolder folder;
    const std::string command =
        "cd '" + source_dir() + "' && CAUSEWAY_GPUS=2 timeout 600 '" +
        std::filesystem::path(without_gpus()).replace_filename("causeway-gpu-tests-without-gpus").string() +
        "' 'gpu: gradients of heads that forget on several GPUs,gpu: a state that is large*,gpu: one head on several "
        "GPUs*,gpu: calls on several GPUs name*' > '" +
        (folder / "out") + "' 2>&1";
    CHECK(std::system(command.c_str()) == 0);
    const std::string out = read_bytes(folder / "out");
    INFO(out);
    CHECK(has(out, "6 passed, 0 failed"));
}

TEST_CASE("tensors of the GPU are cut into parts and joined", "[mpi][processes]") {
    if (no_mpi() || without_gpus().empty()) return;
    for (const int ranks : {2, 5}) {
        const Output output = run_mpi_script(ranks, R"(
          seed(4)
          for _, shape in ipairs {{2, 3, 200, 8}, {300}, {64, 5}, {2, 1, 4}} do
            for _, type in ipairs {"f32", "bf16", "f16"} do
              local x = randn(table.unpack(shape))
              x = x[type](x)
              for dim = 1, #shape do
                local part = shard(x:gpu(), dim)
                assert(part:cpu() == shard(x, dim))
                assert(unshard(part, dim):cpu() == x)
              end
            end
          end
          local mine = mpi_rank() == 0 and zeros(2, 0):f32() or (zeros(2, mpi_rank()) + mpi_rank()):f32()
          assert(unshard(mine:gpu(), 2):cpu() == unshard(mine, 2))
          print("joined")
        )",
                                             TemporaryFolder(), "", without_gpus());
        INFO(output.err);
        CHECK(output.out == "joined\n");
    }
}

TEST_CASE("processes on GPUs that differ, fail or are too many are told so", "[mpi][processes]") {
    if (no_mpi() || without_gpus().empty()) return;
    check_told_alike(R"(
      local function input() return randn(1, 2, 200, 64):f32():gpu() end
      local q, k, v = input(), input(), input()
    )",
                     R"(told(linear_attention, q, k, v, {engine = "nccl", update = me == 2 and "delta" or nil,
            beta = me == 2 and ones(1, 2, 200):f32():gpu() or nil})
        .. told(linear_attention, q, k, v, {engine = "nccl", exchange = me == 1 and "all-scan" or "ring"})
        .. told(linear_attention, me == 2 and (2 * q:cpu()):gpu() or q, k, v, {engine = "nccl"})
        .. told(me == 1 and softmax_attention or linear_attention, q, k, v, {engine = "nccl"})
        .. told(softmax_attention, q, k, v, {engine = "nccl", causal = me == 0})
        .. told(causal_linear_attention, q, k, v, {engine = "nccl", decay = me == 1 and 0.5 or 0.9})
        .. told(causal_linear_attention, q, k, v, {engine = "nccl", sharded = me > 0})
        .. told(linear_attention, q, k, v, {engine = "nccl", sizes = me == 1 and {100, 50, 50} or {50, 50, 100}})
        .. told(causal_linear_attention_grad, q, k, v, v, {engine = "nccl", decay = me == 1 and 0.5 or 0.9})
        .. told(unshard, me == 1 and zeros(3, 4):f32():gpu() or zeros(3, 5):f32():gpu())
        .. told(linear_attention, q, k, v, {shards = 2})
        .. told(linear_attention, q, k, v, {engine = "threads"}))",
                     "linear_attention(q, k, v, {engine = 'nccl'})",
                     {"update: with the checksum ", "exchange: with the checksum ", "q: values with the checksum ",
                      "call: softmax_attention on a GPU on rank 1, expected linear_attention on a GPU like rank 0",
                      "causal: false on rank 1, expected true like rank 0", "decay: values with the checksum ",
                      "sharded: true on rank 1, expected false like rank 0",
                      "sizes: a length of 100 on rank 1, expected 50 like rank 0",
                      "x: another dimension of 4 on rank 1, expected 5 like rank 0",
                      "shards: 2, expected 3, the number of MPI ranks, or none",
                      "engine: \"threads\", expected \"nccl\" for tensors on the GPU"},
                     without_gpus());
    const std::string call = R"(
      local q = randn(1, 2, 200, 64):f32():gpu()
    )";
    const Output same = run_mpi_script(2, call + "linear_attention(q, q, q, {engine = 'nccl'})", TemporaryFolder(),
                                       "CAUSEWAY_ONE_GPU=1 ", without_gpus());
    CHECK(same.status != 0);
    CHECK(has(same.err, "engine: \"nccl\", ranks 0 and 1 have the same GPU, expected a GPU for every process"));
    const Output ends =
        run_mpi_script(2, call + "if mpi_rank() == 0 then linear_attention(q, q, q, {engine = 'nccl'}) end",
                       TemporaryFolder(), "", without_gpus());
    CHECK(ends.status != 0);
    CHECK(has(ends.err, "rank 1 has ended its script while rank 0 waits for it"));
    // One that fails in the middle of a call, the script going on.
    const TemporaryFolder both;
    const Output fails = run_mpi_script(2, call + R"(
      local function told(o) return select(2, pcall(linear_attention, q, q, q, o)) end
      local text = told {engine = "nccl"} .. "; " .. told {engine = "nccl"} .. "; "
      q = q:cpu()
      text = text .. told {engine = "mpi"}
      local file = io.open("part" .. mpi_rank(), "w")
      file:write(text)
      file:close()
    )",
                                        both, "CAUSEWAY_FAILING_RANK=0 ", without_gpus());
    INFO(fails.err);
    CHECK(fails.status == 0);
    const std::string first = read_bytes(both / "part0"), second = read_bytes(both / "part1");
    INFO(first << "\n" << second);
    CHECK(has(first, "sending messages failed"));
    CHECK(has(second, "rank 0 has given up a call that it shares with rank 1"));
    for (const std::string& text : {first, second}) {
        const std::string none = "a call that all ranks share has failed on rank ";
        CHECK(has(text.substr(text.find(none) + 1), none));  // on GPUs and on the CPU
    }
    const Output loops = run_mpi_script(
        2,
        call +
            "if mpi_rank() == 1 then while true do end end linear_attention(q, q, q, {engine = 'nccl', timeout = 1})",
        TemporaryFolder(), "", without_gpus());
    CHECK(loops.status != 0);
    CHECK(has(loops.err, "rank 0 waited 1 s (timeout) for rank 1, which neither answered nor ended"));
}
