#include "gpu/sharded/maps.hpp"

#include "gpu/base/error.hpp"
#include "gpu/kit/finite.cuh"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::sharded {

namespace {

using std::int64_t;

constexpr int threads = 256, warps = threads / 32;

// The sum of the threads' values, in all of them. `room` has a place for every warp.
__device__ float sum_of_block(float x, float* room) {
    x = sum_of_warp(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += room[w];
    return sum;
}

// The place of the n-th token, which is 0 <= n < N.
__device__ int64_t place(const GateRows& gates, From from, int64_t n) {
    return from == From::start ? n : gates.N - 1 - n;
}

// A block: a state; one gate a token: a warp adds up `threads` tokens at a time, and every thread
// the sums of the warps. `forgotten`: the sum of log gates, in units of log 2, after which a state is.
constexpr int head_warps = 16;
__global__ __launch_bounds__(head_warps * 32) void reach_of_heads(GateRows gates, From from, float forgotten,
                                                                  int64_t most, int32_t* reach) {
    __shared__ float room[head_warps];
    const float* g = gates.g + int64_t{blockIdx.x} * gates.N;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum = 0;
    int64_t t = 0;
    while (sum > forgotten && t < most) {
        float part = 0;
#pragma unroll
        for (int j = 0; j < threads / 32; ++j) {
            const int64_t n = t + warp * threads + j * 32 + lane;
            part += n < gates.N ? g[place(gates, from, n)] * limits::log2_e : 0.0f;
        }
        part = sum_of_warp(part);
        if (lane == 0) room[warp] = part;
        __syncthreads();
        for (int w = 0; w < head_warps && sum > forgotten; ++w, t += threads) sum += room[w];
        __syncthreads();
    }
    if (threadIdx.x == 0) reach[blockIdx.x] = sum <= forgotten && t <= most ? static_cast<int32_t>(t) : -1;
}

// The same with a gate a column: a thread adds `tokens_each` of them, and one of every column adds those sums.
constexpr int channel_threads = 1024, tokens_each = 32;
__global__ __launch_bounds__(channel_threads) void reach_of_channels(GateRows gates, From from, float forgotten,
                                                                     int64_t most, int32_t* reach) {
    __shared__ float room[channel_threads];
    const int width = (gates.columns + 31) / 32 * 32, slices = channel_threads / width,
              column = static_cast<int>(threadIdx.x) % width, slice = static_cast<int>(threadIdx.x) / width;
    const bool mine = column < gates.columns && slice < slices;
    const float* g = gates.g + int64_t{blockIdx.x} * gates.N * gates.columns + column;
    float sum = 0;
    int64_t t = 0;
    bool all = false;
    while (!all && t < most) {
        for (int64_t done = 0; done < threads; done += int64_t{slices} * tokens_each) {
            float part = 0;
#pragma unroll
            for (int j = 0; j < tokens_each; ++j) {
                const int64_t n = done + int64_t{slice} * tokens_each + j;
                if (mine && n < threads && t + n < gates.N)
                    part += g[place(gates, from, t + n) * gates.columns] * limits::log2_e;
            }
            room[threadIdx.x] = part;
            __syncthreads();
            for (int s = 0; mine && s < slices; ++s) sum += room[s * width + column];
            __syncthreads();
        }
        t += threads;
        all = __syncthreads_and(!mine || sum <= forgotten) != 0;
    }
    if (threadIdx.x == 0) reach[blockIdx.x] = all && t <= most ? static_cast<int32_t>(t) : -1;
}

__global__ __launch_bounds__(threads) void multiply_heads(GateRows gates, float* A) {
    __shared__ float room[warps];
    const float* g = gates.g + int64_t{blockIdx.x} * gates.N;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < gates.N; i += threads) sum += g[i];
    sum = sum_of_block(sum, room);
    if (threadIdx.x == 0) A[blockIdx.x] = expf(sum);
}

// A block: a state and one of the columns' pieces of 32; eight warps share its tokens.
__global__ __launch_bounds__(threads) void multiply_channels(GateRows gates, float* A) {
    __shared__ float room[warps][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = static_cast<int>(blockIdx.y) * 32 + lane;
    const float* g = gates.g + int64_t{blockIdx.x} * gates.N * gates.columns + column;
    float sum = 0;
    for (int64_t i = warp; i < gates.N && column < gates.columns; i += warps) sum += g[i * gates.columns];
    room[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= gates.columns) return;
    for (int w = 1; w < warps; ++w) sum += room[w][lane];
    A[int64_t{blockIdx.x} * gates.columns + column] = expf(sum);
}

__global__ void unit_kernel(float* x, int n) {
    for (int i = static_cast<int>(threadIdx.x); i < n * n; i += threads)
        x[int64_t{blockIdx.x} * n * n + i] = i / n == i % n ? 1.0f : 0.0f;
}

// Of numbers that are not negative, whose bits are in their order.
__device__ void raise(float* largest, float x) { atomicMax(reinterpret_cast<int*>(largest), __float_as_int(x)); }

// A block: a state. A warp has rows of its own.
__global__ __launch_bounds__(threads) void differing_kernel(int rows, int columns, bool mixes, float share,
                                                            const float* S, const float* handed, int32_t* differs) {
    extern __shared__ float of_rows[];
    float* of_columns = of_rows + rows;
    const int64_t at = int64_t{blockIdx.x} * rows * columns;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int c = static_cast<int>(threadIdx.x); c < columns; c += threads) of_columns[c] = 0;
    __syncthreads();
    for (int e = warp; e < rows; e += warps) {
        float largest = 0;
        for (int c = lane; c < columns; c += 32) {
            const float x = fabsf(S[at + int64_t{e} * columns + c]);
            if (!is_finite(x)) continue;
            largest = fmaxf(largest, x);
            raise(of_columns + c, x);
        }
        largest = max_of_warp(largest);
        if (lane == 0) of_rows[e] = largest;
    }
    __syncthreads();
    bool any = false;
    for (int e = warp; e < rows; e += warps)
        for (int c = lane; c < columns; c += 32) {
            const int64_t i = at + int64_t{e} * columns + c;
            const float apart = fabsf(S[i] - handed[i]),
                        beside = mixes ? of_columns[c] : fminf(of_rows[e], of_columns[c]);
            any = any || !(apart <= share * beside);  // NaN too, which what is not finite makes
        }
    any = __syncthreads_or(any) != 0;
    if (threadIdx.x == 0 && any) differs[blockIdx.x] = 1;
}

struct Maps {
    int rows, columns;
    int64_t carry;
    bool transposed;
    const float *A, *B, *S;
    float* out;
};

// A block: a row of a state.
__global__ __launch_bounds__(threads) void apply_kernel(Maps m) {
    const int row = static_cast<int>(blockIdx.y);
    const int64_t at = int64_t{blockIdx.x} * m.rows * m.columns;
    const float* A = m.A + int64_t{blockIdx.x} * m.carry;
    for (int c = static_cast<int>(threadIdx.x); c < m.columns; c += threads) {
        float sum = m.B ? m.B[at + int64_t{row} * m.columns + c] : 0.0f;
        if (m.carry > m.rows) {
            const int64_t first = m.transposed ? row : int64_t{row} * m.rows, step = m.transposed ? m.rows : 1;
            for (int i = 0; i < m.rows; ++i) sum = fmaf(A[first + i * step], m.S[at + int64_t{i} * m.columns + c], sum);
        } else {
            const float a = m.carry == 0 ? 1.0f : A[m.carry == 1 ? 0 : row];
            sum = fmaf(a, m.S[at + int64_t{row} * m.columns + c], sum);
        }
        m.out[at + int64_t{row} * m.columns + c] = sum;
    }
}

unsigned blocks(int64_t n) { return static_cast<unsigned>(n); }

}  // namespace

void find_reach(const GateRows& gates, From from, float bits, int64_t most, std::int32_t* reach, cudaStream_t stream) {
    if (gates.states == 0) return;
    if (gates.columns == 1)
        reach_of_heads<<<blocks(gates.states), head_warps * 32, 0, stream>>>(gates, from, -bits, most, reach);
    else reach_of_channels<<<blocks(gates.states), channel_threads, 0, stream>>>(gates, from, -bits, most, reach);
    check_launch("launching find_reach");
}

void multiply_gates(const GateRows& gates, float* A, cudaStream_t stream) {
    if (gates.states == 0) return;
    if (gates.columns == 1) multiply_heads<<<blocks(gates.states), threads, 0, stream>>>(gates, A);
    else
        multiply_channels<<<dim3(blocks(gates.states), blocks((gates.columns + 31) / 32)), threads, 0, stream>>>(gates,
                                                                                                                 A);
    check_launch("launching multiply_gates");
}

void find_differing(int64_t states, int rows, int columns, bool mixes, float share, const float* S, const float* handed,
                    std::int32_t* differs, cudaStream_t stream) {
    if (states == 0) return;
    const auto shared = static_cast<std::size_t>(rows + columns) * sizeof(float);
    differing_kernel<<<blocks(states), threads, shared, stream>>>(rows, columns, mixes, share, S, handed, differs);
    check_launch("launching find_differing");
}

void make_unit(float* x, int64_t states, int n, cudaStream_t stream) {
    if (states == 0) return;
    unit_kernel<<<blocks(states), threads, 0, stream>>>(x, n);
    check_launch("launching make_unit");
}

void apply_maps(int64_t states, int rows, int columns, int64_t carry, bool transposed, const float* A, const float* B,
                const float* S, float* out, cudaStream_t stream) {
    if (states == 0 || rows == 0) return;
    apply_kernel<<<dim3(blocks(states), blocks(rows)), threads, 0, stream>>>(
        {rows, columns, carry, transposed, A, B, S, out});
    check_launch("launching apply_maps");
}

}  // namespace causeway::gpu::sharded
