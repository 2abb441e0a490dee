// One GPU that counts as several, so that the calls of several GPUs can be tried with one: the functions of the CUDA
// runtime that take or give the number of a device stand here in front of those of the runtime (--wrap of the linker).
// A thread is on the device that it chose; all of them are GPU 0. CAUSEWAY_GPUS says how many there are (2).
#include <cuda_runtime_api.h>

#include <cstdlib>

namespace {

thread_local int current = 0;

int devices() {
    static const int n = [] {
        const char* const text = std::getenv("CAUSEWAY_GPUS");
        return text ? std::atoi(text) : 2;
    }();
    return n;
}

bool is_one(int device) { return device >= 0 && device < devices(); }

}  // namespace

extern "C" {
cudaError_t __real_cudaSetDevice(int);
cudaError_t __real_cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
cudaError_t __real_cudaDeviceGetDefaultMemPool(cudaMemPool_t*, int);
cudaError_t __real_cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t __real_cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms*, cudaStream_t);

cudaError_t __wrap_cudaGetDeviceCount(int* count) {
    *count = devices();
    return cudaSuccess;
}

cudaError_t __wrap_cudaGetDevice(int* device) {
    *device = current;
    return cudaSuccess;
}

cudaError_t __wrap_cudaSetDevice(int device) {
    if (!is_one(device)) return __real_cudaSetDevice(-1);
    current = device;
    return __real_cudaSetDevice(0);
}

cudaError_t __wrap_cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
    return __real_cudaDeviceGetAttribute(value, which, is_one(device) ? 0 : device);
}

cudaError_t __wrap_cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    return __real_cudaDeviceGetDefaultMemPool(pool, is_one(device) ? 0 : device);
}

cudaError_t __wrap_cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    return __real_cudaGetDeviceProperties(properties, is_one(device) ? 0 : device);
}

cudaError_t __wrap_cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, cudaStream_t stream) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t __wrap_cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* given, cudaStream_t stream) {
    cudaMemcpy3DPeerParms copy = *given;
    copy.srcDevice = copy.dstDevice = 0;
    return __real_cudaMemcpy3DPeerAsync(&copy, stream);
}
}
