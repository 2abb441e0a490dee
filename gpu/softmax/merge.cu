// The last step of attention over split keys.
#include "gpu/base/device.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/softmax/rows.cuh"

namespace causeway::gpu::softmax {

namespace {

constexpr int merge_warps = 8, merge_threads = 32 * merge_warps, per_lane = max_width / 32;

// One block: a row. Every warp sums its share of the splits in order, then the warps are summed in order.
template <class E>
__global__ __launch_bounds__(merge_threads) void merge_kernel(const __grid_constant__ Params c) {
    __shared__ float sums[merge_warps][max_width], total[merge_warps];
#if __CUDA_ARCH__ >= 900
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
#endif
    const int32_t row = static_cast<int32_t>(blockIdx.x % c.rows), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const BatchHead<E> bh(c, static_cast<int32_t>(blockIdx.x / c.rows));
    float m = minus_infinity;
    for (int32_t s = lane; s < c.splits; s += 32) m = fmaxf(m, c.partial_lse[bh.partial_row(s, row)]);
    m = max_of_warp(m);
    const float shift = shift_of(m, 1.0f);
    float o[per_lane] = {}, l = 0;
#pragma unroll 2
    for (int32_t s = warp; s < c.splits; s += merge_warps) {
        const float weight = exp2f(c.partial_lse[bh.partial_row(s, row)] - shift);
        const float* from = c.partial + bh.partial_row(s, row) * c.dv;
        l += weight;
#pragma unroll
        for (int i = 0; i < per_lane; ++i) {
            if (lane + 32 * i < c.dv) o[i] = fmaf(weight, from[lane + 32 * i], o[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < per_lane; ++i) sums[warp][lane + 32 * i] = o[i];
    if (lane == 0) total[warp] = l;
    __syncthreads();
    l = 0;
    for (int w = 0; w < merge_warps; ++w) l += total[w];
    float lse2;
    const float inverse = finish(m, l, lse2);
    if (static_cast<int>(threadIdx.x) < c.dv) {
        float x = 0;
        for (int w = 0; w < merge_warps; ++w) x += sums[w][threadIdx.x];
        bh.o(row)[threadIdx.x] = static_cast<E>(x * inverse);
    }
    if (threadIdx.x == 0 && c.lse) bh.lse(row) = lse2 * ln2;
}

}  // namespace

void merge_splits(const Params& c, Type type, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>(int64_t{c.batch_heads} * c.rows);
    const bool early = device().compute >= 90;  // launched while the splits are at work
    visit(type, [&](auto e) {
        launch(merge_kernel<decltype(e)>, "launching merge_kernel", blocks, merge_threads, 0, 1, early, stream, c);
    });
}

}  // namespace causeway::gpu::softmax
