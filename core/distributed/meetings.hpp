// What processes that share calls know of each other's failures.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace causeway::distributed {

// What a rank tells all others where it fails.
struct Failure {
    std::int64_t meeting = 0;  // its number
    int teller = 0;            // the rank
    bool cut_off = false;      // messages stay on their way
    int rank = 0;              // that failed first
    std::string reason;        // of that rank
};

// Ranks meet, to exchange messages, each the same number of times. A meeting that fails alike on all of them, as one
// that finds options which differ does, harms nothing. Where one rank fails alone, or a message stays on its way,
// nobody can tell what comes later from what was left: no meeting can follow.
class Meetings {
public:
    explicit Meetings(int rank) : rank_(rank) {}

    std::int64_t number() const { return number_; }  // of the one that has begun last

    // Throws Error where none can follow, as all ranks know.
    void refuse_if_over() const {
        if (over_) fail(why_over());
    }
    // Throws Error where another rank has failed in what this one went through.
    void begin() {
        told_ = false;
        ++number_;
        check(number_ - 1);
    }
    // Of the one that has begun last: throws Error where another rank has failed in it and this one has not.
    void end() { check(number_); }

    void hear(Failure failure) { heard_.push_back(std::move(failure)); }
    // A failure because of which no message of rank `peer` (-1: any) will come in this meeting; null: none was heard
    // of.
    const Failure* failure_of(int peer) const {
        for (const Failure& f : heard_)
            if (f.meeting == number_ ? peer < 0 || f.teller == peer : f.meeting < number_ && f.cut_off) return &f;
        return nullptr;
    }
    // This rank waits for such a message.
    [[noreturn]] void give_up(const Failure& failure) {
        end_with(failure);
        fail(why_over());
    }

    // A call begins, of which failures outside of meetings are told too.
    void begin_call() { told_ = false; }
    // Whether the others know of this rank's failure, or need not.
    bool told() const { return told_; }
    // This rank fails in the meeting that has begun last, with messages on their way where it is `cut_off`. Returns
    // what it tells the others.
    Failure fail_in_meeting(const std::string& reason, bool cut_off) {
        told_ = true;
        failed_.insert(number_);
        if (!over_ && cut_off) end_with({number_, rank_, true, rank_, reason});
        return {number_, rank_, over_, over_ ? cause_.rank : rank_, over_ ? cause_.reason : reason};
    }
    // The same before or between meetings: the others go to the next one.
    Failure fail_between_meetings(const std::string& reason) {
        ++number_;
        return fail_in_meeting(reason, false);
    }
    // No memory was found to tell of it.
    void fail_untold() noexcept {
        over_ = told_ = true;
        cause_.rank = rank_;
    }

private:
    // Of those of the others: where this rank went through the meeting, or messages were on their way.
    void check(std::int64_t done) {
        std::erase_if(heard_, [&](const Failure& f) { return !f.cut_off && failed_.contains(f.meeting); });
        for (const Failure& f : heard_)
            if (f.cut_off || f.meeting <= done) give_up(f);
    }
    void end_with(const Failure& failure) {
        over_ = true;
        cause_ = failure;
    }
    std::string why_over() const {
        return sentence("engine: \"mpi\", a call that all ranks share has failed on rank ", cause_.rank,
                        ", no such call can follow in this job; it said: ", cause_.reason);
    }

    int rank_;
    std::int64_t number_ = 0;        // of the one that has begun last
    std::set<std::int64_t> failed_;  // on this rank, by number
    std::vector<Failure> heard_;     // of other ranks, not judged yet
    bool over_ = false, told_ = false;
    Failure cause_;
};

}  // namespace causeway::distributed
