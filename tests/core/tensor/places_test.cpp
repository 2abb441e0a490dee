#include "core/tensor/places.hpp"

#include "core/tensor/elementwise.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/catch.hpp"
#include "tests/core/tensor/sample.hpp"

using namespace causeway;

namespace {

// The one slice of `a` at place i of dimension `dim`.
Box slice(const Tensor& a, int dim, Index i) {
    Box box;
    for (int k = 0; k < a.ndim(); ++k) box.count[static_cast<std::size_t>(k)] = a.shape()[k];
    box.first[static_cast<std::size_t>(dim)] = i;
    box.count[static_cast<std::size_t>(dim)] = 1;
    return box;
}

std::vector<std::vector<Index>> lists(Index n) {
    std::vector<Index> many;
    for (Index i = 0; i < 9000; ++i) many.push_back((7 * i + 3) % n);
    return {{}, {n - 1}, {n - 1, 0, n - 1}, many};
}

}  // namespace

TEST_CASE("add_slices adds the slices of a place that is named several times", "[tensor]") {
    for (DType type : {DType::f32, DType::f64}) {
        const Tensor a = sample({2, 3, 4}, 1, type);
        for (int dim = 0; dim < 3; ++dim) {
            const std::vector<Index> places{1, 0, 1, 1};
            Shape shape = a.shape();
            shape[dim] = 4;
            const Tensor slices = sample(shape, 2, type);
            Tensor sum = a.copy(), expected = a.copy();
            add_slices(sum, dim, places, slices);
            for (Index j = 0; j < 4; ++j) {
                const Box to = slice(a, dim, places[static_cast<std::size_t>(j)]);
                assign(expected, to, apply(Binary::add, part(expected, to), part(slices, slice(slices, dim, j))));
            }
            CHECK(identical(sum, expected));
        }
    }
}

TEST_CASE("take copies the slices of its list, put writes them", "[tensor]") {
    for (DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
        const Tensor a = sample({2, 3, 4, 5}, 1, type);
        for (int dim = 0; dim < 4; ++dim) {
            for (const auto& places : lists(a.shape()[dim])) {
                const Tensor taken = take(a, dim, places);
                const auto m = static_cast<Index>(places.size());
                REQUIRE(taken.shape()[dim] == m);
                Tensor written = a.copy();
                const Tensor other = sample(taken.shape(), 2, type);
                put(written, dim, places, other);
                Tensor expected = a.copy();
                bool equal = taken.dtype() == type;
                for (Index j = 0; j < m; ++j) {
                    const Index place = places[static_cast<std::size_t>(j)];
                    equal = equal && identical(part(taken, slice(taken, dim, j)), part(a, slice(a, dim, place)));
                    assign(expected, slice(expected, dim, place), part(other, slice(other, dim, j)));
                }
                CAPTURE(dim, m);
                CHECK(equal);
                CHECK(identical(written, expected));
            }
        }
    }
}
