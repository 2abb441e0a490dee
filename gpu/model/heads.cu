#include "gpu/model/heads.hpp"

#include <algorithm>

#include "gpu/around/sigmoid.cuh"
#include "gpu/kit/each.cuh"
#include "gpu/kit/element.cuh"
#include "gpu/kit/warp.cuh"
#include "gpu/model/activation.cuh"
#include "gpu/model/dependent.cuh"

namespace causeway::gpu::models {
namespace {

constexpr int warps = 8;

__global__ void table_kernel(const double* frequencies, int64_t pairs, double factor, const std::int32_t* position,
                             int64_t n, float* table) {
    let_next_start();
    begin_dependent();
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n * pairs; i += step) {
        const int64_t t = i / pairs, pair = i % pairs;
        double sine, cosine;
        sincos(static_cast<double>(*position + t) * frequencies[pair], &sine, &cosine);
        table[t * 2 * pairs + pair] = static_cast<float>(factor * cosine);
        table[(t * 2 + 1) * pairs + pair] = static_cast<float>(factor * sine);
    }
}

// Number e of a head that lies in shared memory, turned by the angles of its token.
__device__ __forceinline__ float rotated(const float* head, int e, const float* angles, int pairs, bool interleaved) {
    if (e >= 2 * pairs) return head[e];
    const int pair = interleaved ? e / 2 : e % pairs, a = interleaved ? 2 * pair : pair,
              b = interleaved ? 2 * pair + 1 : pair + pairs;
    const float cosine = angles[pair], sine = angles[pairs + pair];
    return e == a ? head[a] * cosine - head[b] * sine : head[a] * sine + head[b] * cosine;
}

// A warp: a head of a token; the parts are layers of the grid.
template <class E>
__global__ __launch_bounds__(32 * warps) void place_kernel(const __grid_constant__ PlaceCall c) {
    __shared__ float shared[warps][max_head];
    let_next_start();
    begin_dependent();
    const PlacedHeads& part = c.part[blockIdx.y];
    const auto heads = static_cast<uint32_t>(part.heads), n = static_cast<uint32_t>(c.n);
    const uint32_t index = blockIdx.x * warps + threadIdx.x / 32, row = index / heads, head = index % heads;
    const uint32_t text = row / n, token = row % n;
    if (text >= c.batch) return;
    const int lane = threadIdx.x % 32, width = part.width, position = *c.position + static_cast<int>(token);
    const E* const from = static_cast<const E*>(c.rows) + row * c.row + part.offset + head * part.step;
    float* const x = shared[threadIdx.x / 32];
    float squares = 0;
    for (int e = lane; e < width; e += 32) {
        const float value = activated(static_cast<float>(from[e]), part.activation);
        squares = fmaf(value, value, squares);
        x[e] = value;
    }
    if (part.norm) {
        const float factor = 1 / sqrtf(sum_of_warp(squares) / static_cast<float>(width) + part.eps);
        for (int e = lane; e < width; e += 32) x[e] *= factor * part.norm[e];
    }
    __syncwarp();
    E* const to = static_cast<E*>(part.to) + text * part.to_stride.batch + head * part.to_stride.head +
                  (part.at_position ? position : token) * part.to_stride.token;
    if (part.theta) {
        const float* const theta = part.theta + int64_t{head} * width;
        for (int e = lane; e < width; e += 32) {
            double sine, cosine;
            sincos(static_cast<double>(position) * static_cast<double>(theta[e]), &sine, &cosine);
            to[e] = static_cast<E>(part.scale * x[e] * static_cast<float>(cosine));
            to[width + e] = static_cast<E>(part.scale * x[e] * static_cast<float>(sine));
        }
        return;
    }
    const float* const angles = c.table + token * 2 * c.pairs;
    for (int e = lane; e < width; e += 32)
        to[e] = static_cast<E>(part.scale * (part.rotate ? rotated(x, e, angles, c.pairs, c.interleaved) : x[e]));
}

template <class E>
struct PlaceGates {
    GateCall c;
    __device__ void operator()(int64_t i) const {
        const int64_t token = i % c.n, head = i / c.n % c.heads, text = i / (c.n * c.heads);
        const E* const row = static_cast<const E*>(c.rows) + (text * c.n + token) * c.row;
        c.beta[i] = around::sigmoid(static_cast<float>(row[c.b + head]));
        c.g[i] = -expf(c.a_log[head]) * around::softplus(static_cast<float>(row[c.a + head]) + c.dt_bias[head]);
    }
};

}  // namespace

void rotary_table(const double* frequencies, std::int64_t pairs, double factor, const std::int32_t* position,
                  std::int64_t n, float* table, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>(std::min<int64_t>((n * pairs + 255) / 256, 1 << 14));
    launch_dependent(table_kernel, "launching table_kernel", blocks, 256, stream, frequencies, pairs, factor, position,
                     n, table);
}

void place_heads(const PlaceCall& call, Type type, cudaStream_t stream) {
    int64_t most = 0;
    for (int i = 0; i < call.parts; ++i) most = std::max<int64_t>(most, call.part[i].heads);
    if (call.batch * call.n * most >= int64_t{1} << 31)
        fail("gpu: ", call.batch * call.n, " tokens of ", most, " heads at once, expected fewer: a smaller chunk");
    const dim3 grid(static_cast<unsigned>((call.batch * call.n * most + warps - 1) / warps),
                    static_cast<unsigned>(call.parts));
    visit(type, [&](auto e) {
        launch_dependent(place_kernel<decltype(e)>, "launching place_kernel", grid, 32 * warps, stream, call);
    });
}

void place_shared(PlaceCall call, std::int64_t times, Type type, cudaStream_t stream) {
    call.parts = 2;
    const std::int64_t step[] = {call.part[0].to_stride.head, call.part[1].to_stride.head};
    for (int i = 0; i < 2; ++i) call.part[i].to_stride.head *= times;
    for (std::int64_t time = 0; time < times; ++time) {
        place_heads(call, type, stream);
        for (int i = 0; i < 2; ++i) call.part[i].to = static_cast<char*>(call.part[i].to) + step[i] * bytes_of(type);
    }
}

void place_gates(const GateCall& call, Type type, cudaStream_t stream) {
    visit(type, [&](auto e) {
        run_each("the gates of a gated delta net", call.batch * call.heads * call.n, stream,
                 PlaceGates<decltype(e)>{call});
    });
}

}  // namespace causeway::gpu::models
