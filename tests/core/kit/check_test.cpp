// The sentences of the checks that all calls share.
#include "core/kit/check.hpp"

#include <limits>

#include "tests/catch.hpp"

using namespace causeway;

namespace {

Tensor zeros(const Shape& shape, DType type = DType::f32) { return Tensor::zeros(type, shape); }

}  // namespace

TEST_CASE("sizes of tensors with leading dimensions left out", "[kit][errors]") {
    CHECK(kit::four_sizes(zeros({2, 3, 4, 5}), "q") == std::array<Index, 4>{2, 3, 4, 5});
    CHECK(kit::four_sizes(zeros({4, 5}), "q") == std::array<Index, 4>{1, 1, 4, 5});
    CHECK_THROWS_WITH(kit::four_sizes(zeros({4}), "q"),
                      test::contains_text("q: a ") &&
                          test::contains_text("expected [batch, heads, length, width], [heads, length, width] or"));
}

TEST_CASE("shared checks name the argument, what was given and what was expected", "[kit][errors]") {
    CHECK_THROWS_WITH(kit::check_equal("k", "length", 9, 8, "q"), "k: length 9, expected 8 like q");
    CHECK_THROWS_WITH(kit::check_like("k", zeros({4, 5}), zeros({1, 4, 5}), "q"),
                      test::contains_text("k: 2 dimensions (") && test::contains_text("), expected 3 like q ("));
    CHECK_THROWS_WITH(kit::check_like("k", zeros({4, 5}, DType::f64), zeros({4, 5}), "q"),
                      "k: Float64, expected Float32 like q");
    CHECK_THROWS_WITH(kit::check_choice("mode", "chunk", {"recurrent", "chunkwise"}),
                      "mode: \"chunk\", expected one of \"recurrent\", \"chunkwise\" (did you mean \"chunkwise\"?)");
    CHECK(kit::check_choice("mode", "chunkwise", {"recurrent", "chunkwise"}) == 1);
}

TEST_CASE("a scale is finite in the type of the computation", "[kit][errors]") {
    kit::check_scale(1e300, DType::f64);
    CHECK_THROWS_AS(kit::check_scale(1e300, DType::f32), Error);
    CHECK_THROWS_AS(kit::check_scale(std::numeric_limits<double>::quiet_NaN(), DType::f64), Error);
}

TEST_CASE("queries, keys and values that do not belong together", "[kit][errors]") {
    const Tensor q = zeros({1, 4, 6, 5}), k = zeros({1, 2, 6, 5}), v = zeros({1, 2, 6, 3});
    const auto n = kit::check_attention(q, k, v, true);
    CHECK((n.group == 2 && n.heads == 2 && n.N == 6 && n.M == 6 && n.d == 5 && n.dv == 3));
    CHECK_THROWS_WITH(kit::check_attention(zeros({1, 3, 6, 5}), k, v, true),
                      "q: heads 3, expected a multiple of the 2 of k and v");
    CHECK_THROWS_WITH(kit::check_attention(zeros({1, 4, 7, 5}), k, v, true), "k: length 6, expected 7 like q");
    CHECK(kit::check_attention(zeros({1, 4, 7, 5}), k, v, false).N == 7);
    CHECK_THROWS_WITH(kit::check_attention(q, k, zeros({1, 2, 5, 3}), true), "v: length 5, expected 6 like k");
}

// Of no heads nothing is a multiple, nor a divisor, but no heads.
TEST_CASE("queries or values without heads", "[kit][errors]") {
    const Tensor none = zeros({1, 0, 6, 5}), two = zeros({1, 2, 6, 5});
    CHECK_THROWS_WITH(kit::check_grouped(none, two, two),
                      "q: heads 0, expected a multiple of the 2 of v, or a divisor of them");
    CHECK_THROWS_WITH(kit::check_grouped(two, none, none),
                      "q: heads 2, expected a multiple of the 0 of v, or a divisor of them");
    CHECK(kit::check_grouped(none, none, none).heads == 0);
    CHECK(kit::check_attention(none, two, two, true).group == 0);
}
