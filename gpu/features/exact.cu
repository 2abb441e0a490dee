// The maps without random directions.
#include "gpu/features/rows.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu {

namespace features {

namespace {

// ---- Taylor features of second order ----

constexpr int taylor_rows = 32, taylor_columns = 2048;

// One block: 32 rows by 2048 features. A thread finds out once which product its feature is and makes it for all rows;
// x_d stands for 1.
template <class E, class F>
__global__ __launch_bounds__(256) void taylor_kernel(const __grid_constant__ Call c, bool full) {
    __shared__ float xs[taylor_rows][max_width + 1];
    const uint32_t across = (c.r + taylor_columns - 1) / taylor_columns, down = (c.N + taylor_rows - 1) / taylor_rows;
    const int column0 = static_cast<int>(blockIdx.x % across) * taylor_columns;
    const int32_t row0 = static_cast<int32_t>(blockIdx.x / across % down) * taylor_rows,
                  at = static_cast<int32_t>(blockIdx.x / across / down);
    const int32_t bh = at % c.batch_heads, side = at / c.batch_heads;
    const int rows = min(taylor_rows, c.N - row0), d = c.d;
    for (int i = threadIdx.x / 32; i < rows; i += 8) {
        const E* from = row_of_x<E>(c, side, bh, row0 + i);
        for (int e = threadIdx.x % 32; e <= d; e += 32) xs[i][e] = e < d ? static_cast<float>(from[e]) * c.root : 1.0f;
    }
    __syncthreads();
    const float root = 0.70710678118654752f;
    const auto start = [&](int a) { return a * d - a * (a - 1) / 2; };  // of the products x_a x_b, b >= a
    F* const first = row_of_phi<F>(c, side, bh, row0);
    const int64_t step = c.phi_stride[side][2];
    for (int column = column0 + threadIdx.x; column < min(column0 + taylor_columns, c.r); column += 256) {
        int a = d, b = d;
        float factor = 1;
        if (column > d) {
            const int i = column - 1 - d;
            if (full) {
                a = i / d, b = i % d, factor = root;
            } else {
                const float middle = static_cast<float>(d) + 0.5f;
                a = static_cast<int>(middle - sqrtf(fmaxf(middle * middle - 2.0f * static_cast<float>(i), 0.0f)));
                a = max(0, min(a, d - 1));
                while (a > 0 && start(a) > i) --a;  // the root is rounded
                while (a + 1 < d && start(a + 1) <= i) ++a;
                b = a + i - start(a);
                if (a == b) factor = root;
            }
        } else if (column > 0) {
            a = column - 1;
        }
        F* to = first + column;
#pragma unroll 8
        for (int i = 0; i < rows; ++i, to += step) *to = static_cast<F>(xs[i][a] * xs[i][b] * factor);
    }
}

// ---- Maps of a row or an entry ----

enum class Map { softmax, exponential, elu_plus_one, relu };
constexpr int row_warps = 8, rows_of_warp = 4, rows_of_block = row_warps * rows_of_warp;

// One block: 32 rows of a head. One warp: four of them, two columns of 64 to a lane, `slots` times 64 columns.
template <class E, class F, int slots>
__global__ __launch_bounds__(32 * row_warps) void row_kernel(const __grid_constant__ Call c, Map map) {
    const int lane = threadIdx.x % 32;
    const int32_t parts = (c.N + rows_of_block - 1) / rows_of_block, at = static_cast<int32_t>(blockIdx.x / parts),
                  bh = at % c.batch_heads, side = at / c.batch_heads;
    const int32_t first = static_cast<int32_t>(blockIdx.x % parts) * rows_of_block + threadIdx.x / 32 * rows_of_warp;
    const int n = min(rows_of_warp, c.N - first);
    if (n <= 0) return;
    const E* from = row_of_x<E>(c, side, bh, first);
    F* to = row_of_phi<F>(c, side, bh, first);
    const int64_t x_step = c.x_stride[side][2], phi_step = c.phi_stride[side][2];
    const int pieces = c.phi_pieces[side];
    float x[rows_of_warp][slots][2];
#pragma unroll
    for (int i = 0; i < rows_of_warp; ++i) {
        if (i >= n) break;
#pragma unroll
        for (int s = 0; s < slots; ++s)
            load_side_by_side(x[i][s], from + i * x_step, 2 * lane + 64 * s, c.d, c.x_pieces[side]);
    }
#pragma unroll
    for (int i = 0; i < rows_of_warp; ++i) {
        if (i >= n) break;
        float highest = 0, sum = 0, minus[slots][2];
#pragma unroll
        for (int s = 0; s < slots; ++s) {
#pragma unroll
            for (float& f : x[i][s]) f *= c.root, highest = fmaxf(highest, fabsf(f));
        }
        F* out = to + i * phi_step;
        if (map == Map::elu_plus_one || map == Map::relu) {
#pragma unroll
            for (int s = 0; s < slots; ++s) {
#pragma unroll
                for (float& f : x[i][s]) f = map == Map::relu ? (f < 0 ? 0.0f : f) : f > 0 ? f + 1 : expf(f);
                store_side_by_side(out, 2 * lane + 64 * s, c.d, pieces, x[i][s]);
            }
            continue;
        }
        highest = max_of_warp(highest);
        if (map == Map::exponential) highest = 0;
#pragma unroll
        for (int s = 0; s < slots; ++s) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                minus[s][e] = expf(-x[i][s][e] - highest), x[i][s][e] = expf(x[i][s][e] - highest);
                if (2 * lane + 64 * s + e < c.d) sum += x[i][s][e] + minus[s][e];
            }
        }
        sum = sum_of_warp(sum);
        const float factor = map == Map::exponential ? 1.0f : 1.0f / sum;
#pragma unroll
        for (int s = 0; s < slots; ++s) {
#pragma unroll
            for (int e = 0; e < 2; ++e) x[i][s][e] *= factor, minus[s][e] *= factor;
            store_side_by_side(out, 2 * lane + 64 * s, c.d, pieces, x[i][s]);
            store_side_by_side(out + c.d, 2 * lane + 64 * s, c.d, c.d % 2 == 0 ? pieces : 2, minus[s]);
        }
    }
}

void run_rows(const char* name, const FeatureArgs& a, Map map, int r, cudaStream_t stream) {
    const Call c = call_of(name, a, r);
    if (empty(c)) return;
    const dim3 grid(blocks(name, int64_t{c.sides} * c.batch_heads * ((c.N + rows_of_block - 1) / rows_of_block)));
    visit_types(a, [&](auto x, auto phi) {
        using E = decltype(x);
        using F = decltype(phi);
        const auto kernel = c.d <= 64 ? row_kernel<E, F, 1> : c.d <= 128 ? row_kernel<E, F, 2> : row_kernel<E, F, 4>;
        launch(kernel, "launching row_kernel", grid, 32 * row_warps, 0, 1, false, stream, c, map);
    });
}

}  // namespace
}  // namespace features

void taylor_features(const FeatureArgs& a, bool full, cudaStream_t stream) {
    using namespace features;
    const int64_t d = a.d;
    const Call c = call_of("taylor_features", a, 1 + d + (full ? d * d : d * (d + 1) / 2));
    if (empty(c)) return;
    const int64_t down = (c.N + taylor_rows - 1) / taylor_rows, across = (c.r + taylor_columns - 1) / taylor_columns;
    const dim3 grid(blocks("taylor_features", int64_t{c.sides} * c.batch_heads * down * across));
    visit_types(a, [&](auto x, auto phi) {
        launch(taylor_kernel<decltype(x), decltype(phi)>, "launching taylor_kernel", grid, 256, 0, 1, false, stream, c,
               full);
    });
}

void hedgehog_features(const FeatureArgs& a, bool normalised, cudaStream_t stream) {
    features::run_rows("hedgehog_features", a, normalised ? features::Map::softmax : features::Map::exponential,
                       2 * a.d, stream);
}

void pointwise_features(const FeatureArgs& a, Pointwise map, cudaStream_t stream) {
    features::run_rows("pointwise_features", a,
                       map == Pointwise::relu ? features::Map::relu : features::Map::elu_plus_one, a.d, stream);
}

}  // namespace causeway::gpu
