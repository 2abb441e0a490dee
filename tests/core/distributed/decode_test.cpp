// tree_decode and ring_decode against softmax attention by its definition.
#include <bit>
#include <chrono>
#include <ctime>
#include <thread>

#include "core/base/interrupt.hpp"
#include "core/distributed/devices.hpp"
#include "tests/core/distributed/problems.hpp"
#include "tests/core/exact/problems.hpp"  // Poison
#include "tests/temporary.hpp"            // message_of

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;

namespace {

// Roundings of the result of a sharded decode in units of Σ P|v| (claims H11): sums of the shards and their merge,
// exponents that are differences of scores rounded to u times their size, and dk roundings of a score itself.
double budget(const DecodeCase& c, const DecodeOracle& oracle) {
    return 2 * (3 * static_cast<double>(c.M) + 4 + std::log(static_cast<double>(c.M))) +
           4 * (static_cast<double>(c.dk) + 4) * std::max(1.0, oracle.largest_score);
}

void check_all(const DecodeCase& c, const std::vector<int>& shards, bool every_topology) {
    const DecodeInputs in = decode_inputs(c);
    DecodeOptions o;
    o.causal = c.causal;
    const DecodeOracle oracle(c, in, 1 / std::sqrt(static_cast<double>(c.dk)));
    const DecodeInputs narrow{in.q.to(DType::f32), in.k.to(DType::f32), in.v.to(DType::f32)};
    const auto check = [&](const DecodeResult& wide, const DecodeResult& single) {
        CHECK(oracle.roundings(wide.O, 0x1p-53) <= budget(c, oracle));
        CHECK(oracle.roundings(single.O, 0x1p-24) <= budget(c, oracle));
        for (std::size_t i = 0; i < oracle.lse.size(); ++i)
            CHECK(std::abs(wide.lse.get(static_cast<Index>(i)) - oracle.lse[i]) <=
                  1e-13 * std::max(1.0, oracle.largest_score));
    };
    for (const int p : shards) {
        o.shards = p;
        for (const auto& topology : calls::decode_topology_names()) {
            if (!every_topology && topology != "auto") continue;
            o.topology = topology, o.per_node = 3;
            for (o.algorithm = 0; o.algorithm <= 3; ++o.algorithm) {
                CAPTURE(c, p, topology, o.algorithm);
                check(tree_decode(in.q, in.k, in.v, o), tree_decode(narrow.q, narrow.k, narrow.v, o));
            }
            o.algorithm = 0;
        }
        for (const bool overlap : {false, true}) {
            o.overlap = overlap, o.home = !overlap;
            CAPTURE(c, p, overlap);
            check(ring_decode(in.q, in.k, in.v, o), ring_decode(narrow.q, narrow.k, narrow.v, o));
        }
    }
}

}  // namespace

TEST_CASE("tree and ring decoding are attention for every number of shards, topology and algorithm", "[tree]") {
    const Poison poison;
    check_all({.batch = 2, .query_heads = 2, .heads = 2, .N = 1, .M = 13, .dk = 5, .dv = 7, .seed = 1},
              {1, 2, 3, 5, 8, 13, 16}, true);
}

TEST_CASE("decoding of several queries, causal and not, with grouped heads", "[tree]") {
    const Poison poison;
    check_all({.query_heads = 6, .heads = 2, .N = 4, .M = 11, .dk = 8, .dv = 8, .causal = true, .seed = 2},
              {1, 2, 3, 5, 8, 11, 14}, false);
    check_all({.query_heads = 6, .heads = 2, .N = 4, .M = 11, .dk = 8, .dv = 8, .seed = 3}, {3, 8}, false);
    check_all({.batch = 2, .query_heads = 1, .heads = 1, .N = 9, .M = 9, .dk = 1, .dv = 1, .causal = true, .seed = 4},
              {1, 4, 9}, false);
}

TEST_CASE("decoding with long shards, wide heads and scores of 1e4", "[tree]") {
    const Poison poison;
    check_all({.heads = 2, .N = 1, .M = 700, .dk = 130, .dv = 133, .seed = 5}, {1, 3}, false);
    check_all({.heads = 2, .N = 2, .M = 200, .dk = 16, .dv = 9, .spread = 3000, .seed = 6}, {1, 2, 7, 8}, false);
}

TEST_CASE("decoding of blocks of queries, of which some see no key of a shard", "[tree]") {
    const Poison poison;
    check_all({.query_heads = 2, .heads = 1, .N = 210, .M = 230, .dk = 8, .dv = 9, .causal = true, .seed = 9},
              {1, 3, 7}, false);
    check_all({.heads = 2, .N = 195, .M = 70, .dk = 3, .dv = 17, .seed = 10}, {2}, false);
}

TEST_CASE("a query whose scores are no numbers gets none from any shard, the others theirs", "[tree]") {
    DecodeInputs in = decode_inputs({.query_heads = 1, .heads = 1, .N = 6, .M = 9, .seed = 11});
    in.q.set(2 * 5, std::nan(""));
    for (const int p : {1, 3}) {
        for (const bool is_tree : {true, false}) {
            CAPTURE(p, is_tree);
            const Tensor O = is_tree ? tree_decode(in.q, in.k, in.v, {.shards = p}).O
                                     : ring_decode(in.q, in.k, in.v, {.shards = p}).O;
            for (Index i = 0; i < O.size(); ++i) CHECK(std::isnan(O.get(i)) == (i / 3 == 2));
        }
    }
}

TEST_CASE("a decode of many queries stops on all workers", "[tree][interrupt]") {
    const Tensor q = Tensor::zeros(DType::f32, {1, 8, 20000, 64}), k = Tensor::zeros(DType::f32, {1, 8, 20000, 64});
    for (int algorithm = 0; algorithm <= 4; ++algorithm) {
        CAPTURE(algorithm);
        interrupt::clear();
        const std::clock_t begun = std::clock();  // of this process: others may keep it waiting
        std::thread presser([] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            interrupt::request();
        });
        const DecodeOptions o{.shards = 8, .causal = true, .algorithm = algorithm % 4};
        CHECK_THROWS_AS(algorithm == 4 ? ring_decode(q, k, k, o) : tree_decode(q, k, k, o), Interrupted);
        presser.join();
        interrupt::clear();
        CHECK(static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC < 3);
    }
}

TEST_CASE("decoding takes unequal and empty shards", "[tree]") {
    const Poison poison;
    const DecodeCase c{.N = 3, .M = 12, .causal = true, .seed = 7};
    const DecodeInputs in = decode_inputs(c);
    const DecodeOracle oracle(c, in, 0.5);
    DecodeOptions o;
    o.causal = true, o.scale = 0.5;
    for (const std::vector<Index>& sizes :
         {std::vector<Index>{12, 0}, {0, 12}, {0, 0, 12, 0}, {5, 0, 1, 6}, {1, 1, 1, 1, 1, 7}, {12}}) {
        o.sizes = sizes;
        for (o.algorithm = 0; o.algorithm <= 3; ++o.algorithm) {
            CAPTURE(sizes, o.algorithm);
            CHECK(oracle.roundings(tree_decode(in.q, in.k, in.v, o).O, 0x1p-53) <= budget(c, oracle));
        }
        o.algorithm = 0;
        for (const bool overlap : {false, true}) {
            o.overlap = overlap, o.home = overlap;
            CAPTURE(sizes, overlap);
            CHECK(oracle.roundings(ring_decode(in.q, in.k, in.v, o).O, 0x1p-53) <= budget(c, oracle));
        }
    }
}

TEST_CASE("a key of score minus infinity has weight 0, a NaN shows itself", "[tree]") {
    Tensor q = Tensor::full(DType::f32, {1, 1}, 1), k = Tensor::zeros(DType::f32, {4, 1}),
           v = Tensor::full(DType::f32, {4, 1}, 7);
    k.set(0, -INFINITY), k.set(1, -INFINITY), v.set(0, 100), v.set(1, 100);
    for (const int p : {1, 2, 4}) {
        DecodeOptions o;
        o.shards = p;
        CAPTURE(p);
        for (o.algorithm = 0; o.algorithm <= 3; ++o.algorithm) CHECK(tree_decode(q, k, v, o).O.get(0) == 7);
        o.algorithm = 0;
        CHECK(ring_decode(q, k, v, o).O.get(0) == 7);
        Tensor bad = k.copy();
        bad.set(3, NAN);
        CHECK(std::isnan(tree_decode(q, bad, v, o).O.get(0)));
    }
}

TEST_CASE("keys all of score minus infinity: the energy is minus infinity, the output 0 / 0, in every algorithm",
          "[tree]") {
    const Tensor q = Tensor::full(DType::f32, {1, 1}, 1), k = Tensor::full(DType::f32, {4, 1}, -INFINITY),
                 v = Tensor::full(DType::f32, {4, 1}, 7);
    for (const int p : {1, 2, 4}) {
        DecodeOptions o;
        o.shards = p;
        for (o.algorithm = 0; o.algorithm <= 3; ++o.algorithm) {
            CAPTURE(p, o.algorithm);
            const DecodeResult result = tree_decode(q, k, v, o);
            CHECK(result.lse.get(0) == -INFINITY);
            CHECK(std::isnan(result.O.get(0)));
        }
    }
}

TEST_CASE("what is sent and held is what equations 8 to 14 say for every p up to 64, with data and without", "[tree]") {
    const Index b = 2, heads = 2, dh = 4, d = heads * dh, t = 3, triple = b * (d + 2 * heads);
    distributed::Cluster machine = distributed::cluster("h100");
    machine.element_bytes = 4;
    for (int p = 1; p <= 64; ++p) {
        CAPTURE(p);
        const Index N = t * p, depth = std::bit_width(static_cast<unsigned>(p - 1));
        const distributed::Sizes z{b, heads, heads, 1, N, dh, dh, false, 0.5};
        DecodeOptions o;
        o.shards = p;
        const ShardReport ring = decode_model("ring", z, machine, o);
        o.topology = "ring";
        const ShardReport tree = decode_model("tree", z, machine, o);
        o.topology = "binomial";
        const ShardReport binomial = decode_model("tree", z, machine, o);
        CHECK(ring.total().elements == 2 * b * t * d * (p - 1) * p);  // (10) as repaired: p - 1 shifts of all devices
        CHECK(ring.total().rounds == p - 1);
        CHECK(tree.total().elements == 2 * (p - 1) * triple);  // p times (14)
        CHECK(binomial.total().rounds == 2 * depth);           // Theorem 1: up the tree, and down again
        for (std::size_t r = 0; r < static_cast<std::size_t>(p); ++r) {
            const distributed::Memory &own = ring.memory[r], &held = tree.memory[r];
            CHECK(ring.traffic[r].elements == 2 * b * t * d * (p - 1));
            CHECK(ring.traffic[r].messages == p - 1);
            CHECK(own.peak_total == (p == 1 ? 2 : 4) * b * t * d + 2 * b * d + 2 * b * heads);  // (8) as repaired
            CHECK(held.peak_total - held.peak_of(distributed::Held::work) ==
                  2 * b * t * d + 2 * b * d + 2 * b * heads);  // (9)
        }
        if (p > 8 && p != 13 && p != 64) continue;
        const Tensor q = Tensor::zeros(DType::f32, {b, heads, 1, dh}), k = Tensor::zeros(DType::f32, {b, heads, N, dh});
        const auto same = [](const ShardReport& real, const ShardReport& modelled) {
            for (std::size_t r = 0; r < real.traffic.size(); ++r) {
                const distributed::Traffic &x = real.traffic[r], &y = modelled.traffic[r];
                if (x.messages != y.messages || x.elements != y.elements || x.bytes != y.bytes || x.rounds != y.rounds)
                    return false;
                if (real.memory[r].peak != modelled.memory[r].peak ||
                    real.memory[r].peak_total != modelled.memory[r].peak_total)
                    return false;
            }
            return true;
        };
        CHECK(same(tree_decode(q, k, k, o).report, binomial));
        o.topology = "ring";
        CHECK(same(tree_decode(q, k, k, o).report, tree));
        CHECK(same(ring_decode(q, k, k, o).report, ring));
    }
}

TEST_CASE("decoding keeps the type and leading dimensions of q", "[tree]") {
    const DecodeCase c{.N = 2, .M = 6, .dk = 4, .dv = 3, .seed = 8};
    const DecodeInputs in = decode_inputs(c);
    const auto narrow = tree_decode(in.q.to(DType::bf16), in.k.to(DType::bf16), in.v.to(DType::bf16), {.shards = 2});
    CHECK(narrow.O.summary() == "1×2×2×3 Tensor{BFloat16}");
    CHECK(narrow.lse.summary() == "1×2×2 Tensor{Float32}");
    CHECK(ring_decode(in.q.reshape({2, 2, 4}), in.k.reshape({2, 6, 4}), in.v.reshape({2, 6, 3}), {.shards = 3})
              .O.summary() == "2×2×3 Tensor{Float64}");
}

TEST_CASE("decoding names what it cannot use", "[tree]") {
    const Tensor q = Tensor::zeros(DType::f32, {1, 2, 1, 4}), k = Tensor::zeros(DType::f32, {1, 2, 5, 4}), v = k;
    CHECK(message_of([&] {
              tree_decode(q, k, Tensor::zeros(DType::f32, {1, 2, 6, 4}));
          }) == "v: length 6, expected 5 like k");
    CHECK(message_of([&] {
              tree_decode(q, Tensor::zeros(DType::f32, {1, 2, 5, 3}), v);
          }) == "k: width 3, expected 4 like q");
    CHECK(message_of([&] { tree_decode(q, k, v.to(DType::f64)); }) == "v: Float64, expected Float32 like q");
    CHECK(message_of([&] { tree_decode(q, k, v, {.shards = 2000}); }) == "shards: 2000, expected from 1 to 1024");
    CHECK(message_of([&] { tree_decode(q, k, v, {.sizes = std::vector<Index>(2000)}); }) ==
          "sizes: 2000 lengths, expected at most 1024");
    CHECK(message_of([&] { measured_link("threads", 1); }) == "ranks: 1, expected from 2 to 1024");
    CHECK(message_of([&] { measured_link("thread"); }) ==
          "engine: \"thread\", expected one of \"threads\", \"mpi\", \"nccl\" (did you mean \"threads\"?)");
    CHECK(message_of([&] {
              decode_model("tree", {1 << 20, 1 << 20, 1 << 20, 1, Index{1} << 40, 128, 128, false, 1},
                           distributed::cluster("h100"), {.shards = 8});
          }).find("expected less than 2^62") != std::string::npos);
    CHECK(message_of([&] { tree_decode(q, k, v, {.shards = 2, .sizes = {5}}); }) ==
          "sizes: 1 lengths, expected one for each of the 2 shards");
    CHECK(message_of([&] { ring_decode(q, k, v, {.sizes = {2, 2}}); }) == "sizes: 4 keys together, expected 5 like k");
    CHECK(message_of([&] { ring_decode(q, k, v, {.sizes = {7, -2}}); }) == "sizes: -2, expected lengths of 0 or more");
    if (!distributed::entered_nccl())  // which core by itself never has
        CHECK(message_of([&] { tree_decode(q, k, v, {.engine = "nccl"}); }) ==
              "engine: \"nccl\" is not built in, expected \"threads\" or \"mpi\" (this program was built without CUDA; "
              "./lab build gpu builds it in)");
    CHECK(message_of([&] { tree_decode(q, k, v, {.engine = "thread"}); }).find("(did you mean \"threads\"?)") !=
          std::string::npos);
    CHECK(message_of([&] { tree_decode(q, k, v, {.topology = "rings"}); }).find("(did you mean \"ring\"?)") !=
          std::string::npos);
    CHECK(message_of([&] {
              tree_decode(Tensor::zeros(DType::f32, {1, 2, 6, 4}), k, v, {.causal = true});
          }) == "q: length 6, expected at most 5, the length of k, with causal = true");
    CHECK(message_of([&] {
              tree_decode(q, Tensor::zeros(DType::f32, {1, 2, 0, 4}), Tensor::zeros(DType::f32, {1, 2, 0, 4}));
          }) == "k: length 0, expected at least one key");
    CHECK(message_of([&] { tree_decode(q, k, v, {.scale = INFINITY}); }) == "scale: inf, expected a finite number");
}
