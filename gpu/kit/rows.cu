#include "gpu/kit/rows.hpp"

#include <algorithm>

#include "gpu/base/error.hpp"
#include "gpu/kit/element.cuh"

namespace causeway::gpu {

namespace {

using std::int64_t;

constexpr int rows_of_block = 8;  // a warp each

// f(matrix row, element offset of its row in the tensor) for the rows of this warp.
template <class F>
__device__ __forceinline__ void each_row(const RowRange& r, Strides s, const F& f) {
    const int64_t all = r.count * r.rows;
    for (int64_t i = blockIdx.x * int64_t{rows_of_block} + threadIdx.y; i < all;
         i += int64_t{gridDim.x} * rows_of_block) {
        const int64_t bh = r.first + i / r.rows;
        f(i, bh / r.heads * s.batch + bh % r.heads * s.head + (r.row + i % r.rows) * s.token);
    }
}

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

unsigned blocks_of(const RowRange& r) {
    return static_cast<unsigned>(std::min<int64_t>((r.count * r.rows + rows_of_block - 1) / rows_of_block, 1 << 16));
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
