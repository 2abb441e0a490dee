// The launches of the gradient of softmax attention.
#include "gpu/gradient/softmax.hpp"

#include <algorithm>

#include "gpu/gradient/softmax_float.cuh"
#include "gpu/gradient/softmax_hopper.hpp"
#include "gpu/gradient/softmax_mma.cuh"
#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/limits.hpp"

namespace causeway::gpu {

namespace softmax {

namespace {

constexpr int sum_threads = 256, sum_lanes = 8, sum_rows = sum_threads / sum_lanes;

// Eight lanes: a query's D, and its log-sum-exp in units of log 2.
template <class E>
__global__ __launch_bounds__(sum_threads) void row_sums(const __grid_constant__ Gradient g) {
    constexpr int piece = 16 / sizeof(E);
    const Params& c = g.c;
    const int64_t index = int64_t{blockIdx.x} * sum_rows + threadIdx.x / sum_lanes;
    const int lane = threadIdx.x % sum_lanes;
    const auto head = static_cast<int32_t>(index / g.padded), query = static_cast<int32_t>(index % g.padded);
    const bool real = head < c.batch_heads * c.group && query < c.N;
    const GradientRows<E> in(g, real ? head / c.group : 0);
    const int32_t row = real ? query * c.group + head % c.group : 0;
    const E *const o = in.o(row), *const dO = in.dO(row);
    float sum = 0;
    const auto add = [&](E x, E y) { sum = fmaf(static_cast<float>(x), static_cast<float>(y), sum); };
    if (real && g.aligned_o) {
        for (int e = piece * lane; e < c.dv; e += piece * sum_lanes) {
            const uint4 x = *reinterpret_cast<const uint4*>(o + e), y = *reinterpret_cast<const uint4*>(dO + e);
#pragma unroll
            for (int i = 0; i < piece; ++i) add(reinterpret_cast<const E*>(&x)[i], reinterpret_cast<const E*>(&y)[i]);
        }
    } else if (real) {
        for (int e = lane; e < c.dv; e += sum_lanes) add(o[e], dO[e]);
    }
#pragma unroll
    for (int step = sum_lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(all_lanes, sum, step);
    if (lane > 0 || head >= c.batch_heads * c.group) return;
    const float lse = real ? in.lse(row) : minus_infinity;
    g.lse2[index] = lse == minus_infinity ? -minus_infinity : lse * limits::log2_e;
    g.D[index] = sum;
}

void go(void (*kernel)(Gradient), const char* what, int64_t blocks, int threads, int bytes, const Gradient& g,
        cudaStream_t stream) {
    const unsigned grid = check_blocks(gradient_name, blocks);
    if (grid == 0) return;
    launch(kernel, what, dim3(grid), static_cast<unsigned>(threads), static_cast<std::size_t>(bytes), 1, false, stream,
           g);
}

int64_t padded(int64_t N) { return (N + sums_tile - 1) / sums_tile * sums_tile; }
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

// The call as the kernels are told it, with the sums of its rows queued.
Gradient prepare(const SoftmaxGradArgs& a, cudaStream_t stream) {
    const std::size_t need = flash_attention_grad_workspace(a);
    if (a.in.workspace.bytes < need)
        fail(gradient_name, ": a workspace of ", a.in.workspace.bytes, " bytes, expected ", need);
    if (a.in.N > 0 && a.in.batch > 0 && a.in.heads > 0 && !a.in.lse)
        fail(gradient_name, ": no lse, expected that of the forward pass");
    SoftmaxArgs in = a.in;
    in.workspace = {};
    const auto is_aligned = [&](const void* data) {
        SoftmaxArgs x = in;
        x.q = data, x.q_stride = in.o_stride, x.d = in.dv;
        return params_of(x, 1, 64).aligned_q;
    };
    Gradient g{params_of(in, 1, 64),
               a.dO,
               a.dq,
               a.dk,
               a.dv,
               static_cast<float*>(a.in.workspace.data),
               nullptr,
               padded(in.N),
               in.scale,
               is_aligned(a.dO),
               is_aligned(a.dO) && is_aligned(in.o)};
    const int64_t sums = int64_t{g.c.batch_heads} * g.c.group * g.padded;
    g.D = g.lse2 + sums;
    visit(in.type, [&](auto e) {
        go(row_sums<decltype(e)>, "launching row_sums", pieces(sums, sum_rows), sum_threads, 0, g, stream);
    });
    return g;
}

void run_portable(const SoftmaxGradArgs& a, const Gradient& g, cudaStream_t stream) {
    const int width = std::max(a.in.d, a.in.dv);
    visit(a.in.type, [&](auto e) {
        using E = decltype(e);
        if (width <= 64) run<E, 64>(g, stream);
        else if (width <= 128) run<E, 128>(g, stream);
        else run<E, 256>(g, stream);
    });
}

}  // namespace

void gradient_portable(const SoftmaxGradArgs& a, cudaStream_t stream) { run_portable(a, prepare(a, stream), stream); }

}  // namespace softmax

std::size_t flash_attention_grad_workspace(const SoftmaxGradArgs& a) {
    softmax::check_args(softmax::gradient_name, a.in);
    return 2 * sizeof(float) * static_cast<std::size_t>(a.in.batch * a.in.heads * a.in.group * softmax::padded(a.in.N));
}

void flash_attention_grad(const SoftmaxGradArgs& a, cudaStream_t stream) {
    const softmax::Gradient g = softmax::prepare(a, stream);
    if (softmax::gradient_hopper_reaches(a)) softmax::gradient_on_hopper(a, g, stream);
    else softmax::run_portable(a, g, stream);
}

}  // namespace causeway::gpu
