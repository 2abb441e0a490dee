// A program on GPUs that do not exist (tests/faults/gpu/pretended.hpp): memory is the CPU's, what kernels compute is
// done by definitions.cpp, and messages go between the processes under mpirun, which have one GPU each, or between the
// CAUSEWAY_GPUS (1) of one process, which are threads.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/faults/gpu/c_headers.hpp"
#include "tests/faults/gpu/hooks.hpp"
#include "tests/gpu/defined/processes.hpp"
#include "tests/gpu/defined/threads.hpp"

namespace {

// A kernel that has no definition: asked for its error, CUDA says that it is not supported.
thread_local cudaError_t launched = cudaSuccess;

cudaError_t launch(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
    return launched = cudaErrorNotSupported;
}
cudaError_t launch_with_attributes(const cudaLaunchConfig_t*, const void*, void**) {
    return launched = cudaErrorNotSupported;
}
cudaError_t last_error() { return std::exchange(launched, cudaSuccess); }

template <class F>
void stand_in(const char* name, F* function) {
    causeway::faults::stand_in(name, reinterpret_cast<void*>(function));
}

}  // namespace

// What tests alone call: everything has happened by then.
extern "C" cudaError_t __wrap_cudaDeviceSynchronize() { return cudaSuccess; }
extern "C" cudaError_t __wrap_cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
    std::memmove(to, from, bytes);
    return cudaSuccess;
}
extern "C" cudaError_t __wrap_cudaMemset(void* data, int value, std::size_t bytes) {
    std::memset(data, value, bytes);
    return cudaSuccess;
}

extern "C" int __real_main(int, char**);

extern "C" int __wrap_main(int argc, char** argv) {
    const char* const gpus = std::getenv("CAUSEWAY_GPUS");
    causeway::faults::pretend(gpus ? std::atoi(gpus) : 1);
    stand_in("__cudaLaunchKernel", launch);
    stand_in("cudaLaunchKernelExC", launch_with_attributes);
    stand_in("cudaGetLastError", last_error);
    if (std::getenv("OMPI_COMM_WORLD_RANK")) causeway::faults::send_between_processes();
    else causeway::faults::send_between_threads();
    return __real_main(argc, argv);
}
