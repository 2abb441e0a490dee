// Partial results of softmax attention into one, by their log-sum-exp.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/kit/layout.hpp"

namespace causeway::gpu::sharded {

// Rows of [batch, heads, N, dv]: those so far, o and lse, and those of another part of the keys. A row is Σ w v / Σ w
// with lse = ln Σ w, so the two are weighted by e^{lse - max}. Everything but `out` is contiguous.
struct MergedRows {
    std::int64_t batch = 1, heads = 1, N = 0;
    int dv = 0;
    Type type = Type::BFloat16;  // of the other part and, unless they are sums, of o and out
    const void* o = nullptr;
    bool o_is_sum = false;  // Float32
    float* lse = nullptr;   // [batch, heads, N]: in and out
    const void* part = nullptr;
    const float* part_lse = nullptr;
    void* out = nullptr;  // may be o, where the types are the same
    bool out_is_sum = false;
    Strides out_stride;
};
void merge_rows(const MergedRows& rows, cudaStream_t stream);

// All parts at once, as ranks gather them: `count` blocks of `bytes` bytes, in each o [rows, dv] of the type and, from
// `lse_at` on, lse [rows]. Both results contiguous; lse null: not wanted.
struct GatheredParts {
    const void* blocks = nullptr;
    std::size_t bytes = 0, lse_at = 0;
    int count = 0, dv = 0;
    std::int64_t rows = 0;
    Type type = Type::BFloat16;
    void* o = nullptr;
    float* lse = nullptr;
};
void merge_gathered(const GatheredParts& parts, cudaStream_t stream);

// Rows of [heads of all entries, n, width], so many elements from a head to the next: sum += x, and out <- sum in its
// type. Float32 sums of the type's numbers.
struct SummedRows {
    std::int64_t heads = 1, n = 0;
    int width = 0;
    Type type = Type::BFloat16;
    float* sum = nullptr;
    std::int64_t sum_head = 0;
};
void add_rows(const SummedRows& rows, const void* x, std::int64_t x_head, cudaStream_t stream);
// out: [batch, heads / batch, n, width] with these strides.
void round_rows(const SummedRows& rows, std::int64_t batch, void* out, const Strides& stride, cudaStream_t stream);

}  // namespace causeway::gpu::sharded
