#include "gpu/distributed/nccl.hpp"

#include "gpu/base/error.hpp"
#include "gpu/base/shared_library.hpp"

namespace causeway::gpu {
namespace {

// Where the linker looks, else where the build found it.
Nccl load() {
    const SharedLibrary file("engine: \"nccl\" cannot run: ", {"libnccl.so.2", CAUSEWAY_NCCL_LIBRARY});
    Nccl n{};
    file.find(n.error_text, "ncclGetErrorString");
    file.find(n.version, "ncclGetVersion");
    file.find(n.init_all, "ncclCommInitAll");
    file.find(n.unique_id, "ncclGetUniqueId");
    file.find(n.init_rank, "ncclCommInitRank");
    file.find(n.abort, "ncclCommAbort");
    file.find(n.destroy, "ncclCommDestroy");
    file.find(n.async_error, "ncclCommGetAsyncError");
    file.find(n.group_start, "ncclGroupStart");
    file.find(n.group_end, "ncclGroupEnd");
    file.find(n.send, "ncclSend");
    file.find(n.receive, "ncclRecv");
    file.find(n.all_gather, "ncclAllGather");
    file.find(n.all_reduce, "ncclAllReduce");
    return n;
}

}  // namespace

const Nccl& nccl() {
    static const Nccl loaded = load();
    return loaded;
}

void check(ncclResult_t result, const char* what) {
    if (result != ncclSuccess)
        fail_as<SystemError>("engine: \"nccl\", ", what, " failed: NCCL says ", nccl().error_text(result));
}

NcclGroup::NcclGroup(const char* what) : what_(what) { check(nccl().group_start(), what); }

// NCCL would start an incomplete group, and where its ranks are not connected yet wait for the other half for ever. One
// call that fails, as does this one without a communicator, ends all of the group.
NcclGroup::~NcclGroup() {
    if (!open_) return;
    nccl().send(nullptr, 0, ncclChar, 0, nullptr, nullptr);
    nccl().group_end();
}

void NcclGroup::end() {
    open_ = false;
    check(nccl().group_end(), what_);
}

}  // namespace causeway::gpu
