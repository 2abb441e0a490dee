#include "core/exact/row_sums.hpp"

#include <cmath>
#include <limits>

#include "core/base/error.hpp"
#include "tests/catch.hpp"

using namespace causeway;

namespace {

Tensor column(DType type, std::vector<double> values) {
    Tensor out(type, {static_cast<Index>(values.size()), 1});
    for (std::size_t i = 0; i < values.size(); ++i) out.set(static_cast<Index>(i), values[i]);
    return out;
}

}  // namespace

TEST_CASE("rows whose weights cancel are counted, the first one named", "[exact][row-sums]") {
    for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
        // Sums of C: 1, 0, -1, 1, 0.
        const Tensor ones = column(type, {1, 1, 1, 1, 1}), C = column(type, {1, -1, -1, 2, -1});
        const auto rows = exact::cancelled_rows(ones, C, C, {});
        CHECK(rows.count == 3);
        CHECK(rows.head == 0);
        CHECK(rows.token == 1);
        // With decay 1/2: 1, -1/2, -5/4, 11/8, -5/16.
        CHECK(exact::cancelled_rows(ones, C, C, {0.5}).count == 3);
        CHECK(exact::cancelled_rows(ones, ones, ones, {0.5}).count == 0);
        CHECK(exact::cancelled_rows(column(type, {1, 0, 1, 1, 1}), ones, ones, {}).token == 1);
    }
    // A sum of a thousandth of the sizes is none to divide by; two thousandths are.
    CHECK(exact::cancelled_rows(column(DType::f64, {1, 1}), column(DType::f64, {1, -0.9990}),
                                column(DType::f64, {1, 1}), {})
              .count == 1);
    CHECK(exact::cancelled_rows(column(DType::f64, {1, 1}), column(DType::f64, {1, -0.9950}),
                                column(DType::f64, {1, 1}), {})
              .count == 0);
    // What is not finite says nothing about the weights.
    const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
    CHECK(
        exact::cancelled_rows(column(DType::f64, {1, 1}), column(DType::f64, {nan, 1}), column(DType::f64, {1, 1}), {})
            .count == 0);
    CHECK(
        exact::cancelled_rows(column(DType::f64, {1, inf}), column(DType::f64, {1, -1}), column(DType::f64, {1, 1}), {})
            .count == 0);
}

TEST_CASE("each head has its decay and its rows", "[exact][row-sums]") {
    Tensor B = Tensor::full(DType::f32, {2, 2, 3, 1}, 1), C = B.copy();
    C.set(10, -1.5);  // batch 2, head 2, token 2
    auto rows = exact::cancelled_rows(B, C, C, {1, 1});
    CHECK(rows.count == 1);
    CHECK(rows.head == 3);
    CHECK(rows.token == 1);
    rows = exact::cancelled_rows(B, C, C, {1, 0.25});  // -1.25, then 0.6875
    CHECK(rows.count == 1);
    CHECK_THROWS_AS(exact::cancelled_rows(B, Tensor::zeros(DType::f32, {2, 2, 3, 2}), C, {}), Error);
    CHECK_THROWS_AS(exact::cancelled_rows(B, C, C, {2}), Error);
}
