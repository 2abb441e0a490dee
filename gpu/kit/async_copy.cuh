// Copies from global to shared memory that go on while the thread does (sm_80 and later).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace causeway::gpu {

// bytes: 4, 8 or 16, both addresses multiples of it. Where not `inside`, zeros are written and nothing is read.
template <int bytes>
__device__ __forceinline__ void cp_async(uint32_t to, const void* from, bool inside) {
    const int read = inside ? bytes : 0;
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes), "r"(read)
                     : "memory");
}
template <int bytes>
__device__ __forceinline__ void cp_async(void* to, const void* from, bool inside) {
    cp_async<bytes>(static_cast<uint32_t>(__cvta_generic_to_shared(to)), from, inside);
}

// Copies of this thread since the last commit become a group; wait<n>() returns when all but the n youngest groups have
// arrived, for this thread: others need a barrier after it.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int left>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
// The same for all copies of this thread, in groups or not.
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace causeway::gpu
