#include "gpu/sharded/maps.hpp"

#include "gpu/base/error.hpp"
#include "gpu/kit/element.cuh"
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

// Log gates, in units of log 2, after which a state is forgotten.
constexpr float forgotten = -forgotten_bits;

// A block: a state; one gate a token, `threads` tokens at a time.
__global__ __launch_bounds__(threads) void reach_of_heads(GateRows gates, int64_t most, int32_t* reach) {
    __shared__ float room[warps];
    const float* g = gates.g + int64_t{blockIdx.x} * gates.N;
    float sum = 0;
    int64_t t = 0;
    while (sum > forgotten && t < most) {
        const int64_t i = t + threadIdx.x;
        sum += sum_of_block(i < gates.N ? g[i] * limits::log2_e : 0.0f, room);
        t += threads;
    }
    if (threadIdx.x == 0) reach[blockIdx.x] = sum <= forgotten && t <= most ? static_cast<int32_t>(t) : -1;
}

// The same with a gate a column, a thread for each.
__global__ __launch_bounds__(threads) void reach_of_channels(GateRows gates, int64_t most, int32_t* reach) {
    const int column = static_cast<int>(threadIdx.x);
    const bool mine = column < gates.columns;
    const float* g = gates.g + int64_t{blockIdx.x} * gates.N * gates.columns + (mine ? column : 0);
    float sum = 0;
    int64_t t = 0;
    bool all = false;
    while (!all && t < most) {
#pragma unroll 16
        for (int64_t i = t; i < t + threads; ++i)
            if (i < gates.N) sum += g[i * gates.columns] * limits::log2_e;
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

// A block: a state.
template <class E>
__global__ __launch_bounds__(threads) void leave_kernel(HeadTokens tokens, int rows, int columns, float* S) {
    __shared__ float room[warps];
    const int64_t state = blockIdx.x;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const E* k = static_cast<const E*>(tokens.k) + state / tokens.heads * tokens.k_stride.batch +
                 state % tokens.heads * tokens.k_stride.head;
    float logs = 0;
    for (int64_t t = warp; t < tokens.n; t += warps) {
        const E* row = k + t * tokens.k_stride.token;
        const float square = tokens.beta ? dot_of_warp(row, row, rows) : 0.0f;
        if (lane != 0) continue;
        logs += tokens.g[state * tokens.N + t] * limits::log2_e;
        if (!tokens.beta) continue;
        const float stretch = fabsf(1 - tokens.beta[state * tokens.N + t] * square);
        if (!(stretch <= 1)) logs += log2f(stretch);  // NaN too
    }
    // Half of them at a time: the product itself may be 0 where that with a large number is not.
    const float half = exp2f(sum_of_block(logs, room) / 2);
    float* const at = S + state * rows * columns;
    if (!tokens.beta) {
        for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += threads) at[i] = half * (half * at[i]);
        return;
    }
    for (int c = static_cast<int>(threadIdx.x); c < columns; c += threads) {
        float largest = 0;
        for (int e = 0; e < rows; ++e) {
            const float x = fabsf(at[e * columns + c]);
            largest = is_finite(x) ? fmaxf(largest, x) : INFINITY;
        }
        const float most = half * (half * largest) * sqrtf(static_cast<float>(rows));
        for (int e = 0; e < rows; ++e) at[e * columns + c] = most;
    }
}

// Of numbers that are not negative, whose bits are in their order.
__device__ void raise(float* largest, float x) { atomicMax(reinterpret_cast<int*>(largest), __float_as_int(x)); }

// A block: a state. A warp has rows of its own.
__global__ __launch_bounds__(threads) void seen_kernel(int rows, int columns, bool mixes, float unseen,
                                                       const float* left, const float* S, int32_t* seen) {
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
            const float x = left[at + int64_t{e} * columns + c];
            const float beside = mixes ? of_columns[c] : fminf(of_rows[e], of_columns[c]);
            any = any || !is_finite(x) || fabsf(x) > unseen * beside;
        }
    any = __syncthreads_or(any) != 0;
    if (threadIdx.x == 0) seen[blockIdx.x] = any ? 1 : 0;
}

struct Maps {
    int rows, columns;
    int64_t carry;
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
            for (int i = 0; i < m.rows; ++i)
                sum = fmaf(A[int64_t{row} * m.rows + i], m.S[at + int64_t{i} * m.columns + c], sum);
        } else {
            const float a = m.carry == 0 ? 1.0f : A[m.carry == 1 ? 0 : row];
            sum = fmaf(a, m.S[at + int64_t{row} * m.columns + c], sum);
        }
        m.out[at + int64_t{row} * m.columns + c] = sum;
    }
}

unsigned blocks(int64_t n) { return static_cast<unsigned>(n); }

}  // namespace

void find_reach(const GateRows& gates, int64_t most, std::int32_t* reach, cudaStream_t stream) {
    if (gates.states == 0) return;
    if (gates.columns == 1) reach_of_heads<<<blocks(gates.states), threads, 0, stream>>>(gates, most, reach);
    else reach_of_channels<<<blocks(gates.states), threads, 0, stream>>>(gates, most, reach);
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

void leave_of_heads(const HeadTokens& tokens, int rows, int columns, float* S, cudaStream_t stream) {
    if (tokens.states == 0) return;
    visit(tokens.type, [&](auto zero) {
        using E = decltype(zero);
        leave_kernel<E><<<blocks(tokens.states), threads, 0, stream>>>(tokens, rows, columns, S);
    });
    check_launch("launching leave_of_heads");
}

void find_seen(int64_t states, int rows, int columns, bool mixes, float unseen, const float* left, const float* S,
               std::int32_t* seen, cudaStream_t stream) {
    if (states == 0) return;
    const auto shared = static_cast<std::size_t>(rows + columns) * sizeof(float);
    seen_kernel<<<blocks(states), threads, shared, stream>>>(rows, columns, mixes, unseen, left, S, seen);
    check_launch("launching find_seen");
}

void make_unit(float* x, int64_t states, int n, cudaStream_t stream) {
    if (states == 0) return;
    unit_kernel<<<blocks(states), threads, 0, stream>>>(x, n);
    check_launch("launching make_unit");
}

void apply_maps(int64_t states, int rows, int columns, int64_t carry, const float* A, const float* B, const float* S,
                float* out, cudaStream_t stream) {
    if (states == 0 || rows == 0) return;
    apply_kernel<<<dim3(blocks(states), blocks(rows)), threads, 0, stream>>>({rows, columns, carry, A, B, S, out});
    check_launch("launching apply_maps");
}

}  // namespace causeway::gpu::sharded
