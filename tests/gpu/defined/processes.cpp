#include "tests/gpu/defined/processes.hpp"

#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/faults/gpu/c_headers.hpp"
#include "tests/faults/gpu/hooks.hpp"
#include "tests/faults/gpu/pretended.hpp"

namespace causeway::faults {
namespace {

struct Message {
    bool sent;
    const void* from;
    void* to;
    std::size_t bytes;
    int peer;
};

struct Processes {
    MPI_Comm ranks;
};

thread_local std::vector<Message> group;
thread_local MPI_Comm of_group = MPI_COMM_NULL;

MPI_Comm ranks_of(ncclComm_t comm) { return reinterpret_cast<const Processes*>(comm)->ranks; }

ncclResult_t unique_id(ncclUniqueId* id) {
    std::memset(id, 1, sizeof *id);
    return ncclSuccess;
}

ncclResult_t init_rank(ncclComm_t* comm, int, ncclUniqueId, int) {
    auto made = std::make_unique<Processes>();
    if (MPI_Comm_dup(MPI_COMM_WORLD, &made->ranks) != MPI_SUCCESS) return ncclSystemError;
    *comm = reinterpret_cast<ncclComm_t>(made.release());
    return ncclSuccess;
}

// Of the GPU of one process, which talks to itself alone.
ncclResult_t init_all(ncclComm_t* comms, int count, const int*) {
    if (count != 1) return ncclInvalidArgument;
    comms[0] = reinterpret_cast<ncclComm_t>(new Processes{MPI_COMM_SELF});
    return ncclSuccess;
}

ncclResult_t end_communicator(ncclComm_t comm) {
    delete reinterpret_cast<const Processes*>(comm);
    return ncclSuccess;
}

// Whether the rank is to fail, but for the few bytes by which ranks are connected.
bool fails(std::size_t bytes) {
    const char *const failing = std::getenv("CAUSEWAY_FAILING_RANK"), *const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    return failing && rank && std::strcmp(failing, rank) == 0 && bytes > 64;
}

ncclResult_t send(const void* data, std::size_t bytes, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t) {
    if (!comm) return ncclInvalidArgument;
    if (fails(bytes)) return ncclSystemError;
    group.push_back({true, data, nullptr, bytes, peer}), of_group = ranks_of(comm);
    return ncclSuccess;
}

ncclResult_t receive(void* data, std::size_t bytes, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t) {
    if (!comm) return ncclInvalidArgument;
    group.push_back({false, nullptr, data, bytes, peer}), of_group = ranks_of(comm);
    return ncclSuccess;
}

ncclResult_t all_gather(const void* mine, void* out, std::size_t bytes, ncclDataType_t, ncclComm_t comm, cudaStream_t) {
    const std::vector<char> own(static_cast<const char*>(mine), static_cast<const char*>(mine) + bytes);
    const int n = static_cast<int>(bytes);
    return MPI_Allgather(own.data(), n, MPI_CHAR, out, n, MPI_CHAR, ranks_of(comm)) == MPI_SUCCESS ? ncclSuccess
                                                                                                   : ncclSystemError;
}

// Until the message is there; where a rank is to fail one that does not come is left on its way, as on a GPU.
void wait_for(const Message& m) {
    const auto begun = std::chrono::steady_clock::now();
    MPI_Request request;
    MPI_Irecv(m.to, static_cast<int>(m.bytes), MPI_CHAR, m.peer, 0, of_group, &request);
    for (int done = 0; !done;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done || !std::getenv("CAUSEWAY_FAILING_RANK")) continue;
        if (std::chrono::steady_clock::now() - begun < std::chrono::seconds(1)) continue;
        MPI_Cancel(&request);
        MPI_Request_free(&request);
        return;
    }
}

// What is sent is kept, as the sender goes on before it has come.
ncclResult_t end_group() {
    for (const Message& m : group) {
        if (!m.sent) continue;
        auto* const kept =
            new std::vector<char>(static_cast<const char*>(m.from), static_cast<const char*>(m.from) + m.bytes);
        MPI_Request request;
        MPI_Isend(kept->data(), static_cast<int>(m.bytes), MPI_CHAR, m.peer, 0, of_group, &request);
        MPI_Request_free(&request);
    }
    for (const Message& m : group)
        if (!m.sent) wait_for(m);
    group.clear();
    return ncclSuccess;
}

// Every process has a device of its own.
cudaError_t properties(cudaDeviceProp* p, int device) {
    reinterpret_cast<decltype(&cudaGetDeviceProperties)>(pretended("cudaGetDeviceProperties"))(p, device);
    const char* const rank = std::getenv("CAUSEWAY_ONE_GPU") ? nullptr : std::getenv("OMPI_COMM_WORLD_RANK");
    std::memset(&p->uuid, rank ? 1 + std::atoi(rank) : 1, sizeof p->uuid);
    return cudaSuccess;
}

}  // namespace

void send_between_processes() {
    const auto stands_in = [](const char* name, auto* function) { stand_in(name, reinterpret_cast<void*>(function)); };
    stands_in("ncclGetUniqueId", unique_id);
    stands_in("ncclCommInitRank", init_rank);
    stands_in("ncclCommInitAll", init_all);
    stands_in("ncclCommDestroy", end_communicator);
    stands_in("ncclCommAbort", end_communicator);
    stands_in("ncclSend", send);
    stands_in("ncclRecv", receive);
    stands_in("ncclAllGather", all_gather);
    stands_in("ncclGroupEnd", end_group);
    stands_in("cudaGetDeviceProperties", properties);
}

}  // namespace causeway::faults
