#include "core/base/text.hpp"

#include "tests/catch.hpp"

using causeway::closest;

TEST_CASE("the nearest name is suggested, and none where nothing is near", "[base]") {
    const std::vector<std::string> names{"vanilla", "fleet", "block-based", "recursion"};
    CHECK(closest("fleat", names) == "fleet");
    CHECK(closest("recurson", names) == "recursion");
    CHECK(closest("block", names) == "block-based");
    CHECK(closest("xyzzy", names).empty());
    CHECK(closest("blocks", {"method", "block", "scale"}) == "block");
}
