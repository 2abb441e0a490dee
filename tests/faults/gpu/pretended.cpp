#include "tests/faults/gpu/pretended.hpp"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <utility>

#include "tests/faults/gpu/c_headers.hpp"

namespace causeway::faults {
namespace {

int devices = 1;
thread_local int device = 0;

template <class Handle>
cudaError_t give(Handle* handle) {
    *handle = static_cast<Handle>(std::calloc(1, 1));
    return cudaSuccess;
}

cudaError_t give_memory(void** data, std::size_t bytes) {
    *data = std::calloc(bytes, 1);
    return *data ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t take(void* handle) {
    std::free(handle);
    return cudaSuccess;
}

#ifdef CAUSEWAY_NCCL
// A communicator is the number of its device. What ends it goes there and stays, as NCCL does.
ncclResult_t give_communicators(ncclComm_t* comms, int n, const int* on) {
    for (int i = 0; i < n; ++i) comms[i] = reinterpret_cast<ncclComm_t>(new int(on[i]));
    return ncclSuccess;
}

ncclResult_t end_communicator(ncclComm_t comm) {
    const auto* const on = reinterpret_cast<const int*>(comm);
    device = *on;
    delete on;
    return ncclSuccess;
}

// A call without a communicator fails, and its group with it. One that ended before it was complete, and has not
// failed, would never come back.
thread_local bool group_failed = false;

ncclResult_t of_a_group(ncclComm_t comm) {
    if (comm) return ncclSuccess;
    group_failed = true;
    return ncclInvalidArgument;
}

ncclResult_t end_group() {
    if (std::exchange(group_failed, false)) return ncclInvalidArgument;
    if (std::uncaught_exceptions() > 0) std::abort();
    return ncclSuccess;
}
#endif

void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
               std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i)
        std::memmove(static_cast<char*>(to) + i * to_pitch, static_cast<const char*>(from) + i * from_pitch, bytes);
}

// What the kernels ask of a Hopper GPU.
cudaError_t attribute(int* value, cudaDeviceAttr which, int) {
    *value = which == cudaDevAttrComputeCapabilityMajor         ? 9
             : which == cudaDevAttrMultiProcessorCount          ? 132
             : which == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 << 10
             : which == cudaDevAttrMaxGridDimX                  ? 0x7fffffff
                                                                : 0;
    return cudaSuccess;
}

cudaError_t properties(cudaDeviceProp* p, int) {
    *p = {};
    std::strcpy(p->name, "a device that does not exist");
    p->major = 9, p->multiProcessorCount = 132, p->l2CacheSize = 50 << 20;
    p->totalGlobalMem = std::size_t{80} << 30;
    return cudaSuccess;
}

// Every function, of its own type.
#define PRETENDED(name, ...) \
    { #name, reinterpret_cast < void*>(static_cast <decltype(&::name)>(__VA_ARGS__)) }

const std::map<std::string, void*>& functions() {
    static const std::map<std::string, void*> all{
        PRETENDED(cudaDriverGetVersion,
                  [](int* version) {
                      *version = 13000;
                      return cudaSuccess;
                  }),
        PRETENDED(cudaGetDeviceCount,
                  [](int* count) {
                      *count = devices;
                      return cudaSuccess;
                  }),
        PRETENDED(cudaGetDevice,
                  [](int* current) {
                      *current = device;
                      return cudaSuccess;
                  }),
        PRETENDED(cudaSetDevice,
                  [](int next) {
                      device = next;
                      return cudaSuccess;
                  }),
        PRETENDED(cudaDeviceGetAttribute, attribute),
        PRETENDED(cudaGetDeviceProperties, properties),
        PRETENDED(cudaFuncGetAttributes,
                  [](cudaFuncAttributes* a, const void*) {
                      *a = {};
                      a->maxThreadsPerBlock = 1024, a->ptxVersion = a->binaryVersion = 90;
                      return cudaSuccess;
                  }),
        PRETENDED(cudaMemGetInfo,
                  [](std::size_t* free, std::size_t* total) {
                      *free = std::size_t{70} << 30, *total = std::size_t{80} << 30;
                      return cudaSuccess;
                  }),
        PRETENDED(cudaMalloc, give_memory),
        PRETENDED(cudaMallocHost, give_memory),
        PRETENDED(cudaHostAlloc, [](void** data, std::size_t bytes, unsigned) { return give_memory(data, bytes); }),
        PRETENDED(cudaMallocFromPoolAsync,
                  [](void** data, std::size_t bytes, cudaMemPool_t, cudaStream_t) { return give_memory(data, bytes); }),
        PRETENDED(cudaFree, take),
        PRETENDED(cudaFreeHost, take),
        PRETENDED(cudaFreeAsync, [](void* data, cudaStream_t) { return take(data); }),
        PRETENDED(cudaMemPoolGetAttribute,
                  [](cudaMemPool_t, cudaMemPoolAttr, void* value) {
                      std::memset(value, 0, sizeof(std::uint64_t));
                      return cudaSuccess;
                  }),
        PRETENDED(cudaMemcpyAsync,
                  [](void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
                      std::memmove(to, from, bytes);
                      return cudaSuccess;
                  }),
        PRETENDED(cudaMemcpyPeerAsync,
                  [](void* to, int, const void* from, int, std::size_t bytes, cudaStream_t) {
                      std::memmove(to, from, bytes);
                      return cudaSuccess;
                  }),
        PRETENDED(cudaMemcpy2DAsync,
                  [](void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
                     std::size_t rows, cudaMemcpyKind, cudaStream_t) {
                      copy_rows(to, to_pitch, from, from_pitch, bytes, rows);
                      return cudaSuccess;
                  }),
        PRETENDED(cudaMemcpy3DPeerAsync,
                  [](const cudaMemcpy3DPeerParms* p, cudaStream_t) {
                      copy_rows(p->dstPtr.ptr, p->dstPtr.pitch, p->srcPtr.ptr, p->srcPtr.pitch, p->extent.width,
                                p->extent.height);
                      return cudaSuccess;
                  }),
        PRETENDED(cudaMemsetAsync,
                  [](void* data, int value, std::size_t bytes, cudaStream_t) {
                      std::memset(data, value, bytes);
                      return cudaSuccess;
                  }),
        PRETENDED(cudaStreamCreateWithFlags, [](cudaStream_t* stream, unsigned) { return give(stream); }),
        PRETENDED(cudaStreamDestroy, [](cudaStream_t stream) { return take(stream); }),
        PRETENDED(cudaEventCreate, [](cudaEvent_t* event) { return give(event); }),
        PRETENDED(cudaEventDestroy, [](cudaEvent_t event) { return take(event); }),
        PRETENDED(cudaEventElapsedTime,
                  [](float* ms, cudaEvent_t, cudaEvent_t) {
                      *ms = 1;
                      return cudaSuccess;
                  }),
        PRETENDED(cudaStreamIsCapturing,
                  [](cudaStream_t, cudaStreamCaptureStatus* status) {
                      *status = cudaStreamCaptureStatusNone;
                      return cudaSuccess;
                  }),
        PRETENDED(cudaStreamEndCapture, [](cudaStream_t, cudaGraph_t* graph) { return give(graph); }),
        PRETENDED(cudaGraphDestroy, [](cudaGraph_t graph) { return take(graph); }),
        PRETENDED(cudaGraphInstantiate,
                  [](cudaGraphExec_t* run, cudaGraph_t, unsigned long long) { return give(run); }),
        PRETENDED(cudaGraphExecDestroy, [](cudaGraphExec_t run) { return take(run); }),
        PRETENDED(
            cudaGetDriverEntryPointByVersion,
            [](const char*, void** function, unsigned, unsigned long long, cudaDriverEntryPointQueryResult* result) {
                *function = nullptr;
                if (result) *result = cudaDriverEntryPointSuccess;
                return cudaSuccess;
            }),
        PRETENDED(cublasCreate_v2,
                  [](cublasHandle_t* handle) {
                      give(handle);
                      return CUBLAS_STATUS_SUCCESS;
                  }),
        PRETENDED(cublasDestroy_v2,
                  [](cublasHandle_t handle) {
                      take(handle);
                      return CUBLAS_STATUS_SUCCESS;
                  }),
        PRETENDED(cublasGetStatusString, [](cublasStatus_t) { return "an error of a device that does not exist"; }),
#ifdef CAUSEWAY_NCCL
        PRETENDED(ncclGetErrorString, [](ncclResult_t) { return "an error of a device that does not exist"; }),
        PRETENDED(ncclCommInitAll, give_communicators),
        PRETENDED(ncclCommDestroy, end_communicator),
        PRETENDED(ncclCommAbort, end_communicator),
        PRETENDED(ncclGroupStart,
                  [] {
                      group_failed = false;
                      return ncclSuccess;
                  }),
        PRETENDED(ncclGroupEnd, end_group),
        PRETENDED(ncclSend, [](const void*, std::size_t, ncclDataType_t, int, ncclComm_t comm,
                               cudaStream_t) { return of_a_group(comm); }),
        PRETENDED(ncclRecv, [](void*, std::size_t, ncclDataType_t, int, ncclComm_t comm,
                               cudaStream_t) { return of_a_group(comm); }),
        PRETENDED(ncclAllGather, [](const void*, void*, std::size_t, ncclDataType_t, ncclComm_t comm,
                                    cudaStream_t) { return of_a_group(comm); }),
        PRETENDED(ncclCommGetAsyncError,
                  [](ncclComm_t, ncclResult_t* error) {
                      *error = ncclSuccess;
                      return ncclSuccess;
                  }),
#endif
    };
    return all;
}

}  // namespace

void* pretended(const char* name) {
    const auto found = functions().find(name);
    return found == functions().end() ? nullptr : found->second;
}

void set_pretended_devices(int n) { devices = n; }

}  // namespace causeway::faults
