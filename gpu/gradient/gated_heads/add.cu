// Sums of dq and dk over heads that share a head of q and of k, where finishing does not make them.
#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/gated/fma.cuh"
#include "gpu/gradient/gated_heads/sum.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gated_heads {

namespace {

constexpr unsigned add_threads = 256;

// A thread: sixteen bytes of a token of dq (blockIdx.y = 0) or dk, and then others.
__global__ __launch_bounds__(add_threads) void gated_heads_add(const __grid_constant__ Part p) {
    if (p.over_heads != HeadSums::at_the_end && !*p.not_finite) return;
    const gated::Operand &x = blockIdx.y == 0 ? p.dq : p.dk, &sum = blockIdx.y == 0 ? p.dq_sum : p.dk_sum;
    const int64_t heads = p.call.heads, row = p.call.dk / 8, of_batch = p.call.N * row,
                  all = p.call.all_heads / heads * of_batch;
    for (int64_t i = int64_t{blockIdx.x} * add_threads + threadIdx.x; i < all; i += int64_t{gridDim.x} * add_threads) {
        const int64_t b = i / of_batch, token = i % of_batch / row, piece = i % row;
        const auto at = [&](const gated::Operand& of, int64_t h) {
            return reinterpret_cast<uint4*>(gated::head_of(of, b, h) + token * of.token) + piece;
        };
        SumOfHeads total;
#pragma unroll 4
        for (int64_t h = 0; h < heads; ++h) total.add(*at(x, h));
        *at(sum, 0) = total.rounded();
    }
}

}  // namespace

void launch_add(const Part& p, cudaStream_t stream) {
    const int64_t pieces = p.call.all_heads / p.call.heads * p.call.N * p.call.dk / 8,
                  most = (p.over_heads == HeadSums::at_the_end ? 8 : 1) * device().multiprocessors;
    launch(gated_heads_add, "launching gated_heads_add",
           dim3(static_cast<unsigned>(std::min((pieces + add_threads - 1) / add_threads, most)), 2), add_threads, 0, 1,
           false, stream, p);
}

}  // namespace causeway::gpu::gated_heads
