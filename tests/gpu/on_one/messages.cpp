// The functions of NCCL that the library uses, between ranks that share one GPU, which NCCL itself refuses: a message
// is copied when it is sent, and copied once more by the stream that receives it. Received messages wait on the CPU
// until they are sent; streams that are captured into a graph are refused. `dlopen` and `dlsym` of the library end
// here.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/mailbox.hpp"

namespace {

constexpr auto patience = std::chrono::seconds(60);  // for a message that nobody sends

struct Message {
    void* data = nullptr;
    cudaEvent_t sent = nullptr;
};

using World = causeway::test::Mailbox<Message>;
using Rank = World::Rank;

Rank& rank_of(ncclComm_t comm) { return World::rank_of(comm); }

// What a group has collected: all messages are sent before one is waited for.
struct Group {
    bool open = false, failed = false;
    std::vector<std::function<ncclResult_t()>> sends, receives;
};
thread_local Group group;

ncclResult_t run(std::vector<std::function<ncclResult_t()>>& calls) {
    for (const auto& call : std::exchange(calls, {}))
        if (const ncclResult_t result = call(); result != ncclSuccess) return result;
    return ncclSuccess;
}

ncclResult_t run_group() {
    const bool failed = std::exchange(group.failed, false);
    if (failed) group.sends.clear(), group.receives.clear();
    const ncclResult_t sent = run(group.sends), received = run(group.receives);
    return failed ? ncclInvalidArgument : sent != ncclSuccess ? sent : received;
}

bool captured(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

ncclResult_t send(Rank& from, int to, const void* data, std::size_t bytes, cudaStream_t stream) {
    if (captured(stream)) return ncclInvalidUsage;
    Message m;
    if (cudaMallocAsync(&m.data, bytes + 1, stream) != cudaSuccess) return ncclUnhandledCudaError;
    if (cudaMemcpyAsync(m.data, data, bytes, cudaMemcpyDefault, stream) != cudaSuccess ||
        cudaEventCreateWithFlags(&m.sent, cudaEventDisableTiming) != cudaSuccess ||
        cudaEventRecord(m.sent, stream) != cudaSuccess)
        return ncclUnhandledCudaError;
    {
        const std::lock_guard lock(from.world->mutex);
        from.world->on_the_way[{from.number, to}].push_back(m);
    }
    from.world->changed.notify_all();
    return ncclSuccess;
}

ncclResult_t receive(Rank& to, int from, void* data, std::size_t bytes, cudaStream_t stream) {
    if (captured(stream)) return ncclInvalidUsage;
    World& world = *to.world;
    Message m;
    {
        std::unique_lock lock(world.mutex);
        auto& messages = world.on_the_way[{from, to.number}];
        if (!world.changed.wait_for(lock, patience, [&] { return world.ended || !messages.empty(); }))
            return ncclSystemError;
        if (messages.empty()) return ncclSuccess;  // it never comes: whoever waits for the stream looks for that
        m = messages.front();
        messages.pop_front();
    }
    if (cudaStreamWaitEvent(stream, m.sent) != cudaSuccess ||
        cudaMemcpyAsync(data, m.data, bytes, cudaMemcpyDefault, stream) != cudaSuccess ||
        cudaFreeAsync(m.data, stream) != cudaSuccess || cudaEventDestroy(m.sent) != cudaSuccess)
        return ncclUnhandledCudaError;
    return ncclSuccess;
}

ncclResult_t post(ncclComm_t comm, std::function<ncclResult_t()> sending, std::function<ncclResult_t()> receiving) {
    if (!comm) {
        group.failed = group.open;
        return ncclInvalidArgument;
    }
    if (sending) group.sends.push_back(std::move(sending));
    if (receiving) group.receives.push_back(std::move(receiving));
    return group.open ? ncclSuccess : run_group();
}

// All elements are bytes.
bool counts_bytes(ncclDataType_t type) { return type == ncclChar || type == ncclUint8; }

ncclResult_t post_send(const void* data, std::size_t bytes, ncclDataType_t type, int to, ncclComm_t comm,
                       cudaStream_t stream) {
    if (!counts_bytes(type)) return ncclInvalidArgument;
    return post(comm, [=] { return send(rank_of(comm), to, data, bytes, stream); }, {});
}

ncclResult_t post_receive(void* data, std::size_t bytes, ncclDataType_t type, int from, ncclComm_t comm,
                          cudaStream_t stream) {
    if (!counts_bytes(type)) return ncclInvalidArgument;
    return post(comm, {}, [=] { return receive(rank_of(comm), from, data, bytes, stream); });
}

ncclResult_t post_all_gather(const void* mine, void* out, std::size_t bytes, ncclDataType_t type, ncclComm_t comm,
                             cudaStream_t stream) {
    if (!counts_bytes(type)) return ncclInvalidArgument;
    const auto each = [=](const auto& call) {
        for (int r = 0; r < rank_of(comm).world->ranks; ++r)
            if (const ncclResult_t result = call(r); result != ncclSuccess) return result;
        return ncclSuccess;
    };
    return post(
        comm, [=] { return each([&](int r) { return send(rank_of(comm), r, mine, bytes, stream); }); },
        [=] {
            return each([&](int r) {
                return receive(rank_of(comm), r, static_cast<char*>(out) + static_cast<std::size_t>(r) * bytes, bytes,
                               stream);
            });
        });
}

// Every function, of its own type.
#define STANDS_IN(name, ...) \
    { #name, reinterpret_cast < void*>(static_cast <decltype(&::name)>(__VA_ARGS__)) }

const std::map<std::string, void*>& functions() {
    static const std::map<std::string, void*> all{
        STANDS_IN(ncclGetErrorString, [](ncclResult_t) { return "an error between ranks that share a GPU"; }),
        STANDS_IN(ncclGetVersion,
                  [](int* version) {
                      *version = NCCL_VERSION_CODE;
                      return ncclSuccess;
                  }),
        STANDS_IN(ncclCommInitAll, World::begin),
        // Processes have a GPU each.
        STANDS_IN(ncclGetUniqueId, [](ncclUniqueId*) { return ncclInvalidUsage; }),
        STANDS_IN(ncclCommInitRank, [](ncclComm_t*, int, ncclUniqueId, int) { return ncclInvalidUsage; }),
        STANDS_IN(ncclCommAbort, World::end),
        STANDS_IN(ncclCommDestroy, World::end),
        STANDS_IN(ncclCommGetAsyncError,
                  [](ncclComm_t, ncclResult_t* error) {
                      *error = ncclSuccess;
                      return ncclSuccess;
                  }),
        STANDS_IN(ncclGroupStart,
                  [] {
                      group.open = true;
                      return ncclSuccess;
                  }),
        STANDS_IN(ncclGroupEnd,
                  [] {
                      group.open = false;
                      return run_group();
                  }),
        STANDS_IN(ncclSend, post_send),
        STANDS_IN(ncclRecv, post_receive),
        STANDS_IN(ncclAllGather, post_all_gather),
        STANDS_IN(ncclAllReduce, [](const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                    cudaStream_t) { return ncclInvalidUsage; }),
    };
    return all;
}

}  // namespace

extern "C" {
void* __real_dlopen(const char*, int);
void* __real_dlsym(void*, const char*);

void* __wrap_dlopen(const char* file, int flags) {
    return __real_dlopen(file && std::strstr(file, "libnccl") ? nullptr : file, flags);
}

void* __wrap_dlsym(void* library, const char* name) {
    const auto found = functions().find(name);
    return found == functions().end() ? __real_dlsym(library, name) : found->second;
}
}
