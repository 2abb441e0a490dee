#include "gpu/model/product.hpp"

#include <algorithm>

#include "gpu/base/blas.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/warp.cuh"
#include "gpu/model/activation.cuh"
#include "gpu/model/dependent.cuh"

namespace causeway::gpu::models {

using causeway::model::Activation;

namespace {

constexpr int few_warps = 8, few_threads = 32 * few_warps;
constexpr int rows_of_warp = 2;  // rows of weights that a warp reads side by side
constexpr int ahead = 4;         // 16-byte pieces of each of them that a lane has on their way

struct FewRows {
    const void *w, *x;
    void* y;
    const float* bias;
    int64_t x_row, y_row;
    int rows, pieces;  // of weights; pieces: of 16 bytes, to a row
    float alpha, beta;
    const float* norm;  // the weights of a norm, or none
    float eps;
    Activation activation;
};

// What a kernel does beside the product of rows of the type: x is Float32 and normed; rows i and rows / 2 + i of the
// weights make one output, f(gate) · up.
enum class Form { plain, normed, gated };

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
    // As many Float32 numbers as a piece has.
    static __device__ __forceinline__ void load(float (&x)[size], const float* from) {
#pragma unroll
        for (int i = 0; i < size / 4; ++i) {
            const float4 f = reinterpret_cast<const float4*>(from)[i];
            x[4 * i] = f.x, x[4 * i + 1] = f.y, x[4 * i + 2] = f.z, x[4 * i + 3] = f.w;
        }
    }
};

// Pieces of a warp's rows of weights on their way from memory. Zeros behind the end.
struct Weights {
    uint4 piece[ahead][rows_of_warp];

    __device__ __forceinline__ void load(const uint4* const (&row)[rows_of_warp], int first, int pieces) {
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            const int at = first + 32 * u;
#pragma unroll
            for (int p = 0; p < rows_of_warp; ++p)
                piece[u][p] = at < pieces ? ptx::ld_global_nc_no_allocate(row[p] + at) : make_uint4(0, 0, 0, 0);
        }
    }
};

// A warp: rows_of_warp rows of weights, R rows of x. The first weights are asked for before the kernel waits for x.
template <class E, class Y, int R, Form form>
__global__ __launch_bounds__(few_threads, 2) void few_rows_kernel(const __grid_constant__ FewRows c) {
    constexpr int P = rows_of_warp, size = Pieces<E>::size;
    const int lane = threadIdx.x % 32, warp = static_cast<int>(blockIdx.x * few_warps + threadIdx.x / 32);
    const int first = form == Form::gated ? warp : warp * P, step = form == Form::gated ? c.rows / 2 : 1;
    const int end = form == Form::gated ? c.rows / 2 : c.rows;  // of the first rows
    let_next_start();
    const uint4* row[P];
#pragma unroll
    for (int p = 0; p < P; ++p)
        row[p] = static_cast<const uint4*>(c.w) + static_cast<int64_t>(min(first + p * step, c.rows - 1)) * c.pieces;
    Weights coming;
    coming.load(row, lane, c.pieces);
    begin_dependent();
    if (first >= end) return;
    float sum[P][R] = {}, squares[R] = {};
    for (int at = lane; at - lane < c.pieces; at += 32 * ahead) {
        const Weights now = coming;
        coming.load(row, at + 32 * ahead, c.pieces);
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            const int piece = at + 32 * u;
            if (piece >= c.pieces) break;
            float w[P][size];
#pragma unroll
            for (int p = 0; p < P; ++p) Pieces<E>::floats(w[p], now.piece[u][p]);
            float g[size];
            if (form != Form::plain && c.norm) Pieces<E>::load(g, c.norm + piece * size);
#pragma unroll
            for (int r = 0; r < R; ++r) {
                float f[size];
                if constexpr (form == Form::plain) {
                    Pieces<E>::floats(f,
                                      reinterpret_cast<const uint4*>(static_cast<const E*>(c.x) + r * c.x_row)[piece]);
                } else {
                    Pieces<E>::load(f, static_cast<const float*>(c.x) + r * c.x_row + piece * size);
#pragma unroll
                    for (int e = 0; e < size; ++e) squares[r] = fmaf(f[e], f[e], squares[r]);
                    if (c.norm) {
#pragma unroll
                        for (int e = 0; e < size; ++e) f[e] *= g[e];
                    }
                }
#pragma unroll
                for (int p = 0; p < P; ++p) {
#pragma unroll
                    for (int e = 0; e < size; ++e) sum[p][r] = fmaf(w[p][e], f[e], sum[p][r]);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        float factor = 1, all[P];
        if constexpr (form != Form::plain)
            factor = 1 / sqrtf(sum_of_warp(squares[r]) / static_cast<float>(c.pieces * size) + c.eps);
#pragma unroll
        for (int p = 0; p < P; ++p) {
            all[p] = sum_of_warp(sum[p][r]) * factor;
            if (c.bias) all[p] += c.bias[min(first + p * step, c.rows - 1)];
        }
        if constexpr (form == Form::gated) {
            if (lane == r)
                static_cast<Y*>(c.y)[r * c.y_row + first] = static_cast<Y>(activated(all[0], c.activation) * all[1]);
        } else {
#pragma unroll
            for (int p = 0; p < P; ++p) {
                if (lane != p * R + r || first + p >= c.rows) continue;
                Y* const y = static_cast<Y*>(c.y) + r * c.y_row + first + p;
                float out = c.alpha * all[p];
                if (c.beta != 0) out = fmaf(c.beta, static_cast<float>(*y), out);
                *y = static_cast<Y>(out);
            }
        }
    }
}

// n rows of x; X: their type.
template <class E, class X, class Y, Form form>
void multiply_few(FewRows c, int64_t n, cudaStream_t stream) {
    const int of_block = form == Form::gated ? 2 * few_warps : rows_of_warp * few_warps;  // rows of weights
    const auto blocks = static_cast<unsigned>((c.rows + of_block - 1) / of_block);
    const auto run = [&](auto kernel) {
        launch_dependent(kernel, "launching few_rows_kernel", blocks, few_threads, stream, c);
    };
    if (n == 1) return run(few_rows_kernel<E, Y, 1, form>);
    if (n == 2) return run(few_rows_kernel<E, Y, 2, form>);
    if (n == 4) return run(few_rows_kernel<E, Y, 4, form>);
    run(few_rows_kernel<E, Y, 2, form>);  // three rows: two and one
    c.x = static_cast<const X*>(c.x) + 2 * c.x_row, c.y = static_cast<Y*>(c.y) + 2 * c.y_row;
    run(few_rows_kernel<E, Y, 1, form>);
}

// Rows of weights of whole 16-byte pieces.
bool in_pieces(const Matrix& w) { return w.columns * bytes_of(w.type) % 16 == 0 && w.rows < int64_t{1} << 30; }

bool aligned(const void* x) { return reinterpret_cast<std::uintptr_t>(x) % 16 == 0; }

FewRows few_rows(const Matrix& w, const void* x, int64_t x_row, const Result& y) {
    FewRows c{};
    c.w = w.data.data(), c.x = x, c.y = y.data, c.bias = w.bias.as<float>();
    c.x_row = x_row, c.y_row = y.row;
    c.rows = static_cast<int>(w.rows), c.pieces = static_cast<int>(w.columns * bytes_of(w.type) / 16);
    c.alpha = y.alpha, c.beta = y.beta;
    return c;
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
    if (n <= max_few_rows && in_pieces(w) && aligned(x) && x_row * bytes_of(w.type) % 16 == 0) {
        const FewRows c = few_rows(w, x, x_row, y);
        return visit(w.type, [&](auto e) {
            using E = decltype(e);
            if (y.type == Type::Float32) multiply_few<E, E, float, Form::plain>(c, n, stream);
            else multiply_few<E, E, E, Form::plain>(c, n, stream);
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

bool takes_normed(const Matrix& w, const Norm& norm, const float* x, std::int64_t n) {
    return n <= max_few_rows && in_pieces(w) && aligned(x) && w.columns % 4 == 0 && norm.width == w.columns &&
           !norm.centred && norm.bias.bytes() == 0;
}

void multiply_normed(const Matrix& w, const Norm& norm, const float* x, std::int64_t n, const Result& y,
                     cudaStream_t stream) {
    FewRows c = few_rows(w, x, w.columns, y);
    c.norm = norm.weight.as<float>(), c.eps = norm.eps;
    visit(w.type, [&](auto e) {
        using E = decltype(e);
        if (y.type == Type::Float32) multiply_few<E, float, float, Form::normed>(c, n, stream);
        else multiply_few<E, float, E, Form::normed>(c, n, stream);
    });
}

void multiply_gated(const Matrix& w, const Norm& norm, const float* x, std::int64_t n, Activation f, const Result& y,
                    cudaStream_t stream) {
    FewRows c = few_rows(w, x, w.columns, y);
    c.norm = norm.weight.as<float>(), c.eps = norm.eps, c.activation = f;
    visit(w.type, [&](auto e) {
        using E = decltype(e);
        multiply_few<E, float, E, Form::gated>(c, n, stream);
    });
}

}  // namespace causeway::gpu::models
