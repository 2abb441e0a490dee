// NCCL, loaded by the first call that needs it: a program that links it would not start where it is missing.
#pragma once

#include <nccl.h>

namespace causeway::gpu {

// The functions that are used, of libnccl.so.2.
struct Nccl {
    decltype(&ncclGetErrorString) error_text;
    decltype(&ncclGetVersion) version;
    decltype(&ncclCommInitAll) init_all;
    decltype(&ncclGetUniqueId) unique_id;
    decltype(&ncclCommInitRank) init_rank;
    decltype(&ncclCommAbort) abort;
    decltype(&ncclCommDestroy) destroy;
    decltype(&ncclCommGetAsyncError) async_error;
    decltype(&ncclGroupStart) group_start;
    decltype(&ncclGroupEnd) group_end;
    decltype(&ncclSend) send;
    decltype(&ncclRecv) receive;
    decltype(&ncclAllGather) all_gather;
    decltype(&ncclAllReduce) all_reduce;
};

// Throws Error where the library is missing or lacks a function.
const Nccl& nccl();

// Throws Error with what NCCL says when the result is not success. `what` says what was being done ("sending
// messages").
void check(ncclResult_t result, const char* what);

// What the thread asks of NCCL while this lives starts together at end(). Where an exception comes before end(), the
// destructor closes the group, which NCCL would go on collecting in, and nothing of it starts.
class NcclGroup {
public:
    explicit NcclGroup(const char* what);
    NcclGroup(const NcclGroup&) = delete;
    NcclGroup& operator=(const NcclGroup&) = delete;
    ~NcclGroup();
    void end();

private:
    const char* what_;
    bool open_ = true;
};

}  // namespace causeway::gpu
