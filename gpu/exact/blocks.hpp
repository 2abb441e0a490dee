// Blocks of tokens as matrices: what block_based and hybrid, which differ in how the state goes from block to block,
// have in common.
#pragma once

#include "gpu/exact/pieces.hpp"

namespace causeway::gpu::pieces {

// As many blocks of as many heads at a time as max_floats scalars hold, and their memory: q, k, v, scores and outputs
// [bh][block][...].
struct Blocks {
    std::int64_t size, all;            // tokens of a block; blocks
    std::int64_t batch_heads, blocks;  // at a time
    float *q, *k, *v, *S, *O;
    float* U;        // states of the batch-heads in work, where the call brings none
    float* initial;  // a copy of those that it brings; null: none
    void* products;  // of cuBLAS
    std::size_t bytes;

    // for_block, for_bh: scalars that the method keeps besides for every block, and for every batch-head.
    Blocks(const CausalArgs& a, std::int64_t for_block, std::int64_t for_bh, Carve& carve) {
        size = block_of(a), all = (a.N + size - 1) / size;
        const std::int64_t each = size * (2 * a.r + 2 * a.d + size) + for_block;
        batch_heads = std::min<std::int64_t>(
            {a.B * a.H, max_batch_heads, std::max<std::int64_t>(max_floats / (each + for_bh), 1)});
        blocks = std::clamp<std::int64_t>(std::min(max_floats / each, max_products) / batch_heads, 1, all);
        const std::int64_t n = batch_heads * blocks;
        q = carve.floats(n * size * a.r), k = carve.floats(n * size * a.r), v = carve.floats(n * size * a.d);
        S = carve.floats(n * size * size), O = carve.floats(n * size * a.d);
    }

    // Carves what comes last, after what the method keeps itself.
    void finish(const CausalArgs& a, Carve& carve) {
        const std::int64_t states = batch_heads * a.r * a.d;
        U = carve.floats(a.state ? 0 : states);
        initial = a.state ? carve.floats(states) : nullptr;
        products = carve.bytes(blas_workspace);
        bytes = carve.end() + slack;
    }

    // The blocks at a time from block i on.
    Cut from(std::int64_t i) const { return {i * size, size, std::min(blocks, all - i), 1, size}; }

    // O_[i] = (Q_[i] K_[i]ᵀ ⊙ M) V_[i], of what is packed.
    void own_terms(const CausalArgs& a, const BatchHeads& l, const Cut& c, cublasHandle_t handle, bool tf32,
                   cudaStream_t stream) const {
        const std::int64_t n = l.count * c.nodes, r = a.r, d = a.d;
        multiply(handle, tf32, size, size, r, {q, r, size * r}, {k, r, size * r, true}, 0, S, size, size * size, n);
        mask(l, c.nodes, size, tf32, S, stream);
        multiply(handle, tf32, size, d, size, {S, size, size * size}, {v, d, size * d}, 0, O, d, size * d, n);
    }
};

// Bytes of workspace of a method whose Plan is a Blocks.
template <class Plan>
std::size_t workspace_of(const char* method, const CausalArgs& a) {
    check_causal(method, a);
    return empty(a) ? 0 : Plan(a, Carve(nullptr)).bytes;
}

// Calls f(plan, handle of cuBLAS, batch-heads, their states, cut, its first block) for all blocks of all batch-heads,
// as many at a time as fit, and unpacks the outputs that it has left in the plan's O.
template <class Plan, class F>
void each_cut(const char* method, const CausalArgs& a, cudaStream_t stream, const F& f) {
    check_workspace(method, a, workspace_of<Plan>(method, a));
    if (empty(a)) return;
    const Plan p(a, Carve(a.workspace.data));
    const cublasHandle_t handle = blas(stream, p.products);
    in_groups(a, p.batch_heads, p.U, stream, [&](const BatchHeads& l, float* U) {
        if (p.initial) {
            const auto bytes = static_cast<std::size_t>(std::int64_t{l.count} * a.r * a.d) * sizeof(float);
            check(cudaMemcpyAsync(p.initial, U, bytes, cudaMemcpyDeviceToDevice, stream), "copying the states");
        }
        for (std::int64_t i = 0; i < p.all; i += p.blocks) {
            const Cut c = p.from(i);
            f(p, handle, l, U, c, i);
            unpack(a, l, c, p.O, p.initial, stream);
        }
    });
}

}  // namespace causeway::gpu::pieces
