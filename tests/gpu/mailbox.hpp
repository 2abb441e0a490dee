// Messages between ranks that are threads of one process, in the place of NCCL's: who is there, and what is on its way.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace causeway::test {

template <class Message>
struct Mailbox {
    int ranks = 0;
    bool ended = false;
    std::map<std::pair<int, int>, std::deque<Message>> on_the_way;  // from, to
    std::mutex mutex;
    std::condition_variable changed;

    struct Rank {
        std::shared_ptr<Mailbox> world;
        int number = 0;
    };
    static Rank& rank_of(ncclComm_t comm) { return *reinterpret_cast<Rank*>(comm); }

    // ncclCommInitAll, and ncclCommDestroy and ncclCommAbort: who waits is told of the end.
    static ncclResult_t begin(ncclComm_t* comms, int n, const int*) {
        const auto world = std::make_shared<Mailbox>();
        world->ranks = n;
        for (int r = 0; r < n; ++r) comms[r] = reinterpret_cast<ncclComm_t>(new Rank{world, r});
        return ncclSuccess;
    }
    static ncclResult_t end(ncclComm_t comm) {
        const std::unique_ptr<Rank> rank(&rank_of(comm));
        {
            const std::lock_guard lock(rank->world->mutex);
            rank->world->ended = true;
        }
        rank->world->changed.notify_all();
        return ncclSuccess;
    }
};

}  // namespace causeway::test
