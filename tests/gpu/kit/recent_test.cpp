#include "gpu/kit/recent.hpp"

#include <stdexcept>
#include <string>

#include "tests/catch.hpp"

using causeway::gpu::Recent;

TEST_CASE("recent values are made once, and the oldest gives way", "[recent]") {
    Recent<int, std::string, 2> recent;
    int made = 0;
    const auto get = [&](int key) { return recent.get(key, [&] { return ++made, std::to_string(key); }); };
    CHECK(get(1) == "1");
    CHECK(get(2) == "2");
    CHECK(get(1) == "1");
    CHECK(made == 2);
    CHECK(get(3) == "3");  // in the place of 1
    CHECK(get(2) == "2");
    CHECK(made == 3);
    CHECK(get(1) == "1");
    CHECK(made == 4);
    CHECK_THROWS(recent.get(4, []() -> std::string { throw std::runtime_error("no memory"); }));
    CHECK(get(1) == "1");
    CHECK(get(3) == "3");
    CHECK(made == 4);  // what throws takes no place
}
