#include "core/distributed/threads.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/stack_of_thread.hpp"

namespace causeway::distributed {
namespace {

// A message that waits in the receiver's mailbox; the receiver copies it from the sender's memory.
struct Envelope {
    const void* data;
    std::size_t bytes;
    Index round;
    int from;
    Index number;                                 // among all from that rank
    enum { posted, taken, done } state = posted;  // guarded by the receiver's mutex
};

struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<Envelope>> letters;
};

struct Team {
    explicit Team(int p) : size(p), boxes(static_cast<std::size_t>(p)) {}

    int size;
    std::vector<Mailbox> boxes;
    std::mutex mutex;  // of what follows
    std::condition_variable gathered;
    int arrived = 0;
    Index meetings = 0;
    std::exception_ptr failure;
    std::atomic<bool> ended{false};

    Mailbox& box(int rank) { return boxes[static_cast<std::size_t>(rank)]; }

    void end(std::exception_ptr cause) {
        {
            const std::lock_guard lock(mutex);
            if (!failure) failure = std::move(cause);
            ended = true;
        }
        gathered.notify_all();
        for (Mailbox& b : boxes) {
            { const std::lock_guard lock(b.mutex); }  // nobody is between looking at `ended` and waiting
            b.changed.notify_all();
        }
    }
};

class ThreadCommunicator final : public Communicator {
public:
    ThreadCommunicator(Team& team, int rank)
        : Communicator(rank, team.size),
          team_(team),
          sent_(static_cast<std::size_t>(team.size)),
          asked_for_(static_cast<std::size_t>(team.size)) {}

    void barrier() override {
        std::unique_lock lock(team_.mutex);
        const Index meeting = team_.meetings;
        if (++team_.arrived == team_.size) {
            team_.arrived = 0;
            ++team_.meetings;
            team_.gathered.notify_all();
            return;
        }
        team_.gathered.wait(lock, [&] { return team_.meetings != meeting || team_.ended; });
        if (team_.meetings == meeting) throw WorldEnded{};
    }

    double now() const override { return steady_seconds(); }
    void end_waits() noexcept override { team_.end(nullptr); }  // the failure itself follows

protected:
    int post_send(const void* data, std::size_t bytes, int to, Index round) override {
        const auto letter =
            std::make_shared<Envelope>(Envelope{data, bytes, round, rank(), sent_[static_cast<std::size_t>(to)]++});
        Mailbox& box = team_.box(to);
        {
            const std::lock_guard lock(box.mutex);
            box.letters.push_back(letter);
        }
        box.changed.notify_all();
        return remember({letter, nullptr, bytes, to, 0});
    }

    int post_receive(void* data, std::size_t bytes, int from) override {
        return remember({nullptr, data, bytes, from, asked_for_[static_cast<std::size_t>(from)]++});
    }

    Index finish(int posted) override {
        const Posted mine = std::exchange(posted_[static_cast<std::size_t>(posted)], {});
        return mine.letter ? delivered(mine) : received(mine);
    }

    void cancel(int posted) noexcept override {
        const Posted mine = std::exchange(posted_[static_cast<std::size_t>(posted)], {});
        if (!mine.letter) return;
        Mailbox& box = team_.box(mine.peer);
        std::unique_lock lock(box.mutex);
        std::erase(box.letters, mine.letter);
        box.changed.wait(lock,
                         [&] { return mine.letter->state != Envelope::taken; });  // a copy in progress ends by itself
    }

private:
    struct Posted {
        std::shared_ptr<Envelope> letter;  // of a sent message
        void* data = nullptr;              // where a received one goes
        std::size_t bytes = 0;
        int peer = -1;     // -1: free
        Index number = 0;  // of a received one, among those from this peer
    };

    int remember(Posted posted) {
        std::size_t i = 0;
        while (i < posted_.size() && posted_[i].peer >= 0) ++i;
        if (i == posted_.size()) posted_.emplace_back();
        posted_[i] = std::move(posted);
        return static_cast<int>(i);
    }

    Index delivered(const Posted& mine) {
        Mailbox& box = team_.box(mine.peer);
        std::unique_lock lock(box.mutex);
        box.changed.wait(lock, [&] {
            return mine.letter->state == Envelope::done || (mine.letter->state == Envelope::posted && team_.ended);
        });
        if (mine.letter->state == Envelope::done) return 0;
        std::erase(box.letters, mine.letter);
        throw WorldEnded{};
    }

    Index received(const Posted& mine) {
        Mailbox& box = team_.box(rank());
        std::shared_ptr<Envelope> letter;
        {
            std::unique_lock lock(box.mutex);
            const auto arrived = [&] {
                const auto at = std::find_if(box.letters.begin(), box.letters.end(), [&](const auto& l) {
                    return l->from == mine.peer && l->number == mine.number;
                });
                if (at == box.letters.end()) return false;
                letter = *at;
                box.letters.erase(at);
                return true;
            };
            box.changed.wait(lock, [&] { return team_.ended || arrived(); });
            if (!letter) throw WorldEnded{};
            if (letter->bytes != mine.bytes)
                fail("rank ", rank(), ": a message of ", letter->bytes, " bytes from rank ", mine.peer, ", expected ",
                     mine.bytes);
            letter->state = Envelope::taken;
        }
        constexpr std::size_t piece = std::size_t{64} << 20;
        bool stopped = false;
        for (std::size_t at = 0; at < mine.bytes && !stopped; at += piece) {
            std::memcpy(static_cast<char*>(mine.data) + at, static_cast<const char*>(letter->data) + at,
                        std::min(piece, mine.bytes - at));
            stopped = team_.ended || interrupt::requested();
        }
        {
            const std::lock_guard lock(box.mutex);
            letter->state = Envelope::done;  // also where it was stopped: the sender need not keep it any longer
        }
        box.changed.notify_all();
        interrupt::check();
        if (stopped) throw WorldEnded{};
        return letter->round;
    }

    Team& team_;
    std::vector<Posted> posted_;
    std::vector<Index> sent_, asked_for_;  // messages to and from every rank
};

}  // namespace

void run_threads(int p, const Program& program) {
    if (p < 1 || p > 1024) fail("shards: ", p, ", expected from 1 to 1024 threads");
    Team team(p);
    const auto rank = [&](int r) {
        try {
            ThreadCommunicator comm(team, r);
            program(comm);
        } catch (const WorldEnded&) {
        } catch (...) {
            team.end(std::current_exception());
        }
    };
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(p));
    bool refused = false, no_memory = false;
    // Until the threads are joined nothing here may throw, so the sentence is made afterwards.
    try {
        for (int r = 0; r < p; ++r) threads.emplace_back(rank, r);
    } catch (const std::system_error&) {
        refused = true;
        no_memory = no_room_for_stacks();
        team.end(std::current_exception());
    } catch (...) {  // no memory for a thread
        team.end(std::current_exception());
    }
    const std::size_t started = threads.size();
    for (auto& thread : threads) thread.join();
    if (no_memory) fail_as<OutOfMemory>("out of memory: shards: ", p, ", there was room for ", started, " threads");
    if (refused) fail_as<SystemError>("shards: ", p, ", the system has no more than ", started, " threads for them");
    if (team.failure) std::rethrow_exception(team.failure);
}

}  // namespace causeway::distributed
