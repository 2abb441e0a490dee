#include "gpu/distributed/nccl.hpp"

#include <dlfcn.h>

#include <string>

#include "gpu/base/error.hpp"

namespace causeway::gpu {
namespace {

// Where the linker looks, else where the build found it.
void* open() {
    std::string why;
    for (const char* path : {"libnccl.so.2", CAUSEWAY_NCCL_LIBRARY}) {
        if (void* file = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return file;
        if (const char* reason = dlerror(); why.empty() && reason) why = reason;
    }
    fail("engine: \"nccl\" cannot run: ", why);
}

Nccl load() {
    void* file = open();
    Nccl n{};
    const auto find = [&](auto& function, const char* name) {
        void* symbol = dlsym(file, name);
        if (!symbol) fail("engine: \"nccl\" cannot run: the libnccl.so.2 that is installed has no ", name);
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
    };
    find(n.error_text, "ncclGetErrorString");
    find(n.version, "ncclGetVersion");
    find(n.init_all, "ncclCommInitAll");
    find(n.abort, "ncclCommAbort");
    find(n.destroy, "ncclCommDestroy");
    find(n.async_error, "ncclCommGetAsyncError");
    find(n.group_start, "ncclGroupStart");
    find(n.group_end, "ncclGroupEnd");
    find(n.send, "ncclSend");
    find(n.receive, "ncclRecv");
    find(n.all_gather, "ncclAllGather");
    find(n.all_reduce, "ncclAllReduce");
    return n;
}

}  // namespace

const Nccl& nccl() {
    static const Nccl loaded = load();
    return loaded;
}

void check(ncclResult_t result, const char* what) {
    if (result != ncclSuccess) fail("engine: \"nccl\", ", what, " failed: NCCL says ", nccl().error_text(result));
}

}  // namespace causeway::gpu
