#include "core/distributed/meetings.hpp"

#include <string>
#include <vector>

#include "tests/catch.hpp"

namespace causeway::test {
namespace {

using distributed::Failure;
using distributed::Meetings;

constexpr const char* over = "no such call can follow in this job";
constexpr const char* told = "on rank 2, no such call can follow in this job; it said: mine alone";

template <class F>
std::string said_by(F&& f) {
    try {
        f();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// Three ranks that hear of every failure at once.
struct Ranks {
    std::vector<Meetings> all{Meetings(0), Meetings(1), Meetings(2)};

    Meetings& operator[](int r) { return all[static_cast<std::size_t>(r)]; }
    void tell(int from, const Failure& failure) {
        for (int r = 0; r < 3; ++r)
            if (r != from) (*this)[r].hear(failure);
    }
    void begin(int first = 0, int last = 2) {
        for (int r = first; r <= last; ++r) (*this)[r].begin();
    }
    // What a rank says to a next meeting.
    std::string next(int r) {
        return said_by([&] {
            (*this)[r].refuse_if_over();
            (*this)[r].begin();
        });
    }
};

}  // namespace

TEST_CASE("a meeting that fails alike on all ranks lets others follow", "[distributed][meetings]") {
    Ranks ranks;
    for (int i = 0; i < 3; ++i) {
        ranks.begin();
        for (int r = 0; r < 3; ++r) ranks.tell(r, ranks[r].fail_in_meeting("scale: 0.5", false));
        // A call that fails before it meets.
        for (int r = 0; r < 3; ++r) ranks.tell(r, ranks[r].fail_between_meetings("k: length 3"));
    }
    ranks.begin();
    for (int r = 0; r < 3; ++r) CHECK_NOTHROW(ranks[r].end());
    // One that is told of the others' failures before its own: it waits for none of them.
    ranks.begin();
    ranks.tell(0, ranks[0].fail_in_meeting("scale: 0.5", false));
    CHECK(ranks[1].failure_of(0));
    CHECK_FALSE(ranks[1].failure_of(2));
    CHECK(ranks[1].failure_of(-1));
    ranks.tell(1, ranks[1].fail_in_meeting("scale: 0.5", false));
    ranks.tell(2, ranks[2].fail_in_meeting("scale: 0.5", false));
    for (int r = 0; r < 3; ++r) CHECK(ranks.next(r) == "");
}

TEST_CASE("a rank that fails alone in a meeting or before it ends those of all", "[distributed][meetings]") {
    for (const bool before : {false, true}) {
        CAPTURE(before);
        Ranks ranks;
        ranks.begin(0, before ? 1 : 2);
        ranks.tell(
            2, before ? ranks[2].fail_between_meetings("mine alone") : ranks[2].fail_in_meeting("mine alone", false));
        // Rank 0 waits for it, rank 1 has what it needed and goes on.
        REQUIRE(ranks[0].failure_of(2));
        CHECK(said_by([&] { ranks[0].give_up(*ranks[0].failure_of(2)); }).ends_with(told));
        ranks.tell(0, ranks[0].fail_in_meeting("", true));
        CHECK(said_by([&] { ranks[1].end(); }).ends_with(told));
        for (int r = 0; r < 3; ++r) {
            const std::string said = ranks.next(r);
            CAPTURE(r, said);
            CHECK(said.ends_with(told));
        }
    }
}

TEST_CASE("a rank that is ahead of another when it fails is understood when that has come so far",
          "[distributed][meetings]") {
    Ranks ranks;
    ranks.begin();
    ranks[2].end();
    ranks[2].begin();
    ranks.tell(2, ranks[2].fail_in_meeting("alike", false));
    CHECK_FALSE(ranks[0].failure_of(2));
    for (int r = 0; r < 2; ++r) {
        CHECK_NOTHROW(ranks[r].end());
        CHECK_NOTHROW(ranks[r].begin());
        CHECK(ranks[r].failure_of(2));
        ranks.tell(r, ranks[r].fail_in_meeting("alike", false));
    }
    for (int r = 0; r < 3; ++r) CHECK(ranks.next(r) == "");
}

TEST_CASE("messages that stay on their way end meetings, whoever fails alike", "[distributed][meetings]") {
    Ranks ranks;
    ranks.begin();
    for (int r = 0; r < 3; ++r) ranks.tell(r, ranks[r].fail_in_meeting("waited 2 s", r == 1));
    for (int r = 0; r < 3; ++r) CHECK(ranks.next(r).find("waited 2 s") != std::string::npos);
    // And a rank that goes on to its next meeting before it hears of it does not wait there.
    Ranks others;
    others.begin();
    others[0].fail_in_meeting("mine alone", false);
    others[0].begin();
    others[0].hear(others[1].fail_in_meeting("mine alone", true));
    CHECK(others[0].failure_of(2));
}

TEST_CASE("a failure that could not be told ends the meetings of its rank", "[distributed][meetings]") {
    Ranks ranks;
    ranks.begin();
    ranks[1].fail_untold();
    CHECK(ranks.next(1).find(over) != std::string::npos);
}

}  // namespace causeway::test
