#include "gpu/model/product.hpp"

#include <algorithm>

#include "gpu/base/blas.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/warp.cuh"
#include "gpu/model/dependent.cuh"

namespace causeway::gpu::models {
namespace {

constexpr int few_warps = 8, few_threads = 32 * few_warps;
constexpr int outputs_of_warp = 2;  // rows of weights that a warp reads side by side
constexpr int ahead = 4;            // 16-byte pieces of each of them that a lane has on their way

struct FewRows {
    const void *w, *x;
    void* y;
    const float* bias;
    int64_t x_row, y_row;
    int outputs, pieces;  // pieces: of 16 bytes, to a row of weights
    float alpha, beta;
};

template <class E>
struct Pieces {
    static constexpr int size = 16 / sizeof(E);

    static __device__ __forceinline__ void floats(float (&x)[size], uint4 bits) {
        const uint32_t w[4] = {bits.x, bits.y, bits.z, bits.w};
        if constexpr (sizeof(E) == 4) {
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = __uint_as_float(w[i]);
        } else if constexpr (std::is_same_v<E, __nv_bfloat16>) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                x[2 * i] = __uint_as_float(w[i] << 16), x[2 * i + 1] = __uint_as_float(w[i] & 0xFFFF0000);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 f = __half22float2(*reinterpret_cast<const __half2*>(&w[i]));
                x[2 * i] = f.x, x[2 * i + 1] = f.y;
            }
        }
    }
};

// Pieces of a warp's rows of weights on their way from memory. Zeros behind the end.
struct Weights {
    uint4 piece[ahead][outputs_of_warp];

    __device__ __forceinline__ void load(const uint4* const (&row)[outputs_of_warp], int first, int pieces) {
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            const int at = first + 32 * u;
#pragma unroll
            for (int p = 0; p < outputs_of_warp; ++p)
                piece[u][p] = at < pieces ? ptx::ld_global_nc_no_allocate(row[p] + at) : make_uint4(0, 0, 0, 0);
        }
    }
};

// A warp: outputs_of_warp outputs of R rows of x. The first weights are asked for before the kernel waits for x.
template <class E, class Y, int R>
__global__ __launch_bounds__(few_threads, 2) void few_rows_kernel(const __grid_constant__ FewRows c) {
    constexpr int P = outputs_of_warp, size = Pieces<E>::size;
    const int lane = threadIdx.x % 32;
    const int first = static_cast<int>((blockIdx.x * few_warps + threadIdx.x / 32) * P);
    let_next_start();
    const uint4* row[P];
#pragma unroll
    for (int p = 0; p < P; ++p)
        row[p] = static_cast<const uint4*>(c.w) + static_cast<int64_t>(min(first + p, c.outputs - 1)) * c.pieces;
    Weights coming;
    coming.load(row, lane, c.pieces);
    begin_dependent();
    if (first >= c.outputs) return;
    const uint4* x[R];
#pragma unroll
    for (int r = 0; r < R; ++r) x[r] = reinterpret_cast<const uint4*>(static_cast<const E*>(c.x) + r * c.x_row);
    float sum[P][R] = {};
    for (int at = lane; at - lane < c.pieces; at += 32 * ahead) {
        const Weights now = coming;
        coming.load(row, at + 32 * ahead, c.pieces);
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            if (at + 32 * u >= c.pieces) break;
            float w[P][size];
#pragma unroll
            for (int p = 0; p < P; ++p) Pieces<E>::floats(w[p], now.piece[u][p]);
#pragma unroll
            for (int r = 0; r < R; ++r) {
                float f[size];
                Pieces<E>::floats(f, x[r][at + 32 * u]);
#pragma unroll
                for (int p = 0; p < P; ++p) {
#pragma unroll
                    for (int e = 0; e < size; ++e) sum[p][r] = fmaf(w[p][e], f[e], sum[p][r]);
                }
            }
        }
    }
#pragma unroll
    for (int p = 0; p < P; ++p) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const float all = sum_of_warp(sum[p][r]);
            if (lane != p * R + r || first + p >= c.outputs) continue;
            Y* const y = static_cast<Y*>(c.y) + r * c.y_row + first + p;
            float out = c.alpha * (all + (c.bias ? c.bias[first + p] : 0.0f));
            if (c.beta != 0) out = fmaf(c.beta, static_cast<float>(*y), out);
            *y = static_cast<Y>(out);
        }
    }
}

template <class E, class Y>
void multiply_few(FewRows c, int64_t n, cudaStream_t stream) {
    const auto blocks =
        static_cast<unsigned>((c.outputs + few_warps * outputs_of_warp - 1) / (few_warps * outputs_of_warp));
    const auto run = [&](auto kernel) {
        launch_dependent(kernel, "launching few_rows_kernel", blocks, few_threads, stream, c);
    };
    if (n == 1) return run(few_rows_kernel<E, Y, 1>);
    if (n == 2) return run(few_rows_kernel<E, Y, 2>);
    if (n == 4) return run(few_rows_kernel<E, Y, 4>);
    run(few_rows_kernel<E, Y, 2>);  // three rows: two and one
    c.x = static_cast<const E*>(c.x) + 2 * c.x_row, c.y = static_cast<Y*>(c.y) + 2 * c.y_row;
    run(few_rows_kernel<E, Y, 1>);
}

// Rows of whole 16-byte pieces.
bool in_pieces(const Matrix& w, const void* x, int64_t x_row) {
    const int64_t size = bytes_of(w.type);
    return w.columns * size % 16 == 0 && x_row * size % 16 == 0 && reinterpret_cast<std::uintptr_t>(x) % 16 == 0 &&
           w.rows < int64_t{1} << 30;
}

template <class Y>
__global__ void add_bias_kernel(Y* y, int64_t row, int64_t n, int outputs, const float* bias, float alpha) {
    let_next_start();
    begin_dependent();
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n * outputs; i += step) {
        Y& at = y[i / outputs * row + i % outputs];
        at = static_cast<Y>(fmaf(alpha, bias[i % outputs], static_cast<float>(at)));
    }
}

}  // namespace

void multiply(const Matrix& w, const void* x, std::int64_t x_row, std::int64_t n, const Result& y, void* blas_room,
              cudaStream_t stream) {
    if (n == 0) return;
    if (n <= max_few_rows && in_pieces(w, x, x_row)) {
        const FewRows c{w.data.data(),
                        x,
                        y.data,
                        w.bias.as<float>(),
                        x_row,
                        y.row,
                        static_cast<int>(w.rows),
                        static_cast<int>(w.columns * bytes_of(w.type) / 16),
                        y.alpha,
                        y.beta};
        return visit(w.type, [&](auto e) {
            using E = decltype(e);
            if (y.type == Type::Float32) multiply_few<E, float>(c, n, stream);
            else multiply_few<E, E>(c, n, stream);
        });
    }
    multiply_transposed(blas(stream, blas_room), w.type, n, w.rows, w.columns, x, x_row, w.data.data(), y.data, y.type,
                        y.row, y.alpha, y.beta);
    if (w.bias.bytes() == 0) return;
    const auto blocks = static_cast<unsigned>(std::min<int64_t>((n * w.rows + 255) / 256, 1 << 14));
    visit(y.type, [&](auto zero) {
        using Y = decltype(zero);
        launch_dependent(add_bias_kernel<Y>, "launching add_bias_kernel", blocks, 256, stream, static_cast<Y*>(y.data),
                         y.row, n, static_cast<int>(w.rows), static_cast<const float*>(w.bias.as<float>()), y.alpha);
    });
}

}  // namespace causeway::gpu::models
