// The launches of the gradient of softmax attention.
#include "gpu/gradient/softmax.hpp"

#include <algorithm>

#include "gpu/gradient/softmax_float.cuh"
#include "gpu/gradient/softmax_mma.cuh"
#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/limits.hpp"

namespace causeway::gpu {

namespace softmax {

namespace {

constexpr const char* grad_name = "flash_attention_grad";
constexpr int sum_warps = 8;

// One warp: a row's D, and its log-sum-exp in units of log 2.
template <class E>
__global__ __launch_bounds__(32 * sum_warps) void row_sums(const __grid_constant__ Gradient g) {
    const Params& c = g.c;
    const int64_t index = int64_t{blockIdx.x} * sum_warps + threadIdx.x / 32;
    if (index >= int64_t{c.batch_heads} * c.rows) return;
    const GradientRows<E> in(g, static_cast<int32_t>(index / c.rows));
    const int32_t row = static_cast<int32_t>(index % c.rows);
    const float sum = dot_of_warp(in.o(row), in.dO(row), c.dv);
    if (threadIdx.x % 32 > 0) return;
    const float lse = in.lse(row);
    g.lse2[index] = lse == minus_infinity ? 0.0f : lse * limits::log2_e;
    g.D[index] = sum;
}

void go(void (*kernel)(Gradient), const char* what, int64_t blocks, int threads, int bytes, const Gradient& g,
        cudaStream_t stream) {
    const unsigned grid = check_blocks(grad_name, blocks);
    if (grid == 0) return;
    launch(kernel, what, dim3(grid), static_cast<unsigned>(threads), static_cast<std::size_t>(bytes), 1, false, stream,
           g);
}

int64_t pieces(int64_t n, int each) { return (n + each - 1) / each; }

template <class E, int D>
void run(const Gradient& g, cudaStream_t stream) {
    const int64_t bh = g.c.batch_heads;
    if constexpr (sizeof(E) == 4) {
        using T = FloatGradientTile<D>;
        go(dq_float<D>, "launching dq_float", bh * pieces(g.c.rows, T::B), T::threads, T::bytes, g, stream);
        go(dkv_float<D>, "launching dkv_float", bh * pieces(g.c.M, T::B), T::threads, T::bytes, g, stream);
    } else {
        using T = GradientTile<D>;
        go(dq_mma<E, D>, "launching dq_mma", bh * pieces(g.c.rows, T::own), T::threads, T::bytes, g, stream);
        go(dkv_mma<E, D>, "launching dkv_mma", bh * pieces(g.c.M, T::own) * T::parts, T::threads, T::bytes, g, stream);
    }
}

}  // namespace
}  // namespace softmax

std::size_t flash_attention_grad_workspace(const SoftmaxGradArgs& a) {
    softmax::check_args(softmax::grad_name, a.in);
    return 2 * sizeof(float) * static_cast<std::size_t>(a.in.batch * a.in.heads * a.in.rows());
}

void flash_attention_grad(const SoftmaxGradArgs& a, cudaStream_t stream) {
    using namespace softmax;
    const std::size_t need = flash_attention_grad_workspace(a);
    if (a.in.workspace.bytes < need)
        fail(grad_name, ": a workspace of ", a.in.workspace.bytes, " bytes, expected ", need);
    if (a.in.batch == 0 || a.in.heads == 0) return;
    if (a.in.N > 0 && !a.in.lse) fail(grad_name, ": no lse, expected that of the forward pass");
    SoftmaxArgs in = a.in, with_dO = a.in;
    in.workspace = {};
    with_dO.q = a.dO, with_dO.q_stride = in.o_stride, with_dO.d = in.dv;
    Gradient g{params_of(in, 1, 64),
               a.dO,
               a.dq,
               a.dk,
               a.dv,
               static_cast<float*>(a.in.workspace.data),
               nullptr,
               in.scale,
               params_of(with_dO, 1, 64).aligned_q};
    g.D = g.lse2 + int64_t{g.c.batch_heads} * g.c.rows;
    const int width = std::max(in.d, in.dv);
    visit(in.type, [&](auto e) {
        using E = decltype(e);
        go(row_sums<E>, "launching row_sums", pieces(int64_t{g.c.batch_heads} * g.c.rows, sum_warps), 32 * sum_warps, 0,
           g, stream);
        if (width <= 64) softmax::run<E, 64>(g, stream);
        else if (width <= 128) run<E, 128>(g, stream);
        else run<E, 256>(g, stream);
    });
}

}  // namespace causeway::gpu
