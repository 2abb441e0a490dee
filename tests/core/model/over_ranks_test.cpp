// Which rank keeps which keys of a model that is spread over ranks. What they compute together is tested where there
// are ranks (tests/lua/bind/model_test.cpp).
#include "core/model/over_ranks.hpp"

#include <numeric>

#include "tests/catch.hpp"

using namespace causeway;
using model::shares_of;

TEST_CASE("keys are shared out in order, and those behind them in turns", "[model]") {
    CHECK(shares_of(10, 10, 3) == std::vector<Index>{3, 3, 4});
    CHECK(shares_of(10, 11, 3) == std::vector<Index>{3, 4, 4});  // token 10 goes to rank 1
    CHECK(shares_of(10, 13, 3) == std::vector<Index>{4, 4, 5});
    CHECK(shares_of(0, 4, 3) == std::vector<Index>{2, 1, 1});
    CHECK(shares_of(7, 9, 1) == std::vector<Index>{9});
    for (const int p : {1, 2, 3, 5})
        for (const Index together : {0, 1, 4, 17})
            for (Index length = together; length < together + 12; ++length) {
                const auto all = shares_of(together, length, p);
                CHECK(std::accumulate(all.begin(), all.end(), Index(0)) == length);
            }
}

TEST_CASE("a cache that keeps some of its rows goes on behind them", "[model]") {
    model::Grown all;
    Tensor x(DType::f32, {1, 2, 5, 3}), more(DType::f32, {1, 2, 1, 3});
    for (Index i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i));
    for (Index i = 0; i < more.size(); ++i) more.set(i, static_cast<double>(100 + i));
    all.append(x);
    all.keep(1, 2);
    all.append(more);
    REQUIRE(all.length() == 3);
    CHECK(all.head(1) - all.head(0) == all.head_step());
    for (Index h = 0; h < 2; ++h)
        for (Index i = 0; i < 9; ++i)
            CHECK(all.head(h)[i] == static_cast<float>(i < 6 ? h * 15 + 3 + i : 100 + h * 3 + i - 6));
    all.keep(0, 0);
    CHECK(all.length() == 0);
}
