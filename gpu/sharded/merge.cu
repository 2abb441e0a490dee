#include "gpu/sharded/merge.hpp"

#include <cmath>

#include "gpu/base/error.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::sharded {

namespace {

using std::int64_t;

constexpr int threads = 256, rows_at_once = threads / 32;

// The weights of two parts of a row, and the log-sum-exp of both. A part without weight, of no key or of scores of -Inf
// alone, does not count; NaN stays.
struct Weights {
    float first, second, lse;
};
__device__ __forceinline__ Weights weights_of(float a, float b) {
    if (b == -INFINITY) return {1, 0, a};
    if (a == -INFINITY) return {0, 1, b};
    const float top = a < b ? b : a, x = expf(a - top), y = expf(b - top), sum = x + y;
    return {x / sum, y / sum, top + logf(sum)};
}

// A warp: a row.
template <class A, class E, class Out>
__global__ __launch_bounds__(threads) void merge_kernel(MergedRows m) {
    const int64_t row = int64_t{blockIdx.x} * rows_at_once + threadIdx.x / 32;
    if (row >= m.batch * m.heads * m.N) return;
    const int lane = threadIdx.x % 32;
    const int64_t token = row % m.N, head = row / m.N % m.heads, batch = row / m.N / m.heads;
    const Weights w = weights_of(m.lse[row], m.part_lse[row]);
    const A* o = static_cast<const A*>(m.o) + row * m.dv;
    const E* part = static_cast<const E*>(m.part) + row * m.dv;
    Out* out =
        static_cast<Out*>(m.out) + batch * m.out_stride.batch + head * m.out_stride.head + token * m.out_stride.token;
    // A weight of 0 takes the other part as it is, be it not finite.
    for (int c = lane; c < m.dv; c += 32) {
        const float x = static_cast<float>(o[c]), y = static_cast<float>(part[c]);
        out[c] = static_cast<Out>(w.second == 0 ? x : w.first == 0 ? y : w.first * x + w.second * y);
    }
    __syncwarp();
    if (lane == 0) m.lse[row] = w.lse;
}

// A block: a row, a thread to a column; every thread goes through the parts in the same order.
template <class E>
__global__ __launch_bounds__(threads) void merge_all_kernel(GatheredParts p) {
    const int64_t row = blockIdx.x;
    const auto block = [&](int i) {
        return static_cast<const char*>(p.blocks) + static_cast<std::size_t>(i) * p.bytes;
    };
    const auto lse = [&](int i) { return reinterpret_cast<const float*>(block(i) + p.lse_at)[row]; };
    float top = -INFINITY;
    for (int i = 0; i < p.count; ++i) {
        const float x = lse(i);
        if (!(x <= top)) top = x;  // NaN stays
    }
    float sum = 0;
    for (int i = 0; i < p.count; ++i) {
        const float x = lse(i);
        if (x != -INFINITY) sum += expf(x - top);
    }
    for (int c = static_cast<int>(threadIdx.x); c < p.dv; c += threads) {
        float o = 0;
        for (int i = 0; i < p.count; ++i) {
            const float x = lse(i);
            if (x == -INFINITY) continue;
            o = fmaf(expf(x - top) / sum, static_cast<float>(reinterpret_cast<const E*>(block(i))[row * p.dv + c]), o);
        }
        static_cast<E*>(p.o)[row * p.dv + c] = static_cast<E>(o);
    }
    if (threadIdx.x == 0 && p.lse) p.lse[row] = top == -INFINITY ? top : top + logf(sum);
}

// Blocks for the elements of a head: about 8 elements a thread, no more than it takes.
__host__ __device__ int64_t blocks_of_head(const SummedRows& r) {
    return (r.n * r.width + 8 * threads - 1) / (8 * threads);
}
unsigned blocks_of(const SummedRows& r) { return static_cast<unsigned>(blocks_of_head(r) * r.heads); }

// f(element) for those of the thread; the blocks of a head follow one another.
template <class F>
__device__ void each_element(const SummedRows& r, F&& f) {
    const int64_t blocks = blocks_of_head(r);
    for (int64_t i = blockIdx.x % blocks * threads + threadIdx.x; i < r.n * r.width; i += blocks * threads) f(i);
}

template <class E>
__global__ __launch_bounds__(threads) void add_kernel(SummedRows r, const E* x, int64_t x_head) {
    const int64_t head = blockIdx.x / blocks_of_head(r);
    float* const sum = r.sum + head * r.sum_head;
    x += head * x_head;
    each_element(r, [&](int64_t i) { sum[i] += static_cast<float>(x[i]); });
}
template <class E>
__global__ __launch_bounds__(threads) void round_kernel(SummedRows r, int64_t batch, E* out, Strides s) {
    const int64_t head = blockIdx.x / blocks_of_head(r), heads = r.heads / batch;
    const float* const sum = r.sum + head * r.sum_head;
    out += head / heads * s.batch + head % heads * s.head;
    each_element(r, [&](int64_t i) { out[i / r.width * s.token + i % r.width] = static_cast<E>(sum[i]); });
}

template <class E>
void launch_merge(const MergedRows& m, cudaStream_t stream) {
    const int64_t rows = m.batch * m.heads * m.N;
    const auto blocks = static_cast<unsigned>((rows + rows_at_once - 1) / rows_at_once);
    if (m.o_is_sum && m.out_is_sum) merge_kernel<float, E, float><<<blocks, threads, 0, stream>>>(m);
    else if (m.o_is_sum) merge_kernel<float, E, E><<<blocks, threads, 0, stream>>>(m);
    else if (m.out_is_sum) merge_kernel<E, E, float><<<blocks, threads, 0, stream>>>(m);
    else merge_kernel<E, E, E><<<blocks, threads, 0, stream>>>(m);
    check_launch("launching merge_rows");
}

}  // namespace

void merge_rows(const MergedRows& rows, cudaStream_t stream) {
    if (rows.batch * rows.heads * rows.N == 0 || rows.dv == 0) return;
    visit(rows.type, [&](auto e) { launch_merge<decltype(e)>(rows, stream); });
}

void merge_gathered(const GatheredParts& parts, cudaStream_t stream) {
    if (parts.rows == 0) return;
    visit(parts.type, [&](auto e) {
        merge_all_kernel<decltype(e)><<<static_cast<unsigned>(parts.rows), threads, 0, stream>>>(parts);
    });
    check_launch("launching merge_gathered");
}

void add_rows(const SummedRows& rows, const void* x, std::int64_t x_head, cudaStream_t stream) {
    if (rows.heads * rows.n * rows.width == 0) return;
    visit(rows.type, [&](auto e) {
        using E = decltype(e);
        add_kernel<E><<<blocks_of(rows), threads, 0, stream>>>(rows, static_cast<const E*>(x), x_head);
    });
    check_launch("launching add_rows");
}

void round_rows(const SummedRows& rows, std::int64_t batch, void* out, const Strides& stride, cudaStream_t stream) {
    if (rows.heads * rows.n * rows.width == 0) return;
    visit(rows.type, [&](auto e) {
        using E = decltype(e);
        round_kernel<E><<<blocks_of(rows), threads, 0, stream>>>(rows, batch, static_cast<E*>(out), stride);
    });
    check_launch("launching round_rows");
}

}  // namespace causeway::gpu::sharded
