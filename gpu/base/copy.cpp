#include "gpu/base/copy.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "gpu/base/error.hpp"

namespace causeway::gpu {
namespace {

constexpr std::size_t max_pitch = 0x7fffffff;  // of cudaMemcpy2DAsync: cudaDeviceProp::memPitch of every device

bool are_together(const RowCopy& x) { return x.rows == 1 || (x.to_pitch == x.bytes && x.from_pitch == x.bytes); }
bool are_near(const RowCopy& x) { return std::max(x.to_pitch, x.from_pitch) <= max_pitch; }

// copy(to, from) for each row.
template <class Copy>
void one_by_one(const RowCopy& x, Copy&& copy) {
    for (std::size_t i = 0; i < x.rows; ++i)
        copy(static_cast<char*>(x.to) + i * x.to_pitch, static_cast<const char*>(x.from) + i * x.from_pitch);
}

}  // namespace

void copy_rows(const RowCopy& x, cudaStream_t stream, const char* doing) {
    if (x.bytes == 0 || x.rows == 0) return;
    if (are_together(x)) {
        check(cudaMemcpyAsync(x.to, x.from, x.bytes * x.rows, cudaMemcpyDefault, stream), doing);
    } else if (are_near(x)) {
        check(cudaMemcpy2DAsync(x.to, x.to_pitch, x.from, x.from_pitch, x.bytes, x.rows, cudaMemcpyDefault, stream),
              doing);
    } else {
        one_by_one(x, [&](void* to, const void* from) {
            check(cudaMemcpyAsync(to, from, x.bytes, cudaMemcpyDefault, stream), doing);
        });
    }
}

void copy_rows(const RowCopy& x, int to_device, int from_device, cudaStream_t stream, const char* doing) {
    if (to_device == from_device) return copy_rows(x, stream, doing);
    if (x.bytes == 0 || x.rows == 0) return;
    if (!are_near(x)) {
        one_by_one(x, [&](void* to, const void* from) {
            check(cudaMemcpyPeerAsync(to, to_device, from, from_device, x.bytes, stream), doing);
        });
        return;
    }
    cudaMemcpy3DPeerParms p{};
    p.srcDevice = from_device, p.dstDevice = to_device;
    p.srcPtr = make_cudaPitchedPtr(const_cast<void*>(x.from), x.from_pitch, x.bytes, x.rows);
    p.dstPtr = make_cudaPitchedPtr(x.to, x.to_pitch, x.bytes, x.rows);
    p.extent = make_cudaExtent(x.bytes, x.rows, 1);
    check(cudaMemcpy3DPeerAsync(&p, stream), doing);
}

}  // namespace causeway::gpu
