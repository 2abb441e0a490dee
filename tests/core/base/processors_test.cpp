#include "core/base/processors.hpp"

#include <sched.h>

#include <thread>

#include "tests/catch.hpp"

using namespace causeway;

TEST_CASE("a control group's limit is as many processors as its time fills", "[machine]") {
    CHECK(processors_of_quota("max 100000\n") == 0);
    CHECK(processors_of_quota("200000 100000\n") == 2);
    CHECK(processors_of_quota("150000 100000\n") == 2);
    CHECK(processors_of_quota("1 100000") == 1);
    CHECK(processors_of_quota("9223372036854775807 1") == 2147483647);
    for (const char* text :
         {"", "200000", "200000 ", "200000 0", "-1 100000", "0 100000", "200000x100000", "99999999999999999999 1"})
        CHECK(processors_of_quota(text) == 0);
}

TEST_CASE("a process that may run on one processor counts one", "[machine]") {
    const int before = processors();
    REQUIRE(before >= 1);
    // Of a thread of its own: what it may run on is its own too.
    int of_one = 0;
    std::thread([&] {
        cpu_set_t allowed, one;
        if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
        CPU_ZERO(&one);
        for (int i = 0; i < CPU_SETSIZE; ++i) {
            if (!CPU_ISSET(i, &allowed)) continue;
            CPU_SET(i, &one);
            break;
        }
        if (sched_setaffinity(0, sizeof one, &one) == 0) of_one = processors();
    }).join();
    CHECK(of_one == 1);
    CHECK(processors() == before);
}
