// The communicator of engine = "nccl" for data that stay on the GPU: what it sends and computes is queued.
#pragma once

#include <cstring>
#include <deque>
#include <functional>

#include "gpu/distributed/team.hpp"

namespace causeway::gpu {

// The ranks of a team for little data of the CPU: between threads an all-gather in which none sleeps, in microseconds.
// The rest is what the ranks meet by.
class Board final : public distributed::Communicator {
public:
    Board(Team& team, distributed::Communicator& meeting, std::function<void()> look)
        : Communicator(meeting.rank(), meeting.size()), team_(team), meeting_(meeting), look_(std::move(look)) {}

    void barrier() override { meeting_.barrier(); }
    double now() const override { return meeting_.now(); }
    bool gathers() const override { return !team_.processes(); }

protected:
    int post_send(const void* data, std::size_t bytes, int to, Index) override {
        return remember(meeting_.send(static_cast<const char*>(data), static_cast<Index>(bytes), to));
    }
    int post_receive(void* data, std::size_t bytes, int from) override {
        return remember(meeting_.receive(static_cast<char*>(data), static_cast<Index>(bytes), from));
    }
    Index finish(int posted) override {
        posted_[static_cast<std::size_t>(posted)].wait();
        return 0;
    }
    void cancel(int posted) noexcept override { posted_[static_cast<std::size_t>(posted)] = {}; }
    void all_blocks(const void* mine, std::size_t bytes, void* out) override;

private:
    int remember(distributed::Transfer t) {
        posted_.push_back(std::move(t));
        return static_cast<int>(posted_.size()) - 1;
    }

    Team& team_;
    distributed::Communicator& meeting_;
    std::function<void()> look_;
    std::vector<distributed::Transfer> posted_;
};

// As NcclCommunicator, but everything is queued: a message goes when the kernels before it on the stream have run, and
// to wait for one is to let the kernels that are queued afterwards wait. So a text that sends, waits and computes is
// carried out by the GPU alone. The CPU waits in barrier(), finish_queued() and settle(), and for the CPU of the sender
// to have queued what is received. All memory is the device's.
class QueuedCommunicator final : public NcclCommunicator {
public:
    // The rank of a team that runs; of one rank one at a time.
    explicit QueuedCommunicator(NcclCommunicator& rank)
        : NcclCommunicator(rank.team(), rank.host()), board_(rank.team(), rank.host(), [this] { look(); }) {}

    const Stream& stream() { return *mine().kernels; }
    void barrier() override;
    void start() override;
    void finish_queued() override { wait_for(stream()); }
    distributed::Communicator& host() override { return board_; }
    std::shared_ptr<void> allocate(distributed::Held, std::size_t bytes) override {
        return NcclCommunicator::allocate(distributed::Held::shard, bytes);
    }
    // Until all that is queued has happened; then the time in which the kernels waited for messages is known. Seconds
    // since begin().
    double settle();

protected:
    Index finish(int posted) override;
    void all_blocks(const void* mine, std::size_t bytes, void* out) override;

private:
    // What follows on one stream waits for what is queued on the other.
    void follow(cudaStream_t later, cudaStream_t earlier);
    // The kernels wait for the messages queued so far, or those up to `sent`.
    void hold(const Event& sent);
    Event& event();

    Board board_;
    std::deque<Event> events_;
    std::size_t used_ = 0;                                      // of them
    std::vector<const Event*> groups_;                          // sent, by number
    std::vector<std::pair<const Event*, const Event*>> waits_;  // of the kernels: from, to
    Index held_ = 0;                                            // groups that the kernels have waited for
};

}  // namespace causeway::gpu
