// Every head and every row of blocks is met once, on any number of threads.
#include "core/kit/spread.hpp"

#include <atomic>
#include <vector>

#include "tests/catch.hpp"
#include "tests/threads.hpp"

using namespace causeway;

namespace {

struct Heads {
    Index count;
    Index all_heads() const { return count; }
    Index head(Index h) const { return h; }
};

}  // namespace

TEST_CASE("heads and blocks are each met once", "[kit]") {
    const test::Threads four(4);
    for (Index n : {0, 1, 5, 1000}) {
        std::atomic<bool> fits{true};
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n)), rows(static_cast<std::size_t>(n));
        kit::each_head(Heads{n}, [&](Index h) { ++seen[static_cast<std::size_t>(h)]; });
        kit::each_block(
            n,
            [&](Index first, Index count) {
                if (count > 64) fits = false;
                for (Index i = first; i < first + count; ++i) ++rows[static_cast<std::size_t>(i)];
            },
            64);
        CHECK(fits);
        for (Index i = 0; i < n; ++i) {
            CHECK(seen[static_cast<std::size_t>(i)] == 1);
            CHECK(rows[static_cast<std::size_t>(i)] == 1);
        }
        Index next = 0;
        kit::each_head_in_turn(Heads{n}, [&](Index h) { CHECK(h == next++); });
        CHECK(next == n);
    }
}
