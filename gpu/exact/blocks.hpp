// Blocks of tokens as matrices: what block_based and hybrid, which differ in how the state goes from block to block,
// have in common.
#pragma once

#include "gpu/exact/pieces.hpp"

namespace causeway::gpu::pieces {

// As many blocks of as many heads at a time as most_floats scalars hold, and their memory: q, k, v, scores and outputs
// [line][block][...].
struct Blocks {
    std::int64_t size, all;      // tokens of a block; blocks
    std::int64_t lines, blocks;  // at a time
    float *q, *k, *v, *S, *O;

    // for_block, for_line: scalars that the method keeps besides for every block, and for every line.
    Blocks(const CausalArgs& a, std::int64_t for_block, std::int64_t for_line, Carve& carve) {
        size = block_of(a), all = (a.N + size - 1) / size;
        const std::int64_t each = size * (2 * a.r + 2 * a.d + size) + for_block;
        lines =
            std::min<std::int64_t>({a.B * a.H, most_lines, std::max<std::int64_t>(most_floats / (each + for_line), 1)});
        blocks = std::clamp<std::int64_t>(std::min(most_floats / each, most_products) / lines, 1, all);
        const std::int64_t n = lines * blocks;
        q = carve.floats(n * size * a.r), k = carve.floats(n * size * a.r), v = carve.floats(n * size * a.d);
        S = carve.floats(n * size * size), O = carve.floats(n * size * a.d);
    }

    // The blocks at a time from block i on.
    Cut from(std::int64_t i) const { return {i * size, size, std::min(blocks, all - i), 1, size}; }

    // O_[i] = (Q_[i] K_[i]ᵀ ⊙ M) V_[i], of what is packed.
    void own_terms(const CausalArgs& a, const Lines& l, const Cut& c, cublasHandle_t handle, bool tf32,
                   cudaStream_t stream) const {
        const std::int64_t n = l.count * c.nodes, r = a.r, d = a.d;
        multiply(handle, tf32, size, size, r, {q, r, size * r}, {k, r, size * r, true}, 0, S, size, size * size, n);
        mask(l, c.nodes, size, tf32, S, stream);
        multiply(handle, tf32, size, d, size, {S, size, size * size}, {v, d, size * d}, 0, O, d, size * d, n);
    }
};

}  // namespace causeway::gpu::pieces
