#include "core/tensor/matmul.hpp"

#include <cmath>

#include "core/base/parallel.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/catch.hpp"
#include "tests/core/tensor/sample.hpp"

using namespace causeway;

namespace {

// The definition, on matrices a m × k and b k × n.
Tensor plain(const Tensor& a, const Tensor& b) {
    const Index m = a.shape()[0], k = a.shape()[1], n = b.shape()[1];
    Tensor c = Tensor::zeros(DType::f64, {m, n});
    for (Index i = 0; i < m; ++i) {
        for (Index j = 0; j < n; ++j) {
            double sum = 0;
            for (Index l = 0; l < k; ++l) sum += a.get(i * k + l) * b.get(l * n + j);
            c.set(i * n + j, sum);
        }
    }
    return c;
}

// Matrix (i, j) of a tensor [.., .., m, n]; an index beyond a dimension of length 1 means its only entry.
Tensor matrix(const Tensor& a, Index i, Index j) {
    Box box;
    box.first = {a.shape()[0] == 1 ? 0 : i, a.shape()[1] == 1 ? 0 : j, 0, 0};
    box.count = {1, 1, a.shape()[2], a.shape()[3]};
    box.drop = {true, true, false, false};
    return part(a, box);
}

}  // namespace

TEST_CASE("a matrix product is the sum of products, at awkward sizes", "[tensor]") {
    for (Index m : {1, 3, 17, 129, 300}) {
        for (Index k : {1, 5, 64}) {
            for (Index n : {1, 4, 33, 513}) {
                CAPTURE(m, k, n);
                const Tensor a = sample({m, k}, 1), b = sample({k, n}, 2);
                CHECK(distance(matmul(a, b), plain(a, b)) <= 1e-13 * static_cast<double>(k));
                const Tensor x = a.to(DType::f32), y = b.to(DType::f32);
                const Tensor product = matmul(x, y);
                CHECK(product.dtype() == DType::f32);
                CHECK(distance(product.to(DType::f64), plain(x, y)) <= 1e-5 * std::sqrt(static_cast<double>(k)));
            }
        }
    }
}

TEST_CASE("leading dimensions broadcast", "[tensor]") {
    const Shape lefts[] = {{2, 3, 4, 5}, {1, 3, 4, 5}, {2, 1, 4, 5}, {1, 1, 4, 5}};
    const Shape rights[] = {{2, 3, 5, 6}, {1, 3, 5, 6}, {2, 1, 5, 6}, {1, 1, 5, 6}};
    for (const Shape& left : lefts) {
        for (const Shape& right : rights) {
            CAPTURE(left.text(), right.text());
            const Tensor a = sample(left, 1), b = sample(right, 2), c = matmul(a, b);
            REQUIRE(c.shape() == Shape{std::max(left[0], right[0]), std::max(left[1], right[1]), 4, 6});
            for (Index i = 0; i < c.shape()[0]; ++i) {
                for (Index j = 0; j < c.shape()[1]; ++j)
                    CHECK(distance(matrix(c, i, j), plain(matrix(a, i, j), matrix(b, i, j))) < 1e-13);
            }
        }
    }
    CHECK(matmul(sample({2, 3, 4, 5}, 1), sample({5, 6}, 2)).shape() == Shape{2, 3, 4, 6});
    CHECK(matmul(sample({4, 5}, 1), sample({3, 5, 6}, 2)).shape() == Shape{3, 4, 6});
}

TEST_CASE("one-dimensional operands are rows on the left and columns on the right", "[tensor]") {
    const Tensor a = sample({3, 4}, 1), x = sample({4}, 2), y = sample({3}, 3);
    CHECK(distance(matmul(a, x), plain(a, x.reshape({4, 1})).reshape({3})) < 1e-14);
    CHECK(distance(matmul(y, a), plain(y.reshape({1, 3}), a).reshape({4})) < 1e-14);
    CHECK(matmul(sample({2, 3, 4}, 1), x).shape() == Shape{2, 3});
    CHECK_THROWS_WITH(matmul(x, x),
                      "*: shapes 4 and 4: a product of two vectors is dot(A, B) or, element by element, times(A, B)");
}

TEST_CASE("products with an empty dimension", "[tensor]") {
    const Tensor c = matmul(Tensor(DType::f32, {2, 0}), Tensor(DType::f32, {0, 3}));
    CHECK(distance(c, Tensor::zeros(DType::f32, {2, 3})) == 0);
    CHECK(matmul(Tensor(DType::f32, {0, 4}), Tensor(DType::f32, {4, 3})).shape() == Shape{0, 3});
    CHECK(matmul(Tensor(DType::f32, {0, 2, 4}), Tensor(DType::f32, {4, 3})).shape() == Shape{0, 2, 3});
}

TEST_CASE("shapes without a product are named", "[tensor]") {
    CHECK_THROWS_WITH(matmul(sample({2, 3}, 1), sample({4, 5}, 1)),
                      "*: shapes 2×3 and 4×5 do not fit: a matrix product needs the columns of the left (3) to be the "
                      "rows of the right (4)");
    CHECK_THROWS_WITH(matmul(sample({2, 3, 4}, 1), sample({3, 4, 5}, 1)),
                      "*: shapes 2×3×4 and 3×4×5 do not match: the dimensions before the last two, of the batch, are "
                      "2 and 3");
}

TEST_CASE("products do not depend on the number of threads", "[tensor]") {
    const int before = threads();
    const Tensor a = sample({2, 300, 70}, 1, DType::f32), b = sample({2, 70, 600}, 2, DType::f32);
    set_threads(1);
    const Tensor one = matmul(a, b);
    set_threads(3);
    CHECK(identical(matmul(a, b), one));
    set_threads(before);
}
