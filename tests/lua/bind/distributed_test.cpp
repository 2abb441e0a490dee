// tree_decode, ring_decode and the model of a cluster as a person types them, and the program under mpirun.
#include <array>
#include <cstdlib>
#include <filesystem>

#include "core/distributed/mpi.hpp"
#include "tests/catch.hpp"
#include "tests/lua/mpi.hpp"
#include "tests/lua/shell.hpp"
#include "tests/paths.hpp"

using namespace causeway::testing;

namespace {

const char* const inputs = R"(
  seed(4)
  q, k, v = randn(2, 4, 3, 8), randn(2, 2, 50, 8), randn(2, 2, 50, 6)
  function near(a, b) return maximum(abs(a - b)) <= 1e-5 end
)";

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
    CHECK(contains(lua("return r"), "ring decoding (overlapped), 5 shards on threads, topology ring\n  time "));
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
              "without CUDA; ./lab build gpu builds it in)");
#endif
        CHECK(lua("return (" + method + "_decode(q, k, v)):eltype()") == "Float32");  // the session goes on
    }
    CHECK(lua("tree_decode(q, k, v, {overlap = true})")
              .starts_with("user:1: tree_decode: unknown option \"overlap\", expected one of "));
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
    CHECK(contains(run_program({"-e", "?ring_attention"}).out, "ring_attention is called ring_decode here."));
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

TEST_CASE("a time limit of workers is checked, and refused where there is one worker alone", "[lua][tree]") {
    Shell lua;
    REQUIRE(lua("q = randn(1, 2, 20, 4)") == "");
    const std::string alone = ", but one worker waits for no other, expected shards, sizes or engine beside it",
                      wrong = ", expected a number of seconds above 0, or 0 for no bound of the call's own";
    for (const std::string call :
         {"linear_attention(q, q, q, ", "causal_linear_attention(q, q, q, ", "softmax_attention(q, q, q, ",
          "linear_attention_grad(q, q, q, q, ", "causal_linear_attention_grad(q, q, q, q, ",
          "softmax_attention_grad(q, q, q, q, "}) {
        CAPTURE(call);
        CHECK(lua(call + "{timeout = -3})") == "user:1: timeout: -3" + wrong);
        CHECK(lua(call + "{timeout = 60})") == "user:1: timeout: 60" + alone);
        CHECK(lua(call + "{shards = 2, timeout = -3})") == "user:1: timeout: -3" + wrong);
        CHECK(lua("return (pcall(function() " + call + "{shards = 2, timeout = 60}) " + call +
                  "{timeout = 0}) end))") == "true");
    }
    CHECK(lua("tree_decode(q, q, q, {shards = 2, timeout = 1/0})") == "user:1: timeout: inf" + wrong);
}

TEST_CASE("the model of a cluster runs to a thousand devices", "[lua][tree]") {
    Shell lua;
    CHECK(lua("linear_model{exchange = 'rung'}").starts_with("user:1: exchange: \"rung\""));
    CHECK(lua("linear_model{per_channel = true}") ==
          "user:1: per_channel: true with update = \"linear\", expected an update that has gates");
    CHECK(lua("r = linear_model{shards = 1024, length = 1 << 22} return r.shards, r.messages, r.bytes, r.method") ==
          "1024 32736 2145386496 linear_attention");
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
            for _, what in ipairs{"messages", "elements", "bytes", "rounds", "memory"} do
              assert(r[what] == s[what], what)
            end
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
      local _, keys = pcall(ring_decode, q, mpi_rank() == 1 and 2 * k or k, v)
      local _, cache = pcall(tree_decode, q, k, mpi_rank() == 2 and -v or v)
      values = values .. "; " .. keys .. "; " .. cache
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
    CHECK(contains(told, "k: values with the checksum"));
    CHECK(contains(told, "v: values with the checksum"));
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

TEST_CASE("a rank that loops keeps the others no longer than was asked for", "[lua][mpi]") {
    if (no_mpi()) return;
    const auto run = [](const std::string& code, const std::string& limit) {
        return run_mpi_script(2, code, TemporaryFolder(), "CAUSEWAY_MPI_TIMEOUT=" + limit + " ");
    };
    const std::string call = "q, k, v = randn(1, 2, 1, 8), randn(1, 2, 50, 8), randn(1, 2, 50, 8)\n";
    const Output in_a_call = run(call + "if mpi_rank() == 1 then while true do end end\ntree_decode(q, k, v)", "0.5");
    CHECK(in_a_call.status == 1);
    CHECK(contains(in_a_call.err, "waited 0.5 s (CAUSEWAY_MPI_TIMEOUT) for "));
    CHECK(contains(in_a_call.err, "which neither answered nor ended"));
    // An option of the call, which the variable does not bound, and an ordinary error that a script may catch.
    for (const std::string waits :
         {"tree_decode(q, k, v, {timeout = 0.5})", "linear_attention(k, k, v, {engine = 'mpi', timeout = 0.5})",
          "softmax_attention(k, k, v, {engine = 'mpi', timeout = 0.5})",
          "causal_linear_attention_grad(k, k, v, v, {engine = 'mpi', timeout = 0.5})"}) {
        CAPTURE(waits);
        const Output option = run(call + "if mpi_rank() == 1 then while true do end end\n" + waits, "30");
        CHECK(option.status == 1);
        CHECK(contains(option.err, "rank 0 waited 0.5 s (timeout) for "));
    }
    CHECK(contains(run(call + "tree_decode(q, k, v, {timeout = -1})", "30").err,
                   "timeout: -1, expected a number of seconds above 0"));
    const Output at_the_end = run("if mpi_rank() == 1 then while true do end end", "0.5");
    CHECK(at_the_end.status == 1);
    CHECK(contains(at_the_end.err, "rank 0 waited 0.5 s (CAUSEWAY_MPI_TIMEOUT) for rank 1"));
    CHECK(run(call + "tree_decode(q, k, v)", "30").status == 0);
    for (const std::string wrong : {"0", "-1", "soon", "inf", "nan"}) {
        const Output refused = run("print(mpi_rank())", wrong);
        CHECK(refused.status != 0);
        CHECK(contains(refused.err, "CAUSEWAY_MPI_TIMEOUT: " + wrong + ", expected a number of seconds above 0"));
    }
}
