// Time limits at the ends of their range.
#include "core/base/interrupt.hpp"

#include <cmath>
#include <limits>

#include "core/base/error.hpp"
#include "tests/catch.hpp"

using namespace causeway;

TEST_CASE("a time limit of any number is kept, even one that no clock reaches", "[interrupt]") {
    const double infinity = std::numeric_limits<double>::infinity();
    for (double far : {infinity, 1e300, 1e10}) {  // 1e10 s are more nanoseconds than fit in 64 bits
        CAPTURE(far);
        interrupt::set_deadline(far);
        CHECK_NOTHROW(interrupt::check());
        CHECK(interrupt::set_deadline(0) == infinity);
    }
    interrupt::set_deadline(1e6);
    const double left = interrupt::set_deadline(1e-9);
    CHECK((left > 1e6 - 100 && left <= 1e6));
    const auto until_stopped = [] {
        while (true) interrupt::check();
    };
    CHECK_THROWS_AS(until_stopped(), Timeout);
    for (double none : {0.0, -1.0, -infinity, std::nan("")}) {
        CAPTURE(none);
        interrupt::set_deadline(none);
        CHECK_NOTHROW(interrupt::check());
        CHECK(interrupt::set_deadline(0) == 0);
    }
}
