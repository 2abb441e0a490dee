// Counted operations and memory of the definitions against the closed forms of core/exact/cost.hpp (claims B1, C1, C4,
// F5, G1, G5, G6, D3's minimal form), exactly; and the closed forms against figures written out.
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "core/base/interrupt.hpp"
#include "core/exact/cost.hpp"
#include "core/exact/fleet.hpp"
#include "core/exact/lightning.hpp"
#include "core/exact/recursion.hpp"
#include "core/exact/vanilla.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/exact/suite.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

constexpr Index r = 3, d = 2;

// Operations of f on one head of N tokens, all ones.
template <class F>
OperationCount count(Index N, double gamma, F&& f) {
    const std::vector<Counted> x(static_cast<std::size_t>(N * std::max(r, d)), Counted(1));
    std::vector<Counted> O(static_cast<std::size_t>(N * d));
    const exact::Head<Counted> h{{x.data(), N, r}, {x.data(), N, r}, {x.data(), N, d}, {O.data(), N, d}, gamma,
                                 nullptr};
    counted = {};
    f(h);
    // The last output of N ones: Σ_j γ^(N-j) r.
    double sum = 0;
    for (Index j = 0; j < N; ++j) sum += static_cast<double>(r) * std::pow(gamma, static_cast<double>(j));
    if (N > 0) REQUIRE(std::abs(O[static_cast<std::size_t>(N * d - 1)].value - sum) <= 1e-12 * sum);
    return std::exchange(counted, {});
}

OperationCount macs(Index multiply_adds, Index more_multiplies = 0) {
    return {multiply_adds + more_multiplies, multiply_adds, 0, 0};
}

Index tau(Index n) { return n * (n + 1) / 2; }

// Sum of tau over the leaves, by the rule of halving.
Index leaves(Index n, Index t) { return n <= t ? tau(n) : leaves(n / 2, t) + leaves(n - n / 2, t); }

const std::vector<Index> lengths{1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 97, 100, 127, 128, 129};

}  // namespace

void test::cost_what_their_closed_forms_say(const Methods& methods) {
    // One head of ones through run(), as causal_linear_attention_counted takes it.
    const std::vector<Counted> ones(static_cast<std::size_t>(200 * std::max(r, d)), Counted(1));
    for (const Method& m : methods) {
        REQUIRE(m.cost != nullptr);
        for (Index N : lengths) {
            // b = 1, N = bT - 1, b = N, b > N and others.
            std::set<Index> blocks{0};
            if (m.block > 0)
                for (Index b :
                     {Index{1}, Index{2}, Index{7}, Index{8}, Index{32}, (N + 1) / 2, (N + 1) / 3, N - 1, N, N + 3})
                    if (b >= 1) blocks.insert(b);
            for (Index b : blocks)
                for (double gamma : {1.0, 0.5})
                    for (bool normalize : {false, true}) {
                        INFO(m.name << " N=" << N << " b=" << b << " gamma=" << gamma << " normalize=" << normalize);
                        std::vector<Counted> O(static_cast<std::size_t>(N * d));
                        exact::Problem<Counted> p;
                        p.N = N, p.r = r, p.d = d;
                        p.B = p.C = p.V = ones.data();
                        p.O = O.data();
                        p.gamma = gamma < 1 ? &gamma : nullptr;
                        p.normalize = normalize;
                        p.block = std::min(b > 0 ? b : m.block, N);
                        counted = {};
                        memory::reset_peak();
                        const std::size_t held = memory::current();
                        exact::run(m, p);
                        const OperationCount operations = std::exchange(counted, {});
                        const auto scalars = static_cast<Index>((memory::peak() - held) / sizeof(Counted));
                        const exact::Cost closed = exact::cost(m, {N, r, d, b, gamma < 1, normalize});
                        CHECK(operations.multiplies - closed.operations.multiplies == 0);
                        CHECK(operations.adds - closed.operations.adds == 0);
                        CHECK(operations == closed.operations);
                        CHECK(scalars == closed.memory);
                        double sum = 0;  // the last output: Σ_j γ^(N-j) r, or 1 where it is divided by that
                        for (Index j = 0; j < N; ++j)
                            sum += static_cast<double>(r) * std::pow(gamma, static_cast<double>(j));
                        CHECK(O.back().value == Approx(normalize ? 1 : sum));
                    }
        }
    }
}

TEST_CASE("the operations and the memory of every definition are those of its closed form", "[exact][counts][cost]") {
    cost_what_their_closed_forms_say(exact::methods());
}

TEST_CASE("the memory that a method tells is that of its closed form", "[exact][counts][cost]") {
    constexpr Index N = 96, wide = 8, narrow = 4, b = 16, state = wide * narrow;
    const std::map<std::string, Index> told = {{"N²", N * N},
                                               {"N", N},
                                               {"rd", state},
                                               {"Nrd", N * state},
                                               {"d", narrow},
                                               {"rd + b", state + b},
                                               {"rd + b²", state + b * b},
                                               {"rd + t²", state + b * b},
                                               {"rd + brd", state + b * state},
                                               {"rd + Br·Bc", state + b * narrow}};
    for (const auto& m : exact::methods()) {
        INFO(m.name << ": " << m.memory);
        const auto found = told.find(m.memory);
        REQUIRE(found != told.end());
        CHECK(exact::cost(m, {N, wide, narrow, m.block > 0 ? b : 0}).memory == found->second);
    }
}

TEST_CASE("the closed forms are those of the claims where these are written out", "[exact][counts][cost]") {
    const auto adds = [](const char* name, const exact::Work& w) {
        return exact::cost(exact::method(name), w).operations.adds;
    };
    const auto memory_of = [](const char* name, const exact::Work& w) {
        return exact::cost(exact::method(name), w).memory;
    };
    // B1: the unit block costs N(r+d) + 2(N-1)rd, not the 2Nrd of row-based.
    CHECK(adds("block-based", {100, 5, 7, 1}) == 100 * 12 + 2 * 99 * 35);
    CHECK(adds("row-based", {100, 5, 7}) == 2 * 100 * 35);
    // B6: triangular vanilla is cheaper than row-based iff N + 1 < 4rd/(r+d): 127, at r = d = 64.
    CHECK(adds("inner-product", {126, 64, 64}) < adds("row-based", {126, 64, 64}));
    CHECK(adds("inner-product", {127, 64, 64}) == adds("row-based", {127, 64, 64}));
    // G5: 4nd² dense with b = d; G6: q'(r+d+1) + 2nr(d+1) normalised, and nd divisions.
    CHECK(adds("hybrid", {1024, 128, 128, 128}) == Index{4} * 1024 * 128 * 128);
    const exact::Cost normalised = exact::cost(exact::method("hybrid"), {300, 8, 6, 128, false, true});
    CHECK(normalised.operations == OperationCount{(2 * 128 * 128 + 44 * 44) * (15 + 1) + 2 * 300 * 8 * 7,
                                                  (2 * 128 * 128 + 44 * 44) * 15 + 2 * 300 * 8 * 7, 0, 300 * 6});
    // G3: all prefix states against those of a block and against the carry.
    CHECK(memory_of("outer-product", {8192, 128, 128}) == Index{8192} * 128 * 128);
    CHECK(memory_of("outer-product-blockwise", {8192, 128, 128}) == (1 + 128) * 128 * 128);
    CHECK(memory_of("hybrid", {8192, 128, 128}) == 2 * 128 * 128);
    CHECK(memory_of("inner-product", {8192, 128, 128}) == 8192);
    // F5: with skips, triangular, the ends of the range of blocks tie at n = 2d; dense they tie at n = d.
    CHECK(adds("block-based", {64, 32, 32, 1}) == 64 * 64 + 2 * 63 * 32 * 32);
    CHECK(adds("block-based", {64, 32, 32, 64}) == 133120);
    CHECK(adds("block-based", {64, 32, 32, 1}) == 133120);
    CHECK(adds("vanilla", {64, 64, 64}) == 524288);  // dense, b = n = d
    // With decay block-based multiplies at most q + 2Nr + Trd times more (B1).
    for (Index b : {Index{1}, Index{7}, Index{40}}) {
        const OperationCount n = exact::cost(exact::method("block-based"), {100, 3, 2, b, true, false}).operations;
        const Index T = (100 + b - 1) / b;
        CHECK(n.multiplies - n.adds <= (T - 1) * tau(b) + tau(100 - (T - 1) * b) + 2 * 100 * 3 + T * 3 * 2);
    }
}

TEST_CASE("hybrid takes fewer operations than inner-product from N > 2d dense, 3d triangular",
          "[exact][counts][cost]") {
    using exact::Tiles;
    for (Index width : {1, 2, 3, 16, 64, 128}) {
        CAPTURE(width);
        CHECK(exact::crossover({1, width, width, width}, Tiles::dense) == 2 * width + 1);
        CHECK(exact::crossover({1, width, width, width}, Tiles::triangular) == 3 * width + 1);
    }
    // Against the counts themselves, for widths and blocks that do not match: below it the length before is not
    // cheaper, from it on all are. The dense inner-product form is vanilla.
    for (const auto& [width_r, width_d, b] :
         {std::array<Index, 3>{3, 5, 4}, {5, 3, 1}, {16, 2, 30}, {2, 16, 7}, {8, 8, 64}})
        for (bool normalize : {false, true}) {
            const Index from = exact::crossover({1, width_r, width_d, b, false, normalize}, Tiles::dense);
            INFO("r=" << width_r << " d=" << width_d << " b=" << b << " normalize=" << normalize << " from=" << from);
            const auto saved = [&, r_ = width_r, d_ = width_d, b_ = b](Index N) {
                const auto adds = [&](const char* name, Index block) {
                    return exact::cost(exact::method(name), {N, r_, d_, block, false, normalize}).operations.adds;
                };
                return adds("vanilla", 0) - adds("hybrid", b_);
            };
            CHECK((from == 1 || saved(from - 1) <= 0));
            for (Index N = from; N < from + 200; ++N) REQUIRE(saved(N) > 0);
        }
}

TEST_CASE("what has no cost is named", "[exact][counts][cost]") {
    const auto& fleet = exact::method("fleet");
    CHECK_THROWS_WITH(exact::cost(fleet, {0, 1, 1}), contains_text("N: 0, expected a number from 1 to 1099511627776"));
    CHECK_THROWS_WITH(exact::cost(fleet, {1, 1, 1, -1}), contains_text("block: -1, expected"));
    CHECK_THROWS_WITH(exact::cost(exact::method("vanilla"), {1, 1, 1, 2}),
                      contains_text("block: the method \"vanilla\" has none"));
    CHECK_THROWS_WITH(exact::cost(exact::method("vanilla"), {Index{1} << 40, 1, 1}),
                      contains_text("the count is 2^63 or more"));
    CHECK(exact::cost(fleet, {Index{1} << 40, 128, 128}).operations.multiplies == (Index{1} << 55));
}

TEST_CASE("the definition itself: N(N+1)/2 (r+d)", "[exact][counts]") {
    for (Index N : lengths) {
        INFO("N=" << N);
        CHECK(count(N, 1, [](auto& h) { exact::definition(h); }) == macs(tau(N) * (r + d)));
        CHECK(count(N, 0.5, [](auto& h) { exact::definition(h); }) == macs(tau(N) * (r + d), tau(N)));
    }
}

TEST_CASE("lightning-attention-2 is linear for a fixed block, quadratic only for a block that grows",
          "[exact][counts]") {
    // Claims B2, settling O(N²) of fleet Table 1 against O(N) of leet Table 1.
    const auto total = [](Index N, Index b) {
        return static_cast<double>(count(N, 1, [b](auto& h) { exact::lightning_attention_2(h, b); }).multiplies);
    };
    const double b = 16, rd = r * d;
    CHECK(total(1024, 16) / total(512, 16) == Approx(2 + 2 * b * rd / total(512, 16)));
    CHECK(total(1024, 1024) / total(512, 512) > 3.9);
}

TEST_CASE("recursion: rd·S(N,t) and its leaves, every length to 300", "[exact][counts]") {
    for (Index t : {1, 2, 3, 7, 31, 32, 64}) {
        for (Index N = 1; N <= 300; N = N < 140 ? N + 1 : N + 13) {
            INFO("N=" << N << " t=" << t);
            const OperationCount closed = exact::cost(exact::method("recursion"), {N, r, d, t}).operations;
            CHECK(closed == macs(r * d * exact::halved(N, t) + (r + d) * leaves(N, t)));
            CHECK(count(N, 1, [t](auto& h) { exact::recursion(h, t); }) == closed);
            CHECK(count(N, 1, [t](auto& h) { exact::recursion(h, t, exact::Leaf::row_based); }) ==
                  macs(r * d * exact::halved(N, t) + 2 * N * r * d));
            // With decay the base case is the same: rS multiplies for the scaled rows, and the masks of the leaves.
            CHECK(count(N, 0.5, [t](auto& h) { exact::recursion(h, t); }) ==
                  exact::cost(exact::method("recursion"), {N, r, d, t, true}).operations);
        }
    }
}

TEST_CASE("recursion: the closed form of S equals the sum over nodes, to 3000, and its printed values",
          "[exact][counts]") {
    struct Nodes {
        static Index sum(Index n, Index t) { return n <= t ? 0 : n + sum(n / 2, t) + sum(n - n / 2, t); }
    };
    for (Index t : {1, 2, 3, 7, 31, 32, 64})
        for (Index N = 1; N <= 3000; ++N) {
            INFO("N=" << N << " t=" << t);
            REQUIRE(exact::halved(N, t) == Nodes::sum(N, t));
        }
    CHECK(exact::halved(3, 1) == 5);
    CHECK(exact::halved(1000, 32) == 5000);
    CHECK(exact::halved(100000, 32) == 1200000);
    // Claims C4: "less than 32" against "at most 32" is one level more at 32·2^m.
    CHECK(exact::halved(4096, 32) == 28672);
    CHECK(exact::halved(4096, 31) == 32768);
}

TEST_CASE("fleet in tiles: 2Nrd multiplies and (3N - ⌈N/Br⌉)rd adds", "[exact][counts]") {
    for (Index N : lengths) {
        for (Index Br : {Index{1}, Index{7}, Index{16}, N, N + 5}) {
            const Index Tr = (N + Br - 1) / Br;
            for (Index Bc : {1, 2, 5}) {
                INFO("N=" << N << " Br=" << Br << " Bc=" << Bc);
                CHECK(count(N, 1, [&](auto& h) { exact::fleet(h, Br, Bc); }) ==
                      OperationCount{2 * N * r * d, (3 * N - Tr) * r * d, 0, 0});
                CHECK(count(N, 0.5, [&](auto& h) { exact::fleet(h, Br, Bc); }) ==
                      OperationCount{(4 * N - Tr) * r * d, (3 * N - Tr) * r * d, 0, 0});
            }
        }
    }
}

TEST_CASE("normalised: the counts of width d+1 and Nd divisions, through the public call", "[exact][counts]") {
    const Case c{1, 2, 65, r, d, {}, true, 61};
    const Inputs in = inputs(c, DType::f64);
    OperationCount n;
    const auto result = causal_linear_attention_counted(in.B, in.C, in.V, options(c, "row-based"), n);
    CHECK(n == OperationCount{2 * 2 * c.N * r * (d + 1), 2 * 2 * c.N * r * (d + 1), 0, 2 * c.N * d});
    CHECK(Oracle(c, in).mismatch(result.O) == "");
    CHECK_THROWS_WITH(causal_linear_attention_counted(in.B, in.C, in.V, options(c, "auto"), n),
                      contains_text("names no definition"));
}

TEST_CASE("counts of the caller survive a counted call that is stopped", "[exact][counts]") {
    const Case c{1, 1, 40, r, d, {}, false, 62};
    const Inputs in = inputs(c, DType::f64);
    OperationCount n;
    counted = {1, 2, 3, 4};
    interrupt::request();
    CHECK_THROWS_AS(causal_linear_attention_counted(in.B, in.C, in.V, options(c, "inner-product"), n), Interrupted);
    interrupt::clear();
    CHECK(n == OperationCount{});
    CHECK(counted == OperationCount{1, 2, 3, 4});
    causal_linear_attention_counted(in.B, in.C, in.V, options(c, "inner-product"), n);
    CHECK(n.adds == tau(40) * (r + d));
    CHECK(std::exchange(counted, {}) == OperationCount{1, 2, 3, 4});
}
