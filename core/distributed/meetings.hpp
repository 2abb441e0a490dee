// What processes that share calls know of each other's failures.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace causeway::distributed {

// Where ranks meet to exchange messages: the place among the meetings of a call, from 1, and the number of that among
// the calls that ranks share.
struct Meeting {
    std::int64_t call = 0, place = 0;
    auto operator<=>(const Meeting&) const = default;
};

// What a rank tells all others where it fails.
struct Failure {
    Meeting at;                 // the meeting that it leaves or does not reach
    int teller = 0;             // the rank
    bool none_follows = false;  // and makes no other call
    int rank = 0;               // that failed first
    std::string reason;         // of that rank
};

// Ranks make the same calls with the same meetings. A call that fails alike on all of them, as one that finds options
// which differ does, harms no later one; nor does what a rank fails with behind the last meeting of a call. Where a
// rank fails alone before that, or a message stays on its way, nobody could tell what comes later from what was left:
// no call can follow.
class Meetings {
public:
    Meetings(int rank, int ranks) : rank_(rank), others_(ranks - 1) {}

    const Meeting& now() const { return now_; }  // begun last

    // Throws Error where none can follow.
    void refuse_if_over() const {
        if (over_) fail_as<SystemError>(why_over());
    }
    void begin_call() {
        now_ = {now_.call + 1, 0};
        failed_here_ = false;
    }
    // One in which the ranks did not meet is none: one of them may have made it alone.
    void end_call() {
        if (failed_here_) return;
        if (now_.place == 0) take_back_call();
        else places_[static_cast<std::size_t>(now_.call % remembered)] = now_;
    }
    // As if the call had not begun: it has met nobody, and is over or will be made again.
    void take_back_call() { --now_.call; }

    // Throw Error where no call can follow, for what was heard.
    void begin() {
        ++now_.place;
        meeting_ = true;
        failed_here_ = false;  // what failed before in this call was caught
        judge();
    }
    void end() {
        meeting_ = false;
        judge();
    }

    void hear(Failure failure) { heard_.push_back(std::move(failure)); }
    // Forgets the failures that are those of this rank too or harm nothing; throws Error for one after which none can
    // follow.
    void judge() {
        if (over_) return heard_.clear();
        std::erase_if(heard_, [&](const Failure& f) {
            const Meaning meaning = meaning_of(f);
            if (meaning == Meaning::same && ++failed_[f.at] == others_) failed_.erase(f.at);
            return meaning == Meaning::same || meaning == Meaning::harmless;
        });
        for (const Failure& f : heard_)
            if (meaning_of(f) == Meaning::over) give_up(f);
    }
    // A failure because of which no message of rank `peer` (-1: any) comes in this meeting; null: none was heard of.
    const Failure* failure_of(int peer) const {
        for (const Failure& f : heard_)
            if ((peer < 0 || f.teller == peer) && meaning_of(f) == Meaning::absent) return &f;
        return nullptr;
    }
    // None can follow that failure.
    [[noreturn]] void give_up(const Failure& failure) {
        over_ = true;
        cause_ = failure;
        fail_as<SystemError>(why_over());
    }

    // Whether the others do not know that this call fails here, nor that none follows.
    bool untold() const { return !failed_here_ && !told_last_; }
    // This rank fails in the meeting that has begun last, else before the next one; `cut_off`: with messages on their
    // way. Returns what it tells the others.
    Failure fail_here(const std::string& reason, bool cut_off) {
        if (!meeting_) ++now_.place;
        meeting_ = false;
        failed_here_ = true;
        const Failure mine{now_, rank_, cut_off || over_, over_ ? cause_.rank : rank_, over_ ? cause_.reason : reason};
        if (mine.none_follows) over_ = told_last_ = true, cause_ = mine;
        else if (others_ > 0) failed_[now_] = 0;
        return mine;
    }
    // For want of memory the others cannot be told.
    void fail_untold() noexcept {
        over_ = failed_here_ = told_last_ = true;
        cause_.rank = rank_;
        cause_.reason = "out of memory";  // so short that it needs none
    }

private:
    // What another rank's failure means to this one: it has not come so far; that rank is not in this meeting; it has
    // failed there too; it has gone through the call without such a meeting; no call can follow.
    enum class Meaning { later, absent, same, harmless, over };
    static constexpr std::int64_t remembered =
        1024;  // calls; a harmless failure that is heard of later is taken for a lone one

    Meaning meaning_of(const Failure& f) const {
        if (!f.none_follows && failed_.contains(f.at)) return Meaning::same;
        if (f.at > now_) return Meaning::later;
        if (f.none_follows) return Meaning::over;
        if (f.at == now_ && meeting_) return Meaning::absent;
        const Meeting& last = places_[static_cast<std::size_t>(f.at.call % remembered)];
        return last.call == f.at.call && last.place < f.at.place ? Meaning::harmless : Meaning::over;
    }
    std::string why_over() const {
        return sentence("a call that all ranks share has failed on rank ", cause_.rank,
                        ", no such call can follow in this job; it said: ", cause_.reason);
    }

    int rank_, others_;
    Meeting now_;
    bool meeting_ = false;                      // it goes on
    bool failed_here_ = false;                  // in this call
    std::map<Meeting, int> failed_;             // on this rank: others that have told of it too, until all have
    std::array<Meeting, remembered> places_{};  // the last ones of calls that went well
    std::vector<Failure> heard_;                // of other ranks
    bool over_ = false, told_last_ = false;
    Failure cause_;
};

}  // namespace causeway::distributed
