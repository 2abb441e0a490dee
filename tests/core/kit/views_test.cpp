// Scratch: a view of memory of its own, which is counted.
#include "core/kit/views.hpp"

#include <limits>

#include "tests/catch.hpp"

using namespace causeway;

TEST_CASE("scratch is a row-major matrix whose memory is counted", "[kit]") {
    const std::size_t before = memory::current();
    {
        kit::Scratch<double> A(3, 5);
        CHECK(memory::current() >= before + 15 * sizeof(double));
        A.setConstant(0);
        A(1, 4) = 7;
        CHECK(A.data()[9] == 7);
        const kit::ConstView<double> again(A.data(), 5, 3);
        CHECK(again(3, 0) == 7);
        CHECK(A.size() == 15);
    }
    CHECK(memory::current() == before);
    CHECK(kit::Scratch<float>(0, 4).size() == 0);
}

TEST_CASE("a scratch whose number of entries or bytes overflows is out of memory", "[kit][errors]") {
    constexpr Index largest = std::numeric_limits<Index>::max();
    CHECK_THROWS_AS(kit::Scratch<float>(largest, 2), OutOfMemory);
    CHECK_THROWS_AS(kit::Scratch<double>(largest / 8, 1), OutOfMemory);
    CHECK_THROWS_AS(kit::Scratch<double>(Index{1} << 32, Index{1} << 32), OutOfMemory);
    CHECK_THROWS_WITH(kit::Scratch<float>(largest, 3), test::contains_text("×3 is too large"));
}
