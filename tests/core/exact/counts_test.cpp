// Counted operations of the definitions against the closed forms of the claims (B1, C1, C4, D3's minimal form), exactly.
#include <cmath>

#include "core/exact/block_based.hpp"
#include "core/exact/causal_dot_product.hpp"
#include "core/exact/fleet.hpp"
#include "core/exact/lightning.hpp"
#include "core/exact/recursion.hpp"
#include "core/exact/row_based.hpp"
#include "core/exact/vanilla.hpp"
#include "tests/core/exact/problems.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

constexpr Index r = 3, d = 2;

// Operations of f on one head of N tokens, all ones.
template <class F>
OperationCount count(Index N, double gamma, F&& f) {
    const std::vector<Counted> x(static_cast<std::size_t>(N * std::max(r, d)), Counted(1));
    std::vector<Counted> O(static_cast<std::size_t>(N * d));
    const exact::Head<Counted> h{{x.data(), N, r}, {x.data(), N, r}, {x.data(), N, d}, {O.data(), N, d}, gamma, nullptr};
    counted = {};
    f(h);
    // The last output of N ones: Σ_j γ^(N-j) r.
    double sum = 0;
    for (Index j = 0; j < N; ++j) sum += static_cast<double>(r) * std::pow(gamma, static_cast<double>(j));
    if (N > 0) REQUIRE(std::abs(O[static_cast<std::size_t>(N * d - 1)].value - sum) <= 1e-12 * sum);
    return std::exchange(counted, {});
}

OperationCount macs(Index multiply_adds, Index more_multiplies = 0) { return {multiply_adds + more_multiplies, multiply_adds, 0, 0}; }

Index tau(Index n) { return n * (n + 1) / 2; }

// Blocks of b: triangular tile cost q, number of blocks, length of the last.
struct Blocks {
    Index T, s, q;
    Blocks(Index N, Index b) : T((N + b - 1) / b), s(N - (T - 1) * b), q((T - 1) * tau(b) + tau(s)) {}
};

// Claims C1: the sum of the sizes of the inner nodes.
Index S(Index N, Index t) {
    if (N <= t) return 0;
    Index D = 0;
    while ((N + (Index{1} << D) - 1) >> D > t) ++D;  // ⌈log2(N/t)⌉
    const Index half = Index{1} << (D - 1);
    return N / half > t ? N * D : N * (D - 1) + (t + 1) * (N - t * half);
}

// Sum of tau over the leaves, by the rule of halving.
Index leaves(Index n, Index t) { return n <= t ? tau(n) : leaves(n / 2, t) + leaves(n - n / 2, t); }

const std::vector<Index> lengths{1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 97, 100, 127, 128, 129};

}  // namespace

TEST_CASE("vanilla: N²(r+d) multiply-adds and N² mask multiplies; the definition: N(N+1)/2 (r+d)", "[exact][counts]") {
    for (Index N : lengths) {
        INFO("N=" << N);
        CHECK(count(N, 1, [](auto& h) { exact::vanilla(h); }) == macs(N * N * (r + d), N * N));
        CHECK(count(N, 0.5, [](auto& h) { exact::vanilla(h); }) == macs(N * N * (r + d), N * N));
        CHECK(count(N, 1, [](auto& h) { exact::definition(h); }) == macs(tau(N) * (r + d)));
        CHECK(count(N, 0.5, [](auto& h) { exact::definition(h); }) == macs(tau(N) * (r + d), tau(N)));
    }
}

TEST_CASE("row-based, causal-dot-product and fleet rank by rank: 2Nrd, and Nrd multiplies more with decay", "[exact][counts]") {
    for (Index N : lengths) {
        INFO("N=" << N);
        for (double gamma : {1.0, 0.5}) {
            const OperationCount expected = macs(2 * N * r * d, gamma < 1 ? N * r * d : 0);
            CHECK(count(N, gamma, [](auto& h) { exact::row_based(h); }) == expected);
            CHECK(count(N, gamma, [](auto& h) { exact::causal_dot_product(h); }) == expected);
            CHECK(count(N, gamma, [](auto& h) { exact::fleet_untiled(h); }) == expected);
        }
    }
}

TEST_CASE("block-based and lightning-attention-2: q(r+d) + (2N-b-s)rd", "[exact][counts]") {
    for (Index N : lengths) {
        for (Index b : {Index{1}, Index{2}, Index{7}, Index{32}, N - 1, N, N + 3}) {
            if (b < 1) continue;
            INFO("N=" << N << " b=" << b);
            const Blocks k(N, b);
            const Index carries = k.T > 1 ? (2 * N - b - k.s) * r * d : 0;
            const OperationCount expected = macs(k.q * (r + d) + carries);
            CHECK(count(N, 1, [b](auto& h) { exact::block_based(h, b); }) == expected);
            CHECK(count(N, 1, [b](auto& h) { exact::lightning_attention_2(h, b); }) == expected);

            // Decay: the mask q, rows of B and C, and the carry of the blocks between first and last; at most
            // q + 2Nr + Trd. Lightning scales the d outputs of a row instead of the r entries of b.
            const Index scaled = k.T > 1 ? N - b : 0, updated = k.T > 1 ? N - k.s : 0, carried = std::max<Index>(k.T - 2, 0) * r * d;
            const auto decayed = count(N, 0.5, [b](auto& h) { exact::block_based(h, b); });
            CHECK(decayed == macs(k.q * (r + d) + carries, k.q + (scaled + updated) * r + carried));
            CHECK(decayed.multiplies - decayed.adds <= k.q + 2 * N * r + k.T * r * d);
            CHECK(count(N, 0.5, [b](auto& h) { exact::lightning_attention_2(h, b); }) == macs(k.q * (r + d) + carries, k.q + scaled * d + updated * r + carried));
        }
    }
}

TEST_CASE("lightning-attention-2 is linear for a fixed block, quadratic only for a block that grows", "[exact][counts]") {
    // Claims B2, settling O(N²) of 000 Table 1 against O(N) of leet Table 1.
    const auto total = [](Index N, Index b) { return static_cast<double>(count(N, 1, [b](auto& h) { exact::lightning_attention_2(h, b); }).multiplies); };
    const double b = 16, rd = r * d;
    CHECK(total(1024, 16) / total(512, 16) == Approx(2 + 2 * b * rd / total(512, 16)));
    CHECK(total(1024, 1024) / total(512, 512) > 3.9);
}

TEST_CASE("recursion: rd·S(N,t) and its leaves, every length to 300", "[exact][counts]") {
    for (Index t : {1, 2, 3, 7, 31, 32, 64}) {
        for (Index N = 1; N <= 300; N = N < 140 ? N + 1 : N + 13) {
            INFO("N=" << N << " t=" << t);
            CHECK(count(N, 1, [t](auto& h) { exact::recursion(h, t); }) == macs(r * d * S(N, t) + (r + d) * leaves(N, t)));
            CHECK(count(N, 1, [t](auto& h) { exact::recursion(h, t, exact::Leaf::row_based); }) == macs(r * d * S(N, t) + 2 * N * r * d));
            // With decay the base case is the same: rS multiplies for the scaled rows, and the masks of the leaves.
            CHECK(count(N, 0.5, [t](auto& h) { exact::recursion(h, t); }) == macs(r * d * S(N, t) + (r + d) * leaves(N, t), r * S(N, t) + leaves(N, t)));
        }
    }
}

TEST_CASE("recursion: the closed form of S equals the sum over nodes, to 3000, and its printed values", "[exact][counts]") {
    struct Nodes {
        static Index sum(Index n, Index t) { return n <= t ? 0 : n + sum(n / 2, t) + sum(n - n / 2, t); }
    };
    for (Index t : {1, 2, 3, 7, 31, 32, 64})
        for (Index N = 1; N <= 3000; ++N) {
            INFO("N=" << N << " t=" << t);
            REQUIRE(S(N, t) == Nodes::sum(N, t));
        }
    CHECK(S(3, 1) == 5);
    CHECK(S(1000, 32) == 5000);
    CHECK(S(100000, 32) == 1200000);
    // Claims C4: "less than 32" against "at most 32" is one level more at 32·2^m.
    CHECK(S(4096, 32) == 28672);
    CHECK(S(4096, 31) == 32768);
}

TEST_CASE("fleet in tiles: 2Nrd multiplies and (3N - ⌈N/Br⌉)rd adds", "[exact][counts]") {
    for (Index N : lengths) {
        for (Index Br : {Index{1}, Index{7}, Index{16}, N, N + 5}) {
            const Index Tr = (N + Br - 1) / Br;
            for (Index Bc : {1, 2, 5}) {
                INFO("N=" << N << " Br=" << Br << " Bc=" << Bc);
                CHECK(count(N, 1, [&](auto& h) { exact::fleet(h, Br, Bc); }) == OperationCount{2 * N * r * d, (3 * N - Tr) * r * d, 0, 0});
                CHECK(count(N, 0.5, [&](auto& h) { exact::fleet(h, Br, Bc); }) == OperationCount{(4 * N - Tr) * r * d, (3 * N - Tr) * r * d, 0, 0});
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
    CHECK_THROWS_WITH(causal_linear_attention_counted(in.B, in.C, in.V, options(c, "auto"), n), contains_text("names no definition"));
}
