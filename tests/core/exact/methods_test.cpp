// Every method against the definition in Float64: options, awkward sizes, element types, strong decay, special values.
#include "tests/core/exact/problems.hpp"
#include "tests/core/exact/suite.hpp"

#include "core/base/parallel.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

const std::vector<Index> lengths{0, 1, 2, 17, 63, 64, 65, 97, 257};

std::vector<std::vector<double>> decays(Index heads) {
    std::vector<double> mixed;
    for (Index h = 0; h < heads; ++h) mixed.push_back(h % 2 == 0 ? 1.0 : 0.5);
    return {{}, {0.9}, {1e-3}, {1e-30}, mixed};
}

void check_methods(const Methods& methods, const Case& c, DType type, const std::vector<Index>& blocks) {
    const Inputs in = inputs(c, type);
    const Oracle oracle(c, in);
    const Poison poison;
    for (const Method& m : methods) {
        auto o = options(c, m.name);
        INFO(m.name << " " << c << " " << name(type));
        CHECK(oracle.mismatch(causal_linear_attention(in.B, in.C, in.V, o).O, m) == "");
        if (m.block == 0) continue;
        for (Index block : blocks) {
            o.block = block;
            INFO("block=" << block);
            CHECK(oracle.mismatch(causal_linear_attention(in.B, in.C, in.V, o).O, m) == "");
        }
    }
}

}  // namespace

void test::equal_the_definition_for_every_option(const Methods& methods) {
    unsigned seed = 100;
    for (Index N : lengths)
        for (const auto& decay : decays(3))
            for (bool normalize : {false, true})
                for (DType type : {DType::f32, DType::f64})
                    check_methods(methods, {2, 3, N, 16, 24, decay, normalize, ++seed}, type, {1, 7, N + 5});
}

TEST_CASE("every method equals the definition, for every length, decay, normalisation and type", "[exact]") {
    equal_the_definition_for_every_option(exact::methods());
}

void test::equal_the_definition_at_any_width(const Methods& methods) {
    unsigned seed = 900;
    const std::vector<std::pair<Index, Index>> widths{{1, 1}, {3, 5}, {17, 33}, {64, 20}, {5, 130}, {128, 1}};
    for (const auto& [r, d] : widths)
        for (Index N : {1, 65, 130})
            for (const auto& decay : decays(1))
                for (bool normalize : {false, true})
                    for (DType type : {DType::f32, DType::f64})
                        check_methods(methods, {1, 1, N, r, d, decay, normalize, ++seed}, type, {64, 96});
}

TEST_CASE("every method equals the definition, for widths that no vector divides", "[exact]") {
    equal_the_definition_at_any_width(exact::methods());
}

void test::equal_the_definition_at_length_1000(const Methods& methods) {
    for (const auto& decay : decays(2))
        check_methods(methods, {1, 2, 1000, 33, 17, decay, false, 77}, DType::f32, {100, 128, 1000});
    check_methods(methods, {1, 1, 1000, 32, 64, {0.99}, true, 78}, DType::f32, {17});
}

TEST_CASE("every method equals the definition at length 1000", "[exact]") {
    equal_the_definition_at_length_1000(exact::methods());
}

void test::equal_the_definition_on_a_long_head(const Methods& methods) {
    // Fewer heads than threads: blocks of one head in parallel, recursion by levels.
    const int before = threads();
    set_threads(3);
    check_methods(methods, {1, 1, 2500, 16, 16, {}, false, 5}, DType::f32, {64, 1000});
    check_methods(methods, {1, 1, 2500, 16, 16, {0.999}, true, 6}, DType::f64, {64});
    set_threads(before);
}

TEST_CASE("a single head longer than a wave of blocks equals the definition", "[exact]") {
    equal_the_definition_on_a_long_head(exact::methods());
}

void test::sum_nothing_to_zero(const Methods& methods) {
    const Poison poison;
    for (const Method& m : methods) {
        INFO(m.name);
        const Tensor empty(DType::f32, {1, 2, 9, 0}), V = Tensor::full(DType::f32, {1, 2, 9, 5}, 1);
        CausalOptions o;
        o.method = m.name;
        const Tensor O = causal_linear_attention(empty, empty, V, o).O;
        for (Index i = 0; i < O.size(); ++i) CHECK(O.get(i) == 0);
        CHECK(causal_linear_attention(V, V, empty, o).O.size() == 0);
    }
}

TEST_CASE("a rank or width of zero is a sum of nothing", "[exact]") { sum_nothing_to_zero(exact::methods()); }

void test::give_exact_zeros_and_take_denormals(const Methods& methods) {
    const Poison poison;
    const Case c{1, 2, 97, 16, 16, {0.5}, false, 3};
    Inputs in = inputs(c, DType::f32);
    for (const Method& m : methods) {
        INFO(m.name);
        const Tensor O =
            causal_linear_attention(Tensor::zeros(DType::f32, in.B.shape()), in.C, in.V, options(c, m.name)).O;
        for (Index i = 0; i < O.size(); ++i) REQUIRE(O.get(i) == 0);
    }
    for (Tensor* A : {&in.B, &in.C}) *A = Tensor::full(DType::f32, in.B.shape(), 1.0);
    in.V = Tensor::full(DType::f32, in.V.shape(), 3e-40);
    const Oracle oracle(c, in);
    for (const Method& m : methods) {
        INFO(m.name);
        CHECK(oracle.mismatch(causal_linear_attention(in.B, in.C, in.V, options(c, m.name)).O, m) == "");
    }
}

TEST_CASE("zeros give exact zeros and denormals stay within the smallest numbers", "[exact]") {
    give_exact_zeros_and_take_denormals(exact::methods());
}

void test::take_strong_decay(const Methods& methods) {
    // Powers of γ span 1 ... 1e-3000; any form with γ^(-j) would overflow here.
    for (double gamma : {1e-3, 0.1, 0.5}) {
        const Case c{1, 2, 1000, 8, 8, {gamma}, false, 11};
        Inputs in = inputs(c, DType::f32);
        for (Index i = 0; i < in.B.size(); ++i) in.B.set(i, 1e12 * in.B.get(i));
        const Oracle oracle(c, in);
        const Poison poison;
        for (const Method& m : methods) {
            INFO(m.name << " gamma=" << gamma);
            CHECK(oracle.mismatch(causal_linear_attention(in.B, in.C, in.V, options(c, m.name)).O, m) == "");
        }
    }
}

TEST_CASE("strong decay with large values neither overflows nor gives NaN", "[exact]") {
    take_strong_decay(exact::methods());
}

TEST_CASE("two- and three-dimensional inputs, 16-bit types and scale", "[exact]") {
    const Case c{1, 1, 65, 8, 6, {0.9}, false, 21};
    const Inputs in = inputs(c, DType::f32);
    const Tensor whole = causal_linear_attention(in.B, in.C, in.V, options(c, "fleet")).O;
    const auto flat = [](const Tensor& A) { return A.reshape({A.shape()[2], A.shape()[3]}); };
    const Tensor two = causal_linear_attention(flat(in.B), flat(in.C), flat(in.V), options(c, "fleet")).O;
    CHECK(two.shape() == Shape{65, 6});
    CHECK(same_bits(two, flat(whole)));

    for (DType type : {DType::f16, DType::bf16}) {
        const Inputs small{in.B.to(type), in.C.to(type), in.V.to(type)};
        const Inputs rounded{small.B.to(DType::f32), small.C.to(DType::f32), small.V.to(DType::f32)};
        const Tensor O = causal_linear_attention(small.B, small.C, small.V, options(c, "lightning-attention-2")).O;
        CHECK(O.dtype() == type);
        CHECK(same_bits(
            O,
            causal_linear_attention(rounded.B, rounded.C, rounded.V, options(c, "lightning-attention-2")).O.to(type)));
    }

    auto scaled = options(c, "row-based");
    scaled.scale = -2;
    const Tensor O = causal_linear_attention(in.B, in.C, in.V, scaled).O,
                 plain = causal_linear_attention(in.B, in.C, in.V, options(c, "row-based")).O;
    for (Index i = 0; i < O.size(); ++i) REQUIRE(O.get(i) == -2 * plain.get(i));
}

TEST_CASE("the checks of this file can fail", "[exact]") {
    const Case c{1, 2, 65, 8, 8, {0.9}, false, 31};
    const Inputs in = inputs(c, DType::f32);
    const Oracle oracle(c, in);
    Tensor O = causal_linear_attention(in.B, in.C, in.V, options(c, "vanilla")).O;
    CHECK(oracle.mismatch(O) == "");
    const double right = O.get(500);
    O.set(500, right * 1.001);
    CHECK(oracle.mismatch(O) != "");
    O.set(500, std::nan(""));
    CHECK(oracle.mismatch(O) != "");
    auto without = options(c, "vanilla");
    without.decay = {};
    CHECK(oracle.mismatch(causal_linear_attention(in.B, in.C, in.V, without).O) != "");
}
