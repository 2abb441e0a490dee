// The two random maps: the products with the directions on FMA units in Float32, the map applied where they are summed.
#include <cfloat>
#include <cmath>

#include "gpu/features/rows.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu {

namespace features {

namespace {

constexpr float lowest = -__builtin_huge_valf();

// What the rows of a head have in common, gathered before the products.
struct Gathered {
    const float* omega;  // [bh, directions, d]
    std::int32_t directions;
    float* squares;     // |x|² of every row: [side, bh, token]
    unsigned* largest;  // the largest product of every row, ordered(): the same shape
    unsigned* highest;  // the largest bound of a head, ordered(): [side, bh]
    float* longest;     // |ω| of the longest direction: [bh]
    float* log_rows;
    std::int32_t stabilised;
};

// Floats as numbers of the same order, so that a maximum can be taken by atomicMax: it does not depend on who comes
// first.
__device__ __forceinline__ unsigned ordered(float x) {
    const unsigned bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float from_ordered(unsigned x) {
    return __uint_as_float(x & 0x80000000u ? x & 0x7FFFFFFFu : ~x);
}

enum class Map { favor, favor_rows, rfa };

// One block: a head. |ω| of its longest direction; clears its maxima.
__global__ __launch_bounds__(256) void longest_direction(const __grid_constant__ Call c,
                                                         const __grid_constant__ Gathered g) {
    __shared__ float highest[8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float* omega = g.omega + int64_t{blockIdx.x} * g.directions * c.d;
    float longest = 0;
    for (int i = warp; i < g.directions; i += 8) {
        const float* const direction = omega + int64_t{i} * c.d;
        longest = fmaxf(longest, dot_of_warp(direction, direction, c.d));
    }
    if (lane == 0) highest[warp] = longest;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < 8; ++w) longest = fmaxf(longest, highest[w]);
    g.longest[blockIdx.x] = sqrtf(longest);
    for (int side = 0; side < c.sides; ++side) g.highest[side * c.batch_heads + blockIdx.x] = ordered(lowest);
}

constexpr int rows_to_a_block = 256;

// |x|² of every row, and over a head the largest exponent that a feature of favor+ can have, |ω||x| - |x|²/2, or the
// largest |x|².
template <class E>
__global__ __launch_bounds__(256) void measure_rows(const __grid_constant__ Call c, const __grid_constant__ Gathered g,
                                                    Map map) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, parts = (c.N + rows_to_a_block - 1) / rows_to_a_block;
    const int32_t first = static_cast<int32_t>(blockIdx.x % parts) * rows_to_a_block,
                  at = static_cast<int32_t>(blockIdx.x / parts);
    const int32_t bh = at % c.batch_heads, side = at / c.batch_heads;
    const E* head = row_of_x<E>(c, side, bh, 0);
    float highest = lowest;
    constexpr int at_once = 4, step_rows = 8 * at_once;
    for (int32_t i = first + warp * at_once; i < min(first + rows_to_a_block, c.N); i += step_rows) {
        float sum[at_once] = {};
        for (int e = 2 * lane; e < c.d; e += 64) {
#pragma unroll
            for (int n = 0; n < at_once; ++n) {
                float x[2];
                load_side_by_side(x, head + min(i + n, c.N - 1) * c.x_stride[side][2], e, c.d, c.x_pieces[side]);
#pragma unroll
                for (float f : x) f *= c.root, sum[n] = fmaf(f, f, sum[n]);
            }
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
#pragma unroll
            for (int n = 0; n < at_once; ++n) sum[n] += __shfl_xor_sync(0xFFFFFFFF, sum[n], step);
        }
#pragma unroll
        for (int n = 0; n < at_once; ++n) {
            const int64_t row = int64_t{at} * c.N + i + n;
            if (lane == n && i + n < c.N) {
                g.squares[row] = sum[n];
                if (map == Map::favor_rows) g.largest[row] = ordered(lowest);
            }
            highest = fmaxf(highest, map == Map::rfa ? sum[n] : g.longest[bh] * sqrtf(sum[n]) - sum[n] / 2);
        }
    }
    if (lane == 0 && map != Map::favor_rows) atomicMax(g.highest + at, ordered(highest));
}

// Sine and cosine with an absolute error of some 1e-6 up to 10⁵: beyond, a Float32 angle says nothing. x less whole
// turns, 2π in two parts, then the special-function unit.
__device__ __forceinline__ void sine_cosine(float x, float& sine, float& cosine) {
    const float turns = rintf(x * 0.15915494309189535f);
    float r = fmaf(turns, -6.2831854820251465f, x);
    r = fmaf(turns, 1.7484555e-7f, r);
    __sincosf(r, &sine, &cosine);
}

// ---- Products ----

constexpr int tile = 128, depth = 16, product_threads = 256;

// What a pass over the products leaves.
enum class Pass { features, largest };

// One block: 128 rows by 64 or 128 directions of a head, 8 × 4 or 8 × 8 to a thread: rows 4y ... 4y + 3 and 64 more,
// directions 4x ... likewise.
template <class E, class F, Map map, Pass pass, int halves>
__global__ __launch_bounds__(product_threads, 2) void product_kernel(const __grid_constant__ Call c,
                                                                     const __grid_constant__ Gathered g) {
    constexpr int width = 64 * halves, S = 4 * halves;
    __shared__ __align__(16) float xs[depth][tile + 4], ws[depth][tile + 4];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const uint32_t across = (g.directions + width - 1) / width, down = (c.N + tile - 1) / tile;
    const int column0 = static_cast<int>(blockIdx.x % across) * width;
    const int32_t row0 = static_cast<int32_t>(blockIdx.x / across % down) * tile,
                  at = static_cast<int32_t>(blockIdx.x / across / down);
    const int32_t bh = at % c.batch_heads, side = at / c.batch_heads;
    const float* omega = g.omega + int64_t{bh} * g.directions * c.d;
    const int i = threadIdx.x % tile,
              e = threadIdx.x / tile * 8;  // the row and columns of both tiles that this thread brings
    const E* from = row_of_x<E>(c, side, bh, min(row0 + i, c.N - 1));
    const float* direction = omega + int64_t{min(column0 + i, g.directions - 1)} * c.d;
    float x_next[8], w_next[8], sum[8][S] = {};
    const auto fetch = [&](int e0) {
        load_side_by_side(x_next, from, e0 + e, c.d, c.x_pieces[side]);
        load_side_by_side(w_next, direction, e0 + e, c.d, c.d % 4 == 0 ? 16 : 4);
    };
    fetch(0);
    for (int e0 = 0; e0 < c.d; e0 += depth) {
        __syncthreads();
#pragma unroll
        for (int n = 0; n < 8; ++n) xs[e + n][i] = x_next[n] * c.root, ws[e + n][i] = w_next[n];
        if (e0 + depth < c.d) fetch(e0 + depth);
        __syncthreads();
#pragma unroll
        for (int n = 0; n < depth; ++n) {
            float a[8], b[S];
#pragma unroll
            for (int half = 0; half < 2; ++half)
                *reinterpret_cast<float4*>(a + 4 * half) = *reinterpret_cast<const float4*>(&xs[n][64 * half + 4 * y]);
#pragma unroll
            for (int half = 0; half < halves; ++half)
                *reinterpret_cast<float4*>(b + 4 * half) = *reinterpret_cast<const float4*>(&ws[n][64 * half + 4 * x]);
#pragma unroll
            for (int r = 0; r < 8; ++r) {
#pragma unroll
                for (int s = 0; s < S; ++s) sum[r][s] = fmaf(a[r], b[s], sum[r][s]);
            }
        }
    }
    const auto column = [&](int s) { return column0 + 64 * (s / 4) + 4 * x + s % 4; };
    const float log_root = logf(static_cast<float>(g.directions)) / 2;  // of √m; for rfa_features m is r / 2
    float shift = 0;
    if constexpr (pass == Pass::features && map != Map::favor_rows) {
        const float own = from_ordered(g.highest[bh]),
                    other = c.sides > 1 ? from_ordered(g.highest[c.batch_heads + bh]) : own;
        if (g.stabilised) shift = (own - other) / (map == Map::rfa ? 4.0f : 2.0f) * (side == 0 ? 1.0f : -1.0f);
    }
    if constexpr (pass == Pass::features && map == Map::favor_rows)
        shift = from_ordered(g.highest[(c.sides - 1) * c.batch_heads + bh]);
    float highest = lowest;
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        const int32_t row = row0 + 64 * (r / 4) + 4 * y + r % 4;
        const bool real = row < c.N;
        const int64_t index = int64_t{at} * c.N + (real ? row : 0);
        if constexpr (pass == Pass::largest) {
            float largest = lowest;
#pragma unroll
            for (int s = 0; s < S; ++s) {
                if (column(s) < g.directions) largest = fmaxf(largest, sum[r][s]);
            }
#pragma unroll
            for (int step = 8; step > 0; step /= 2)
                largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, step));
            if (real) {
                if (x == 0) atomicMax(g.largest + index, ordered(largest));
                highest = fmaxf(highest, largest - (g.squares[index] / 2 + log_root));
            }
        } else if (real) {
            F* phi = row_of_phi<F>(c, side, bh, row);
            const float square = g.squares[index];
            const int pieces = c.phi_pieces[side];
            if constexpr (map == Map::rfa) {
                const float factor = expf(square / 2 - shift) / sqrtf(static_cast<float>(g.directions));
                const int pieces_of_sines = g.directions % 4 == 0 ? pieces : 2;
#pragma unroll
                for (int s = 0; s < S; s += 4) {
                    float sine[4], cosine[4];
#pragma unroll
                    for (int n = 0; n < 4; ++n) {
                        sine_cosine(sum[r][s + n], sine[n], cosine[n]);
                        sine[n] *= factor, cosine[n] *= factor;
                    }
                    store_side_by_side(phi, column(s), g.directions, pieces, cosine);
                    store_side_by_side(phi + g.directions, column(s), g.directions, pieces_of_sines, sine);
                }
            } else {
                const float own = square / 2 + log_root;
                float less = own + shift;
                if constexpr (map == Map::favor_rows) {
                    if (side == 0) {
                        less = from_ordered(g.largest[index]);
                        if (x == 0 && column0 == 0) g.log_rows[index] = less - own + shift;
                    }
                }
#pragma unroll
                for (int s = 0; s < S; s += 4) {
                    float feature[4];
#pragma unroll
                    for (int n = 0; n < 4; ++n) feature[n] = expf(sum[r][s + n] - less);
                    store_side_by_side(phi, column(s), g.directions, pieces, feature);
                }
            }
        }
    }
    if constexpr (pass == Pass::largest) {
        highest = fmaxf(highest, __shfl_xor_sync(0xFFFFFFFF, highest, 16));
        if (threadIdx.x % 32 == 0) atomicMax(g.highest + at, ordered(highest));
    }
}

std::size_t floats_of(const FeatureArgs& a) {
    return static_cast<std::size_t>(a.batch * a.heads) * (4 * static_cast<std::size_t>(a.N) + 3);
}

template <Map map, int halves>
void launch_products(const FeatureArgs& a, const Call& c, const Gathered& g, dim3 grid, cudaStream_t stream) {
    const auto go = [&](auto kernel) {
        launch(kernel, "launching product_kernel", grid, product_threads, 0, 1, false, stream, c, g);
    };
    visit_types(a, [&](auto x, auto phi) {
        using E = decltype(x);
        if constexpr (map == Map::favor_rows) go(product_kernel<E, float, map, Pass::largest, halves>);
        go(product_kernel<E, decltype(phi), map, Pass::features, halves>);
    });
}

template <Map map>
void run(const char* name, const FeatureArgs& a, int directions, const FavorOptions& o, cudaStream_t stream) {
    const Call c = call_of(name, a, 0);
    if (empty(c)) return;
    if (!a.omega) fail(name, ": no directions, expected omega [", c.batch_heads, ", ", directions, ", ", c.d, "]");
    const std::size_t need = random_features_workspace(a);
    if (need > a.workspace.bytes) fail(name, ": a workspace of ", a.workspace.bytes, " bytes, expected ", need);
    const int64_t rows = 2 * int64_t{c.batch_heads} * c.N, sides = int64_t{c.sides} * c.batch_heads;
    float* at = static_cast<float*>(a.workspace.data);
    unsigned* largest = reinterpret_cast<unsigned*>(at + rows);
    const Gathered g{a.omega,    directions,  at, largest, largest + rows, at + 2 * rows + 2 * c.batch_heads,
                     o.log_rows, o.stabilised};
    launch(longest_direction, "launching longest_direction", dim3(static_cast<unsigned>(c.batch_heads)), 256, 0, 1,
           false, stream, c, g);
    const unsigned parts = blocks(name, sides * ((c.N + rows_to_a_block - 1) / rows_to_a_block));
    visit(a.type, [&](auto x) {
        launch(measure_rows<decltype(x)>, "launching measure_rows", dim3(parts), 256, 0, 1, false, stream, c, g, map);
    });
    const auto grid = [&](int width) {
        return dim3(blocks(name, sides * ((c.N + tile - 1) / tile) * ((directions + width - 1) / width)));
    };
    if (directions <= 64) launch_products<map, 1>(a, c, g, grid(64), stream);
    else launch_products<map, 2>(a, c, g, grid(128), stream);
}

}  // namespace
}  // namespace features

std::size_t random_features_workspace(const FeatureArgs& a) { return features::floats_of(a) * sizeof(float); }

void favor_features(const FeatureArgs& a, const FavorOptions& o, cudaStream_t stream) {
    using features::Map;
    if (o.log_rows) features::run<Map::favor_rows>("favor_features", a, a.r, o, stream);
    else features::run<Map::favor>("favor_features", a, a.r, o, stream);
}

void rfa_features(const FeatureArgs& a, cudaStream_t stream) {
    if (a.r % 2 != 0)
        fail("rfa_features: r is ", a.r, ", expected an even number: a cosine and a sine for each direction");
    features::run<features::Map::rfa>("rfa_features", a, a.r / 2, {}, stream);
}

}  // namespace causeway::gpu
