// Collectives, the merge and the engines by themselves.
#include <atomic>
#include <bit>
#include <mutex>
#include <random>

#include "core/base/error.hpp"
#include "core/distributed/cluster.hpp"
#include "core/distributed/collectives.hpp"
#include "core/distributed/merge.hpp"
#include "core/distributed/threads.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"  // message_of

using namespace causeway;
using namespace causeway::distributed;
using causeway::testing::message_of;

namespace {

const Topology topologies[] = {Topology::recursive_doubling, Topology::halving_doubling, Topology::ring,
                               Topology::binomial,           Topology::all_gather,       Topology::two_level};

int ceil_lg(int p) { return static_cast<int>(std::bit_width(static_cast<unsigned>(p - 1))); }

using Triple = std::vector<double>;

// A triple of `keys` random scores of this spread, d = 2.
Triple random_triple(std::mt19937_64& generator, int keys, double spread) {
    std::normal_distribution<double> normal;
    Triple x{minus_infinity<double>, 0, 0, 0};
    for (int i = 0; i < keys; ++i) {
        const Triple one{spread * normal(generator), 1, normal(generator), normal(generator)};
        MergeTriples<double>{2}(x.data(), one.data(), 1);
    }
    return x;
}

Triple merged(Triple a, const Triple& b) {
    MergeTriples<double>{2}(a.data(), b.data(), 1);
    return a;
}

}  // namespace

TEST_CASE("the merge of triples is a commutative monoid, to rounding", "[tree]") {
    std::mt19937_64 generator(31);
    const Triple unit{minus_infinity<double>, 0, 0, 0};
    CHECK(merged(unit, unit) == unit);
    double furthest = 0;
    int differ = 0;
    for (int trial = 0; trial < 300; ++trial) {
        const double spread = trial % 3 == 0 ? 1 : trial % 3 == 1 ? 30 : 1e4;
        const Triple a = random_triple(generator, trial % 4, spread),
                     b = random_triple(generator, 1 + trial % 3, spread), c = random_triple(generator, 2, spread);
        CAPTURE(trial, spread, a, b, c);
        CHECK(merged(a, unit) == a);
        CHECK(merged(unit, a) == a);
        CHECK(merged(a, b) == merged(b, a));  // bit for bit
        const Triple left = merged(merged(a, b), c), right = merged(a, merged(b, c));
        CHECK(left[0] == right[0]);
        // Each term of D and n has met at most two scalings and two additions more on one side than on the other.
        CHECK(std::abs(left[1] - right[1]) <= 16 * 0x1p-53 * left[1]);
        for (std::size_t i = 2; i < 4; ++i) CHECK(std::abs(left[i] - right[i]) <= 16 * 0x1p-53 * 10 * left[1]);
        furthest = std::max(furthest, std::abs(left[1] - right[1]) / left[1]);
        differ += left != right;
    }
    CHECK(differ > 0);  // not a monoid of bits
    CHECK(furthest > 0);
}

TEST_CASE("all-reduce gives every rank the same bits, on every engine and topology", "[tree]") {
    for (const int p : {1, 2, 3, 4, 5, 7, 8, 13, 16})
        for (const Topology topology : topologies)
            for (const Index items : {Index{1}, Index{3}, Index{17}})
                for (const bool simulated : {false, true}) {
                    const Index w = 4, n = items * w;
                    CAPTURE(p, static_cast<int>(topology), items, simulated);
                    std::vector<std::vector<double>> x(static_cast<std::size_t>(p));
                    std::mt19937_64 generator(static_cast<unsigned>(p));
                    std::vector<double> want(static_cast<std::size_t>(n));
                    MergeTriples<double>::neutral(want.data(), items, 2);
                    for (auto& mine : x) {
                        for (Index i = 0; i < items; ++i) {
                            const Triple t = random_triple(generator, static_cast<int>(generator() % 3), 30);
                            mine.insert(mine.end(), t.begin(), t.end());
                        }
                        MergeTriples<double>{2}(want.data(), mine.data(), items);
                    }
                    const Program program = [&](Communicator& comm) {
                        all_reduce(comm, topology, 3, x[static_cast<std::size_t>(comm.rank())].data(), items, w,
                                   MergeTriples<double>{2});
                    };
                    if (simulated) run_simulated(cluster("h100"), p, false, program);
                    else run_threads(p, program);
                    for (const auto& mine : x) REQUIRE(mine == x[0]);
                    for (Index i = 0; i < n; ++i) {
                        const auto at = static_cast<std::size_t>(i), D = static_cast<std::size_t>(i / w * w + 1);
                        if (i % w == 0) CHECK(x[0][at] == want[at]);
                        else CHECK(std::abs(x[0][at] - want[at]) <= 1e-14 * 5 * want[D]);
                    }
                }
}

TEST_CASE("all-gather keeps the order of the ranks", "[tree]") {
    for (const int p : {1, 2, 3, 6, 8, 11}) {
        std::atomic<int> wrong{0};
        const auto run = run_simulated(cluster("h100"), p, false, [&](Communicator& comm) {
            const int mine[2] = {comm.rank(), -comm.rank()};
            std::vector<int> all(static_cast<std::size_t>(2 * p));
            all_gather(comm, all_ranks(comm), mine, 2, all.data());
            for (int r = 0; r < p; ++r)
                wrong += all[static_cast<std::size_t>(2 * r)] != r || all[static_cast<std::size_t>(2 * r) + 1] != -r;
        });
        CAPTURE(p);
        CHECK(wrong == 0);
        CHECK(run.traffic[0].rounds == (p == 1 ? 0 : ceil_lg(p)));
        CHECK(run.traffic[0].elements == 2 * (p - 1));
    }
}

TEST_CASE("a rank that fails ends all with its message", "[tree]") {
    for (const Topology topology : topologies)
        for (const int p : {2, 3, 8, 40}) {
            CAPTURE(static_cast<int>(topology), p);
            const Program program = [&](Communicator& comm) {
                std::vector<double> x(100, 1);
                all_reduce(comm, topology, 3, x.data(), 100, 1, Maximum<double>{});
                if (comm.rank() == p / 2) fail("shard ", p / 2, ": out of tokens");
                comm.barrier();
                for (int i = 0; i < 3; ++i) all_reduce(comm, topology, 3, x.data(), 100, 1, Maximum<double>{});
            };
            for (const bool simulated : {false, true}) {
                std::string message;
                try {
                    if (simulated) run_simulated(cluster("h100"), p, false, program);
                    else run_threads(p, program);
                } catch (const Error& error) {
                    message = error.what();
                }
                CHECK(message == "shard " + std::to_string(p / 2) + ": out of tokens");
            }
        }
}

TEST_CASE("a rank that fails while its neighbours copy from it takes its messages back", "[tree]") {
    for (int trial = 0; trial < 20; ++trial) {
        std::string message;
        try {
            run_threads(6, [&](Communicator& comm) {
                std::vector<double> x(20000, comm.rank()), y(20000);
                const int p = comm.size(), right = (comm.rank() + 1) % p, left = (comm.rank() + p - 1) % p;
                for (int s = 0; s < 50; ++s) {
                    Transfer sent = comm.send(x.data(), 20000, right), received = comm.receive(y.data(), 20000, left);
                    if (comm.rank() == trial % 6 && s == trial) throw OutOfMemory("no more");
                    received.wait();
                    sent.wait();
                }
            });
        } catch (const OutOfMemory& error) {
            message = error.what();
        }
        CHECK(message == "no more");
    }
}

TEST_CASE("messages that do not fit, and ranks that all wait, are errors", "[tree]") {
    const Program unequal = [](Communicator& comm) {
        std::vector<float> x(4);
        comm.exchange(x.data(), 1 + comm.rank(), 1 - comm.rank(), x.data() + 2, 1, 1 - comm.rank());
    };
    CHECK(message_of([&] { run_threads(2, unequal); }) == "rank 0: a message of 8 bytes from rank 1, expected 4");
    CHECK(message_of([&] { run_simulated(cluster("h100"), 2, false, unequal); }) ==
          "rank 0: a message of 8 bytes from rank 1, expected 4");
    CHECK(message_of([&] {
              run_simulated(cluster("h100"), 3, false, [](Communicator& comm) {
                  int x = 0;
                  comm.receive(&x, 1, (comm.rank() + 1) % 3).wait();
              });
          }) == "all ranks wait for one another, expected messages that are sent and received in pairs");
    CHECK(message_of([&] { run_threads(0, unequal); }) == "shards: 0, expected from 1 to 1024 threads");
    CHECK(message_of([&] { cluster("h1000"); }) ==
          "cluster: \"h1000\", expected one of \"h100\", \"mi300x\", \"rtx4090\" (did you mean \"h100\"?)");
}

// Two ranks, latency 1, a rate of 10 bytes a second, work of a second: what a pencil gives.
TEST_CASE("simulated time is latency, port time and what overlaps", "[tree]") {
    Cluster machine{"pencil", 2, {1, 10}, {5, 1}, 1, 1, 0, 1};
    const auto seconds = [&](int p, const Program& program) {
        return run_simulated(machine, p, true, program).seconds;
    };
    using test::Approx;
    const auto exchange = [](Communicator& comm) {
        comm.exchange<float>(nullptr, 20, 1 - comm.rank(), nullptr, 20, 1 - comm.rank());
    };
    CHECK(seconds(2, exchange) == Approx(3));
    machine.per_node = 1;
    CHECK(seconds(2, exchange) == Approx(25));
    machine.per_node = 2;
    CHECK(
        seconds(2, [](Communicator& comm) {  // posted, then 1.5 s of work: 3 s, of which the work hides in the transfer
            Transfer sent = comm.send<float>(nullptr, 20, 1 - comm.rank()),
                     received = comm.receive<float>(nullptr, 20, 1 - comm.rank());
            comm.work({0, 1.5, 0});
            received.wait();
            sent.wait();
        }) == Approx(3));
    CHECK(seconds(2, [](Communicator& comm) {  // two messages share the sender's port
              Transfer a, b;
              if (comm.rank() == 0) a = comm.send<float>(nullptr, 20, 1), b = comm.send<float>(nullptr, 20, 1);
              else a = comm.receive<float>(nullptr, 20, 0), b = comm.receive<float>(nullptr, 20, 0);
              a.wait();
              b.wait();
          }) == Approx(5));
    machine.per_node = 3;
    CHECK(seconds(3, [](Communicator& comm) {  // and two senders the receiver's
              if (comm.rank() > 0) return comm.send<float>(nullptr, 20, 0).wait();
              comm.receive<float>(nullptr, 20, 1).wait();
              comm.receive<float>(nullptr, 20, 2).wait();
          }) == Approx(5));
}
