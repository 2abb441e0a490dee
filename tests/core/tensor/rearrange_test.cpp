#include "core/tensor/rearrange.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/core/tensor/sample.hpp"

using namespace causeway;

namespace {

using Indices = std::array<Index, Shape::max_ndim>;

Index flat(const Shape& shape, const Indices& index) {
    Index position = 0;
    for (int i = 0; i < shape.ndim(); ++i) position = position * shape[i] + index[static_cast<std::size_t>(i)];
    return position;
}

// Every index of the shape, in row-major order.
std::vector<Indices> indices(const Shape& shape) {
    std::vector<Indices> out;
    for (Index p = 0; p < shape.size(); ++p) {
        Indices index{};
        Index rest = p;
        for (int i = shape.ndim() - 1; i >= 0; --i) {
            index[static_cast<std::size_t>(i)] = rest % shape[i];
            rest /= shape[i];
        }
        out.push_back(index);
    }
    return out;
}

Box whole(const Tensor& a) {
    Box box;
    for (int i = 0; i < a.ndim(); ++i) box.count[static_cast<std::size_t>(i)] = a.shape()[i];
    return box;
}

}  // namespace

TEST_CASE("permute moves every element to its permuted index", "[tensor]") {
    for (DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
        const Tensor a = sample({2, 3, 4, 5}, 1, type);
        std::vector<int> order{0, 1, 2, 3};
        do {
            const Tensor b = permute(a, order);
            bool equal = b.dtype() == type;
            for (const Indices& index : indices(a.shape())) {
                Indices moved{};
                for (std::size_t i = 0; i < 4; ++i) moved[i] = index[static_cast<std::size_t>(order[i])];
                equal = equal && b.get(flat(b.shape(), moved)) == a.get(flat(a.shape(), index));
            }
            CHECK(equal);
        } while (std::next_permutation(order.begin(), order.end()));
    }
}

TEST_CASE("transpose swaps the last two dimensions", "[tensor]") {
    for (const Shape& shape :
         {Shape{3, 4}, Shape{33, 65}, Shape{1, 100}, Shape{2, 40, 31}, Shape{2, 3, 4, 5}, Shape{0, 3}, Shape{2, 0}}) {
        const Tensor a = sample(shape, 2, DType::f32);
        std::vector<int> order;
        for (int i = 0; i < shape.ndim(); ++i) order.push_back(i);
        std::swap(order[order.size() - 1], order[order.size() - 2]);
        CHECK(identical(transpose(a), permute(a, order)));
        CHECK(identical(transpose(transpose(a)), a));
    }
    CHECK_THROWS_WITH(transpose(sample({3}, 1)), "t: a 3-element Tensor{Float64} has no last two dimensions to swap");
}

TEST_CASE("a part is what its box holds, and assigning it back restores the tensor", "[tensor]") {
    const Tensor a = sample({4, 5, 6, 7}, 3);
    Box box;
    box.first = {1, 0, 3, 2};
    box.count = {2, 5, 1, 4};
    box.drop = {false, false, true, false};
    const Tensor p = part(a, box);
    REQUIRE(p.shape() == Shape{2, 5, 4});
    bool equal = true;
    for (const Indices& index : indices(p.shape())) {
        equal =
            equal && p.get(flat(p.shape(), index)) == a.get(flat(a.shape(), {index[0] + 1, index[1], 3, index[2] + 2}));
    }
    CHECK(equal);
    Tensor b = a.copy();
    assign(b, box, values({7}));
    CHECK_FALSE(identical(a, b));
    assign(b, box, p);
    CHECK(identical(a, b));
}

TEST_CASE("assigning broadcasts and converts the value and writes nothing else", "[tensor]") {
    Tensor a = Tensor::zeros(DType::f32, {3, 4});
    Box box = whole(a);
    box.first[0] = 1;
    box.count[0] = 2;
    assign(a, box, values({1, 2, 3, 4}));
    for (Index j = 0; j < 4; ++j) {
        CHECK(a.get(j) == 0);
        CHECK(a.get(4 + j) == static_cast<double>(j + 1));
        CHECK(a.get(8 + j) == static_cast<double>(j + 1));
    }
    CHECK_THROWS_WITH(assign(a, box, values({1, 2, 3})), "set: value: shape 3 does not fit the part of shape 2×4");
    CHECK_THROWS_AS(assign(a, box, sample({1, 2, 4}, 1)), Error);
}

TEST_CASE("concatenated tensors are found again as parts", "[tensor]") {
    for (int dim = 0; dim < 3; ++dim) {
        Shape left{2, 3, 4}, right{2, 3, 4};
        right[dim] = 5;
        const Tensor a = sample(left, 1), b = sample(right, 2);
        const Tensor c = concatenate({a, b, a}, dim);
        REQUIRE(c.shape()[dim] == 2 * left[dim] + 5);
        Box box = whole(c);
        const auto d = static_cast<std::size_t>(dim);
        box.count[d] = left[dim];
        CHECK(identical(part(c, box), a));
        box.first[d] = left[dim];
        box.count[d] = 5;
        CHECK(identical(part(c, box), b));
    }
    CHECK(concatenate({sample({2}, 1, DType::f16), sample({3}, 1, DType::f16)}, 0).dtype() == DType::f16);
    CHECK(concatenate({sample({2}, 1, DType::f16), sample({3}, 1, DType::bf16)}, 0).dtype() == DType::f32);
    CHECK_THROWS_WITH(concatenate({sample({2, 3}, 1), sample({3, 4}, 1)}, 0),
                      "cat: argument 2 is 3×4 and the first 2×3, expected the same but for dimension 1");
    CHECK_THROWS_AS(concatenate({}, 0), Error);
}

TEST_CASE("identical compares type, shape and elements", "[tensor]") {
    const Tensor a = values({1, 2, 3});
    CHECK(identical(a, a.copy()));
    CHECK_FALSE(identical(a, a.to(DType::f32)));
    CHECK_FALSE(identical(a, a.reshape({1, 3})));
    CHECK_FALSE(identical(a, values({1, 2, 4})));
    CHECK_FALSE(identical(values({NaN}), values({NaN})));
    CHECK_FALSE(identical(values({NaN}, DType::bf16), values({NaN}, DType::bf16)));
}

TEST_CASE("diag makes a diagonal matrix of a vector and takes the diagonal of a matrix", "[tensor]") {
    const Tensor v = sample({4}, 1), m = diag(v);
    REQUIRE(m.shape() == Shape({4, 4}));
    for (Index i = 0; i < 16; ++i) CHECK(m.get(i) == (i / 4 == i % 4 ? v.get(i / 4) : 0));
    CHECK(identical(diag(m), v));
    const Tensor wide = sample({2, 5}, 2, DType::bf16), d = diag(wide);
    REQUIRE(d.shape() == Shape({2}));
    CHECK(d.get(1) == wide.get(6));
    CHECK(diag(sample({5, 2}, 3)).shape() == Shape({2}));
    CHECK_THROWS_WITH(diag(sample({2, 2, 2}, 1)), "diag: expected a vector or a matrix, got a 2×2×2 Tensor{Float64}");
}
