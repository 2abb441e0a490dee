// Properties: causality, split and resume, independence of the number of threads, memory.
#include "tests/core/exact/problems.hpp"
#include "tests/core/exact/suite.hpp"
#include "tests/core/gated/problems.hpp"

#include <limits>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/exact/block_based.hpp"
#include "core/exact/causal_dot_product.hpp"
#include "core/exact/fleet.hpp"
#include "core/exact/lightning.hpp"
#include "core/exact/recursion.hpp"
#include "core/exact/row_based.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

const std::vector<Case> cases{
    {2, 2, 200, 16, 24, {}, false, 41}, {1, 3, 131, 5, 33, {0.9}, false, 42}, {1, 1, 300, 20, 16, {0.99}, true, 43}};

}  // namespace

void test::are_causal(const Methods& methods) {
    for (const Case& c : cases) {
        const Inputs in = inputs(c, DType::f32);
        for (Index at : {Index{1}, c.N / 2, c.N - 1}) {
            Inputs other{in.B.copy(), in.C.copy(), in.V.copy()};
            for (Tensor* A : {&other.B, &other.C, &other.V}) {
                const Index width = A->shape()[3];
                for (Index h = 0; h < c.batch * c.heads; ++h)
                    for (Index i = at; i < c.N; ++i)
                        for (Index k = 0; k < width; ++k) A->set((h * c.N + i) * width + k, 1e6 * (k + 1));
            }
            for (const Method& m : methods) {
                INFO(m.name << " " << c << " from token " << at);
                const Tensor before = causal_linear_attention(in.B, in.C, in.V, options(c, m.name)).O;
                const Tensor after = causal_linear_attention(other.B, other.C, other.V, options(c, m.name)).O;
                CHECK(same_bits(tokens(before, 0, at), tokens(after, 0, at)));
                CHECK_FALSE(same_bits(before, after));
            }
        }
    }
}

TEST_CASE("a later token cannot change an earlier output", "[exact]") { are_causal(exact::methods()); }

void test::keep_infinities_where_they_are(const Methods& methods) {
    const Case c{1, 2, 150, 8, 8, {0.9}, false, 44};
    Inputs in = inputs(c, DType::f32);
    const Index at = 77;
    const Inputs clean{in.B.copy(), in.C.copy(), in.V.copy()};
    in.V.set(at * c.d, std::numeric_limits<double>::infinity());
    in.C.set(at * c.r + 1, std::nan(""));
    for (const Method& m : methods) {
        INFO(m.name);
        const Tensor before = causal_linear_attention(clean.B, clean.C, clean.V, options(c, m.name)).O;
        const Tensor after = causal_linear_attention(in.B, in.C, in.V, options(c, m.name)).O;
        CHECK(same_bits(tokens(before, 0, at), tokens(after, 0, at)));
    }
}

TEST_CASE("infinities and NaN of a later token stay there", "[exact]") {
    keep_infinities_where_they_are(exact::methods());
}

void test::carry_their_state(const Methods& methods) {
    for (const Case& c : cases) {
        const Inputs in = inputs(c, DType::f32);
        const Oracle oracle(c, in);
        for (const Method& m : methods) {
            if (!m.state) continue;
            for (Index at : {Index{0}, Index{1}, Index{64}, c.N - 1, c.N}) {
                INFO(m.name << " " << c << " split at " << at);
                const Poison poison;
                auto o = options(c, m.name);
                o.return_state = true;
                const auto whole = causal_linear_attention(in.B, in.C, in.V, o);
                const auto first =
                    causal_linear_attention(tokens(in.B, 0, at), tokens(in.C, 0, at), tokens(in.V, 0, at), o);
                o.state = first.state;
                const auto second =
                    causal_linear_attention(tokens(in.B, at, c.N), tokens(in.C, at, c.N), tokens(in.V, at, c.N), o);
                Tensor joined(DType::f32, whole.O.shape());
                for (Index h = 0; h < c.batch * c.heads; ++h)
                    for (Index i = 0; i < c.N; ++i)
                        for (Index k = 0; k < c.d; ++k) {
                            const double value = i < at ? first.O.get((h * at + i) * c.d + k)
                                                        : second.O.get((h * (c.N - at) + i - at) * c.d + k);
                            joined.set((h * c.N + i) * c.d + k, value);
                        }
                CHECK(oracle.mismatch(joined, m) == "");
                REQUIRE(whole.state.shape() == second.state.shape());
                for (Index i = 0; i < whole.state.size(); ++i)
                    REQUIRE(std::abs(whole.state.get(i) - second.state.get(i)) <=
                            1e-4 * (1 + std::abs(whole.state.get(i))));
            }
        }
    }
}

TEST_CASE("two parts with the state carried over equal one call", "[exact]") { carry_their_state(exact::methods()); }

void test::end_in_the_sum_of_outer_products(const Methods& methods) {
    const Case c{1, 2, 70, 4, 3, {0.8}, true, 45};
    const Inputs in = inputs(c, DType::f64);
    for (const Method& m : methods) {
        if (!m.state) continue;
        INFO(m.name);
        auto o = options(c, m.name);
        o.return_state = true;
        const Tensor state = causal_linear_attention(in.B, in.C, in.V, o).state;
        REQUIRE(state.shape() == Shape{1, 2, 4, 4});
        for (Index h = 0; h < 2; ++h)
            for (Index e = 0; e < c.r; ++e)
                for (Index k = 0; k <= c.d; ++k) {
                    double sum = 0;
                    for (Index j = 0; j < c.N; ++j) {
                        const double v = k < c.d ? in.V.get((h * c.N + j) * c.d + k) : 1;
                        sum += std::pow(0.8, static_cast<double>(c.N - 1 - j)) * in.C.get((h * c.N + j) * c.r + e) * v;
                    }
                    REQUIRE(std::abs(state.get((h * c.r + e) * 4 + k) - sum) <= 1e-12);
                }
    }
}

TEST_CASE("the final state is the discounted sum of the outer products", "[exact]") {
    end_in_the_sum_of_outer_products(exact::methods());
}

void test::do_not_depend_on_the_number_of_threads(const Methods& methods) {
    const int before = threads();
    std::vector<Case> many = cases;
    many.push_back({1, 1, 5000, 16, 24, {0.999}, false, 46});
    many.push_back({1, 5, 700, 16, 16, {}, true, 47});
    // Small and odd sizes, normalised: where a head starts in memory decides how Eigen peels its loops.
    many.push_back({1, 4, 11, 5, 5, {}, true, 48});
    many.push_back({1, 3, 39, 7, 5, {0.9}, true, 49});
    many.push_back({1, 2, 6, 6, 4, {}, true, 50});
    for (const Case& c : many) {
        const Inputs in = inputs(c, DType::f32);
        for (const Method& m : methods) {
            set_threads(1);
            auto o = options(c, m.name);
            o.return_state = m.state;
            const auto one = causal_linear_attention(in.B, in.C, in.V, o);
            for (int n : {2, 3, 7}) {
                INFO(m.name << " " << c << " threads=" << n);
                set_threads(n);
                const auto more = causal_linear_attention(in.B, in.C, in.V, o);
                CHECK(same_bits(one.O, more.O));
                if (m.state) CHECK(same_bits(one.state, more.state));
            }
        }
    }
    set_threads(before);
}

TEST_CASE("outputs of every method do not depend on the number of threads", "[exact]") {
    do_not_depend_on_the_number_of_threads(exact::methods());
}

void test::need_memory_that_grows_as_they_say(const Methods& methods) {
    const auto extra = [](const Method& m, Index N, bool normalize) {
        const Case c{1, 2, N, 16, 16, {0.99}, normalize, 48};
        const Inputs in = inputs(c, DType::f32);
        memory::reset_peak();
        const std::size_t held = memory::current();
        const Tensor O = causal_linear_attention(in.B, in.C, in.V, options(c, m.name)).O;
        return static_cast<double>(memory::peak() - held - O.bytes());
    };
    const int before = threads();
    for (const Method& m : methods) {
        INFO(m.name);
        const auto says = [&](Index N) {
            return 4.0 * static_cast<double>(m.running_memory({N, 16, 16, m.block, true}));
        };
        if (says(4096) - says(1024) > 8.0 * 4096) {
            // More than two numbers a token: what the method says, held for one head at a time.
            set_threads(1);
            const double small = extra(m, 1024, false), large = extra(m, 4096, false);
            CHECK(small >= says(1024));
            CHECK(large >= says(4096));
            CHECK(large / small == Approx(says(4096) / says(1024)).epsilon(0.01));
            continue;
        }
        set_threads(2);  // the scratch of blocks grows with the threads, up to as many blocks as there are
        // At most, for each of the two heads, a table of powers, a row of scores and, in recursion, partial sums of
        // large nodes grow at all; and either run may have had one head in work at a time or both.
        const double small = extra(m, 1024, false), large = extra(m, 4096, false);
        CHECK(large <= 2 * small + 4096 * 16.0 + 20 * 16 * 16 * 4);
        CHECK(extra(m, 4096, true) <= 8.4 * extra(m, 1024, true) + 1e5);
    }
    set_threads(before);
}

TEST_CASE("no method but vanilla needs memory that grows as N², outer-product grows as Nrd", "[exact]") {
    need_memory_that_grows_as_they_say(exact::methods());
    for (const Method& m : exact::methods()) {
        INFO(m.name);
        const auto grows = [&](Index from) {
            return static_cast<double>(exact::running_memory(m, {4 * from, 16, 16, 0, true})) /
                   static_cast<double>(std::max<Index>(exact::running_memory(m, {from, 16, 16, 0, true}), 1));
        };
        if (m.name == "vanilla") CHECK(grows(1024) >= 12);
        if (m.name == "outer-product") CHECK(grows(1024) == 4);
    }
}

TEST_CASE("the memory of the definitions is that of the claims", "[exact]") {
    // Exact, in scalars: vanilla N², row-based and causal-dot-product rd, fleet rank by rank d.
    const Index N = 200, r = 8, d = 12, b = 32;
    const std::vector<double> x(static_cast<std::size_t>(N * 16), 1);
    std::vector<double> O(static_cast<std::size_t>(N * 16));
    const exact::Head<double> h{{x.data(), N, r}, {x.data(), N, r}, {x.data(), N, d}, {O.data(), N, d}, 1, nullptr};
    const auto scalars = [&](auto&& f) {
        memory::reset_peak();
        const std::size_t held = memory::current();
        f();
        return static_cast<Index>((memory::peak() - held) / sizeof(double));
    };
    CHECK(scalars([&] { exact::vanilla(h); }) == N * N);
    CHECK(scalars([&] { exact::row_based(h); }) == r * d);
    CHECK(scalars([&] { exact::causal_dot_product(h); }) == r * d);
    CHECK(scalars([&] { exact::block_based(h, b); }) == r * d + b * b);
    CHECK(scalars([&] { exact::lightning_attention_2(h, b); }) == r * d + b);
    CHECK(scalars([&] { exact::recursion(h, b); }) == r * d + b * b);
    CHECK(scalars([&] { exact::recursion(h, b, exact::Leaf::row_based); }) == r * d);
    CHECK(scalars([&] { exact::fleet_untiled(h); }) == d);
    CHECK(scalars([&] { exact::fleet(h, b, Index{5}); }) == r * d + b * 5);
}

TEST_CASE("a computation stops at the time limit and on request, and the next one goes on", "[exact]") {
    const Case c{1, 2, 6000, 64, 64, {}, false, 49};
    const Inputs in = inputs(c, DType::f32);
    interrupt::set_deadline(1e-3);
    CHECK_THROWS_AS(causal_linear_attention(in.B, in.C, in.V, options(c, "vanilla")), Timeout);
    interrupt::set_deadline(0);
    interrupt::request();
    CHECK_THROWS_AS(causal_linear_attention(in.B, in.C, in.V, options(c, "row-based")), Interrupted);
    interrupt::clear();
    CHECK(causal_linear_attention(in.B, in.C, in.V, options(c, "row-based")).O.size() == in.V.size());
}
