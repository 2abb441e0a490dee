// engine = "nccl" of tree and ring decoding against the definition, and its counts against those of threads.
#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "core/base/interrupt.hpp"
#include "core/distributed/collectives.hpp"
#include "core/distributed/merge.hpp"
#include "gpu/distributed/queue.hpp"
#include "tests/catch.hpp"
#include "tests/core/distributed/problems.hpp"
#include "tests/gpu/distributed/ranks.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;
using distributed::Communicator;
using distributed::Room;

namespace {

// As the tests of flash-decoding: relative error of O, and the largest error of a log-sum-exp.
void compare(const DecodeResult& got, const DecodeOracle& want, DType type) {
    double error = 0, norm = 0, lse_error = 0;
    for (std::size_t i = 0; i < want.O.size(); ++i)
        error += std::pow(got.O.get(static_cast<Index>(i)) - want.O[i], 2), norm += want.O[i] * want.O[i];
    for (std::size_t i = 0; i < want.lse.size(); ++i) {
        const double off = std::abs(got.lse.get(static_cast<Index>(i)) - want.lse[i]) / (1 + std::abs(want.lse[i]));
        if (!(off <= lse_error)) lse_error = off;
    }
    CHECK(std::sqrt(error) <= std::sqrt(norm) * (type == DType::f32 ? 3e-6 : type == DType::f16 ? 6e-4 : 4.5e-3));
    CHECK(lse_error <= (type == DType::f32 ? 2e-6 : 4e-6));
    CHECK(got.O.dtype() == type);
}

// All algorithms on p GPUs, and what they count: the same as threads do.
void check_case(const DecodeCase& c, int p, std::vector<Index> sizes = {}, bool every_topology = false) {
    const DecodeInputs exact = decode_inputs(c);
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
        const DecodeInputs in{exact.q.to(type), exact.k.to(type), exact.v.to(type)};
        const DecodeInputs wide{in.q.to(DType::f64), in.k.to(DType::f64), in.v.to(DType::f64)};
        DecodeOptions o;
        o.engine = "nccl", o.shards = p, o.sizes = sizes, o.causal = c.causal;
        o.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.dk)));
        const DecodeOracle oracle(c, wide, *o.scale);
        const auto check = [&](bool is_tree) {
            CAPTURE(c, p, sizes, name(type), o.algorithm, o.topology, o.overlap, o.home, is_tree);
            const DecodeResult got = is_tree ? tree_decode(in.q, in.k, in.v, o) : ring_decode(in.q, in.k, in.v, o);
            compare(got, oracle, type);
            CHECK(got.report.engine == "nccl");
            CHECK(got.report.shards == p);
            // The longest vector that the algorithm sums.
            const Index partial = 4 * c.batch * c.query_heads * c.N *
                                  (c.dv + (o.algorithm == 0   ? 2
                                           : o.algorithm == 1 ? 1
                                                              : 0));
            if (is_tree && o.topology == "auto")
                CHECK(got.report.topology == (partial > 131072 ? "halving-doubling" : "all-gather"));
            // Where sums are long, the maxima before them are still gathered: no one topology counts both.
            if (is_tree && o.topology == "auto" && o.algorithm > 0 && partial > 131072) return;
            DecodeOptions on_threads = o;
            on_threads.engine = "threads";
            if (is_tree) on_threads.topology = got.report.topology;
            const ShardReport want =
                (is_tree ? tree_decode(in.q, in.k, in.v, on_threads) : ring_decode(in.q, in.k, in.v, on_threads))
                    .report;
            CHECK(got.report.topology == want.topology);
            for (std::size_t r = 0; r < want.traffic.size(); ++r) {
                const auto &mine = got.report.traffic[r], &theirs = want.traffic[r];
                CHECK(mine.messages == theirs.messages);
                CHECK(mine.elements == theirs.elements);
                CHECK(mine.rounds == theirs.rounds);
                CHECK(mine.bytes == theirs.elements * (is_tree ? Index{4} : got.report.element_bytes));
            }
        };
        for (o.algorithm = 0; o.algorithm <= 3; ++o.algorithm) check(true);
        o.algorithm = 0;
        for (const auto& topology : calls::decode_topology_names()) {
            o.topology = topology, o.per_node = 1;
            if (every_topology) check(true);
        }
        o.topology = "auto";
        for (const bool overlap : {true, false}) {
            for (const bool home : {false, true}) {
                o.overlap = overlap, o.home = home;
                check(false);
            }
        }
    }
}

void check_all(int p) {
    check_case({.batch = 2, .query_heads = 2, .heads = 2, .N = 1, .M = 13, .dk = 5, .dv = 7, .seed = 1}, p, {}, true);
    check_case({.batch = 1, .query_heads = 3, .heads = 3, .N = 1, .M = 2001, .dk = 128, .dv = 128, .seed = 2}, p);
    check_case({.batch = 2, .query_heads = 8, .heads = 2, .N = 1, .M = 517, .dk = 64, .dv = 40, .seed = 3}, p);
    check_case(
        {.batch = 2, .query_heads = 4, .heads = 2, .N = 3, .M = 301, .dk = 64, .dv = 64, .causal = true, .seed = 4}, p);
    // Shards that some queries do not see.
    check_case(
        {.batch = 1, .query_heads = 2, .heads = 2, .N = 70, .M = 100, .dk = 16, .dv = 24, .causal = true, .seed = 5},
        p);
    // Scores of some hundreds.
    check_case({.batch = 1, .query_heads = 2, .heads = 1, .N = 5, .M = 90, .dk = 32, .dv = 32, .spread = 60, .seed = 6},
               p);
    // Packed partial results of 256 · 130 Float32 and sums of 256 · 129 are more than 128 KiB, numerators of 256 · 128
    // are not.
    check_case({.batch = 1, .query_heads = 16, .heads = 4, .N = 16, .M = 200, .dk = 64, .dv = 128, .seed = 10}, p);
}

}  // namespace

TEST_CASE("gpu: decoding on one GPU through the engine nccl", "[gpu][nccl]") {
    if (gpus(1)) check_all(1);
}

TEST_CASE("gpu: decoding on several GPUs over NCCL", "[gpu][nccl]") {
    const int most = gpus(2);
    for (int p = 2; p <= most; ++p) {
        check_all(p);
        std::vector<Index> sizes(static_cast<std::size_t>(p));
        sizes[1] = 90;  // the first has no key, the second nearly all
        sizes.back() += 11;
        check_case(
            {.batch = 1, .query_heads = 4, .heads = 2, .N = 2, .M = 101, .dk = 8, .dv = 8, .causal = true, .seed = 7},
            p, sizes);
        check_case({.batch = 1, .query_heads = 2, .heads = 2, .N = 1, .M = 101, .dk = 8, .dv = 8, .seed = 8}, p, sizes);
    }
}

TEST_CASE("gpu: an all-reduce over NCCL gives every rank the same bits, in all topologies", "[gpu][nccl]") {
    const int most = gpus(2);
    for (int p = 2; p <= most; ++p) {
        for (int topology = 0; topology <= static_cast<int>(distributed::Topology::two_level); ++topology) {
            for (const Index items : {1, 7, 3000}) {
                CAPTURE(p, topology, items);
                constexpr Index d = 2;
                const Index n = items * (d + 2);
                const auto fill = [&](int rank, float* to) {
                    for (Index i = 0; i < n; ++i)
                        to[i] = i % (d + 2) == 1 ? 1 : static_cast<float>((i * 7 + rank * 13) % 29) / 3;
                };
                std::vector<std::vector<float>> x(static_cast<std::size_t>(p));
                distributed::nccl().run(p, [&](Communicator& comm) {
                    Room<float> room(comm, distributed::Held::work, n);
                    fill(comm.rank(), room.data());
                    const auto how = static_cast<distributed::Topology>(topology);
                    distributed::all_reduce(comm, how, 2, room.data(), items, d + 2,
                                            distributed::MergeTriples<float>{d});
                    x[static_cast<std::size_t>(comm.rank())].assign(room.data(), room.data() + n);
                });
                std::vector<float> want;
                for (int r = 0; r < p; ++r) {
                    std::vector<float> mine(static_cast<std::size_t>(n));
                    fill(r, mine.data());
                    if (r == 0) want = mine;
                    else distributed::MergeTriples<float>{d}(want.data(), mine.data(), items);
                }
                for (int r = 1; r < p; ++r) CHECK(x[static_cast<std::size_t>(r)] == x[0]);
                double off = 0;
                for (std::size_t i = 0; i < want.size(); ++i)
                    off = std::max(off, std::abs(static_cast<double>(x[0][i]) - want[i]) / (1 + std::abs(want[i])));
                CHECK(off <= 1e-6);
            }
        }
    }
}

TEST_CASE("gpu: a rank that fails ends the others, and NCCL runs again", "[gpu][nccl]") {
    if (!gpus(2)) return;
    enum { at_once, after_messages, while_waiting };
    for (const int when : {at_once, after_messages, while_waiting}) {
        CAPTURE(when);
        CHECK(message_of([&] {
                  distributed::nccl().run(2, [&](Communicator& comm) {
                      Room<float> in(comm, distributed::Held::work, 1000), out(comm, distributed::Held::work, 1000);
                      if (when == at_once && comm.rank() == 1) throw Error("shard 1: out of tokens");
                      if (when == at_once) comm.barrier();
                      comm.exchange(out.data(), 1000, 1 - comm.rank(), in.data(), 1000, 1 - comm.rank());
                      if (comm.rank() == 1) {
                          if (when == while_waiting)
                              comm.receive(in.data(), 1000, 0).wait();  // the other is waiting by then
                          throw Error("shard 1: out of tokens");
                      }
                      comm.send(out.data(), 1000, 1).wait();
                      comm.receive(in.data(), 1000, 1).wait();
                  });
              }) == "shard 1: out of tokens");
        check_case({.batch = 1, .query_heads = 1, .heads = 1, .N = 1, .M = 40, .dk = 8, .dv = 8, .seed = 9}, 2);
    }
}

// Rank 0 has queued kernels that wait for a message which rank 1 never sends: what it gives back waits for them.
TEST_CASE("gpu: an interrupt ends a rank whose kernels wait for a message that is never sent", "[gpu][nccl]") {
    if (!gpus(2)) return;
    interrupt::clear();
    std::atomic<bool> waiting{false};
    std::thread stopper([&] {
        while (!waiting) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        interrupt::request();
    });
    CHECK_THROWS_AS(
        distributed::nccl().run(2,
                                [&](Communicator& rank) {
                                    gpu::QueuedCommunicator comm(dynamic_cast<gpu::NcclCommunicator&>(rank));
                                    const gpu::Buffer room(4096);
                                    if (comm.rank() == 0) {
                                        auto message = comm.receive(room.as<float>(), 1000, 1);
                                        comm.start();
                                        waiting = true;
                                        message.wait();
                                    }
                                    for (;;) interrupt::check();
                                }),
        Interrupted);
    waiting = true;
    stopper.join();
    interrupt::clear();
    check_case({.batch = 1, .query_heads = 1, .heads = 1, .N = 1, .M = 40, .dk = 8, .dv = 8, .seed = 12}, 2);
}

TEST_CASE("gpu: latency and rate of messages between GPUs", "[gpu][nccl]") {
    if (const int most = gpus(2)) {
        for (const int ranks : {2, most}) {
            const distributed::Link link = measured_link("nccl", ranks, Index{1} << 26);
            CAPTURE(ranks, link.latency, link.rate);
            CHECK((link.latency > 1e-6 && link.latency < 1e-2));
            CHECK((link.rate > 1e8 && link.rate < 1e12));
        }
        const std::string count = std::to_string(most);
        CHECK(message_of([&] { measured_link("nccl", most + 1); }) ==
              "ranks: " + std::to_string(most + 1) + ", expected from 2 to " + count);
    }
}

TEST_CASE("gpu: the engine nccl names what it cannot use", "[gpu][nccl]") {
    const int most = gpus(1);
    if (!most) return;
    const Tensor q = Tensor::zeros(DType::f32, {1, 2, 1, 4}), k = Tensor::zeros(DType::f32, {1, 2, 5, 4}), v = k;
    const auto message = [&](const Tensor& a, const Tensor& b, DecodeOptions o) {
        o.engine = "nccl";
        return message_of([&] { tree_decode(a, b, b, o); });
    };
    const std::string limit = "expected at most " + std::to_string(most) + ", the number of GPUs, with engine \"nccl\"";
    CHECK(message(q, k, {.shards = most + 2}) == "shards: " + std::to_string(most + 2) + ", " + limit);
    CHECK(message(q, k, {.sizes = std::vector<Index>(static_cast<std::size_t>(most) + 1)}) ==
          "shards: " + std::to_string(most + 1) + ", " + limit);
    CHECK(message(q, k, {.sizes = {4}}) == "sizes: 4 keys together, expected 5 like k");
    CHECK(message(q.to(DType::f64), k.to(DType::f64), {}) ==
          "q: Float64, expected Float32, BFloat16 or Float16 with engine \"nccl\"");
    CHECK(message(Tensor::zeros(DType::f32, {1, 1, 1, 300}), Tensor::zeros(DType::f32, {1, 1, 5, 300}),
                  {.shards = 1}) == "q: widths 300 and 300 of k and v, expected from 1 to 256 with engine \"nccl\"");
    check_case({.batch = 1, .query_heads = 1, .heads = 1, .N = 1, .M = 40, .dk = 8, .dv = 8, .seed = 11},
               1);  // after a failure on the GPU's thread
}
