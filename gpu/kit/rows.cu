#include "gpu/base/error.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/rows.cuh"

namespace causeway::gpu {

namespace {

using std::int64_t;

template <class E>
__global__ __launch_bounds__(32 * rows_of_block) void gather_kernel(const E* x, Strides s, RowRange r, float* to) {
    each_row(r, s, [&](int64_t i, int64_t at) {
        for (int c = threadIdx.x; c < r.width; c += 32) to[i * r.width + c] = static_cast<float>(x[at + c]);
    });
}

template <class E>
__global__ __launch_bounds__(32 * rows_of_block) void scatter_kernel(const float* from, E* x, Strides s, RowRange r) {
    each_row(r, s, [&](int64_t i, int64_t at) {
        for (int c = threadIdx.x; c < r.width; c += 32) x[at + c] = static_cast<E>(from[i * r.width + c]);
    });
}

}  // namespace

void gather_rows(const void* x, Type type, Strides s, const RowRange& r, float* to, cudaStream_t stream) {
    visit(type, [&](auto zero) {
        using E = decltype(zero);
        gather_kernel<<<blocks_of(r), dim3(32, rows_of_block), 0, stream>>>(static_cast<const E*>(x), s, r, to);
    });
    check_launch("launching gather_rows");
}

void scatter_rows(const float* from, void* x, Type type, Strides s, const RowRange& r, cudaStream_t stream) {
    visit(type, [&](auto zero) {
        using E = decltype(zero);
        scatter_kernel<<<blocks_of(r), dim3(32, rows_of_block), 0, stream>>>(from, static_cast<E*>(x), s, r);
    });
    check_launch("launching scatter_rows");
}

}  // namespace causeway::gpu
