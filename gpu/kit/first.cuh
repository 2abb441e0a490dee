// The first of very many numbers that something holds for.
#pragma once

#include "gpu/base/wait.hpp"
#include "gpu/kit/each.cuh"

namespace causeway::gpu {

template <class Is>
struct First {
    Is is;
    unsigned long long* first;
    __device__ void operator()(std::int64_t i) const {
        if (is(i)) atomicMin(first, static_cast<unsigned long long>(i));
    }
};

// The least i < n with is(i), or n. `first`: room for one number on the device. Waits for the result.
template <class Is>
std::int64_t first_that(const char* doing, std::int64_t n, std::int64_t* first, cudaStream_t stream, Is is) {
    check(cudaMemcpyAsync(first, &n, sizeof n, cudaMemcpyHostToDevice, stream), doing);
    run_each(doing, n, stream, First<Is>{is, reinterpret_cast<unsigned long long*>(first)});
    std::int64_t found = n;
    wait_for(stream, doing);
    check(cudaMemcpyAsync(&found, first, sizeof found, cudaMemcpyDeviceToHost, stream), doing);
    check(cudaStreamSynchronize(stream), doing);
    return found;
}

}  // namespace causeway::gpu
