#include "gpu/model/rows.hpp"

#include <algorithm>

#include "gpu/kit/element.cuh"
#include "gpu/model/activation.cuh"
#include "gpu/model/block_sum.cuh"
#include "gpu/model/dependent.cuh"

namespace causeway::gpu::models {
namespace {

constexpr int threads = 256;

template <class E>
__global__ __launch_bounds__(threads) void embed_kernel(const E* embedding, const std::int32_t* ids, int64_t width,
                                                        float scale, float* x) {
    let_next_start();
    begin_dependent();
    const E* from = embedding + ids[blockIdx.x] * width;
    for (int64_t j = threadIdx.x; j < width; j += threads)
        x[blockIdx.x * width + j] = scale * static_cast<float>(from[j]);
}

struct NormCall {
    float* x;
    int64_t x_row;
    int width;
    const float *weight, *bias;
    float eps;
    bool centred, in_place;
};

// A block: a row.
template <class E>
__global__ __launch_bounds__(threads) void norm_kernel(const __grid_constant__ NormCall c, E* y) {
    __shared__ BlockSums sums;
    let_next_start();
    begin_dependent();
    float* const x = c.x + blockIdx.x * c.x_row;
    E* const out = y + static_cast<int64_t>(blockIdx.x) * c.width;
    float sum = 0;
    if (c.centred) {
        for (int j = threadIdx.x; j < c.width; j += threads) sum += x[j];
        sum = sums.all(sum);
    }
    const float mean = sum / static_cast<float>(c.width);
    float squares = 0;
    for (int j = threadIdx.x; j < c.width; j += threads) squares = fmaf(x[j] - mean, x[j] - mean, squares);
    squares = sums.all(squares);
    const float factor = 1 / sqrtf(squares / static_cast<float>(c.width) + c.eps);
    for (int j = threadIdx.x; j < c.width; j += threads) {
        float normed = (x[j] - mean) * factor;
        if (c.weight) normed *= c.weight[j];
        if (c.bias) normed += c.bias[j];
        if (c.in_place) x[j] = normed;
        out[j] = static_cast<E>(normed);
    }
}

// A thread: `together` neighbouring numbers of a row.
template <class E, int together>
__global__ __launch_bounds__(threads) void gate_kernel(const E* rows, int64_t width, Activation f, E* y) {
    struct alignas(together * sizeof(E)) Pack {
        E x[together];
    };
    let_next_start();
    begin_dependent();
    const int64_t j = (blockIdx.y * int64_t{threads} + threadIdx.x) * together;
    if (j >= width) return;
    const E* const row = rows + blockIdx.x * 2 * width;
    const Pack gate = *reinterpret_cast<const Pack*>(row + j), up = *reinterpret_cast<const Pack*>(row + width + j);
    Pack out;
#pragma unroll
    for (int e = 0; e < together; ++e)
        out.x[e] = static_cast<E>(activated(static_cast<float>(gate.x[e]), f) * static_cast<float>(up.x[e]));
    *reinterpret_cast<Pack*>(y + blockIdx.x * width + j) = out;
}

struct NormedGateCall {
    int64_t parts, next, row, gate_row;
    int width;  // of a group
    bool normed;
    const float* weight;  // of a group, or of all
    bool whole_weight;
    float eps;
    Activation activation;
};

// A block: a group of a row.
template <class E>
__global__ __launch_bounds__(threads) void norm_and_gate_kernel(const __grid_constant__ NormedGateCall c, const E* x,
                                                                const E* gate, E* y) {
    __shared__ BlockSums sums;
    let_next_start();
    begin_dependent();
    const int64_t at = blockIdx.y * int64_t{c.width}, place = blockIdx.x * c.row + at;
    const auto value = [&](int j) {
        float sum = 0;
        for (int64_t p = 0; p < c.parts; ++p) sum += static_cast<float>(x[p * c.next + place + j]);
        return sum;
    };
    float factor = 1;
    if (c.normed) {
        float squares = 0;
        for (int j = threadIdx.x; j < c.width; j += threads) {
            const float v = value(j);
            squares = fmaf(v, v, squares);
        }
        factor = 1 / sqrtf(sums.all(squares) / static_cast<float>(c.width) + c.eps);
    }
    const E* const gates = gate + blockIdx.x * c.gate_row + at;
    for (int j = threadIdx.x; j < c.width; j += threads) {
        float normed = value(j) * factor;
        if (c.weight) normed *= c.weight[c.whole_weight ? at + j : j];
        y[place + j] = static_cast<E>(normed * activated(static_cast<float>(gates[j]), c.activation));
    }
}

}  // namespace

void embed(const Matrix& embedding, const std::int32_t* ids, std::int64_t n, float scale, float* x,
           cudaStream_t stream) {
    visit(embedding.type, [&](auto e) {
        using E = decltype(e);
        launch_dependent(embed_kernel<E>, "launching embed_kernel", static_cast<unsigned>(n), threads, stream,
                         static_cast<const E*>(embedding.data.as<E>()), ids, embedding.columns, scale, x);
    });
}

void norm_rows(const Norm& norm, float* x, std::int64_t x_row, std::int64_t n, void* y, Type type, bool in_place,
               cudaStream_t stream) {
    const NormCall c{x,
                     x_row,
                     static_cast<int>(norm.width),
                     norm.weight.as<float>(),
                     norm.bias.as<float>(),
                     norm.eps,
                     norm.centred,
                     in_place};
    visit(type, [&](auto e) {
        using E = decltype(e);
        launch_dependent(norm_kernel<E>, "launching norm_kernel", static_cast<unsigned>(n), threads, stream, c,
                         static_cast<E*>(y));
    });
}

void gate_rows(const void* rows, std::int64_t n, std::int64_t width, Activation f, void* y, Type type,
               cudaStream_t stream) {
    visit(type, [&](auto e) {
        using E = decltype(e);
        constexpr int whole = 16 / sizeof(E);
        const int together = width % whole == 0 ? whole : 1;
        const dim3 grid(static_cast<unsigned>(n), static_cast<unsigned>((width / together + threads - 1) / threads));
        launch_dependent(together == 1 ? gate_kernel<E, 1> : gate_kernel<E, whole>, "launching gate_kernel", grid,
                         threads, stream, static_cast<const E*>(rows), width, f, static_cast<E*>(y));
    });
}

void norm_and_gate(const Norm& norm, const NormedGate& call, std::int64_t n, Type type, cudaStream_t stream) {
    const std::int64_t group = norm.width > 0 ? norm.width : call.row;
    const NormedGateCall c{call.parts,
                           call.next,
                           call.row,
                           call.gate_row,
                           static_cast<int>(group),
                           norm.width > 0,
                           norm.weight.as<float>(),
                           norm.weight.bytes() > static_cast<std::size_t>(norm.width) * sizeof(float),
                           norm.eps,
                           call.activation};
    const dim3 grid(static_cast<unsigned>(n), static_cast<unsigned>(call.row / group));
    visit(type, [&](auto e) {
        using E = decltype(e);
        launch_dependent(norm_and_gate_kernel<E>, "launching norm_and_gate_kernel", grid, threads, stream, c,
                         static_cast<const E*>(call.x), static_cast<const E*>(call.gate), static_cast<E*>(call.y));
    });
}

}  // namespace causeway::gpu::models
