// The cost model of linear attention on a cluster.
#include "core/sharded/linear_model.hpp"

#include "core/sharded/linear_attention.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/core/sharded/close.hpp"

namespace causeway::test {
namespace {

using distributed::cluster;
using distributed::Cluster;

// With links that take no time the clock has the kernels alone.
Cluster of_kernels(double start) {
    Cluster out = cluster("h100");
    out.within = out.between = {0, 1e30};
    out.start = start;
    return out;
}

TEST_CASE("the model of linear attention counts what calls with data send and hold", "[sharded][model]") {
    for (const char* exchange : {"ring", "all-scan", "all-gather", "heads"})
        for (const int p : {1, 2, 3, 8})
            for (const Index N : {1, 130, 1000})
                for (const GatedCase& c : each_update({.batch = 2, .heads = 3, .N = N, .dk = 7, .dv = 5})) {
                    INFO(c << " " << exchange << " shards=" << p);
                    const GatedInputs in = gated_inputs(c).to(DType::f32);
                    const ShardReport counted =
                        linear_attention_sharded(in.q, in.k, in.v, in.options, on(p, exchange)).report;
                    LinearModelSizes z;
                    z.batch = 2, z.heads = 3, z.N = N, z.dk = 7, z.dv = 5, z.chunk = 64, z.together = 1;
                    z.delta = c.delta(), z.gates = !c.gated() ? 0 : c.channels ? 7 : 1;
                    Cluster machine = cluster("h100");
                    machine.element_bytes = 4;
                    const ShardReport model = linear_model(exchange, z, machine, p);
                    REQUIRE(model.traffic.size() == counted.traffic.size());
                    for (std::size_t r = 0; r < model.traffic.size(); ++r) {
                        CHECK(model.traffic[r].messages == counted.traffic[r].messages);
                        CHECK(model.traffic[r].elements == counted.traffic[r].elements);
                        CHECK(model.traffic[r].bytes == counted.traffic[r].bytes);
                    }
                    CHECK(model.total().rounds == counted.total().rounds);
                    if (std::string(exchange) != "heads")
                        CHECK(model.largest().peak_bytes == counted.largest().peak_bytes);
                }
}

TEST_CASE("the model of linear attention takes the times that were measured", "[sharded][model]") {
    LinearModelSizes z;
    z.heads = 32, z.N = 131072, z.delta = true, z.gates = 1, z.token_time = 1e-9;
    const double all = 32 * 131072 * 1e-9;
    CHECK(linear_model("ring", z, of_kernels(1e-5), 1).seconds == Approx(all + 1e-5));
    // All states in one kernel: a rank waits for the whole of the one before it, whatever there is of them.
    CHECK(linear_model("ring", z, of_kernels(0), 8).seconds == Approx(all));
    // In blocks of four states the ranks overlap: n/4 + p - 1 blocks of a rank's p-th part each.
    z.together = 4;
    CHECK(linear_model("ring", z, of_kernels(0), 8).seconds == Approx(all / 8 / 8 * (8 + 7)));
    // Heads that forget wait for nothing.
    z.together = 0, z.forgets = true;
    CHECK(linear_model("ring", z, of_kernels(0), 8).seconds == Approx(all / 8));
    // The scan takes a pass for the maps more, by its share of the operations; the last rank makes none.
    z.forgets = false;
    const double scan = linear_model("all-scan", z, of_kernels(0), 8).seconds;
    CHECK(scan > 1.4 * all / 8);
    CHECK(scan < 2.5 * all / 8);
    // With as many heads as devices the exchange of heads is balanced; beyond them devices have none.
    CHECK(linear_model("heads", z, of_kernels(0), 8).seconds == Approx(all / 8));
    CHECK(linear_model("heads", z, of_kernels(0), 64).seconds == Approx(all / 32));
}

TEST_CASE("a chunk of the model is no longer than a part", "[sharded][model]") {
    LinearModelSizes z;
    z.heads = 4, z.N = 20, z.delta = true;
    Cluster machine = of_kernels(0);
    machine.flop_rate = 1e9;  // so that operations, of which longer chunks have more, take longer than memory
    for (const char* exchange : {"ring", "heads"}) {
        const auto seconds = [&](Index chunk) {
            z.chunk = chunk;
            return linear_model(exchange, z, machine, 1).seconds;
        };
        CHECK(seconds(64) == seconds(20));
        CHECK(seconds(10) < seconds(20));
    }
}

TEST_CASE("links take their time in the model of linear attention", "[sharded][model]") {
    LinearModelSizes z;
    z.heads = 4, z.N = 8192, z.forgets = true, z.gates = 1, z.token_time = 1e-12;
    Cluster machine = cluster("h100");
    machine.start = 0, machine.per_node = 2, machine.within = {1e-3, 1e12}, machine.between = {1, 1e12};
    // Two nodes: one message goes between them, and the others wait for none of it.
    const ShardReport four = linear_model("ring", z, machine, 4);
    CHECK(four.seconds == Approx(1).epsilon(1e-3));
    CHECK(four.traffic[0].bytes == 4 * 128 * 128 * 4);
    CHECK(linear_model("ring", z, machine, 2).seconds == Approx(1e-3).epsilon(1e-2));
    // States that are handed on cross both.
    z.forgets = false;
    CHECK(linear_model("ring", z, machine, 4).seconds == Approx(1 + 2e-3).epsilon(1e-3));
}

TEST_CASE("what the model of linear attention refuses", "[sharded][model]") {
    const Cluster& machine = cluster("h100");
    LinearModelSizes z;
    CHECK_THROWS_WITH(linear_model("rung", z, machine, 2), contains_text("exchange: \"rung\""));
    CHECK_THROWS_WITH(linear_model("ring", z, machine, 0), "shards: 0, expected from 1 to 4096");
    z.forgets = true;
    CHECK_THROWS_WITH(linear_model("ring", z, machine, 2), contains_text("forgets: true without gates"));
    z.gates = 1;
    CHECK_THROWS_WITH(linear_model("heads", z, machine, 2), contains_text("expected \"ring\""));
    z.gates = 3;
    CHECK_THROWS_WITH(linear_model("ring", z, machine, 2), contains_text("gates: 3 columns"));
    z = {}, z.N = 0;
    CHECK_THROWS_WITH(linear_model("ring", z, machine, 2), "length: 0, expected 1 or more");
    z = {}, z.token_time = -1;
    CHECK_THROWS_WITH(linear_model("ring", z, machine, 2), contains_text("token_time: -1"));
    z = {}, z.N = Index{1} << 40, z.heads = 1 << 16;
    CHECK_THROWS_WITH(linear_model("heads", z, machine, 4096), contains_text("expected less than 2^62"));
}

}  // namespace
}  // namespace causeway::test
