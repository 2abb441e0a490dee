// Tensors over elements that are somebody else's.
#include <algorithm>
#include <vector>

#include "core/gated/linear_attention.hpp"
#include "core/tensor/random.hpp"
#include "tests/catch.hpp"

using namespace causeway;

TEST_CASE("a view reads and writes the elements where they lie", "[tensor]") {
    std::vector<float> elements = {1, 2, 3, 4, 5, 6};
    const std::size_t held = memory::current();
    Tensor view = Tensor::view(DType::f32, {2, 3}, elements.data());
    const Tensor handle = view, row = view.reshape({6});
    CHECK(memory::current() == held);
    CHECK(view.is_view());
    CHECK(row.is_view());
    CHECK(view.raw() == reinterpret_cast<const unsigned char*>(elements.data()));
    CHECK(view.get(4) == 5);
    view.set(4, -5);
    CHECK(elements[4] == -5);
    CHECK(handle.get(4) == -5);
    CHECK(row.get(4) == -5);
}

TEST_CASE("what is made of a view has elements of its own", "[tensor]") {
    std::vector<double> elements = {1, 2, 3};
    const Tensor view = Tensor::view(DType::f64, {3}, elements.data());
    const Tensor copy = view.copy(), converted = view.to(DType::f32);
    CHECK_FALSE(copy.is_view());
    CHECK_FALSE(converted.is_view());
    CHECK_FALSE(Tensor(DType::f32, {2}).is_view());
    elements[0] = 7;
    CHECK(copy.get(0) == 1);
    CHECK(converted.get(0) == 1);
    CHECK(view.to(DType::f64).is_view());
}

TEST_CASE("a call gives the same bits for views at any address of their type, and leaves them", "[tensor][gated]") {
    const Tensor q = random::normal(DType::f32, {1, 2, 70, 16});
    const Tensor expected = linear_attention(q, q, q).O;
    std::vector<float> elements(static_cast<std::size_t>(q.size()) + 3);
    for (std::size_t offset = 0; offset < 3; ++offset) {
        std::copy_n(q.data<float>(), q.size(), elements.data() + offset);
        const Tensor view = Tensor::view(DType::f32, q.shape(), elements.data() + offset);
        const Tensor O = linear_attention(view, view, view).O;
        CHECK_FALSE(O.is_view());
        CHECK(std::equal(O.data<float>(), O.data<float>() + O.size(), expected.data<float>()));
        CHECK(std::equal(q.data<float>(), q.data<float>() + q.size(), elements.data() + offset));
    }
}
