#include "gpu/distributed/queue.hpp"

#include <thread>

#include "core/base/interrupt.hpp"

namespace causeway::gpu {

void Board::all_blocks(const void* mine, std::size_t bytes, void* out) {
    std::vector<char>& place = team_.board_[static_cast<std::size_t>(rank())];
    place.assign(static_cast<const char*>(mine), static_cast<const char*>(mine) + bytes);
    team_.meet(look_);
    for (int r = 0; r < size(); ++r)
        std::memcpy(static_cast<char*>(out) + static_cast<std::size_t>(r) * bytes,
                    team_.board_[static_cast<std::size_t>(r)].data(), bytes);
    team_.meet(look_);  // all have read
}

Event& QueuedCommunicator::event() {
    if (used_ == events_.size()) events_.emplace_back();
    return events_[used_++];
}

void QueuedCommunicator::follow(cudaStream_t later, cudaStream_t earlier) {
    Event& now = event();
    now.record(earlier);
    check(cudaStreamWaitEvent(later, now), "ordering kernels and messages");
}

void QueuedCommunicator::hold(const Event& sent) {
    Event &from = event(), &to = event();
    from.record(stream());
    check(cudaStreamWaitEvent(stream(), sent), "ordering kernels and messages");
    to.record(stream());
    waits_.emplace_back(&from, &to);
}

void QueuedCommunicator::start() {
    if (waiting_.empty()) return;
    follow(*mine().messages, stream());
    NcclCommunicator::start();
    Event& sent = event();
    sent.record(*mine().messages);
    groups_.push_back(&sent);
}

Index QueuedCommunicator::finish(int posted) {
    Message& message = posted_[static_cast<std::size_t>(posted)];
    if (message.group > started_) start();
    if (message.group > held_) {
        held_ = message.group;
        hold(*groups_[static_cast<std::size_t>(held_ - 1)]);
    }
    message.group = 0;
    finish_said(message);
    if (!message.received) return 0;
    try {
        for (;;) {
            if (const Index round = round_of(message); round >= 0) return round;
            interrupt::check();
            look();
            std::this_thread::yield();
        }
    } catch (...) {
        abandon();  // kernels wait for the message already, which the rank that should send it may never do
        throw;
    }
}

void QueuedCommunicator::all_blocks(const void* mine_block, std::size_t bytes, void* out) {
    follow(*mine().messages, stream());
    gather_queued(mine_block, bytes, out, *mine().messages);
    Event& sent = event();
    sent.record(*mine().messages);
    hold(sent);
}

void QueuedCommunicator::barrier() {
    settle();
    NcclCommunicator::barrier();
    if (!team_.processes())
        team_.meet([this] { look(); });  // threads wake up one after the other: those that are awake wait for the last
}

double QueuedCommunicator::settle() {
    wait_for(*mine().messages);
    wait_for(stream());
    const double seconds = now() - begun;
    done_ = held_ = started_;
    for (const auto& [from, to] : waits_) waited += to->since(*from) / 1e3;
    waits_.clear();
    used_ = 0;
    return seconds;
}

}  // namespace causeway::gpu
