#include "core/distributed/meetings.hpp"

#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/temporary.hpp"

namespace causeway::test {
namespace {

using distributed::Failure;
using distributed::Meetings;
using testing::message_of;

constexpr const char* told = "on rank 2, no such call can follow in this job; it said: mine alone";

// Three ranks that hear of every failure at once.
struct Ranks {
    std::vector<Meetings> all{Meetings(0, 3), Meetings(1, 3), Meetings(2, 3)};

    Meetings& operator[](int r) { return all[static_cast<std::size_t>(r)]; }
    void fail(int r, const std::string& reason, bool cut_off = false) {
        if (!(*this)[r].untold()) return;
        const Failure failure = (*this)[r].fail_here(reason, cut_off);
        for (int other = 0; other < 3; ++other)
            if (other != r) (*this)[other].hear(failure);
    }
    void begin_call() {
        for (Meetings& m : all) m.begin_call();
    }
    void end_call() {
        for (Meetings& m : all) m.end_call();
    }
    void meet() {
        for (Meetings& m : all) m.begin();
        for (Meetings& m : all) m.end();
    }
    // What a rank says to a next call of one meeting.
    std::string next(int r) {
        (*this)[r].begin_call();
        const std::string said = message_of([&] {
            (*this)[r].refuse_if_over();
            (*this)[r].begin();
            (*this)[r].end();
        });
        (*this)[r].end_call();
        return said;
    }
    void all_can_go_on() {
        for (int r = 0; r < 3; ++r) CHECK(next(r) == "");
    }
    void none_can_go_on() {
        for (int r = 0; r < 3; ++r) {
            const std::string said = next(r);
            CAPTURE(r, said);
            CHECK(said.ends_with(told));
        }
    }
};

}  // namespace

TEST_CASE("a call that fails alike on all ranks lets others follow", "[distributed][meetings]") {
    for (const int meetings : {0, 1, 2}) {
        for (const bool in_meeting : {false, true}) {
            Ranks ranks;
            for (int i = 0; i < 200; ++i) {
                ranks.begin_call();
                for (int m = 0; m < meetings; ++m) ranks.meet();
                for (int r = 0; r < 3; ++r) {
                    if (in_meeting) ranks[r].begin();
                    ranks.fail(r, "scale: 0.5");
                }
                ranks.end_call();
            }
            ranks.all_can_go_on();
        }
    }
    // One that is told of another's failure before its own waits for no other rank because of it.
    Ranks ranks;
    ranks.begin_call();
    for (int r = 0; r < 3; ++r) ranks[r].begin();
    ranks.fail(0, "scale: 0.5");
    CHECK(ranks[1].failure_of(0));
    CHECK(ranks[1].failure_of(-1));
    CHECK_FALSE(ranks[1].failure_of(2));
    ranks.fail(1, "scale: 0.5");
    ranks.fail(2, "scale: 0.5");
    ranks.end_call();
    ranks.all_can_go_on();
}

TEST_CASE("a rank that fails alone in a call ends the calls of all", "[distributed][meetings]") {
    for (const bool in_meeting : {false, true}) {
        for (const bool met : {false, true}) {
            CAPTURE(in_meeting, met);
            Ranks ranks;
            ranks.begin_call();
            if (met) ranks.meet();
            for (int r = 0; r < (in_meeting ? 3 : 2); ++r) ranks[r].begin();
            ranks.fail(2, "mine alone");
            // Rank 0 waits for it, rank 1 has what it needed and goes on.
            REQUIRE(ranks[0].failure_of(2));
            CHECK(message_of([&] { ranks[0].give_up(*ranks[0].failure_of(2)); }).ends_with(told));
            ranks.fail(0, "");
            CHECK(message_of([&] { ranks[1].end(); }).ends_with(told));
            ranks.end_call();
            ranks.none_can_go_on();
            ranks.none_can_go_on();
        }
    }
}

TEST_CASE("a rank that fails alone and is heard of late ends the calls of all", "[distributed][meetings]") {
    // Rank 2 fails in a meeting that the others have gone through, and makes the next call; they are in the next
    // meeting.
    Ranks ranks;
    ranks.begin_call();
    for (Meetings& m : ranks.all) m.begin();
    for (int r = 0; r < 2; ++r) ranks[r].end(), ranks[r].begin();
    ranks.fail(2, "mine alone");
    for (int r = 0; r < 2; ++r) {
        CHECK(message_of([&] { ranks[r].judge(); }).ends_with(told));
        ranks.fail(r, "");
    }
    ranks.end_call();
    ranks.none_can_go_on();
    // Two that fail alone, one behind its last meeting and one before the first one of the next call: the same number
    // of meetings, but not the same one.
    Ranks others;
    others.begin_call();
    others.meet();
    others.fail(1, "behind it");
    others.end_call();
    others[2].begin_call();
    others.fail(2, "mine alone");
    others[0].begin_call();
    others[0].begin();
    CHECK(others[0].failure_of(2));
    CHECK_FALSE(others[0].failure_of(1));
    others[1].begin_call();
    others[1].begin();
    CHECK(others[1].failure_of(2));
}

TEST_CASE("what a rank fails with behind its last meeting harms no later call", "[distributed][meetings]") {
    Ranks ranks;
    ranks.begin_call();
    ranks.meet();
    ranks[0].end_call();
    ranks[1].end_call();
    ranks.fail(2, "mine alone");
    ranks[2].end_call();
    ranks.all_can_go_on();
    ranks.begin_call();
    ranks.meet();
    ranks.end_call();
    ranks.all_can_go_on();
}

TEST_CASE("a rank that is ahead of another when it fails is understood when that has come so far",
          "[distributed][meetings]") {
    Ranks ranks;
    ranks.begin_call();
    for (Meetings& m : ranks.all) m.begin();
    ranks[2].end();
    ranks[2].end_call();
    ranks[2].begin_call();
    ranks[2].begin();
    ranks.fail(2, "alike");
    for (int r = 0; r < 2; ++r) {
        CHECK_FALSE(ranks[r].failure_of(2));
        CHECK_NOTHROW(ranks[r].end());
        ranks[r].end_call();
        ranks[r].begin_call();
        CHECK_NOTHROW(ranks[r].begin());
        CHECK(ranks[r].failure_of(2));
    }
    for (int r = 0; r < 2; ++r) ranks.fail(r, "alike");
    ranks.end_call();
    ranks.all_can_go_on();
}

TEST_CASE("messages that stay on their way end calls, whoever fails alike", "[distributed][meetings]") {
    Ranks ranks;
    ranks.begin_call();
    for (Meetings& m : ranks.all) m.begin();
    for (int r = 0; r < 3; ++r) ranks.fail(r, "waited 2 s", r == 1);
    ranks.end_call();
    for (int r = 0; r < 3; ++r) CHECK(ranks.next(r).find("waited 2 s") != std::string::npos);
}

TEST_CASE("a call in which ranks do not meet is none", "[distributed][meetings]") {
    Ranks ranks;
    for (int i = 0; i < 3; ++i) ranks[0].begin_call(), ranks[0].end_call();  // by one rank alone
    ranks.all_can_go_on();
    CHECK(ranks[0].now() == ranks[1].now());
}

TEST_CASE("a failure that was caught within a call hides no later one of it", "[distributed][meetings]") {
    Ranks ranks;
    ranks.begin_call();
    ranks.meet();
    for (int r = 0; r < 3; ++r) ranks.fail(r, "alike, and caught");
    ranks.meet();
    for (int r = 0; r < 2; ++r) ranks[r].begin();
    ranks.fail(2, "mine alone");
    REQUIRE(ranks[0].failure_of(2));
    for (int r = 0; r < 2; ++r) CHECK(message_of([&] { ranks[r].give_up(*ranks[r].failure_of(2)); }).ends_with(told));
}

TEST_CASE("a call that has met nobody may be taken back and made again", "[distributed][meetings]") {
    Ranks ranks;
    ranks[2].begin_call();
    ranks[2].take_back_call();
    ranks.all_can_go_on();
    CHECK(ranks[2].now() == ranks[0].now());
}

TEST_CASE("a failure that could not be told ends the calls of its rank", "[distributed][meetings]") {
    Ranks ranks;
    ranks.begin_call();
    ranks[1].begin();
    ranks[1].fail_untold();
    CHECK(ranks.next(1).ends_with("on rank 1, no such call can follow in this job; it said: out of memory"));
}

}  // namespace causeway::test
