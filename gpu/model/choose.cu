#include "gpu/model/choose.hpp"

#include "gpu/model/block_sum.cuh"
#include "gpu/model/dependent.cuh"

namespace causeway::gpu::models {
namespace {

constexpr int threads = 1024;

// The largest of some numbers and its place; NaN is larger than all.
struct Best {
    float value;
    std::int32_t place;

    __device__ __forceinline__ void meet(float x, std::int32_t at) {
        const bool nan = isnan(x), better = x > value || (x == value && at < place);
        if (isnan(value) ? nan && at < place : nan || better) value = x, place = at;
    }
};

// Of a row of n > 0 numbers, in all threads.
__device__ Best best_of(const float* row, int64_t n, Best (&shared)[32]) {
    Best best{-__builtin_huge_valf(), 0x7FFFFFFF};
    for (int64_t j = threadIdx.x; j < n; j += threads) best.meet(row[j], static_cast<std::int32_t>(j));
    const auto meet_lanes = [&] {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            const float value = __shfl_xor_sync(all_lanes, best.value, step);
            const std::int32_t place = __shfl_xor_sync(all_lanes, best.place, step);
            best.meet(value, place);
        }
    };
    meet_lanes();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = best;
    __syncthreads();
    best = shared[threadIdx.x % 32];
    meet_lanes();
    return best;
}

__global__ __launch_bounds__(threads) void choose_kernel(const float* logits, int64_t words, std::int32_t* ids,
                                                         std::int32_t* position) {
    __shared__ Best shared[32];
    let_next_start();
    begin_dependent();
    const Best best = best_of(logits + blockIdx.x * words, words, shared);
    if (threadIdx.x > 0) return;
    ids[blockIdx.x] = isnan(best.value) ? -1 : best.place;
    if (blockIdx.x == 0 && position) *position += 1;
}

__global__ __launch_bounds__(threads) void judge_kernel(const float* logits, int64_t words, const std::int32_t* ids,
                                                        Judged* out) {
    __shared__ Best shared[32];
    __shared__ BlockSums sums;
    let_next_start();
    begin_dependent();
    const float* const row = logits + blockIdx.x * words;
    const Best best = best_of(row, words, shared);
    float sum = 0;
    for (int64_t j = threadIdx.x; j < words; j += threads) sum += expf(row[j] - best.value);
    sum = sums.all(sum);
    if (threadIdx.x > 0) return;
    out[blockIdx.x] = {row[ids[blockIdx.x]] - best.value - logf(sum), isnan(best.value) ? -1 : best.place};
}

__global__ void set_kernel(std::int32_t* to, std::int32_t value) {
    begin_dependent();
    *to = value;
}

}  // namespace

void choose_likeliest(const float* logits, std::int64_t n, std::int64_t words, std::int32_t* ids,
                      std::int32_t* position, cudaStream_t stream) {
    launch_dependent(choose_kernel, "launching choose_kernel", static_cast<unsigned>(n), threads, stream, logits, words,
                     ids, position);
}

void judge(const float* logits, std::int64_t n, std::int64_t words, const std::int32_t* ids, Judged* out,
           cudaStream_t stream) {
    launch_dependent(judge_kernel, "launching judge_kernel", static_cast<unsigned>(n), threads, stream, logits, words,
                     ids, out);
}

void set_number(std::int32_t* to, std::int32_t value, cudaStream_t stream) {
    launch_dependent(set_kernel, "launching set_kernel", 1, 1, stream, to, value);
}

}  // namespace causeway::gpu::models
