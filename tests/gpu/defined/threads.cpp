#include "tests/gpu/defined/threads.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/faults/gpu/c_headers.hpp"
#include "tests/faults/gpu/hooks.hpp"
#include "tests/gpu/mailbox.hpp"

namespace causeway::faults {
namespace {

using World = test::Mailbox<std::vector<char>>;
using Rank = World::Rank;

struct Receiving {
    Rank* to;
    int from;
    void* data;
    std::size_t bytes;
};

// What a group is to receive, once all that it sends has been sent.
thread_local std::vector<Receiving> group;
thread_local bool open_group = false;

ncclResult_t receive_all() {
    for (const Receiving& r : std::exchange(group, {})) {
        World& world = *r.to->world;
        std::unique_lock lock(world.mutex);
        auto& messages = world.on_the_way[{r.from, r.to->number}];
        world.changed.wait(lock, [&] { return world.ended || !messages.empty(); });
        if (messages.empty()) continue;  // it never comes
        if (messages.front().size() != r.bytes) return ncclInvalidArgument;
        std::copy(messages.front().begin(), messages.front().end(), static_cast<char*>(r.data));
        messages.pop_front();
    }
    return ncclSuccess;
}

ncclResult_t send(const void* data, std::size_t bytes, ncclDataType_t, int to, ncclComm_t comm, cudaStream_t) {
    if (!comm) return ncclInvalidArgument;
    const Rank& from = World::rank_of(comm);
    const auto* const first = static_cast<const char*>(data);
    const std::lock_guard lock(from.world->mutex);
    from.world->on_the_way[{from.number, to}].emplace_back(first, first + bytes);
    from.world->changed.notify_all();
    return ncclSuccess;
}

ncclResult_t receive(void* data, std::size_t bytes, ncclDataType_t, int from, ncclComm_t comm, cudaStream_t) {
    if (!comm) return ncclInvalidArgument;
    group.push_back({&World::rank_of(comm), from, data, bytes});
    return open_group ? ncclSuccess : receive_all();
}

ncclResult_t all_gather(const void* mine, void* out, std::size_t bytes, ncclDataType_t type, ncclComm_t comm,
                        cudaStream_t stream) {
    const int ranks = World::rank_of(comm).world->ranks;
    for (int r = 0; r < ranks; ++r) send(mine, bytes, type, r, comm, stream);
    const bool outer = std::exchange(open_group, true);
    for (int r = 0; r < ranks; ++r)
        receive(static_cast<char*>(out) + static_cast<std::size_t>(r) * bytes, bytes, type, r, comm, stream);
    open_group = outer;
    return open_group ? ncclSuccess : receive_all();
}

ncclResult_t start_group() {
    open_group = true;
    return ncclSuccess;
}
ncclResult_t end_group() {
    open_group = false;
    return receive_all();
}

}  // namespace

void send_between_threads() {
    const auto stands_in = [](const char* name, auto* function) { stand_in(name, reinterpret_cast<void*>(function)); };
    stands_in("ncclCommInitAll", World::begin);
    stands_in("ncclCommDestroy", World::end);
    stands_in("ncclCommAbort", World::end);
    stands_in("ncclGroupStart", start_group);
    stands_in("ncclGroupEnd", end_group);
    stands_in("ncclSend", send);
    stands_in("ncclRecv", receive);
    stands_in("ncclAllGather", all_gather);
}

}  // namespace causeway::faults
