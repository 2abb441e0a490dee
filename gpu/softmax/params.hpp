// What the kernels of softmax attention are told: a SoftmaxArgs as they need it, checked, its keys cut into splits.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/softmax/problem.hpp"

namespace causeway::gpu::softmax {

constexpr int max_width = 256;  // of q, k and v

// The queries of the heads that share a head of k and v are rows of one batch-head (bh), row = query · group + head:
// neighbours see nearly the same keys. Without splits a block writes o and lse; with them each split of the keys leaves
// its own o and log-sum-exp.
struct Params {
    const void *q, *k, *v;
    void* o;
    float* lse;
    std::int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3];  // batch, head, token
    std::int32_t heads, batch_heads;                                  // heads of k and v in a batch, in all batches
    std::int32_t N, M, group, rows, d, dv;
    std::int32_t causal;
    std::int32_t aligned_q, aligned_kv;  // rows of whole 16-byte pieces; both k and v
    std::int32_t splits, split_keys;
    float scale_log2;              // scale · log2 e
    float *partial, *partial_lse;  // [split, bh, row, dv] and [split, bh, row], in units of log 2
};

// Throws Error with `name` in front where the sizes are not legal.
void check_args(const char* name, const SoftmaxArgs&);

// The call with its keys in `splits` splits of equal length, a multiple of `tile`, of at least 256 keys; fewer where M
// is short.
Params params_of(const SoftmaxArgs&, int splits, int tile);
// How many splits make `units` of work fill whole waves of `slots` blocks: the fewest waves, unless more would be
// fuller.
int whole_waves(std::int64_t units, std::int64_t slots);
std::size_t workspace_of(const Params&);
// Throws Error where args.workspace is too small for the call.
void check_workspace(const char* name, const SoftmaxArgs&, const Params&);
// The blocks of a launch. Throws Error where there are too many for one.
unsigned check_blocks(const char* name, std::int64_t blocks);

// o and lse from those of the splits: with w_s = e^{lse_s - max lse}, o = Σ w_s o_s / Σ w_s.
void merge_splits(const Params&, Type, cudaStream_t);

}  // namespace causeway::gpu::softmax
