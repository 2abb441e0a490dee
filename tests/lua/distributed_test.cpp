// tree_decode, ring_decode and the model of a cluster as a person types them, and the program under mpirun.
#include <array>
#include <cstdlib>
#include <filesystem>

#include "core/distributed/mpi.hpp"
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"
#include "tests/paths.hpp"

using namespace causeway::testing;

namespace {

const char* const inputs = R"(
  seed(4)
  q, k, v = randn(2, 4, 3, 8), randn(2, 2, 50, 8), randn(2, 2, 50, 6)
  function near(a, b) return maximum(abs(a - b)) <= 1e-5 end
)";

// mpirun -n ranks causeway script, in this folder, ended after a minute.
Output run_mpi_script(int ranks, const std::string& script, const TemporaryFolder& folder = TemporaryFolder()) {
    write_bytes(folder / "script.lua", script);
    // As in a container: root, fewer cores than ranks, no reading of another process's memory. The leaks that a
    // sanitizer would report, and races inside the libraries, are Open MPI's own.
    const std::string command =
        "cd '" + folder.path() +
        "' && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none "
        "ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1 timeout -k 5 60 mpirun "
        "--oversubscribe -n " +
        std::to_string(ranks) + " '" + program_path() + "' script.lua > out 2> err < /dev/null";
    const int status = std::system(command.c_str());
    return {shell_status(status), read_bytes(folder / "out"), read_bytes(folder / "err")};
}

bool no_mpi() {
    if (!causeway::distributed::mpi_built()) {
        causeway::test::skip("tests of MPI", "MPI was not found when this was built");
        return true;
    }
    static const bool starts = std::system(
                                   "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 30 mpirun "
                                   "--oversubscribe -n 2 true > /dev/null 2>&1") == 0;
    if (!starts) {
        causeway::test::skip("tests of MPI", "there is no mpirun, or it starts no processes here");
        return true;
    }
    return false;
}

}  // namespace

TEST_CASE("tree and ring decoding in Lua agree and report", "[lua][tree]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    CHECK(lua("a, r = tree_decode(q, k, v, {shards = 1}) return a:eltype(), table.concat({a:size()}, ' '), r.messages, "
              "r.rounds") == "Float32 2 4 3 6 0 0");
    CHECK(lua("for p = 1, 6 do "
              "  for _, algorithm in ipairs{1, 2, 3} do if not near(a, (tree_decode(q, k, v, {shards = p, algorithm = "
              "algorithm}))) then return p, algorithm end end "
              "  for _, topology in ipairs(causeway._options.tree_decode.topology) do if not near(a, (tree_decode(q, "
              "k, v, {shards = p, topology = topology}))) then return p, topology end end "
              "  for _, overlap in ipairs{true, false} do if not near(a, (ring_decode(q, k, v, {shards = p, overlap = "
              "overlap}))) then return p, overlap end end "
              "end return 'all'") == "all");
    CHECK(lua("b = tree_decode{q = q, k = k, v = v, sizes = {0, 30, 20}} return near(a, b)") == "true");
    CHECK(lua("c, _, lse = tree_decode(q, k, v, {shards = 3, causal = true, scale = 1, return_lse = true}) d = "
              "ring_decode(q, k, v, {shards = 4, causal = true, scale = 1}) "
              "return near(c, d), near(a, c), table.concat({lse:size()}, ' ')") == "true false 2 4 3");
    // 24 rows of 6 + 2 elements by recursive doubling over 8 ranks: 3 rounds in which all send.
    CHECK(lua("_, r = tree_decode(q, k, v, {shards = 8}) return r.rounds, r.messages, r.elements, r.bytes, #r.workers, "
              "r.workers[1].elements") == "3 24 4608 18432 8 576");
    CHECK(lua("_, r = ring_decode(q, k, v, {shards = 5}) return r.rounds, r.messages, r.elements, r.held.shard, "
              "r.held.incoming") == "4 20 11200 560 560");
    CHECK(contains(lua("return r"), "ring decoding (overlapped), 5 shards on threads, topology ring: "));
    CHECK(contains(lua("return r"), "sent in all     20 messages, 11200 elements, 43.8 KiB, in 4 rounds"));
}

TEST_CASE("decoding in Lua names what it cannot use", "[lua][tree]") {
    Shell lua;
    REQUIRE(lua(inputs) == "");
    for (const std::string method : {"tree", "ring"}) {
        const std::string message = lua(method + "_decode(q, k, v, {engine = 'nccl', shards = 999})");
#ifdef CAUSEWAY_GPU
        // Without nccl.h; without a GPU or NCCL; with both.
        CHECK((
            message.starts_with(
                "user:1: engine: \"nccl\" is not built in, expected \"threads\" or \"mpi\" (nccl.h was missing when") ||
            message.starts_with("user:1: engine: \"nccl\" cannot run: ") ||
            contains(message, ", the number of GPUs, with engine \"nccl\"")));
        CHECK(!contains(message, "\n"));
#else
        CHECK(message ==
              "user:1: engine: \"nccl\" is not built in, expected \"threads\" or \"mpi\" (this program was built "
              "without CUDA)");
#endif
        CHECK(lua("return (" + method + "_decode(q, k, v)):eltype()") == "Float32");  // the session goes on
    }
    CHECK(lua("tree_decode(q, k, v, {overlap = true})") == "user:1: tree_decode: unknown option \"overlap\"");
    CHECK(lua("ring_decode(q, k, v, {shard = 3})") ==
          "user:1: ring_decode: unknown option \"shard\" (did you mean \"shards\"?)");
    CHECK(lua("tree_decode(q, k, v, {shards = 0})") == "user:1: shards: 0, expected from 1 to 1024");
    CHECK(lua("tree_decode(q, k, v, {algorithm = 4})") == "user:1: algorithm: 4, expected 1, 2, 3 or none");
    CHECK(lua("tree_decode(q, k, v, {sizes = {1, 2}})") == "user:1: sizes: 3 keys together, expected 50 like k");
    CHECK(lua("tree_decode(q, k, v, {sizes = 5})") == "user:1: sizes: expected a list of lengths, got a number");
    CHECK(lua("tree_decode(q, k, v, {shards = 2}, {causal = true})") ==
          "user:1: tree_decode: argument 5: a table, expected none after the options");
    CHECK(lua("opcount(function() ring_decode(q, k, v) end)") ==
          "user:1: opcount: ring_decode is not counted, expected softmax_attention");
    CHECK(lua("tree_decode(q, k)") == "user:1: v: expected a Tensor, got nothing");
    CHECK(contains(run_program({"-e", "?ring_attention"}).out,
                   "no help for \"ring_attention\" (did you mean \"ring_decode\"?)"));
    CHECK(contains(lua("decode_model{cluster = 'h200'}"), "user:1: cluster: \"h200\", expected one of \"h100\""));
    CHECK(lua("decode_model{within = {latency = 1, rate = 0}}") ==
          "user:1: within: latency 1 and rate 0, expected a finite latency >= 0 and a rate > 0");
    CHECK(contains(lua("decode_model{between = {latency = math.huge}}"), "user:1: between: latency inf and rate "));
    CHECK(lua("decode_model{start = math.huge}") == "user:1: start: inf, expected a finite number >= 0");
    CHECK(lua("decode_model{length = 50, sizes = {1, 2}}") ==
          "user:1: sizes: 3 keys together, expected 50, the length");
    CHECK(lua("decode_model{length = 50, queries = 60, causal = true}") ==
          "user:1: queries: 60, expected at most 50, the length, with causal = true");
}

TEST_CASE("the model of a cluster runs to a thousand devices", "[lua][tree]") {
    Shell lua;
    CHECK(lua("r = decode_model{method = 'ring', shards = 1024, length = 1024000} return r.rounds, r.messages, "
              "r.shards") == "1023 1047552 1024");
    CHECK(
        lua("r = decode_model{shards = 1024, length = 1024000} return r.rounds, r.elements == 1024 * 10 * 16 * 130") ==
        "10 true");
    // One device reads its keys and values: 2·1000·16·128 numbers of 2 bytes at 1e9 bytes a second.
    CHECK(lua("return string.format('%.6f', decode_model{shards = 1, length = 1000, memory_rate = 1e9, start = "
              "0}.time)") == "0.008192");
    CHECK(lua("return decode_model{shards = 64, length = 5120000, method = 'ring'}.time > decode_model{shards = 64, "
              "length = 5120000}.time") == "true");
}

TEST_CASE("under mpirun every number of ranks gives what threads give, and rank 0 prints", "[lua][tree][mpi]") {
    if (no_mpi()) return;
    for (const int ranks : {1, 2, 3, 4}) {
        const Output output = run_mpi_script(ranks, std::string(inputs) + R"(
          a = tree_decode(q, k, v, {engine = "threads", shards = 1})
          for algorithm = 1, 3 do
            o, r = tree_decode(q, k, v, {engine = "mpi", algorithm = algorithm})
            assert(near(a, o) and r.engine == "mpi" and r.shards == mpi_size())
          end
          for _, topology in ipairs(causeway._options.tree_decode.topology) do
            o, r = tree_decode(q, k, v, {engine = "mpi", topology = topology})
            _, s = tree_decode(q, k, v, {engine = "threads", topology = topology, shards = mpi_size()})
            assert(near(a, o), topology)
            for _, what in ipairs{"messages", "elements", "bytes", "rounds", "memory"} do assert(r[what] == s[what], what) end
          end
          for _, overlap in ipairs{true, false} do
            o, r = ring_decode(q, k, v, {engine = "mpi", overlap = overlap})
            assert(near(a, o) and r.rounds == mpi_size() - 1)
          end
          print("rank " .. mpi_rank() .. " of " .. mpi_size()))");
        CAPTURE(ranks, output.err);
        CHECK(output.status == 0);
        CHECK(output.out == "rank 0 of " + std::to_string(ranks) + "\n");
    }
}

TEST_CASE("under mpirun a rank that dies, fails or differs ends the job", "[lua][tree][mpi]") {
    if (no_mpi()) return;
    const std::string decode = "\ntree_decode(q, k, v) print('not reached')";
    const auto run = [&](const std::string& fault) { return run_mpi_script(3, inputs + fault + decode); };
    // The ranks begin with one seed, whatever the system gives.
    CHECK(
        run_mpi_script(2, "x = randn(3) tree_decode(x:reshape(1, 3), randn(5, 3), randn(5, 3)) print('reached')").out ==
        "reached\n");
    const Output killed =
        run("if mpi_rank() == 1 then os.execute('kill -9 ' .. io.open('/proc/self/stat'):read('n')) end");
    CHECK(killed.status != 0);
    CHECK(killed.out.find("not reached") == std::string::npos);
    CHECK(contains(killed.err + killed.out, "signal 9"));
    const Output failed = run("if mpi_rank() == 2 then error('a fault of its own') end");
    CHECK(failed.status == 1);
    CHECK(contains(failed.err, "rank 2: error: script.lua:"));
    CHECK(contains(failed.err, "a fault of its own"));
    // Told alike on every rank, which could go on.
    const TemporaryFolder folder;
    const Output differs = run_mpi_script(3, std::string(inputs) + R"(
      local longer, other = randn(2, 2, 51, 8), randn(2, 2, 51, 6)
      local _, shapes = pcall(tree_decode, q, mpi_rank() == 1 and longer or k, mpi_rank() == 1 and other or v)
      local _, values = pcall(tree_decode, mpi_rank() == 2 and 2 * q or q, k, v)
      local function told(decode, options) return select(2, pcall(decode, q, k, v, options)) .. "; " end
      local scales = told(tree_decode, {scale = mpi_rank() == 1 and 0.5 or 0.25})
      local topologies = told(tree_decode, {topology = mpi_rank() == 2 and "binomial" or "ring"})
      local causals = told(tree_decode, {causal = mpi_rank() == 1})
      local calls = told(mpi_rank() == 1 and ring_decode or tree_decode)
      local speeds = told(function(...) return mpi_rank() == 1 and link_speed("mpi") or tree_decode(...) end)
      local sizes = told(function() link_speed("mpi", 3, mpi_rank() == 2 and 2048 or 1024) end)
      local message = shapes .. "; " .. scales .. topologies .. causals .. calls .. speeds .. sizes .. values
      local file = io.open("part" .. mpi_rank(), "w")
      file:write(message)
      file:close()
      os.rename("part" .. mpi_rank(), "rank" .. mpi_rank())
      for r = 0, 2 do  -- the first to end ends the others
        for _ = 1, 100 do if not io.open("rank" .. r) then os.execute("sleep 0.1") end end
      end
      error(message, 0))",
                                          folder);
    CHECK(differs.status == 1);
    const std::string told = read_bytes(folder / "rank0");
    CHECK(contains(told, "k: length 51 on rank 1, expected 50 like rank 0; every rank has to make the same call; "));
    CHECK(contains(told, "q: values with the checksum"));
    CHECK(contains(told, "scale: 0.5 on rank 1, expected 0.25 like rank 0; "));
    CHECK(contains(told, "topology: \"binomial\" on rank 2, expected \"ring\" like rank 0; "));
    CHECK(contains(told, "causal: true on rank 1, expected false like rank 0; "));
    CHECK(contains(told, "call: ring_decode on rank 1, expected tree_decode like rank 0; "));
    CHECK(contains(told, "call: link_speed on rank 1, expected tree_decode like rank 0; "));
    CHECK(contains(told, "bytes: 2048 on rank 2, expected 1024 like rank 0; "));
    CHECK(contains(told, "on rank 2, expected"));
    CHECK(contains(differs.err, told));
    for (const char* other : {"rank1", "rank2"}) CHECK(read_bytes(folder / other) == told);
    const Output early = run("if mpi_rank() == 1 then os.exit(0) end");
    CHECK(early.status == 1);
    // Rank 2 waits for it too, and tells it where the machine has kept rank 0 from doing so for long.
    CHECK((contains(early.err, "rank 1 has ended its script while rank 0 waits for it") ||
           contains(early.err, "rank 1 has ended its script while rank 2 waits for it")));
}

TEST_CASE("the experiments of tree decoding leave figures and tables", "[experiments][tree]") {
    const std::string tree = source_dir() + "/experiments/tree/";
    const TemporaryFolder folder;
    const auto run = [&](std::vector<std::string> arguments) {
        std::filesystem::remove(folder / "out");
        std::filesystem::remove(folder / "err");
        return wait_for_program(folder, start_program(folder, std::move(arguments)));
    };
    const Output latency = run({tree + "latency.lua", "--lengths", "80000,5120000", "--devices", "8,128", "--here",
                                "50,100", "--seconds", "0.001", "--shards", "2", "--ranks", "2"});
    CAPTURE(latency.err);
    CHECK(latency.status == 0);
    CHECK(contains(latency.out, "moved 127 times at 50 GB/s (NDR, one way)    832 ms"));
    CHECK(contains(latency.out, "4 × mi300x   256000    19.82  20.90             1.05"));
    CHECK(contains(latency.out, "threads, 2 ranks: a message takes"));
    CHECK(
        contains(latency.out, "by_length.svg: Lines on one another within 3 %: ring, 128 devices ≈ ring, 8 devices."));
    CHECK(contains(read_bytes(folder / "results/tree/latency/latency.html"), "<pre>  keys and values of a device"));
    // Other machines are not told what holds for that of the document.
    const Output other = run({tree + "latency.lua", "--cluster", "rtx4090", "--devices", "2,4", "--lengths", "1000",
                              "--here", "50", "--seconds", "0", "--ranks", "0", "--shards", "2", "--save", "other"});
    CAPTURE(other.err);
    CHECK(other.status == 0);
    CHECK(contains(other.out, "The model, 4 × rtx4090 at 1000 tokens: ring ÷ tree "));
    CHECK(contains(other.out, "Points of MPI: not measured, as --ranks 0 asks."));
    for (const char* none : {"NDR", "fixed cost", "nan", "Slope"}) CHECK_FALSE(contains(other.out, none));
    CHECK(contains(read_bytes(folder / "results/tree/latency/by_devices.svg"), "published: ring ÷ 8"));
    const std::string here = read_bytes(folder / "results/tree/latency/here.svg");
    CHECK(contains(here, "ring, threads, model"));
    if (!no_mpi()) {  // the script has started itself under mpirun
        CHECK(contains(latency.out, "mpi, 2 ranks: a message takes"));
        CHECK(contains(here, "tree, mpi"));
        CHECK(contains(here, "tree, mpi, model"));
        // Started by hand; the points of threads are still there.
        const Output by_hand = run_mpi_script(3,
                                              "arg = {[0] = '" + tree +
                                                  "latency.lua', '--lengths', '80000', '--devices', '8', '--here', "
                                                  "'50,100', '--seconds', '0.001'} dofile(arg[0])",
                                              folder);
        CAPTURE(by_hand.err);
        CHECK(by_hand.status == 0);
        CHECK(contains(by_hand.out, "mpi, 3 ranks: a message takes"));
        CHECK(contains(by_hand.out, "threads, 2 ranks: a message takes"));
        CHECK(by_hand.out.find("This machine") == by_hand.out.rfind("This machine"));  // rank 0 alone prints
        // A file of earlier points that holds something else is as none.
        write_bytes(folder / "results/tree/latency/here-threads.json", "{\"x\": 5");
        const Output alone = run_mpi_script(2,
                                            "arg = {[0] = '" + tree +
                                                "latency.lua', '--lengths', '80000', '--devices', '8', '--here', '50', "
                                                "'--seconds', '0.001'} dofile(arg[0])",
                                            folder);
        CAPTURE(alone.err);
        CHECK(alone.status == 0);
        CHECK(contains(alone.out, "Points of threads: run it without mpirun first"));
    }
    for (const char* name : {"by_length.svg", "by_devices.svg", "here.svg"})
        CHECK(contains(read_bytes(folder / ("results/tree/latency/" + std::string(name))), "</svg>"));
    CHECK(contains(read_bytes(folder / "results/tree/latency/latency.html"), "<svg"));
    const Output memory = run({tree + "memory.lua", "--lengths", "64000,128000"});
    CAPTURE(memory.err);
    CHECK(memory.status == 0);
    CHECK(contains(memory.out, "Lines on one another within 3 %: ring, d = 2048 ≈ tree, d = 4096."));
    CHECK(contains(memory.out, "hidden 2048: gap 524.28 MB, printed 524 MB (+0.1 %)"));
    CHECK(contains(read_bytes(folder / "results/tree/memory/memory.html"), "<svg"));
    const Output volume = run({tree + "volume.lua", "--devices", "1,2,8", "--check", "64"});
    CAPTURE(volume.err);
    CHECK(volume.status == 0);
    CHECK(contains(volume.out, "18 counts of decodes with data on threads equal those of the schedules"));
    for (const char* curve : {"ring, counted", "tree, counted", "ring, (10) as printed", "tree, (14) × p"})
        CHECK(contains(read_bytes(folder / "results/tree/volume/volume.svg"), curve));
    CHECK_FALSE(contains(volume.out, "differs from (14)"));
    CHECK(contains(run({tree + "volume.lua", "--devices", "2,64", "--check", "64"}).out,
                   "The tree's count differs from (14) at p = 64: 4160, (14) 4095.0: "));
    // One sentence for a wrong option.
    for (const auto& [script, option, value, sentence] : std::vector<std::array<std::string, 4>>{
             {"memory", "--lengths", "1.5", "--lengths: 1.5, expected a whole number of at least 1"},
             {"memory", "--hidden", "2000", "--hidden: 2000, expected a multiple of 128, the width of a head"},
             {"latency", "--seconds", "1e999", "--seconds: \"1e999\", expected a finite number"},
             {"memory", "--shards", "2.5", "--shards: 2.5, expected a whole number from 1 to 4096"},
             {"memory", "--shards", "0", "--shards: 0, expected a whole number from 1 to 4096"},
             {"latency", "--shards", "0", "--shards: 0, expected a whole number from 1 to 1024"},
             {"latency", "--ranks", "1.5", "--ranks: 1.5, expected a whole number from 0 to 1024"},
             {"latency", "--cluster", "h200", "--cluster: \"h200\", expected h100, mi300x or rtx4090"},
             {"volume", "--devices", ",", "--devices: \",\", expected a list: 1, ..."},
             {"volume", "--heads", "x", "--heads: \"x\", expected a number"}}) {
        const Output wrong = run({tree + script + ".lua", option, value});
        CHECK(wrong.status == 1);
        CHECK(wrong.err == "error: " + sentence + "\n");
    }
}
